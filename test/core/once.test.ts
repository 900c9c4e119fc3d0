/**
 * Operations that must happen once: what is done when nobody knows whether one has happened
 * (core/O1, core/O2).
 */
import { describe, expect, it } from "vitest";
import type { EventOf, RunEvent, Verdict } from "../../src/core/event.ts";
import { replay } from "../../src/core/evolve.ts";
import type { Ending, Fact, Result } from "../../src/core/fact.ts";
import { Refusal } from "../../src/core/graph/rewind.ts";
import { currentVisit, findStep } from "../../src/core/run.ts";
import { snapshot } from "../sim/snapshot.ts";
import { graphOf, planOf, type StepChanges } from "./plans.ts";
import { bad, lost, ok, Play } from "./play.ts";

const PROBED: StepChanges = { once: true, probe: "look" };
const RETRY: StepChanges["retry"] = {
  attempts: 2,
  backoff: { initialMs: 0, factor: 1, maxMs: 0, jitter: 0 },
  onResume: "fresh",
};
const stopped: Ending = { how: "stopped", message: "it was stopped" };
const timedOut: Ending = { how: "timed-out", limit: "timeout", message: "too long" };
const NOTHING: Result = { outputs: {}, context: {} };

function answer(
  play: Play,
  said: EventOf<"step.probed">["answer"],
  more: Partial<Fact> = {},
): Play {
  const at = play.operations("probe")[0]?.at;
  if (at === undefined) throw new Error("no probe is asked");
  return play.tell({ type: "probed", at, answer: said, ...more } as Fact);
}

function settle(play: Play, step: string, as: Verdict, more: Partial<Fact> = {}): Play {
  return play.tell({ type: "settled", step, as, by: "ann@laptop", ...more } as Fact);
}

function stateOf(play: Play, step: string): unknown {
  return currentVisit(findStep(play.run, step))?.state;
}

function sameAfterReplay(play: Play): void {
  expect(snapshot(replay(play.plan, "run", play.recorded))).toEqual(snapshot(play.run));
}

describe("a step that must not happen twice", () => {
  it("is retried as written after an exit status that proves that nothing happened", () => {
    const a = { once: true, notDone: [1], retry: RETRY } as const;
    const play = new Play(planOf("a", { a })).open().end("a", bad);
    expect(play.launched).toEqual(["a@1.1", "a@1.2"]);
    expect(play.end("a").status).toBe("completed");
  });

  it("fails as it would have when its probe says that nothing happened", () => {
    const play = new Play(planOf("a", { a: { ...PROBED, retry: RETRY } })).open();
    answer(play.end("a", bad), "not-done");
    expect(play.launched).toEqual(["a@1.1", "a@1.2"]);
    answer(play.end("a", bad), "not-done");
    expect(stateOf(play, "a")).toMatchObject({ status: "failed", reason: "exit", exit: 1 });
    sameAfterReplay(play);
  });

  it("follows an edge for failures without a probe, and is asked about when it comes back", () => {
    const play = new Play(planOf("a!>b b>a", { a: { once: true, visitsMax: 3 } })).open();
    play.end("a", bad);
    expect(play.running()).toEqual(["b"]);
    expect(play.events.find(({ type }) => type === "step.failed")).toMatchObject({
      effect: "uncertain",
    });
    play.end("b");
    expect(play.launched).toEqual(["a@1.1", "b@1.1"]);
    expect(stateOf(play, "a")).toMatchObject({ status: "failed", reason: "once" });
    sameAfterReplay(play);
  });

  it("is repeated when it is proven that nothing of it ran", () => {
    const play = new Play(planOf("a", { a: { once: true } })).open();
    play.end("a", { how: "lost", started: false, message: "it had not started" });
    expect(play.launched).toEqual(["a@1.1", "a@1.2"]);
  });

  it.each([
    ["lost", lost],
    ["stopped", stopped],
    ["timed out", timedOut],
    ["reined in", { how: "reined", reason: "stall", message: "no progress" }],
    ["ended by itself with an exit status that proves nothing", bad],
  ] as const)("is uncertain when it was %s", (_name, ending) => {
    const play = new Play(planOf("a", { a: { ...PROBED, retry: RETRY } })).open().end("a", ending);
    expect(play.types().at(-1)).toBe("step.uncertain");
    const at = { scope: "", step: "a", visit: 1, attempt: 1 };
    expect(play.operations("probe")).toMatchObject([{ at }]);
    expect(play.launched).toEqual(["a@1.1"]);
    const alone = new Play(planOf("a", { a: { once: true, retry: RETRY } })).open();
    expect(alone.end("a", ending).status).toBe("failed");
    expect(alone.launched).toEqual(["a@1.1"]);
    expect(alone.open().launched).toEqual(["a@1.1"]);
  });
});

