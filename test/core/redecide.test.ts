/** Decisions made again: none differs on our own journals, and a planted change is found (G3, G4). */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { EVENT_VERSION, type Recorded, type RunEvent } from "../../src/core/event.ts";
import type { Ending } from "../../src/core/fact.ts";
import { type Redecided, redecide } from "../../src/core/redecide.ts";
import { graphsIn } from "../../src/plan/graph-index.ts";
import type { EachWork, Graph, Plan } from "../../src/plan/plan.ts";
import { type Outcome, plansOf, RUN_ID, simulate } from "../sim/simulate.ts";
import { graphOf, planOf } from "./plans.ts";
import { bad, lost, ok, Play } from "./play.ts";

/** `npm run sim` decides every one of its seeds again. */
const SEEDS = 100;
const SEEDS_CHANGED = 300;

/** The events of a play as a journal has them, each in a turn of its own. */
function recordedOf(play: Play): readonly Recorded[] {
  return play.events.map((event, index) => ({
    seq: index + 1,
    time: 1_000,
    version: EVENT_VERSION,
    event,
  }));
}

function again(play: Play, events: readonly Recorded[] = recordedOf(play)): Redecided {
  return redecide(play.plan, play.run.id, events);
}

/** A copy in which one event is another. */
function planted(
  events: readonly Recorded[],
  type: RunEvent["type"],
  change: object,
): readonly Recorded[] {
  const index = events.findLastIndex(({ event }) => event.type === type);
  return events.map((recorded, at) =>
    at === index ? { ...recorded, event: { ...recorded.event, ...change } } : recorded,
  );
}

const nothing = { differences: [], undecided: [] };

describe("no decision differs", () => {
  it("in simulated runs with crashes, losses, loops, fan-out, rewinds and budgets", async () => {
    for (let seed = 1; seed <= SEEDS; seed++) {
      const outcome = await simulate(seed);
      const { recorded } = outcome;
      const { differences, refused, undecided } = redecide(plansOf(outcome), RUN_ID, recorded);
      // What a probe or a person said, what a failed attempt handed on, and what agents were using at
      // a moment is not in the journal.
      const known = /a probe or a person|the attempt handed on|agents were using/;
      const needs = undecided.filter((one) => !known.test(one.needs));
      expect({ seed, differences, refused, needs }).toEqual({ seed, differences: [], needs: [] });
    }
  });

  it("where an attempt ends in any other way", () => {
    const endings: readonly Ending[] = [
      { how: "timed-out", limit: "idle", message: "silent" },
      { how: "reined", reason: "stall", message: "stalled" },
      { how: "not-started", reason: "spawn", message: "no" },
      { how: "not-started", reason: "expression", message: "no value" },
      {
        how: "exited",
        exit: 0,
        outputs: {},
        context: {},
        problem: { reason: "check", message: "" },
      },
      { how: "paused", reason: "rate-limit", message: "busy", retryAfterMs: 77 },
      { how: "paused", reason: "server", message: "busy" },
      { how: "stopped", message: "stopped" },
      { ...ok(), fromStream: true } as Ending,
      lost,
    ];
    const spent = { inputTokens: 1, cachedTokens: 0, outputTokens: 1, turns: 1 };
    const retry = {
      attempts: 2,
      backoff: { initialMs: 100, factor: 2, maxMs: 300, jitter: 0.5 },
      onResume: "fresh",
    } as const;
    for (const once of [false, true]) {
      for (const ending of endings) {
        const play = new Play(planOf("a>b a!>c", { a: { once, retry } })).open();
        play.end("a", { ...ending, spent });
        expect(again(play)).toMatchObject(nothing);
      }
    }
  });

  it("in conversations that are begun, asked, handed over, shared and lost", () => {
    const work = { kind: "agent", agent: "x", prompt: "p", session: "s", settings: {} } as const;
    const checkpoint = { path: "c", sha256: "", bytes: 1 };
    for (const found of [true, false]) {
      for (const fresh of ["new", undefined]) {
        const play = new Play(planOf("a>b", { a: { work }, b: { work } }));
        const offer = fresh === undefined ? { found } : { found, fresh };
        play.around = { env: {}, offer: () => offer };
        play.open().end("a", lost);
        for (let ask = 0; ask < 3; ask++) {
          play.end("a", { how: "asked", ask: { kind: "relay", why: "it is full" } });
        }
        play.end("a", { how: "relayed", checkpoint }).end("a").finish();
        expect(play.status).toBe("completed");
        expect(again(play)).toMatchObject(nothing);
      }
    }
  });

  it("where the agent does not do what it is asked for", () => {
    for (const kind of ["relay", "correct"] as const) {
      const work = { kind: "agent", agent: "x", prompt: "p", settings: {} } as const;
      const play = new Play(planOf("a", { a: { work } }));
      play.around = { env: {}, offer: () => ({ found: true, fresh: "n" }) };
      play.open();
      for (let ask = 0; ask < 4; ask++) play.end("a", { how: "asked", ask: { kind, why: "no" } });
      expect(play.status).toBe("failed");
      expect(again(play)).toMatchObject(nothing);
    }
  });
});

