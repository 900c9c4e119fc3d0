/** Every pair of state and event: allowed as the table says, refused otherwise (core/C5). */
import { describe, expect, it } from "vitest";
import { EVENT_VERSION, type RunEvent, type StepEvent } from "../../src/core/event.ts";
import { evolve } from "../../src/core/evolve.ts";
import { type StateName, stateName } from "../../src/core/graph/visit-state.ts";
import { currentVisit } from "../../src/core/run.ts";
import { RUN_TRANSITIONS, VISIT_TRANSITIONS } from "../../src/core/transition.ts";
import { graphOf, planOf } from "./plans.ts";
import { bad, lost, OWNER, ok, Play } from "./play.ts";

const at = { scope: "", step: "a", visit: 1 };
const NOTHING = { outputs: {}, context: {}, edges: [] };

const QUESTION = { choices: [{ key: "Y", label: "yes" }], text: "none" } as const;
const GATE = { kind: "gate", ask: "Go?", ...QUESTION } as const;

const RETRY = {
  attempts: 2,
  backoff: { initialMs: 9, factor: 1, maxMs: 9, jitter: 0 },
  onResume: "fresh",
} as const;
const LOOP = {
  kind: "loop",
  graph: graphOf("inner"),
  iterationsMax: 3,
  onExhausted: "fail",
} as const;

function stopping(play: Play): Play {
  return play.tell({ type: "stop-requested", mode: "after-step", by: "x" });
}

/** A run in which the visit a@1 is in this state. */
const REACH: Readonly<Record<StateName, () => Play>> = {
  "waiting for start": () => new Play(planOf("a", { a: { work: GATE } })),
  "waiting for slot": () => new Play(planOf("a")),
  "waiting for retry": () => new Play(planOf("a", { a: { retry: RETRY } })).open().end("a", bad),
  running: () => new Play(planOf("a")).open(),
  "waiting for owner": () =>
    new Play(planOf("a"))
      .open()
      .tell({ type: "stop-requested", mode: "now", by: "x" })
      .end("a", { how: "stopped", message: "x" }),
  "waiting for probe": () =>
    new Play(planOf("a", { a: { once: true, probe: "x" } })).open().end("a", lost),
  // An agent may ask too, and its question is followed by another attempt.
  "waiting for person": () => {
    const play = new Play(planOf("a")).open();
    apply(play, stepEvents(1)["step.asked"]);
    return play;
  },
  "waiting for time": () =>
    new Play(planOf("a", { a: { work: { kind: "wait", forMs: 9 } } })).open(),
  // A run that stops does not decide any more how its composite visits end.
  "waiting for close": () =>
    stopping(new Play(planOf("a", { a: { work: LOOP } })).open()).end("a@1.1[0]/inner", ok()),
  completed: () => new Play(planOf("a")).open().end("a", ok()),
  // Its effect is uncertain: the only failure that a person can settle.
  failed: () => new Play(planOf("a", { a: { once: true } })).open().end("a", lost),
  skipped: () => new Play(planOf("a", { a: { when: "false" } })).open(),
  abandoned: () => {
    const play = new Play(planOf("a")).open().end("a", bad);
    return play.open({ type: "rewind-requested", step: "a" });
  },
};

const ANSWER = { choice: "Y", by: "ann@laptop", from: "command", given: 1 } as const;
const HELD = { exit: 0, outputs: {}, context: {} };
const FILE = { path: "/f", sha256: "0", bytes: 1 };

/** One event of each type about the visit a@1. */
function stepEvents(attempts: number): Readonly<Record<StepEvent["type"], RunEvent>> {
  const ref = { ...at, attempt: attempts };
  const message = "m";
  return {
    "step.started": { type: "step.started", ...at, attempt: attempts + 1 },
    "step.completed": { type: "step.completed", ...ref, exit: 0, ...NOTHING },
    "step.failed": { type: "step.failed", ...ref, reason: "exit", message, edges: [] },
    "step.lost": { type: "step.lost", ...ref, message },
    "step.paused": { type: "step.paused", ...ref, reason: "quota", message },
    "step.session": { type: "step.session", ...ref, session: "s" },
    "step.adopted": { type: "step.adopted", ...ref, found: "alive" },
    "step.based": { type: "step.based", ...ref, base: "c" },
    "step.recalled": { type: "step.recalled", ...ref, key: "k", why: "none" },
    "step.saved": { type: "step.saved", ...ref, snapshot: { commit: "c" } },
    "step.iterated": { type: "step.iterated", ...ref, iteration: 1 },
    "step.continued": { type: "step.continued", ...ref, ask: { kind: "message", why: "w" } },
    "step.relayed": { type: "step.relayed", ...ref, checkpoint: FILE },
    "step.submitted": { type: "step.submitted", ...ref, held: HELD },
    "step.conflicted": {
      ...{ type: "step.conflicted", ...ref, paths: ["p"], message, base: "c", held: HELD },
    },
    "step.interrupted": { type: "step.interrupted", ...ref, message },
    "step.uncertain": { type: "step.uncertain", ...ref, cause: "lost", message, asks: "probe" },
    "step.probed": { type: "step.probed", ...ref, answer: "unknown", message },
    "step.settled": { type: "step.settled", ...ref, as: "done", by: "ann@laptop" },
    "step.asked": { type: "step.asked", ...ref, question: "Go?", ...QUESTION },
    "step.answered": { type: "step.answered", ...ref, ...ANSWER },
    "step.skipped": { type: "step.skipped", ...at, edges: [] },
    "step.granted": { type: "step.granted", ...at, attempts: 1 },
  };
}

