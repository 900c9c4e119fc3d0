/** Recorded facts go through today's core again: no difference on our own runs, a planted one is found. */
import { describe, expect, it } from "vitest";
import type { Recorded, RunEvent } from "../../src/core/event.ts";
import type { Fact } from "../../src/core/fact.ts";
import { replayTurns } from "../../src/core/replay.ts";
import { decodeTurns, encodeTurns, TURNS_KEPT_MAX, TurnLog } from "../../src/core/turn.ts";
import type { Plan } from "../../src/plan/plan.ts";
import { plansOf, RUN_ID, simulate } from "../sim/simulate.ts";
import { planOf } from "./plans.ts";
import { bad, ok, Play } from "./play.ts";

/** `npm run sim` replays every one of its seeds. */
const SEEDS = 25;

/** A copy in which the last event of a type is another. */
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

describe("no turn differs (replay/G2)", () => {
  it("in simulated runs with crashes, losses, loops, fan-out, rewinds and budgets", async () => {
    for (let seed = 1; seed <= SEEDS; seed++) {
      const outcome = await simulate(seed);
      const { difference, taken } = replayTurns(plansOf(outcome), RUN_ID, outcome.recorded);
      expect({ seed, difference, taken }).toEqual({ seed, taken: 0 });
    }
  });

  it("where a condition reads a secret, whose value is in no text (turn/T2)", () => {
    const secret = "hunter2-hunter2";
    for (const when of [`env.TOKEN == "${secret}x"`, 'env.TOKEN != ""', "env.TOKEN"]) {
      const play = new Play(planOf("a>b b>c", { b: { when } }));
      play.around = { env: { TOKEN: secret }, offer: () => undefined };
      play.open().finish();
      expect(play.replayed()).toMatchObject({ events: play.events.length, taken: 0 });
      expect(play.replayed()).not.toHaveProperty("difference");
      expect(JSON.stringify(play.recorded)).not.toContain(secret);
    }
  });

  it("where agents used up the budget under way", () => {
    const play = new Play(planOf("a>b", {}, { budget: { turns: 2 } })).open();
    const [visit] = play.run.running;
    const at = { scope: "", step: "a", visit: 1, attempt: visit?.attempts ?? 1 };
    const spent = { inputTokens: 1, cachedTokens: 0, outputTokens: 1 };
    play.tell({ type: "spending", at, spent: { ...spent, turns: 1 } });
    play.tell({ type: "spending", at, spent: { ...spent, turns: 3 } });
    expect(play.types()).toContain("run.stopping");
    expect(play.replayed()).toMatchObject({ taken: 0 });
    expect(play.replayed()).not.toHaveProperty("difference");
  });
});

describe("a difference is found:", () => {
  const retry = {
    attempts: 2,
    backoff: { initialMs: 100, factor: 2, maxMs: 300, jitter: 0 },
    onResume: "fresh",
  } as const;

  it("an edge that was not followed", () => {
    const play = new Play(planOf("a>b a>c")).open().end("a");
    const events = planted(play.recorded, "step.completed", { edges: [0] });
    expect(play.replayed([...events])).toMatchObject({
      events: 4,
      difference: {
        seq: 4,
        time: 1_000,
        at: "step.completed a@1.1",
        field: "edges",
        recorded: [0],
        now: [0, 1],
      },
    });
  });

  it("a retry that was not granted", () => {
    const play = new Play(planOf("a", { a: { retry } })).open().end("a", bad);
    const events = planted(play.recorded, "step.failed", { retry: undefined });
    const { difference } = play.replayed([...events]);
    expect(difference).toMatchObject({ field: "retry", now: { at: 1_100, delayMs: 100 } });
    expect(difference).not.toHaveProperty("recorded");
  });

  it("another plan: a condition, more room, less room", () => {
    const play = new Play(planOf("a>b", { b: { when: "false" } })).open().finish();
    const with_ = (plan: Plan): unknown => play.replayed(play.recorded, () => plan).difference;
    expect(with_(planOf("a>b", { b: { when: "true" } }))).toMatchObject({
      field: "event",
      recorded: "step.skipped b@1",
      now: "step.started b@1.1",
    });
    const both = new Play(planOf("a b", {}, { maxParallel: 1 })).open();
    const wider = { ...both.plan, maxParallel: 2 };
    expect(both.replayed(both.recorded, () => wider).difference).toMatchObject({
      seq: 4,
      field: "event",
      now: "step.started b@1.1",
    });
    const beside = new Play(planOf("a b")).open();
    const narrow = { ...beside.plan, maxParallel: 1 };
    expect(beside.replayed(beside.recorded, () => narrow).difference).toMatchObject({
      at: "step.started b@1.1",
      field: "event",
      recorded: "step.started b@1.1",
    });
  });

  it("an event that cannot follow", () => {
    const play = new Play(planOf("a>b")).open().finish();
    const [created, ...others] = play.recorded;
    const doubled = [created, created, ...others].map((one, index) => ({ ...one, seq: index + 1 }));
    const { difference } = play.replayed(doubled as Recorded[]);
    expect(difference?.now).toMatch(/^refused: /);
  });
});

