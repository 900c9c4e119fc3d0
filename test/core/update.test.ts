/**
 * Another plan in the middle of a run: what is kept, what begins anew, and what follows from it.
 */
import { isDeepStrictEqual } from "node:util";
import { describe, expect, it } from "vitest";
import { EVENT_VERSION, type EventOf, type RunEvent } from "../../src/core/event.ts";
import { replay } from "../../src/core/evolve.ts";
import { currentVisit, findStep } from "../../src/core/run.ts";
import { fullSummary } from "../../src/core/summary.ts";
import type { Plan } from "../../src/plan/plan.ts";
import { snapshot } from "../sim/snapshot.ts";
import { graphOf, planOf, type StepChanges } from "./plans.ts";
import { bad, ok, Play } from "./play.ts";

const other: StepChanges = { work: { kind: "shell", run: "other" } };

function lastUpdate(play: Play): EventOf<"run.updated"> {
  const event = play.events.findLast((one: RunEvent) => one.type === "run.updated");
  if (event?.type !== "run.updated") throw new Error("the run was not updated");
  return event;
}

/** Adopts a plan, and holds that replay comes to the same run and the counts to the same sums. */
function update(play: Play, plan: Plan): EventOf<"run.updated"> {
  play.update(plan);
  const events = play.events.map((event, index) => ({
    seq: index + 1,
    time: play.now,
    version: EVENT_VERSION,
    event,
  }));
  const again = replay(play.planOf, play.run.id, events);
  expect(isDeepStrictEqual(sums(again), sums(play.run))).toBe(true);
  return lastUpdate(play);
}

function sums(run: Play["run"]): unknown {
  const { running, waiting, failed, total, done, gone } = snapshot(run);
  const rows = fullSummary(run).steps.map(({ stepId, state }) => [stepId, state]);
  return { running, waiting, failed, total, done, gone, rows };
}

function states(play: Play): Readonly<Record<string, string>> {
  return Object.fromEntries(
    fullSummary(play.run).steps.map(({ stepId, state }) => [stepId, state]),
  );
}

