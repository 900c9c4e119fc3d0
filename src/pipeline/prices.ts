/** The key `prices`: what the tokens of models cost, in a file and in a plan. */
import * as z from "zod";
import { defined } from "../util/defined.ts";
import type { ModelPrice, ModelRates } from "./pipeline.ts";

const dollars = z.number().min(0);
const rates = {
  input: dollars.describe("US dollars for a million tokens of input."),
  cached_input: dollars.optional().describe("Of input from a cache. Default: that of input."),
  cache_write: dollars.optional().describe("Of input written to a cache. Default: that of input."),
  cache_write_1h: dollars
    .optional()
    .describe("Of input written to a cache for an hour. Default: that of other cache writes."),
  output: dollars.describe("US dollars for a million tokens of output."),
};

/** The prices of models, by their names. */
export const prices = z.record(
  z.string().regex(/\S/, "empty-text"),
  z.strictObject({
    ...rates,
    over_200k: z
      .strictObject(rates)
      .optional()
      .describe("The prices of calls with more than 200,000 tokens of input, where they differ."),
  }),
);

type PricesShape = z.infer<typeof prices>;
type RatesShape = Omit<PricesShape[string], "over_200k">;

/** Prices in the form of a plan. */
export function lowerPrices(shape: PricesShape): Readonly<Record<string, ModelPrice>> {
  return Object.fromEntries(
    Object.entries(shape).map(([model, { over_200k: long, ...rates }]) => [
      model,
      { ...lowerRates(rates), ...(long === undefined ? {} : { over200k: lowerRates(long) }) },
    ]),
  );
}

function lowerRates(rates: RatesShape): ModelRates {
  const { input, cached_input, cache_write, cache_write_1h, output } = rates;
  return {
    input,
    ...defined({
      cachedInput: cached_input,
      cacheWrite: cache_write,
      cacheWrite1h: cache_write_1h,
    }),
    output,
  };
}
