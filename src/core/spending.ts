/** What attempts used of models, and what a run may use: arithmetic only. */
import type { Budget } from "../plan/plan.ts";
import { formatDuration } from "../util/duration.ts";
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

/** Both budgets together; a limit that only one of them has is that one's. */
export function addBudget(one: Budget, other: Budget): Budget {
  const sum = (a: number | undefined, b: number | undefined): number | undefined =>
    a === undefined && b === undefined ? undefined : (a ?? 0) + (b ?? 0);
  const all = {
    usd: sum(one.usd, other.usd),
    tokens: sum(one.tokens, other.tokens),
    turns: sum(one.turns, other.turns),
    timeMs: sum(one.timeMs, other.timeMs),
  };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
}

/** Which limit is used up, in words; undefined while there is something left of each. */
export function usedUp(
  funds: Budget,
  used: { readonly spent: Spent; readonly workedMs: number },
): string | undefined {
  const { spent, workedMs } = used;
  const tokens = spent.inputTokens + spent.outputTokens;
  const dollars = spent.costUsd ?? 0;
  if (funds.usd !== undefined && dollars >= funds.usd) {
    return `$${dollars.toFixed(2)} of $${funds.usd.toFixed(2)} are spent`;
  }
  if (funds.tokens !== undefined && tokens >= funds.tokens) {
    return `${tokens} of ${funds.tokens} tokens are used`;
  }
  if (funds.turns !== undefined && spent.turns >= funds.turns) {
    return `${spent.turns} of ${funds.turns} turns are used`;
  }
  if (funds.timeMs !== undefined && workedMs >= funds.timeMs) {
    return `${formatDuration(workedMs)} of ${formatDuration(funds.timeMs)} have run`;
  }
  return undefined;
}