describe("an edit of", () => {
  it("a pending step keeps what is done", () => {
    const play = new Play(planOf("a>b b>c")).open().end("a");
    play
      .tell({ type: "stop-requested", mode: "now", by: "x" })
      .end("b", { how: "stopped", message: "" });
    const event = update(play, planOf("a>b b>c", { c: other }));
    expect(event.kept).toEqual(["a", "b"]);
    expect(event.rerun).toEqual([{ step: "c", because: "definition", names: ["run"] }]);
    play.open().finish();
    expect(play.launched).toEqual(["a@1.1", "b@1.1", "b@1.2", "c@1.1"]);
    expect(play.status).toBe("completed");
  });

  it("a completed step runs it and all behind it again, numbered on", () => {
    const play = new Play(planOf("a>b b>c a>d")).open().finish();
    const event = update(play, planOf("a>b b>c a>d", { b: other }));
    expect(event.kept).toEqual(["a", "d"]);
    expect(event.rerun).toEqual([
      { step: "b", because: "definition", names: ["run"] },
      { step: "c", because: "upstream", names: ["b"] },
    ]);
    expect(states(play)).toEqual({ a: "completed", b: "pending", c: "pending", d: "completed" });
    expect([play.run.stepsDone, play.run.stepsTotal]).toEqual([2, 4]);
    play.open().finish();
    expect(play.launched.slice(4)).toEqual(["b@2.1", "c@2.1"]);
    expect(play.status).toBe("completed");
  });

  it("a name: the old step is gone, the new one runs, and the old one comes back numbered on", () => {
    const play = new Play(planOf("a>b")).open().finish();
    expect(update(play, planOf("a>x"))).toMatchObject({
      kept: ["a"],
      rerun: [{ step: "x", because: "new", names: [] }],
      gone: ["b"],
    });
    expect(states(play)).toEqual({ a: "completed", x: "pending" });
    play.open().finish();
    expect(update(play, planOf("a>b")).gone).toEqual(["x"]);
    play.open().finish();
    expect(play.launched).toEqual(["a@1.1", "b@1.1", "x@1.1", "b@2.1"]);
  });

  it("what matters to nobody changes nothing but the limits", () => {
    const retry = { ...planOf("a").graph.steps[0]?.retry, attempts: 3 } as StepChanges["retry"];
    const play = new Play(planOf("a>b")).open().end("a").end("b", bad);
    const change = retry === undefined ? {} : { b: { retry } };
    expect(update(play, planOf("a>b", change))).toMatchObject({
      kept: ["a", "b"],
      rerun: [],
      gone: [],
    });
    play.open().finish((path) => (path === "b" ? bad : ok()));
    // The failed run was granted one more try; the edit gave it two more.
    expect(play.launched).toEqual(["a@1.1", "b@1.1", "b@1.2", "b@1.3", "b@1.4"]);
  });

  it("a completed run: steps at its end run, the rest stays done", () => {
    const play = new Play(planOf("a>b")).open().finish();
    expect(play.status).toBe("completed");
    expect(update(play, planOf("a>b b>c c>d")).kept).toEqual(["a", "b"]);
    play.open().finish();
    expect(play.launched).toEqual(["a@1.1", "b@1.1", "c@1.1", "d@1.1"]);
    expect(play.status).toBe("completed");
  });

  it("the input's defaults: what names them runs again", () => {
    const uses = (name: string): StepChanges => ({
      work: { kind: "shell", run: `x \${{ input.${name} }}` },
    });
    const steps = { a: uses("n"), b: uses("m") };
    const play = new Play(planOf("a b c", steps), { n: 1, m: 1 }).open().finish();
    play.update(planOf("a b c", steps, { maxParallel: 3 }), { n: 1, m: 2 });
    expect(lastUpdate(play)).toMatchObject({
      input: { n: 1, m: 2 },
      kept: ["a", "c"],
      rerun: [{ step: "b", because: "input", names: ["input.m"] }],
    });
    expect(play.run.created?.input).toEqual({ n: 1, m: 2 });
  });
});

describe("kept steps", () => {
  it("hand on what they did: context, results, and the edges that they followed", () => {
    const plan = (run: string): Plan =>
      planOf("a>b?context.x==1 a>c?context.x==2 b>d c>d", {
        d: { work: { kind: "shell", run }, when: "context.x == 1" },
      });
    const play = new Play(plan("one"))
      .open()
      .end("a", ok({ x: 1 }))
      .finish();
    expect(states(play)).toEqual({ a: "completed", b: "completed", c: "skipped", d: "completed" });
    expect(update(play, plan("two")).kept).toEqual(["a", "b", "c"]);
    expect(states(play)).toEqual({ a: "completed", b: "completed", c: "skipped", d: "pending" });
    play.open().finish();
    expect(play.launched).toEqual(["a@1.1", "b@1.1", "d@1.1", "d@2.1"]);
  });

  it("that still run continue: their process is not started again", () => {
    const play = new Play(planOf("a b>c")).open();
    expect(play.running()).toEqual(["a", "b"]);
    update(play, planOf("a b>c", { c: other }));
    play.open().finish();
    expect(play.launched).toEqual(["a@1.1", "b@1.1", "c@1.1"]);
  });

  it("that fan out continue with the items that are left", () => {
    const each = (run: string): Plan => {
      const work = {
        kind: "each",
        items: "[1, 2, 3]",
        graph: graphOf("i"),
        maxParallel: 1,
        onItemFailure: "fail",
      } as const;
      return planOf("a>all all>z", { all: { work }, z: { work: { kind: "shell", run } } });
    };
    const play = new Play(each("one")).open().end("a").end("all@1.1[0]/i");
    update(play, each("two"));
    play.open().finish();
    expect(play.launched).toEqual([
      "a@1.1",
      "all@1.1[0]/i@1.1",
      "all@1.1[1]/i@1.1",
      "all@1.1[2]/i@1.1",
      "z@1.1",
    ]);
    expect(play.status).toBe("completed");
  });

  it("keep their place in a loop", () => {
    const loop = (run: string): Plan =>
      planOf("draft>review review>draft?run.visit<3 review>ship?run.visit>=3", {
        ship: { work: { kind: "shell", run } },
      });
    const play = new Play(loop("one")).open().end("draft").end("review");
    expect(play.running()).toEqual(["draft"]);
    update(play, loop("two"));
    play.open().finish();
    expect(play.launched.at(-1)).toBe("ship@1.1");
    expect(play.launched.filter((one) => one.startsWith("draft"))).toHaveLength(3);
  });
});