const STEP_EVENTS = Object.keys(stepEvents(0)) as readonly StepEvent["type"][];

function apply(play: Play, event: RunEvent): void {
  const recorded = { seq: play.run.seq + 1, time: play.now, version: EVENT_VERSION, event };
  play.run = evolve(play.planOf, play.run, recorded);
}

describe("a visit that is", () => {
  const pairs = (Object.keys(REACH) as StateName[]).flatMap((state) =>
    STEP_EVENTS.map((type) => ({ state, type })),
  );
  it.each(pairs)("$state meets $type", ({ state, type }) => {
    const play = REACH[state]();
    const visit = play.run.scopes.get("")?.steps[0]?.visits[0];
    expect(visit && stateName(visit.state)).toBe(state);
    const event = stepEvents(visit?.attempts ?? 0)[type];
    const allowed = VISIT_TRANSITIONS[state][type];
    if (allowed === undefined) {
      expect(() => apply(play, event)).toThrow(/illegal event/);
      return;
    }
    apply(play, event);
    expect(allowed).toContain(visit && stateName(visit.state));
  });
});

describe("a run that is", () => {
  const reach: Readonly<Record<keyof typeof RUN_TRANSITIONS, () => Play>> = {
    created: REACH["waiting for slot"],
    running: REACH.running,
    stopping: () => stopping(REACH.running()),
    stopped: REACH["waiting for owner"],
    completed: REACH.completed,
    failed: REACH.failed,
  };
  const events: readonly RunEvent[] = [
    { type: "run.opened", owner: OWNER, epoch: 9 },
    { type: "run.stopping", mode: "now", reason: { code: "requested", by: "x" } },
    { type: "run.funded", added: { usd: 1 } },
    { type: "run.updated", fingerprint: "f", envNames: [], kept: ["a"], rerun: [], gone: [] },
    { type: "run.stopped", reason: { code: "requested", by: "x" } },
    { type: "run.moved", from: "/a", to: "/b" },
    { type: "run.placed", workspace: { kind: "here", path: "/w" } },
    { type: "run.restoring", commit: "c", of: "a@1.1" },
    { type: "run.restored", commit: "c" },
    { type: "run.completed" },
    { type: "run.failed", message: "m" },
  ];
  const pairs = (Object.keys(reach) as (keyof typeof RUN_TRANSITIONS)[]).flatMap((status) =>
    events.map((event) => ({ status, event, type: event.type })),
  );
  it.each(pairs)("$status meets $type", ({ status, event }) => {
    const play = reach[status]();
    expect(play.status).toBe(status);
    const allowed = RUN_TRANSITIONS[status][event.type as "run.opened"];
    if (allowed === undefined) expect(() => apply(play, event)).toThrow(/illegal event/);
    else {
      apply(play, event);
      expect(allowed).toContain(play.run.state.status);
    }
  });
});

it("refuses an event out of order, of another attempt, or for a place that is not there", () => {
  const play = REACH.running();
  const event = stepEvents(1)["step.completed"];
  const recorded = { seq: play.run.seq + 2, time: 0, version: EVENT_VERSION, event };
  expect(() => evolve(play.plan, play.run, recorded)).toThrow(/cannot follow/);
  expect(() => apply(play, stepEvents(7)["step.completed"])).toThrow(/attempt 7 is not 1/);
  const elsewhere = { ...event, step: "nobody" } as RunEvent;
  expect(() => apply(play, elsewhere)).toThrow(/not there/);
  expect(currentVisit(play.run.scopes.get("")?.steps[0])?.state.status).toBe("running");
});
