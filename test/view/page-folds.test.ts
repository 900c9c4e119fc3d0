/** What pages show of a run: its moments, what its agents cost, and the settings of its steps. */
import { expect, test } from "vitest";
import type { Step } from "../../src/plan/plan.ts";
import { agentsByStep, costJson, dearestRuns, spendingOf } from "../../src/view/json/cost-json.ts";
import { momentJson, momentsJson } from "../../src/view/json/moment-json.ts";
import { settingsJson } from "../../src/view/json/step-json.ts";
import { plainLines } from "../../src/view/text.ts";
import { chain, planOf, RUN_ID, Scribe, step, T0 } from "./scribe.ts";

const DAY_MS = 24 * 3_600_000;

function agent(id: string, name: string): Step {
  return step(id, { work: { kind: "agent", agent: name, prompt: "Do it.", settings: {} } });
}

const spent = (model: string, costUsd?: number): object => ({
  spent: {
    ...{ inputTokens: 90, cachedTokens: 0, outputTokens: 10, turns: 1, model },
    ...(costUsd === undefined ? {} : { costUsd }),
  },
});

test("the checkpoint of a moment is the working step, else the next one, else the last one", () => {
  const scribe = new Scribe(planOf(chain(step("a"), step("b"))));
  scribe.done("a").start("b").at(9).fail("b");
  const at = (sequence: number): string | null | undefined =>
    momentJson(scribe.plan, RUN_ID, scribe.events, sequence)?.checkpoint;
  const names = scribe.events.map(({ event, seq }) => [event.type, at(seq)]);
  expect(names).toEqual([
    ["run.created", "a@1"],
    ["run.opened", "a@1"],
    ["step.started", "a@1"],
    ["step.completed", "b@1"],
    ["step.started", "b@1"],
    ["step.failed", "b@1"],
  ]);
  expect(momentJson(scribe.plan, RUN_ID, scribe.events, 7)).toBeUndefined();
  expect(momentJson(scribe.plan, RUN_ID, scribe.events, 0)).toBeUndefined();
  const lines = momentsJson(scribe.plan, RUN_ID, scribe.events).moments.map(({ text }) => text);
  expect(lines[0]).toBe("the run was created");
  expect(lines[3]).toBe("✓ a completed in 1.0s");
});

test("spending counts for the agent of a step or its judge, and not again for a fork", () => {
  const plan = planOf(
    chain(
      agent("write", "claude"),
      step("map", {
        work: {
          kind: "each",
          items: "[1]",
          graph: chain(agent("fix", "codex")),
          maxParallel: 1,
          onItemFailure: "fail",
        },
      }),
    ),
  );
  const agents = agentsByStep(plan);
  const scribe = new Scribe(plan);
  scribe.start("write").complete("write", 1, spent("opus", 1));
  scribe.write({
    ...{ type: "step.started", scope: "", step: "write", visit: 1, attempt: 2, judge: "critic" },
  });
  scribe.complete("write", 2, spent("mini"));
  scribe.start("map@1.1[0]/fix").complete("map@1.1[0]/fix", 1, spent("opus", 2));
  const found = spendingOf(scribe.events, agents);
  expect(
    found.map(({ agent: name, model, usd, isUnpriced }) => [name, model, usd, isUnpriced]),
  ).toEqual([
    ["claude", "opus", 1, false],
    ["critic", "mini", 0, true],
    ["codex", "opus", 2, false],
  ]);
  const forked = { type: "run.forked", from: { run: "other", seq: 3 } } as const;
  expect(spendingOf(scribe.write(forked).events, agents)).toEqual([]);

  const runs = [{ runId: "r", pipeline: "p", attempts: found }];
  const cost = costJson(runs, { since: T0 - 2 * DAY_MS, now: T0 });
  expect(cost.total).toEqual({ usd: 3, tokens: 300, runs: 1, unknown_price: 1 });
  expect(cost.days.map(({ day, usd }) => [day, usd])).toEqual([
    ["2026-01-30", 0],
    ["2026-01-31", 0],
    ["2026-02-01", 3],
  ]);
  expect(cost.by_model).toMatchObject([
    { name: "opus", usd: 3, tokens: 200 },
    { name: "mini", usd: 0 },
  ]);
  expect(costJson(runs, { since: T0 + DAY_MS, now: T0 + DAY_MS }).total.usd).toBe(0);
  expect(dearestRuns([...runs, { runId: "free", pipeline: "p", attempts: [] }], 5)).toEqual(["r"]);
});

test("the settings of a step leave out default values", () => {
  const plain = step("a", { visitsMax: 1 });
  const once = { ...plain, retry: { ...plain.retry, attempts: 1 } };
  expect(settingsJson(once)).toEqual({ kind: "shell", run: "true" });
  expect(settingsJson({ ...once, timeoutMs: 5, env: { A: "1" } })).toEqual({
    ...{ kind: "shell", run: "true", timeout_ms: 5, env: { A: "1" } },
  });
});

test("plainLines keeps line ends and tabs, and removes control sequences", () => {
  const text = "a\tb\u001b[31m red\u001b[0m\n10%\r20%\r100%\n\u202eevil\u0007\n";
  expect(plainLines(text)).toBe("a\tb red\n100%\nevil\n");
});
