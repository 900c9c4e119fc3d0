/** Adding up what attempts used of models: arithmetic only. */
import type { Spent } from "./event.ts";

export const NOTHING_SPENT: Spent = {
  inputTokens: 0,
  cachedTokens: 0,
  outputTokens: 0,
  turns: 0,
};

/** Both together; money that nobody measured counts as unknown, not as nothing. */
export function addSpent(one: Spent, other: Spent | undefined): Spent {
  if (other === undefined) return one;
  const cost =
    one.costUsd === undefined && other.costUsd === undefined
      ? {}
      : { costUsd: (one.costUsd ?? 0) + (other.costUsd ?? 0) };
  return {
    inputTokens: one.inputTokens + other.inputTokens,
    cachedTokens: one.cachedTokens + other.cachedTokens,
    outputTokens: one.outputTokens + other.outputTokens,
    turns: one.turns + other.turns,
    ...cost,
  };
}
