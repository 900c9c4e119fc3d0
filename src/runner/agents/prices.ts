/**
 * What tokens cost. Codex and Gemini never report a cost, Claude Code only when it ends by itself;
 * for them the cost is computed from a list of prices and is an estimate. The list in prices.json
 * has a date and the source of each price. A user's own prices, from a file or from the pipeline,
 * come first: they win over the list and over what an agent reports.
 *
 * Owns: the list, how a model's name is looked up in it, and the arithmetic.
 * Does not: guess; a model without a price has no cost. Read the user's file (cli/prices.ts does).
 */
import { isObject, type Json, type JsonObject } from "../../util/json.ts";
import published from "./prices.json" with { type: "json" };
import { plainModel } from "./windows.ts";

/** Tokens. The input is all of it, `cachedTokens` the part of it that came from a cache. */
export interface Tokens {
  readonly inputTokens: number;
  readonly cachedTokens: number;
  readonly outputTokens: number;
}

/** US dollars for a million tokens. */
export interface Rates {
  readonly input: number;
  /** Input that came from a cache. Default: like other input. */
  readonly cachedInput?: number;
  /** Input that was written to a cache. Default: like other input. */
  readonly cacheWrite?: number;
  /** Input that was written to a cache for an hour. Default: like other cache writes. */
  readonly cacheWrite1h?: number;
  readonly output: number;
}

/** What a model costs. */
export interface Price extends Rates {
  /** The rates of calls whose input is longer than `LONG_INPUT_TOKENS`, where they differ. */
  readonly over200k?: Rates;
}

export type Prices = Readonly<Record<string, Price>>;

/** Calls with more input than this are long; several services charge more for them. */
export const LONG_INPUT_TOKENS = 200_000;
const TOKENS_PER_PRICE = 1_000_000;

/** Tokens to be paid for, with what was written to a cache where that costs more. */
export interface PricedTokens extends Tokens {
  /** The part of the input that was written to a cache for minutes. */
  readonly writtenTokens?: number;
  /** The part of the input that was written to a cache for an hour. */
  readonly keptTokens?: number;
  /** The part of all of these that belongs to long calls. */
  readonly long?: Omit<PricedTokens, "long">;
}

/** Where a price comes from: Perdure's list, the user's file, or the pipeline. */
export type PriceOrigin = "list" | "file" | "pipeline";

/** The price of a model, and where it comes from. */
export interface FoundPrice extends Price {
  readonly origin: PriceOrigin;
}

/** The date of Perdure's own list, and where its prices come from, by the names in it. */
export const LIST_DATE: string = published.date;
const LIST_SOURCES: Readonly<Record<string, string>> = published.sources;
const LIST: Readonly<Record<string, JsonObject>> = published.models;

/** The prices that hold for a run: those of the pipeline, then the user's, then the list. */
export class PriceList {
  readonly #own: readonly (readonly [PriceOrigin, Prices])[];

  constructor(own: { readonly pipeline?: Prices; readonly file?: Prices } = {}) {
    this.#own = [
      ["pipeline", own.pipeline ?? {}],
      ["file", own.file ?? {}],
    ];
  }

  /** The price of a model; undefined where nobody has given one. */
  find(model: string): FoundPrice | undefined {
    const names = [model, plainModel(model)];
    for (const [origin, prices] of this.#own) {
      const name = names.find((one) => Object.hasOwn(prices, one));
      const price = name === undefined ? undefined : prices[name];
      if (price !== undefined) return { ...price, origin };
    }
    const listed = names.find((one) => Object.hasOwn(LIST, one));
    const price = listed === undefined ? undefined : priceIn(LIST[listed] ?? null);
    return typeof price === "object" ? { ...price, origin: "list" } : undefined;
  }

  /** True for a model whose price the user has given. */
  isOwn(model: string): boolean {
    return this.#own.some(([, prices]) =>
      [model, plainModel(model)].some((one) => Object.hasOwn(prices, one)),
    );
  }

  /** An estimate of what tokens cost, or undefined for a model without a price. */
  costOf(model: string, tokens: PricedTokens): number | undefined {
    const price = this.find(model);
    if (price === undefined) return undefined;
    const { long } = tokens;
    if (long === undefined || price.over200k === undefined) return costAt(price, tokens);
    return costAt(price, minus(tokens, long)) + costAt(price.over200k, long);
  }

  /** All prices that are known, those that count first, with the source of each in words. */
  all(): readonly {
    readonly model: string;
    readonly price: FoundPrice;
    readonly source: string;
  }[] {
    const own = this.#own.flatMap(([, prices]) => Object.keys(prices));
    return [...new Set([...own, ...Object.keys(LIST)])].flatMap((model) => {
      const price = this.find(model);
      if (price === undefined) return [];
      const word = LIST[model]?.source;
      const listed = typeof word === "string" ? (LIST_SOURCES[word] ?? word) : "";
      return [{ model, price, source: price.origin === "list" ? listed : price.origin }];
    });
  }
}