describe("a probe", () => {
  it("that says done completes the step with the operation's identity, and the run continues", () => {
    const plan = planOf('a>b?results.a.identity=="pr/7"', { a: PROBED });
    const play = new Play(plan).open().end("a", lost);
    answer(play, "done", { identity: "pr/7", result: { ...NOTHING, context: { k: "v" } } });
    expect(play.running()).toEqual(["b"]);
    expect(play.events.find(({ type }) => type === "step.completed")).toMatchObject({
      identity: "pr/7",
      settledBy: "its probe",
      context: { k: "v" },
    });
    sameAfterReplay(play);
  });

  it("that says not done repeats it without charging a retry", () => {
    const play = new Play(planOf("a", { a: PROBED })).open();
    for (let loss = 0; loss < 5; loss++) answer(play.end("a", lost), "not-done");
    expect(play.end("a").status).toBe("completed");
    expect(play.launched).toHaveLength(6);
    sameAfterReplay(play);
  });

  it("charges a timeout that did not happen as what it is", () => {
    const play = new Play(planOf("a", { a: { ...PROBED, retry: RETRY } })).open();
    answer(play.end("a", timedOut), "not-done");
    answer(play.end("a", timedOut), "not-done");
    expect(play.launched).toHaveLength(2);
    expect(stateOf(play, "a")).toMatchObject({ status: "failed", reason: "timeout" });
  });

  it("that does not know leaves it to a person, and is asked again by the next owner", () => {
    const play = new Play(planOf("a", { a: PROBED })).open().end("a", lost);
    answer(play, "unknown", { message: "no network" });
    expect(stateOf(play, "a")).toMatchObject({
      status: "failed",
      reason: "once",
      message: "whether it happened is unknown (no network)",
    });
    expect(play.status).toBe("failed");
    answer(play.open(), "not-done");
    expect(play.launched).toEqual(["a@1.1", "a@1.2"]);
    sameAfterReplay(play);
  });

  it("is not asked while the run stops, and first thing when it continues", () => {
    const play = new Play(planOf("a b", { a: PROBED }, { maxParallel: 1 })).open();
    play.tell({ type: "stop-requested", mode: "now", by: "SIGINT" }).end("a", stopped);
    expect(play.status).toBe("stopped");
    expect(play.operations("probe")).toEqual([]);
    play.open();
    expect(play.launched).toEqual(["a@1.1"]);
    answer(play, "not-done");
    expect(play.launched).toEqual(["a@1.1", "b@1.1"]);
    play.end("b");
    expect(play.launched.at(-1)).toBe("a@1.2");
  });

  it("is old news when another attempt has begun", () => {
    const play = new Play(planOf("a", { a: PROBED })).open().end("a", lost);
    const at = play.operations("probe")[0]?.at;
    answer(play, "not-done");
    const before = play.events.length;
    if (at !== undefined) play.tell({ type: "probed", at, answer: "done" });
    expect(play.events).toHaveLength(before);
  });
});

describe("a person", () => {
  const inDoubt = (): Play => new Play(planOf("a>b", { a: { once: true } })).open().end("a", lost);

  it("says done: it is complete, and nothing starts before the run is resumed", () => {
    const play = settle(inDoubt(), "a", "done", { identity: "v1.2", result: NOTHING });
    expect(play.events.slice(-2)).toMatchObject([
      { type: "step.settled", as: "done", by: "ann@laptop", identity: "v1.2" },
      { type: "step.completed", settledBy: "ann@laptop", identity: "v1.2" },
    ]);
    expect(play.launched).toEqual(["a@1.1"]);
    expect(play.open().launched).toEqual(["a@1.1", "b@1.1"]);
    expect(play.end("b").status).toBe("completed");
    sameAfterReplay(play);
  });

  it("says redo: it runs when the run is resumed, however often it was lost", () => {
    const play = inDoubt();
    for (let round = 2; round < 15; round++) {
      settle(play, "a", "redo").open();
      expect(play.launched.at(-1)).toBe(`a@1.${round}`);
      play.end("a", lost);
    }
    sameAfterReplay(play);
  });

  it("says abort: it has failed for good", () => {
    const play = settle(inDoubt(), "a", "abort").open();
    expect(play.status).toBe("failed");
    expect(stateOf(play, "a")).toMatchObject({ reason: "aborted" });
    expect(play.launched).toEqual(["a@1.1"]);
    expect(() => play.open({ type: "retry-requested", step: "a" })).toThrow(/was given up/);
    const handled = new Play(planOf("a!>c", { a: { once: true } })).open().end("a", lost);
    expect(handled.status).toBe("failed");
    expect(settle(handled, "a", "abort").open().running()).toEqual(["c"]);
    sameAfterReplay(handled);
  });

  it("cannot settle twice, nor what is not uncertain, nor run it again in passing", () => {
    const play = settle(inDoubt(), "a", "done");
    expect(() => settle(play, "a", "redo")).toThrow(Refusal);
    expect(() => settle(inDoubt(), "b", "done")).toThrow(/has not started/);
    expect(() => settle(new Play(planOf("a")).open(), "a", "done")).toThrow(/is running/);
    expect(() => inDoubt().open({ type: "retry-requested", step: "a" })).toThrow(/settle/);
  });

  it("settles a step inside a fan-out, and the fan-out continues", () => {
    const work = {
      kind: "each",
      items: "[1, 2]",
      graph: graphOf("x>y", { x: { once: true } }),
      maxParallel: 2,
      onItemFailure: "fail",
    } as const;
    const play = new Play(planOf("e>z", { e: { work } })).open();
    play.end("e@1.1[0]/x", lost).end("e@1.1[1]/x").end("e@1.1[1]/y");
    expect(play.status).toBe("failed");
    settle(play, "e@1.1[0]/x", "done").open();
    expect(play.running()).toEqual(["e@1.1[0]/y"]);
    play.end("e@1.1[0]/y").end("z");
    expect(play.status).toBe("completed");
    sameAfterReplay(play);
  });

  it("settles what an older journal calls a failure", () => {
    const play = new Play(planOf("a>b", { a: { once: true } })).open();
    const old: RunEvent = {
      type: "step.failed",
      scope: "",
      step: "a",
      visit: 1,
      attempt: 1,
      reason: "once",
      message: "it may have happened or not",
      edges: [],
    };
    const events = [...play.events, old, { type: "run.failed", message: "m" } as const];
    const recorded = events.map((event, at) => ({ seq: at + 1, time: 1_000, version: 1, event }));
    play.run = replay(play.plan, "run", recorded);
    expect(settle(play, "a", "done").open().end("b", ok()).status).toBe("completed");
  });
});