describe("what the journal does not hold", () => {
  it("is named, and the rest is decided again", () => {
    const play = new Play(planOf("a>b b>c", { b: { when: 'env.CI == "1"' } }));
    play.around = { env: { CI: "1" }, offer: () => undefined };
    play.open().finish();
    const seq = play.types().indexOf("step.completed") + 2;
    expect(again(play)).toEqual({
      events: play.events.length,
      decided: play.events.length - 2,
      differences: [],
      undecided: [{ seq, needs: "env CI" }],
    });
  });

  it("is named for a condition that failed for want of a variable", () => {
    const play = new Play(planOf("a", { a: { when: "env.NOBODY_HAS_IT > 1" } })).open();
    expect(play.status).toBe("failed");
    expect(again(play).undecided.map(({ needs }) => needs)).toEqual([
      "env NOBODY_HAS_IT",
      "env NOBODY_HAS_IT",
    ]);
    expect(again(play).differences).toEqual([]);
  });

  it("is what agents were using when a budget was used up under way", () => {
    const play = new Play(planOf("a")).open();
    play.tell({ type: "stop-requested", mode: "after-turn", by: "the budget: $2.00 of $1.00" });
    expect(again(play).undecided).toEqual([
      { seq: 4, needs: "what agents were using at that moment" },
    ]);
  });
});

describe("a planted change is found:", () => {
  const twice = {
    retry: {
      attempts: 2,
      backoff: { initialMs: 100, factor: 2, maxMs: 300, jitter: 0 },
      onResume: "fresh",
    },
  } as const;

  it("an arrow that was not followed", () => {
    const play = new Play(planOf("a>b a>c")).open().finish();
    const first = recordedOf(play).filter(({ seq }) => seq <= 4);
    const found = again(play, planted(first, "step.completed", { arrows: [0] }));
    expect(found.differences[0]).toEqual({
      seq: 4,
      time: 1_000,
      at: "step.completed a@1.1",
      field: "arrows",
      recorded: [0],
      now: [0, 1],
    });
  });

  it("a retry that was not granted, and one that came too late", () => {
    const play = new Play(planOf("a", { a: twice })).open().end("a", bad);
    const events = recordedOf(play);
    const none = again(play, planted(events, "step.failed", { retry: undefined }));
    expect(none.differences[0]).toMatchObject({ field: "retry", now: { at: 1_100, delayMs: 100 } });
    expect(none.differences[0]).not.toHaveProperty("recorded");
    const late = again(play, planted(events, "step.failed", { retry: { at: 9_000, delayMs: 8 } }));
    expect(late.differences[0]).toMatchObject({ recorded: { at: 9_000, delayMs: 8 } });
  });

  it("a condition that was true, and a plan that has changed under the run", () => {
    const skipped = new Play(planOf("a>b", { b: { when: "false" } })).open().finish();
    const plan = (when: string): Plan => planOf("a>b", { b: { when } });
    const [first] = redecide(plan("true"), "run", recordedOf(skipped)).differences;
    expect(first).toMatchObject({
      field: "event",
      recorded: "step.skipped b@1",
      now: "step.started b@1.1",
    });
    const broken = redecide(plan("1"), "run", recordedOf(skipped)).differences;
    expect(broken[0]).toMatchObject({ now: "step.started b@1.1" });
  });

  it("a failure at the start that would not happen now", () => {
    const play = new Play(planOf("a", { a: { when: "context.x" } })).open();
    const message = "in `true`: it has no value";
    const events = planted(recordedOf(play), "step.failed", { message });
    const found = redecide(planOf("a", { a: { when: "true" } }), "run", events);
    expect(found.differences[0]).toMatchObject({ field: "event", recorded: "step.failed" });
    const fan = { kind: "each", items: "input", graph: graphOf("x"), maxParallel: 1 } as const;
    const each = { ...fan, onItemFailure: "fail" } as const;
    const many = new Play(planOf("a", { a: { work: each } }), 7).open();
    const listed = { ...each, items: "[1]" };
    const [first] = redecide(
      planOf("a", { a: { work: listed } }),
      "run",
      recordedOf(many),
    ).differences;
    expect(first).toMatchObject({ field: "items", now: [1] });
  });

  it("a step that today would have started beside the other", () => {
    const play = new Play(planOf("a b", {}, { maxParallel: 1 })).open();
    play.now = 2_000;
    play.end("a").end("b");
    const times = [1_000, 1_000, 1_000, 2_000, 2_000, 3_000, 3_000];
    const events = recordedOf(play).map((recorded, index) => ({
      ...recorded,
      time: times[index] ?? 0,
    }));
    expect(again(play, events)).toMatchObject(nothing);
    const wider = { ...play.plan, maxParallel: 2 };
    expect(redecide(wider, "run", events).differences).toEqual([
      { seq: 4, time: 1_000, at: "step.completed a@1.1", field: "next", now: "start b@1" },
    ]);
    const cut = again(play, events.slice(0, 4));
    expect(cut.differences).toMatchObject([{ at: "the end", field: "next", now: "start b@1" }]);
  });

  it("a step that today would have had to wait", () => {
    const play = new Play(planOf("a b")).open();
    const narrow = { ...play.plan, maxParallel: 1 };
    const [first] = redecide(narrow, "run", recordedOf(play)).differences;
    expect(first).toMatchObject({ at: "step.started b@1.1", field: "next", recorded: "start b@1" });
  });

  it("in any choice of any simulated run", async () => {
    const changed = new Set<string>();
    for (let seed = 1; seed <= SEEDS_CHANGED; seed++) {
      const outcome = await simulate(seed);
      const { recorded } = outcome;
      for (const [index, { event, seq }] of recorded.entries()) {
        for (const [field, value] of Object.entries(changesOf(event))) {
          if (field === "items" && findsItems(outcome, event)) continue;
          const copy = recorded.slice(0, index + 1);
          copy[index] = {
            ...(recorded[index] as Recorded),
            event: { ...event, [field]: value },
          };
          const { differences, refused, undecided } = redecide(plansOf(outcome), RUN_ID, copy);
          // What a probe or a person said of an effect is not in the journal.
          if (undecided.some((one) => one.seq === seq)) continue;
          const seen = differences.some((one) => one.field === field) || refused?.seq === seq;
          expect({ seed, seq, field, seen }).toEqual({ seed, seq, field, seen: true });
          changed.add(`${event.type}.${field}`);
        }
      }
    }
    expect([...changed].sort()).toEqual([
      "run.rewound.assumed",
      "run.rewound.reopened",
      "step.completed.arrows",
      "step.failed.arrows",
      "step.failed.retry",
      "step.granted.attempts",
      "step.lost.retry",
      "step.skipped.arrows",
      "step.started.items",
    ]);
  });
});

