/** Spending and budgets: arithmetic on what attempts used, and the limits of a run. */
import type { Budget } from "../plan/plan.ts";
import type { LimitReached, Spent } from "./event.ts";

export const NOTHING_SPENT: Spent = {
  inputTokens: 0,
  cachedTokens: 0,
  outputTokens: 0,
  turns: 0,
};

/** The sum; what is unknown in one part is unknown in the sum. */
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

/** The spending, with the cost of a part that had no price before. */
export function withLateCost(spent: Spent, costUsd: number): Spent {
  const { unpriced: _, ...known } = spent;
  return { ...known, costUsd: (spent.costUsd ?? 0) + costUsd, estimated: true };
}

/** The sum of two budgets; a limit that only one of them has stays. */
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

/** The limit that is reached; undefined while there is something left of each. */
export function limitReached(
  funds: Budget,
  used: { readonly spent: Spent; readonly workedMs: number },
): LimitReached | undefined {
  const { spent, workedMs } = used;
  const { usd, tokens, turns, timeMs } = funds;
  const reached = (
    kind: "usd" | "tokens" | "turns" | "time",
    amount: number,
    of: number | undefined,
  ): LimitReached | undefined =>
    of !== undefined && amount >= of ? { kind, used: amount, of } : undefined;
  const unpriced = usd === undefined ? undefined : unpricedIn(spent);
  return (
    reached("usd", spent.costUsd ?? 0, usd) ??
    (unpriced === undefined ? undefined : { kind: "price", model: unpriced }) ??
    reached("tokens", spent.inputTokens + spent.outputTokens, tokens) ??
    reached("turns", spent.turns, turns) ??
    reached("time", workedMs, timeMs)
  );
}

/** Smaller amounts are shown with two significant digits, not as $0.00. */
const CENT_HALF = 0.005;

/** "$1.25"; "$0.0012" for less than half a cent. */
export function usdText(amount: number): string {
  if (amount === 0 || amount >= CENT_HALF) return `$${amount.toFixed(2)}`;
  const digits = Math.min(9, 1 - Math.floor(Math.log10(amount)));
  return `$${amount.toFixed(digits)}`;
}
