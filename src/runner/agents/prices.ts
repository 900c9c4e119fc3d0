/**
 * What tokens cost with the agents that do not say so (Codex, Gemini). This is a table with a
 * date: list prices as of June 2026, the standard tier, short contexts. Services change them
 * without notice, and a subscription has others; a cost made of it is an estimate.
 *
 * Owns: the prices.
 * Does not: guess; a model that is not in the table has not been measured.
 */
import type { Usage } from "./adapter.ts";

/** US dollars for a million tokens: input, input from the cache, output. */
type Price = readonly [input: number, cached: number, output: number];

const TOKENS_PER_PRICE = 1_000_000;

const PRICES: Readonly<Record<string, Price>> = {
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
  "gemini-3-pro-preview": [2, 0.2, 12],
  "gemini-3-flash-preview": [0.5, 0.05, 3],
  "gemini-2.5-pro": [1.25, 0.125, 10],
  "gemini-2.5-flash": [0.3, 0.03, 2.5],
  "gemini-2.5-flash-lite": [0.1, 0.01, 0.4],
};

/** An estimate of what tokens cost, or undefined for a model without a known price. */
export function costOf(model: string, usage: Usage): number | undefined {
  const price = Object.hasOwn(PRICES, model) ? PRICES[model] : undefined;
  if (price === undefined) return undefined;
  const [input, cached, output] = price;
  const fresh = Math.max(0, usage.inputTokens - usage.cachedTokens);
  const sum = fresh * input + usage.cachedTokens * cached + usage.outputTokens * output;
  return sum / TOKENS_PER_PRICE;
}
