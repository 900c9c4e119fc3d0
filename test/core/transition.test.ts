/** Every pair of state and event: allowed as the table says, refused otherwise (C5). */
import { describe, expect, it } from "vitest";
import { EVENT_VERSION, type RunEvent } from "../../src/core/event.ts";
import { evolve } from "../../src/core/evolve.ts";
import { currentVisit, type VisitStatus } from "../../src/core/run.ts";
import { RUN_TRANSITIONS, VISIT_TRANSITIONS } from "../../src/core/transition.ts";
import { planOf } from "./plans.ts";
import { bad, lost, OWNER, ok, Play } from "./play.ts";

const at = { scope: "", step: "a", visit: 1 };
const NOTHING = { outputs: {}, context: {}, arrows: [] };

const QUESTION = { choices: [{ key: "Y", label: "yes" }], text: "none" } as const;
const GATE = { kind: "gate", ask: "Go?", ...QUESTION } as const;

/** A run in which the visit a@1 is in this state. */
const REACH: Readonly<Record<VisitStatus, () => Play>> = {
  ready: () => new Play(planOf("a")),
  running: () => new Play(planOf("a")).open(),
  waiting: () => {
    const retry = {
      attempts: 2,
      backoff: { initialMs: 9, factor: 1, maxMs: 9, jitter: 0 },
      onResume: "fresh",
    } as const;
    return new Play(planOf("a", { a: { retry } })).open().end("a", bad);
  },
  interrupted: () =>
    new Play(planOf("a"))
      .open()
      .tell({ type: "stop-requested", mode: "now", by: "x" })
      .end("a", { how: "stopped", message: "x" }),
  unsettled: () => new Play(planOf("a", { a: { once: true, probe: "x" } })).open().end("a", lost),
  asked: () => new Play(planOf("a", { a: { work: GATE } })).open(),
  sleeping: () => new Play(planOf("a", { a: { work: { kind: "wait", forMs: 9 } } })).open(),
  completed: () => new Play(planOf("a")).open().end("a", ok()),
  // In doubt: the only failure that a person can settle.
  failed: () => new Play(planOf("a", { a: { once: true } })).open().end("a", lost),
  skipped: () => new Play(planOf("a", { a: { when: "false" } })).open(),
  abandoned: () => {
    const play = new Play(planOf("a")).open().end("a", bad);
    return play.open({ type: "rewind-requested", step: "a" });
  },
};

const ANSWER = { choice: "Y", by: "ann@laptop", from: "command", given: 1 } as const;

function stepEvent(type: string, attempts: number): RunEvent {
  const attempt = type === "step.started" ? attempts + 1 : attempts;
  const events: Readonly<Record<string, RunEvent>> = {
    "step.started": { type: "step.started", ...at, attempt },
    "step.completed": { type: "step.completed", ...at, attempt, exit: 0, ...NOTHING },
    "step.failed": {
      type: "step.failed",
      ...at,
      attempt,
      reason: "exit",
      message: "m",
      arrows: [],
    },
    "step.lost": { type: "step.lost", ...at, attempt, message: "m" },
    "step.paused": { type: "step.paused", ...at, attempt, reason: "quota", message: "m" },
    "step.session": { type: "step.session", ...at, attempt, session: "s" },
    "step.interrupted": { type: "step.interrupted", ...at, attempt, message: "m" },
    "step.unsettled": {
      type: "step.unsettled",
      ...at,
      attempt,
      cause: "lost",
      message: "m",
      asks: "probe",
    },
    "step.probed": { type: "step.probed", ...at, attempt, answer: "unknown", message: "m" },
    "step.settled": { type: "step.settled", ...at, attempt, as: "done", by: "ann@laptop" },
    "step.asked": { type: "step.asked", ...at, attempt, question: "Go?", ...QUESTION },
    "step.answered": { type: "step.answered", ...at, attempt, ...ANSWER },
    "step.skipped": { type: "step.skipped", ...at, arrows: [] },
    "step.granted": { type: "step.granted", ...at, attempts: 1 },
  };
  return events[type] as RunEvent;
}

const STEP_EVENTS = [
  "step.started",
  "step.completed",
  "step.failed",
  "step.lost",
  "step.paused",
  "step.session",
  "step.interrupted",
  "step.unsettled",
  "step.probed",
  "step.settled",
  "step.asked",
  "step.answered",
  "step.skipped",
  "step.granted",
] as const;

function apply(play: Play, event: RunEvent): void {
  const recorded = { seq: play.run.seq + 1, time: play.now, version: EVENT_VERSION, event };
  play.run = evolve(play.planOf, play.run, recorded);
}

describe("a visit that is", () => {
  const pairs = (Object.keys(REACH) as VisitStatus[]).flatMap((status) =>
    STEP_EVENTS.map((type) => ({ status, type })),
  );
  it.each(pairs)("$status meets $type", ({ status, type }) => {
    const play = REACH[status]();
    const visit = play.run.scopes.get("")?.steps[0]?.visits[0];
    expect(visit?.state.status).toBe(status);
    const event = stepEvent(type, visit?.attempts ?? 0);
    const allowed = VISIT_TRANSITIONS[status][type];
    if (allowed === undefined) {
      expect(() => apply(play, event)).toThrow(/illegal event/);
      return;
    }
    apply(play, event);
    expect(allowed).toContain(visit?.state.status);
  });
});

describe("a run that is", () => {
  const reach: Readonly<Record<keyof typeof RUN_TRANSITIONS, () => Play>> = {
    created: REACH.ready,
    running: REACH.running,
    stopping: () => REACH.running().tell({ type: "stop-requested", mode: "after-step", by: "x" }),
    stopped: REACH.interrupted,
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
  const event = stepEvent("step.completed", 1);
  const recorded = { seq: play.run.seq + 2, time: 0, version: EVENT_VERSION, event };
  expect(() => evolve(play.plan, play.run, recorded)).toThrow(/cannot follow/);
  expect(() => apply(play, stepEvent("step.completed", 7))).toThrow(/attempt 7 is not 1/);
  const elsewhere = { ...event, step: "nobody" } as RunEvent;
  expect(() => apply(play, elsewhere)).toThrow(/not there/);
  expect(currentVisit(play.run.scopes.get("")?.steps[0])?.state.status).toBe("running");
});