describe("a step that begins anew", () => {
  it("leaves a composite behind with all that was running in it", () => {
    const nested = (run: string): Plan =>
      planOf("all>z", {
        all: { work: { kind: "pipeline", graph: graphOf("i>j", { j: { env: { RUN: run } } }) } },
      });
    const play = new Play(nested("one")).open().end("all@1.1[0]/i");
    play.tell({ type: "stop-requested", mode: "now", by: "x" });
    play.end("all@1.1[0]/j", { how: "stopped", message: "" });
    expect(update(play, nested("two")).rerun[0]).toEqual({
      step: "all",
      because: "definition",
      names: ["steps"],
    });
    play.open().finish();
    expect(play.launched.slice(2)).toEqual(["all@2.1[0]/i@1.1", "all@2.1[0]/j@1.1", "z@1.1"]);
    expect([play.run.stepsDone, play.run.stepsTotal]).toEqual([4, 4]);
  });

  it("is never one with a live process", () => {
    const play = new Play(planOf("a>b")).open();
    expect(() => play.update(planOf("a>b", { a: other }))).toThrow(/no live process/);
  });

  it("gets a conversation of its own, and so does what shared one with it alone", () => {
    const conversation = (prompt: string): Plan =>
      planOf("a>b", {
        a: { work: { kind: "agent", agent: "x", prompt, session: "s", settings: {} } },
      });
    const play = new Play(conversation("one"));
    play.around = { env: {}, offer: () => ({ fresh: "first", found: true }) };
    play.open().end("a");
    expect(play.run.shared.get("s")?.session).toBe("first");
    play
      .tell({ type: "stop-requested", mode: "now", by: "x" })
      .end("b", { how: "stopped", message: "" });
    update(play, conversation("two"));
    expect(play.run.shared.size).toBe(0);
    play.around = { env: {}, offer: () => ({ fresh: "second", found: true }) };
    play.open();
    const visit = currentVisit(findStep(play.run, "a"));
    expect(visit?.conversation?.conversation).toMatchObject({ session: "second", kind: "start" });
  });
});

it("holds a budget against what was spent before, and counts what was added to it", () => {
  const play = new Play(planOf("a>b", {}, { budget: { usd: 1 } })).open();
  play.tell({ type: "funds-added", added: { usd: 2 } }).end("a");
  play
    .tell({ type: "stop-requested", mode: "now", by: "x" })
    .end("b", { how: "stopped", message: "" });
  play.update(planOf("a>b", {}, { budget: { usd: 5, turns: 4 } }));
  expect(play.run.funds).toEqual({ usd: 7, turns: 4 });
});

it("does nothing for the plan that the run has, and refuses another workspace", () => {
  const here = { kind: "here", include: [], snapshots: true, snapshotEveryMs: 1 } as const;
  const play = new Play(planOf("a", {}, { workspace: here })).open().finish();
  play.update(planOf("a", {}, { workspace: here }));
  expect(play.types()).not.toContain("run.updated");
  const moved = planOf("a", {}, { workspace: { ...here, kind: "copy" } });
  expect(() => play.update(moved)).toThrow(/another workspace/);
});