/** Perdure's own list, without anything of the user's. */
export const LIST_PRICES = new PriceList();

function costAt(rates: Rates, tokens: Omit<PricedTokens, "long">): number {
  const { inputTokens, cachedTokens, outputTokens, writtenTokens = 0, keptTokens = 0 } = tokens;
  const { input, output, cachedInput = input, cacheWrite = input } = rates;
  const { cacheWrite1h = cacheWrite } = rates;
  const plain = Math.max(0, inputTokens - cachedTokens - writtenTokens - keptTokens);
  const sum =
    plain * input +
    cachedTokens * cachedInput +
    writtenTokens * cacheWrite +
    keptTokens * cacheWrite1h +
    outputTokens * output;
  return sum / TOKENS_PER_PRICE;
}

function minus(one: PricedTokens, other: Omit<PricedTokens, "long">): Omit<PricedTokens, "long"> {
  return {
    inputTokens: one.inputTokens - other.inputTokens,
    cachedTokens: one.cachedTokens - other.cachedTokens,
    outputTokens: one.outputTokens - other.outputTokens,
    writtenTokens: (one.writtenTokens ?? 0) - (other.writtenTokens ?? 0),
    keptTokens: (one.keptTokens ?? 0) - (other.keptTokens ?? 0),
  };
}

/** The names of rates in files. */
const RATES: Readonly<Record<string, keyof Rates>> = {
  input: "input",
  cached_input: "cachedInput",
  cache_write: "cacheWrite",
  cache_write_1h: "cacheWrite1h",
  output: "output",
};
const LONG_KEY = "over_200k";
const SOURCE_KEY = "source";

/** Prices by the names of their models, as a file has them; or what is wrong with them. */
export function pricesIn(value: Json): Prices | string {
  if (!isObject(value)) return "it is not an object of models and their prices";
  const prices: Record<string, Price> = {};
  for (const [model, told] of Object.entries(value)) {
    const price = priceIn(told);
    if (typeof price === "string") return `the price of ${model} is wrong: ${price}`;
    prices[model] = price;
  }
  return prices;
}

function priceIn(told: Json): Price | string {
  if (!isObject(told)) return "it is not an object";
  const { [LONG_KEY]: long, [SOURCE_KEY]: _, ...rates } = told;
  const price = ratesIn(rates);
  if (typeof price === "string" || long === undefined) return price;
  const over200k = isObject(long) ? ratesIn(long) : "it is not an object";
  return typeof over200k === "string" ? `${LONG_KEY}: ${over200k}` : { ...price, over200k };
}

function ratesIn(told: JsonObject): Rates | string {
  const rates: Partial<Record<keyof Rates, number>> = {};
  for (const [name, value] of Object.entries(told)) {
    const rate = Object.hasOwn(RATES, name) ? RATES[name] : undefined;
    if (rate === undefined) return `"${name}" is none of ${Object.keys(RATES).join(", ")}`;
    if (typeof value !== "number" || !(value >= 0)) return `${name} is not a number of dollars`;
    rates[rate] = value;
  }
  const { input, output } = rates;
  if (input === undefined || output === undefined) return "it needs `input` and `output`";
  return { ...rates, input, output };
}
