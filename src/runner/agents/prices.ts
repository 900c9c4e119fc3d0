/**
 * What tokens cost where an agent has not said so: Codex and Gemini never do, Claude Code only when
 * it ends by itself. This is a table with a date: list prices as of November 2026, the standard
 * tier, short contexts. Those of Claude are what Claude Code 2.1.325 itself counted with, measured
 * one kind of token at a time; the others are as published, read at second hand. Services change
 * them without notice, and a subscription has others; a cost made of it is an estimate.
 *
 * Owns: the prices.
 * Does not: guess; a model that is not in the table has not been measured.
 */
import type { Usage } from "./adapter.ts";
import { plainModel } from "./windows.ts";

/** US dollars for a million tokens: input, input from the cache, output. */
type Price = readonly [input: number, cached: number, output: number];

/** Tokens to be paid for, with what was written to a cache where that costs more. */
interface Priced extends Usage {
  /** The part of the input that was written to a cache for minutes. */
  readonly writtenTokens?: number;
  /** The part of the input that was written to a cache for an hour. */
  readonly keptTokens?: number;
}

const TOKENS_PER_PRICE = 1_000_000;
/** What writing to the cache costs beyond the input's price, as a part of it. */
const WRITTEN_EXTRA = 0.25;
const KEPT_EXTRA = 1;

const PRICES: Readonly<Record<string, Price>> = {
  "claude-mythos-5-2": [8, 0.2, 40],
  "claude-mythos-5-1": [10, 0.25, 50],
  "claude-mythos-5": [10, 1, 50],
  "claude-fable-5-2": [8, 0.2, 40],
  "claude-fable-5-1": [10, 0.25, 50],
  "claude-fable-5": [10, 1, 50],
  "claude-opus-5-5": [4, 0.2, 20],
  "claude-opus-5": [5, 0.5, 25],
  "claude-opus-4-8": [5, 0.5, 25],
  "claude-opus-4-7": [5, 0.5, 25],
  "claude-opus-4-6": [5, 0.5, 25],
  "claude-opus-4-5": [5, 0.5, 25],
  "claude-sonnet-5-5": [2, 0.1, 10],
  "claude-sonnet-5": [2, 0.2, 10],
  "claude-sonnet-4-6": [3, 0.3, 15],
  "claude-sonnet-4-5": [3, 0.3, 15],
  "claude-sonnet-4-0": [3, 0.3, 15],
  "claude-sonnet-4": [3, 0.3, 15],
  "claude-haiku-5-5": [0.1, 0.01, 0.5],
  "claude-haiku-4-5": [1, 0.1, 5],
  "claude-3-5-haiku": [0.8, 0.08, 4],
  "gpt-6.1-sol": [2, 0.1, 10],
  "gpt-6-astra": [10, 1, 50],
  "gpt-6-sol": [2, 0.2, 10],
  "gpt-6-luna": [0.1, 0.01, 0.5],
  "gpt-5.6-sol": [4, 0.4, 20],
  "gpt-5.6-terra": [2, 0.2, 12],
  "gpt-5.6-luna": [0.2, 0.02, 1.2],
  "gpt-5.5": [5, 0.5, 30],
  "gpt-5.4": [2.5, 0.25, 15],
  "gpt-5.4-mini": [0.75, 0.075, 4.5],
  "gpt-5.4-nano": [0.2, 0.02, 1.25],
  "gpt-5.3-codex": [1.75, 0.175, 14],
  "gpt-5.2": [1.75, 0.175, 14],
  "gpt-5.2-codex": [1.75, 0.175, 14],
  "gpt-5.1": [1.25, 0.125, 10],
  "gpt-5.1-codex": [1.25, 0.125, 10],
  "gpt-5.1-codex-max": [1.25, 0.125, 10],
  "gpt-5.1-codex-mini": [0.25, 0.025, 2],
  "gpt-5": [1.25, 0.125, 10],
  "gpt-5-codex": [1.25, 0.125, 10],
  "gpt-5-mini": [0.25, 0.025, 2],
  "gpt-5-nano": [0.05, 0.005, 0.4],
  "o4-mini": [1.1, 0.275, 4.4],
  o3: [2, 0.5, 8],
  "gemini-3.5-flash": [1.5, 0.15, 9],
  "gemini-3.1-pro-preview": [2, 0.2, 12],
  "gemini-3-pro-preview": [2, 0.2, 12],
  "gemini-3-flash-preview": [0.5, 0.05, 3],
  "gemini-2.5-pro": [1.25, 0.125, 10],
  "gemini-2.5-flash": [0.3, 0.03, 2.5],
  "gemini-2.5-flash-lite": [0.1, 0.01, 0.4],
};

/** An estimate of what tokens cost, or undefined for a model without a known price. */
export function costOf(model: string, usage: Priced): number | undefined {
  const name = plainModel(model);
  const price = Object.hasOwn(PRICES, name) ? PRICES[name] : undefined;
  if (price === undefined) return undefined;
  const [input, cached, output] = price;
  const { inputTokens, cachedTokens, outputTokens, writtenTokens = 0, keptTokens = 0 } = usage;
  const fresh = Math.max(0, inputTokens - cachedTokens);
  const extra = writtenTokens * WRITTEN_EXTRA + keptTokens * KEPT_EXTRA;
  const sum = (fresh + extra) * input + cachedTokens * cached + outputTokens * output;
  return sum / TOKENS_PER_PRICE;
}
