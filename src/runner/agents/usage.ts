/**
 * The usage of conversations and its cost: tokens, prices, and the context windows of models.
 *
 * Codex and Gemini CLI never report a cost, Claude Code only when it ends by itself; for them the
 * cost is an estimate from a list of prices. The list in prices.json has a date and the source of
 * each price. The user's own prices, from a file or from the pipeline, come first: they take
 * precedence over the list and over the cost that an agent reports. The table of windows is as of
 * November 2026: those of Claude as Claude Code 2.1.325 reports them, the others as published.
 *
 * Owns: the list and the table, the lookup of a model's name in them, and the arithmetic.
 * Does not: guess. A model without a price has no cost. Read the user's file (app/prices.ts).
 */
import { defined } from "../../util/defined.ts";
import { isObject, type Json, type JsonObject } from "../../util/json.ts";
import published from "./prices.json" with { type: "json" };

/** Tokens. The input is all of it, `cachedTokens` the part of it that came from a cache. */
export interface Tokens {
  readonly inputTokens: number;
  readonly cachedTokens: number;
  readonly outputTokens: number;
}

/** Tokens and money. Absent numbers were not measured. */
export interface Usage extends Tokens {
  readonly costUsd?: number;
  /** The cost, or a part of it, was computed from prices, not reported by the agent. */
  readonly estimated?: true;
  /** A part of the tokens has no price, so the cost is a lower bound. */
  readonly unpriced?: true;
  /** The part of calls with a long input, whose price may differ. */
  readonly long?: Tokens;
}

/** US dollars for a million tokens. */
interface Rates {
  readonly input: number;
  /** Input that came from a cache. Default: like other input. */
  readonly cachedInput?: number;
  /** Input that was written to a cache. Default: like other input. */
  readonly cacheWrite?: number;
  /** Input that was written to a cache for an hour. Default: like other cache writes. */
  readonly cacheWrite1h?: number;
  readonly output: number;
}

/** The price of a model. */
interface Price extends Rates {
  /** The rates of calls whose input is longer than `LONG_INPUT_TOKENS`, where they differ. */
  readonly over200k?: Rates;
}

export type Prices = Readonly<Record<string, Price>>;

/** Calls with more input than this are long; several services charge more for them. */
export const LONG_INPUT_TOKENS = 200_000;
const TOKENS_PER_PRICE = 1_000_000;

/** Tokens to be paid for, with the part that was written to a cache, which may cost more. */
export interface PricedTokens extends Tokens {
  /** The part of the input that was written to a cache for minutes. */
  readonly writtenTokens?: number;
  /** The part of the input that was written to a cache for an hour. */
  readonly keptTokens?: number;
  /** The part of all of these that belongs to long calls. */
  readonly long?: Omit<PricedTokens, "long">;
}

/** Where a price comes from: Perdure's list, the user's file, or the pipeline. */
type PriceOrigin = "list" | "file" | "pipeline";

/** The price of a model, and its origin. */
interface FoundPrice extends Price {
  readonly origin: PriceOrigin;
}

/** The date of Perdure's own list, and where its prices come from, by the names in it. */
export const LIST_DATE: string = published.date;
const LIST_SOURCES: Readonly<Record<string, string>> = published.sources;
const LIST: Readonly<Record<string, JsonObject>> = published.models;

/** Perdure's own list as it is now, as JSON. */
export const LISTED: Json = LIST;

/**
 * The prices that hold for a run: those of the pipeline, then the user's, then those of the list
 * when the run started, then the list.
 */
export class PriceList {
  readonly #own: readonly (readonly [PriceOrigin, Prices])[];
  readonly #started: Prices;