describe("the text of turns (turn/T1)", () => {
  const at = { scope: "", step: "a", visit: 1, attempt: 1 };
  const answer = { text: "x".repeat(10_000), list: [1, "two", null] };
  const noPlan = (): Plan => planOf("a");

  it("holds a large value of a fact and its event once, and gives it back", () => {
    const context = { note: "y".repeat(100) };
    const ending = { how: "exited", exit: 0, outputs: {}, context, answer } as const;
    const facts: Fact[] = [{ type: "process-ended", at, ending }];
    const events: RunEvent[] = [
      {
        type: "step.completed",
        ...at,
        exit: 0,
        outputs: {},
        context,
        answer,
        edges: [],
      },
      { type: "run.completed" },
    ];
    const turns = [{ time: 7, facts }];
    const text = encodeTurns({ turns }, events);
    expect(text.length).toBeLessThan(400);
    expect(decodeTurns(text, { events, time: 7 }, noPlan)).toEqual({ turns });
  });

  it("holds a value that no event has as it is, whatever it looks like", () => {
    const facts: Fact[] = [
      { type: "process-ended", at, ending: ok({ same: [{ of: [0], is: [0] }] }) },
    ];
    const text = encodeTurns({ turns: [{ time: 1, facts }] }, [{ type: "run.completed" }]);
    expect(decodeTurns(text, { events: [], time: 1 }, noPlan)).toEqual({
      turns: [{ time: 1, facts }],
    });
  });

  it("names the plan of an update, and holds it not", () => {
    const play = new Play(planOf("a>b")).open().end("a").finish();
    play.update(planOf("a>b b>c")).open().finish();
    expect(play.status).toBe("completed");
    expect(JSON.stringify(play.recorded)).not.toContain("maxParallel");
    expect(play.replayed()).not.toHaveProperty("difference");
  });
});

describe("turns without events", () => {
  const none = { events: [], operations: [] };
  const ended = { events: [{ type: "run.completed" } as const], operations: [] };
  const spending = (turns: number, attempt = 1): Fact => {
    const at = { scope: "", step: "a", visit: 1, attempt };
    return {
      type: "spending",
      at,
      spent: { inputTokens: 1, cachedTokens: 0, outputTokens: 1, turns },
    };
  };
  const kept = (log: TurnLog): readonly (readonly Fact[])[] => {
    const text = log.add({ time: 9, facts: [] }, ended) ?? "";
    return decodeTurns(text, { events: [], time: 9 }, () => planOf("a")).turns.map(
      ({ facts }) => facts,
    );
  };

  it("are kept with the next events, but for those that changed nothing", () => {
    const log = new TurnLog();
    expect(log.add({ time: 1, facts: [spending(1)] }, none)).toBeUndefined();
    log.add({ time: 2, facts: [spending(2)] }, none);
    log.add({ time: 3, facts: [] }, none);
    log.add({ time: 4, facts: [spending(1, 2)] }, none);
    log.add({ time: 5, facts: [] }, { events: [], operations: ["snapshot"] });
    expect(kept(log)).toEqual([[spending(2)], [spending(1, 2)], [], []]);
    expect(kept(log)).toEqual([[]]);
  });

  it("that are too many leave a gap, until the next owner", () => {
    const play = new Play(planOf("a>b")).open();
    for (let turn = 0; turn <= TURNS_KEPT_MAX; turn++) {
      play.tell({
        type: "session-known",
        at: { scope: "", step: "z", visit: 1, attempt: 1 },
        session: "s",
      });
    }
    play.end("a");
    const { difference, taken } = play.replayed();
    expect({ difference, taken }).toEqual({ taken: 2 });
    play.open().end("b");
    expect(play.status).toBe("completed");
    expect(play.replayed()).toMatchObject({ events: play.events.length, taken: 2 });
  });
});