/** Other values for the choices in an event that it would also be legal to record. */
/** Whether the items of a fan-out were found outside the run, so that they are no choice. */
function findsItems({ plans }: Outcome, event: RunEvent): boolean {
  const globs = ({ steps }: Graph): boolean =>
    steps.some(
      ({ id, work }) =>
        ("step" in event && id === event.step && work.kind === "each" && isGlob(work.items)) ||
        graphsIn(work).some(globs),
    );
  return [...plans.values()].some(({ graph }) => globs(graph));
}

function isGlob(items: EachWork["items"]): boolean {
  return typeof items !== "string" && "glob" in items;
}

function changesOf(event: RunEvent): Readonly<Record<string, unknown>> {
  switch (event.type) {
    case "step.completed":
    case "step.skipped":
      return event.arrows.length === 0 ? {} : { arrows: event.arrows.slice(1) };
    case "step.failed":
      if (event.arrows.length > 0) return { arrows: [] };
      return event.retry === undefined ? {} : { retry: undefined };
    case "step.lost":
      return event.retry === undefined ? {} : { retry: undefined };
    case "step.granted":
      return { attempts: event.attempts + 1 };
    case "step.started":
      return event.items === undefined ? {} : { items: [...event.items, "more"] };
    case "run.rewound":
      return { reopened: [], ...(event.assumed.length > 0 ? { assumed: [] } : {}) };
    default:
      return {};
  }
}

describe("an event that cannot follow (C5)", () => {
  it("ends the walk with its number and the reason", () => {
    const play = new Play(planOf("a>b")).open().finish();
    const events = recordedOf(play);
    const at = events.findIndex(({ event }) => event.type === "step.completed");
    const doubled = events.toSpliced(at, 0, events[at] as Recorded);
    const numbered = doubled.map((recorded, index) => ({ ...recorded, seq: index + 1 }));
    const { refused, events: read } = again(play, numbered);
    expect(refused).toEqual({
      seq: at + 2,
      at: "step.completed a@1.1",
      message: "illegal event: step.completed for a@1, which is completed",
    });
    expect(read).toBe(at + 2);
  });

  it("is found in a journal of an older version, whose events were never a run", () => {
    const file = join(import.meta.dirname, "../journals/v1.json");
    const { run } = JSON.parse(readFileSync(file, "utf8")) as { run: { events: Recorded[] } };
    const found = redecide(planOf("plan>implement implement>release setup"), "run", run.events);
    expect(found.refused).toEqual({
      seq: 3,
      at: "step.started implement@1.1",
      message: "illegal event: step.started for implement@1, which is not there",
    });
  });
});
