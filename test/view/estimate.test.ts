/** Estimates: the median of what was completed, nested work included, and nothing made up. */
import { expect, test } from "vitest";
import { estimatesOf, estimateText, sumOf } from "../../src/view/preview/estimate.ts";
import { chain, planOf, ref, Scribe, step } from "./scribe.ts";

const spent = (costUsd: number): object => ({
  spent: { inputTokens: 90, cachedTokens: 0, outputTokens: 10, turns: 1, costUsd },
});

test("an estimate counts all attempts of a visit; a step that never completed has none", () => {
  const scribe = new Scribe(planOf(chain(step("a"), step("b"))));
  scribe
    .start("a")
    .at(4)
    .fail("a", 1, { retry: { at: 0, delayMs: 0 }, ...spent(0.25) });
  scribe.at(10).start("a", 2).at(12).complete("a", 2, spent(0.5));
  scribe.at(20).start("b").at(30).fail("b");
  const estimates = estimatesOf(scribe.events);
  expect([...estimates]).toEqual([["a", { workMs: 6_000, usd: 0.75, tokens: 200 }]]);
  expect(estimateText(estimates.get("a"))).toBe("6.0s, $0.75");
  expect(estimateText(estimates.get("b"))).toBe("unknown");
});

test("an estimate is the median of several visits", () => {
  const scribe = new Scribe(planOf(chain(step("a"))));
  let now = 0;
  for (const [visit, seconds] of [3, 100, 5].entries()) {
    const at = ref("a", 1, visit + 1);
    scribe.at(now).write({ type: "step.started", ...at });
    now += seconds;
    const result = { exit: 0, outputs: {}, context: {}, edges: [] };
    scribe.at(now).write({ type: "step.completed", ...at, ...result });
  }
  expect(estimatesOf(scribe.events).get("a")).toEqual({ workMs: 5_000 });
});

test("spending inside a composite step counts for the composite step", () => {
  const scribe = new Scribe(planOf(chain(step("all"))));
  scribe.start("all").start("all@1.1[0]/x").at(8).complete("all@1.1[0]/x", 1, spent(2));
  scribe.at(9).complete("all");
  expect([...estimatesOf(scribe.events)]).toEqual([
    ["all", { workMs: 9_000, usd: 2, tokens: 100 }],
  ]);
});

test("estimates can be added up", () => {
  expect(sumOf([])).toBeUndefined();
  const sum = sumOf([{ workMs: 60_000, usd: 1 }, { workMs: 1_000 }, { workMs: 0, tokens: 7 }]);
  expect(estimateText(sum)).toBe("1m 01s, $1.00");
});
