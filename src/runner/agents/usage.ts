/** Sums of what agents used. */
import { defined } from "../../util/defined.ts";
import type { Usage } from "./adapter.ts";
import { LONG_INPUT_TOKENS, type Tokens } from "./prices.ts";

export const NOTHING_USED: Usage = { inputTokens: 0, cachedTokens: 0, outputTokens: 0 };

/** Both together; where only one of them has a cost, the sum says that a part has none. */
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

/** What was used since a moment at which `before` had been used. */
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

/** The usage of one call, marked as a long one if it is. */
export function usageOfCall(tokens: Tokens): Usage {
  return tokens.inputTokens > LONG_INPUT_TOKENS ? { ...tokens, long: tokens } : tokens;
}