  constructor(
    given: { readonly pipeline?: Prices; readonly file?: Prices; readonly started?: Prices } = {},
  ) {
    this.#own = [
      ["pipeline", given.pipeline ?? {}],
      ["file", given.file ?? {}],
    ];
    this.#started = given.started ?? {};
  }

  /** The price of a model; undefined when there is none. */
  find(model: string): FoundPrice | undefined {
    const names = [model, plainModel(model)];
    for (const [origin, prices] of this.#own) {
      const name = names.find((one) => Object.hasOwn(prices, one));
      const price = name === undefined ? undefined : prices[name];
      if (price !== undefined) return { ...price, origin };
    }
    const before = names.find((one) => Object.hasOwn(this.#started, one));
    const listed = names.find((one) => Object.hasOwn(LIST, one));
    const now = listed === undefined ? undefined : priceIn(LIST[listed] ?? null);
    const price = before === undefined ? now : this.#started[before];
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

/** Perdure's own list, without prices of the user. */
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

/** The prices in a file, by the names of models; or a text with the mistake. */
export function pricesIn(value: Json): Prices | string {
  if (!isObject(value)) return "it is not an object of models and their prices";
  const prices: Record<string, Price> = {};
  for (const [model, entry] of Object.entries(value)) {
    const price = priceIn(entry);
    if (typeof price === "string") return `the price of ${model} is wrong: ${price}`;
    prices[model] = price;
  }
  return prices;
}

function priceIn(entry: Json): Price | string {
  if (!isObject(entry)) return "it is not an object";
  const { [LONG_KEY]: long, [SOURCE_KEY]: _, ...rates } = entry;
  const price = ratesIn(rates);
  if (typeof price === "string" || long === undefined) return price;
  const over200k = isObject(long) ? ratesIn(long) : "it is not an object";
  return typeof over200k === "string" ? `${LONG_KEY}: ${over200k}` : { ...price, over200k };
}

function ratesIn(entry: JsonObject): Rates | string {
  const rates: Partial<Record<keyof Rates, number>> = {};
  for (const [name, value] of Object.entries(entry)) {
    const rate = Object.hasOwn(RATES, name) ? RATES[name] : undefined;
    if (rate === undefined) return `"${name}" is none of ${Object.keys(RATES).join(", ")}`;
    if (typeof value !== "number" || !(value >= 0)) return `${name} is not a number of dollars`;
    rates[rate] = value;
  }
  const { input, output } = rates;
  if (input === undefined || output === undefined) return "it needs `input` and `output`";
  return { ...rates, input, output };
}

const MILLION = 1_000_000;
/** The name of a variant of Claude with a longer window ends with this. */
const LONG_VARIANT = "[1m]";

/** The longest matching beginning counts. */
const WINDOWS: readonly (readonly [beginning: string, tokens: number])[] = [
  ["claude-mythos-5", MILLION],
  ["claude-fable-5", MILLION],
  ["claude-opus-5", MILLION],
  ["claude-opus-4-8", MILLION],
  ["claude-opus-4-7", MILLION],
  ["claude-sonnet-5", MILLION],
  ["claude-haiku-5", MILLION],
  ["claude-", 200_000],
  ["gpt-5", 400_000],
  ["o4-mini", 200_000],
  ["o3", 200_000],
  ["gemini-3", 1_048_576],
  ["gemini-2.5", 1_048_576],
];

/** The context window of a model, input and output together; undefined where it is not known. */
export function windowOf(model: string | undefined): number | undefined {
  if (model === undefined) return undefined;
  if (model.startsWith("claude-") && model.endsWith(LONG_VARIANT)) return MILLION;
  const name = plainModel(model);
  const fitting = WINDOWS.filter(([beginning]) => name.startsWith(beginning));
  return fitting.toSorted(([one], [other]) => other.length - one.length)[0]?.[1];
}

/**
 * The name of a model without its provider, its date and the mark of its variant, as in the tables.
 * Clouds have names of their own: `us.anthropic.claude-x-20250929-v1:0`, `claude-x@20250929`.
 */
function plainModel(model: string): string {
  return model
    .replace(LONG_VARIANT, "")
    .replace(/^.*\//, "")
    .replace(/^.*\banthropic\./, "")
    .replace(/-v\d+(:\d+)?$/, "")
    .replace(/[-@]\d{8}$/, "");
}

export const NOTHING_USED: Usage = { inputTokens: 0, cachedTokens: 0, outputTokens: 0 };

/** The sum of both; where only one of them has a cost, the sum is marked as partly unpriced. */
export function addUsage(one: Usage, other: Usage): Usage {
  const known = one.costUsd !== undefined || other.costUsd !== undefined;
  const unpriced = [one, other].some(lacksCost) || one.unpriced || other.unpriced;
  const long = one.long === undefined ? other.long : addTokens(one.long, other.long);
  return {
    ...addTokens(one, other),
    ...(known ? { costUsd: (one.costUsd ?? 0) + (other.costUsd ?? 0) } : {}),
    ...(one.estimated || other.estimated ? { estimated: true } : {}),
    ...(known && unpriced ? { unpriced: true } : {}),
    ...defined({ long }),
  };
}

function addTokens(one: Tokens, other: Tokens = NOTHING_USED): Tokens {
  return {
    inputTokens: one.inputTokens + other.inputTokens,
    cachedTokens: one.cachedTokens + other.cachedTokens,
    outputTokens: one.outputTokens + other.outputTokens,
  };
}

function lacksCost({ inputTokens, outputTokens, costUsd }: Usage): boolean {
  return costUsd === undefined && inputTokens + outputTokens > 0;
}

/** The usage since `before`. */
export function usedSince(usage: Usage, before: Pick<Usage, keyof Tokens | "long">): Usage {
  const { long: _, ...rest } = usage;
  const long = usage.long && tokensSince(usage.long, before.long ?? NOTHING_USED);
  return { ...rest, ...tokensSince(usage, before), ...defined({ long }) };
}

function tokensSince(now: Tokens, before: Tokens): Tokens {
  return {
    inputTokens: Math.max(0, now.inputTokens - before.inputTokens),
    cachedTokens: Math.max(0, now.cachedTokens - before.cachedTokens),
    outputTokens: Math.max(0, now.outputTokens - before.outputTokens),
  };
}

/** The usage of one call; a long call is marked. */
export function usageOfCall(tokens: Tokens): Usage {
  return tokens.inputTokens > LONG_INPUT_TOKENS ? { ...tokens, long: tokens } : tokens;
}
