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

/** Both together; what is not known of one of them is not known of the sum. */
export function addSpent(one: Spent, other: Spent | undefined): Spent {
  if (other === undefined) return one;
  const known = one.costUsd !== undefined || other.costUsd !== undefined;
  const parts = [unpricedIn(one), unpricedIn(other)].filter((model) => model !== undefined);
  const unpriced = parts.find((model) => model !== "") ?? parts[0];
  return {
    inputTokens: one.inputTokens + other.inputTokens,
    cachedTokens: one.cachedTokens + other.cachedTokens,
    outputTokens: one.outputTokens + other.outputTokens,
    turns: one.turns + other.turns,
    ...(known ? { costUsd: (one.costUsd ?? 0) + (other.costUsd ?? 0) } : {}),
    ...(one.estimated || other.estimated ? { estimated: true } : {}),
    ...(one.unmeasured || other.unmeasured ? { unmeasured: true } : {}),
    ...(unpriced === undefined ? {} : { unpriced }),
  };
}

/** The model of tokens whose price is not known; undefined when all have one. */
export function unpricedIn(spent: Spent): string | undefined {
  const { inputTokens, outputTokens, costUsd, unpriced, model } = spent;
  if (unpriced !== undefined) return unpriced;
  return costUsd === undefined && inputTokens + outputTokens > 0 ? (model ?? "") : undefined;
}

/** What was spent, with the cost of a part that had no price when it was used. */
export function withLateCost(spent: Spent, costUsd: number): Spent {
  const { unpriced: _, ...known } = spent;
  return { ...known, costUsd: (spent.costUsd ?? 0) + costUsd, estimated: true };
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
    return `${usdText(dollars)} of ${usdText(funds.usd)} are spent`;
  }
  const unpriced = funds.usd === undefined ? undefined : unpricedIn(spent);
  if (unpriced !== undefined) return noPriceText(unpriced);
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

/** How it begins to be told that a budget cannot be kept because a price is missing. */
export const NO_PRICE = "no price is known for";

function noPriceText(model: string): string {
  const subject = model === "" ? "a model that its agent does not name" : model;
  return `${NO_PRICE} ${subject}, so the limit in US dollars cannot be kept`;
}

/** Amounts below this are shown with two digits that count, not as nothing. */
const CENT_HALF = 0.005;

/** "$1.25"; "$0.0012" for less than half a cent. */
export function usdText(amount: number): string {
  if (amount === 0 || amount >= CENT_HALF) return `$${amount.toFixed(2)}`;
  const digits = Math.min(9, 1 - Math.floor(Math.log10(amount)));
  return `$${amount.toFixed(digits)}`;
}
