/** Sums of what agents used. */
import type { Usage } from "./adapter.ts";

export const NOTHING_USED: Usage = { inputTokens: 0, cachedTokens: 0, outputTokens: 0 };

/** Both together; a cost that only one of them has is that one's. */
export function addUsage(one: Usage, other: Usage): Usage {
  const cost =
    one.costUsd === undefined && other.costUsd === undefined
      ? {}
      : { costUsd: (one.costUsd ?? 0) + (other.costUsd ?? 0) };
  return {
    inputTokens: one.inputTokens + other.inputTokens,
    cachedTokens: one.cachedTokens + other.cachedTokens,
    outputTokens: one.outputTokens + other.outputTokens,
    ...cost,
  };
}
