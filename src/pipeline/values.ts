/**
 * The shapes of values that several keys have: names, texts, durations, environments, the modes of
 * fidelity, and prices.
 *
 * Owns: these shapes, and the form of a duration and a price in a plan. The message of a pattern is
 * the name of its rule.
 * Does not: know the keys that use them (keys.ts, schema.ts).
 */
import * as z from "zod";
import { assert } from "../util/assert.ts";
import { defined } from "../util/defined.ts";
import { DURATION_MAX_MS, parseAge, parseDuration } from "../util/duration.ts";

export const NAME_LENGTH_MAX = 64;
const VISITS_MAX = 10_000;
/** How many entries an `env`, `outputs` or `agents` map may have. */
export const ENTRIES_MAX = 1_000;

const ID = /^(?!__proto__$)[A-Za-z_][A-Za-z0-9_-]*$/;
const NAME = /^(?!__proto__$)[A-Za-z_][A-Za-z0-9_]*$/;

export const id = z.string().regex(ID, "bad-id").max(NAME_LENGTH_MAX, "bad-id");
export const name = z.string().regex(NAME, "bad-name").max(NAME_LENGTH_MAX, "bad-name");
const envName = z
  .string()
  .regex(/^(?!__proto__$)[A-Za-z_][A-Za-z0-9_]*$/, "bad-env-name")
  .regex(/^(?!PERDURE_)/, "reserved-env-name");
export const path = z.string().regex(/\S/, "empty-text");

export const bounded = <T extends z.ZodType>(entries: z.ZodRecord<z.ZodString, T>) =>
  entries.refine((map) => Object.keys(map).length <= ENTRIES_MAX, "too-many-entries");

export const env = bounded(z.record(envName, z.union([z.string(), z.number(), z.boolean()])));
export const jsonSchema = z.record(z.string(), z.unknown());
/** A JSON Schema, or the path of a file with one. */
export const schemaOrFile = z.union([path, jsonSchema]);

export const visits = z.int().min(1).max(VISITS_MAX);
export const expression = z.union([z.string(), z.boolean()]);

/** The pattern of a duration in the JSON Schema. */
export const DURATION_PATTERN = "^\\s*(\\d+(\\.\\d+)?(ms|s|m|h|d))+\\s*$";
const DURATION_DAYS_MAX = DURATION_MAX_MS / 86_400_000;

/** A text that is not empty. */
export const command = z.string().regex(/\S/, "empty-text");

/** A duration. */
export const duration = z
  .string()
  .refine((text) => (parseDuration(text) ?? 0) > 0, "bad-duration")
  .meta({
    pattern: DURATION_PATTERN,
    description: `A duration such as 250ms, 90s or 1h30m; at most ${DURATION_DAYS_MAX} days.`,
  });

/** An age, which may be longer than a duration. */
export const age = z.string().refine((text) => (parseAge(text) ?? 0) > 0, "bad-age");

/** The milliseconds of an age that the schema accepted. */
export function ageMs(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const value = parseAge(text);
  assert(value !== undefined, "the schema accepted a bad age");
  return value;
}

/** The milliseconds of a duration that the schema accepted; undefined for none. */
export function milliseconds<Text extends string | undefined>(
  text: Text,
): number | Extract<Text, undefined> {
  if (text === undefined) return text as Extract<Text, undefined>;
  const value = parseDuration(text);
  assert(value !== undefined, "the schema accepted a bad duration");
  return value;
}

/** Variables as texts; numbers and booleans keep the author's spelling: `1.10` is not 1.1. */
export function lowerEnv(
  variables: z.output<typeof env>,
  spelling: (name: string) => string | undefined,
): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(variables).map(([key, value]) => [
      key,
      typeof value === "string" ? value : (spelling(key) ?? String(value)),
    ]),
  );
}

/**
 * The modes of fidelity: how much an agent learns about the run before its prompt. `full` continues
 * a conversation; the others are briefings, from the goal alone to 3000 tokens.
 */
export const FIDELITIES = [
  "full",
  "truncate",
  "compact",
  "summary:low",
  "summary:medium",
  "summary:high",
] as const;

export type Fidelity = (typeof FIDELITIES)[number];

/** The modes that are a briefing, not a conversation. */
export type BriefingMode = Exclude<Fidelity, "full">;

export const BRIEFING_MODES = FIDELITIES.filter((mode): mode is BriefingMode => mode !== "full");

const dollars = z.number().min(0);
const rates = {
  input: dollars.describe("US dollars for a million tokens of input."),
  cached_input: dollars
    .optional()
    .describe("The same for input from a cache. Default: that of input."),
  cache_write: dollars
    .optional()
    .describe("The same for input written to a cache. Default: that of input."),
  cache_write_1h: dollars
    .optional()
    .describe(
      "The same for input written to a cache for an hour. Default: that of other cache writes.",
    ),
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

type PricesShape = z.output<typeof prices>;
type RatesShape = Omit<PricesShape[string], "over_200k">;

/** US dollars for a million tokens; runner/agents/usage.ts defines absent prices. */
interface ModelRates {
  readonly input: number;
  readonly cachedInput?: number;
  readonly cacheWrite?: number;
  readonly cacheWrite1h?: number;
  readonly output: number;
}

/** The price of a model; `over200k` applies to calls with more input tokens. */
export interface ModelPrice extends ModelRates {
  readonly over200k?: ModelRates;
}

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
