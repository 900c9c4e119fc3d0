/** What is suggested where a budget is used up: an amount that suffices. */
import { describe, expect, it } from "vitest";
import { parseBudget } from "../../src/app/prices.ts";
import { emptyRun } from "../../src/core/evolve.ts";
import type { Run } from "../../src/core/run.ts";
import { addBudget, limitReached, NOTHING_SPENT } from "../../src/core/spending.ts";
import type { Budget } from "../../src/plan/plan.ts";
import { suggestedBudget } from "../../src/view/failure-advice.ts";

const EMPTY: Run = emptyRun("00000000-0000-4000-8000-000000000000");

function runWith(funds: Budget, costUsd: number, inputTokens = 0, added: Budget = {}): Run {
  return { ...EMPTY, funds, added, spent: { ...NOTHING_SPENT, costUsd, inputTokens } };
}

describe("the suggested budget", () => {
  const cases = [
    ["what was spent beyond it, and as much again", runWith({ usd: 0.02 }, 0.05), "+0.05usd"],
    ["each limit that is used up", runWith({ usd: 1, tokens: 10 }, 1, 30), "+1usd,+30tokens"],
    ["the author's budget, not what was added", runWith({ usd: 6 }, 6.5, 0, { usd: 5 }), "+1.5usd"],
    ["time in seconds", { ...EMPTY, funds: { timeMs: 1_000 }, workedMs: 1_100 }, "+2s"],
  ] as const;

  it.each(cases)("raises %s by enough to continue", (_what, run, text) => {
    expect(suggestedBudget(run)).toBe(text);
    expect(limitReached(addBudget(run.funds, parseBudget(text)), run)).toBeUndefined();
  });
});
