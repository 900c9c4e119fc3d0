/**
 * The choices of the engine: retries, losses, allowances, stops and going back (core/D1, core/D2,
 * operations/R2).
 */
import { describe, expect, it } from "vitest";
import { newActivity } from "../../src/core/activity.ts";
import { advance, EVENTS_PER_TURN } from "../../src/core/advance.ts";
import type { Ending } from "../../src/core/fact.ts";
import { Refusal } from "../../src/core/graph/rewind.ts";
import { planOf } from "./plans.ts";
import { bad, lost, OWNER, ok, Play } from "./play.ts";

const retry = (attempts: number, onResume: "fresh" | "keep" = "fresh") => ({
  retry: { attempts, backoff: { initialMs: 100, factor: 2, maxMs: 300, jitter: 0 }, onResume },
});

describe("retries", () => {
  it("waits longer each time, up to the limit", () => {
    const play = new Play(planOf("a", { a: retry(4) })).open();
    const delays: number[] = [];
    for (let failure = 0; failure < 3; failure++) {
      play.end("a", bad);
      delays.push((play.turn?.wakeAt ?? 0) - play.now);
      play.now = play.turn?.wakeAt ?? 0;
      play.tell();
    }
    play.end("a", bad);
    expect(delays).toEqual([100, 200, 300]);
    expect(play.status).toBe("failed");
    expect(play.launched).toEqual(["a@1.1", "a@1.2", "a@1.3", "a@1.4"]);
  });

  it("spreads delays by jitter, the same for the same attempt", () => {
    const jittered = {
      retry: { ...retry(2).retry, backoff: { ...retry(2).retry.backoff, jitter: 0.5 } },
    };
    const delay = (): number => {
      const play = new Play(planOf("a", { a: jittered })).open().end("a", bad);
      return (play.turn?.wakeAt ?? 0) - play.now;
    };
    expect(delay()).toBe(delay());
    expect(delay()).not.toBe(100);
    expect(delay()).toBeGreaterThanOrEqual(50);
    expect(delay()).toBeLessThanOrEqual(150);
  });

  it("does not wait longer than it meant to when the clock was set back", () => {
    const play = new Play(planOf("a", { a: retry(2) })).open().end("a", bad);
    play.now -= 1_000_000;
    play.open();
    expect((play.turn?.wakeAt ?? 0) - play.now).toBe(100);
  });

  it("gets a new allowance from a resume, on top of what was counted", () => {
    const play = new Play(planOf("a", { a: retry(2) })).open().finish(() => bad);
    expect(play.status).toBe("failed");
    play.open().finish(() => bad);
    expect(play.launched).toEqual(["a@1.1", "a@1.2", "a@1.3", "a@1.4"]);
  });

  it("gets none where the author keeps the budget", () => {
    const play = new Play(planOf("a", { a: retry(2, "keep") })).open().finish(() => bad);
    play.open();
    expect(play.status).toBe("failed");
    expect(play.launched).toHaveLength(2);
  });

  it("gets none from the resume of a run that was only interrupted", () => {
    const play = new Play(planOf("a b", { a: retry(1) })).open().end("a", bad);
    play.open();
    expect(play.running()).toEqual(["b"]);
  });
});

describe("losses", () => {
  it("do not use up the author's retries", () => {
    const play = new Play(planOf("a", { a: retry(1) })).open();
    for (let loss = 0; loss < 5; loss++) play.end("a", lost);
    play.end("a");
    expect(play.status).toBe("completed");
    expect(play.launched).toHaveLength(6);
  });

  it("are followed by longer and longer pauses, fresh after a resume", () => {
    const play = new Play(planOf("a")).open().finish(() => lost);
    const pauses = (): readonly (number | undefined)[] =>
      play.events.flatMap((event) => (event.type === "step.lost" ? [event.retry?.delayMs] : []));
    const [first, ...rest] = pauses();
    expect(first).toBe(0);
    expect(rest.pop()).toBeUndefined();
    const plain = [500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000];
    expect(rest).toHaveLength(plain.length);
    for (const [index, pause = 0] of rest.entries()) {
      expect(Math.abs(pause - (plain[index] ?? 0))).toBeLessThanOrEqual(0.2 * (plain[index] ?? 0));
    }
    play.open().end("a", lost);
    expect(pauses().at(-1)).toBe(0);
  });

  it("have a bound of their own", () => {
    const play = new Play(planOf("a")).open().finish(() => lost);
    expect(play.status).toBe("failed");
    expect(play.launched).toHaveLength(10);
  });
});

describe("pauses", () => {
  const busy: Ending = { how: "paused", reason: "rate-limit", message: "429" };

  it("wait longer each time, as long as the service asks, and use up no retries", () => {
    const play = new Play(planOf("a", { a: retry(1) })).open();
    const delays: number[] = [];
    for (const ending of [busy, busy, { ...busy, retryAfterMs: 42 }]) {
      play.end("a", ending);
      delays.push((play.turn?.wakeAt ?? 0) - play.now);
      play.now = play.turn?.wakeAt ?? 0;
      play.tell();
    }
    expect(delays).toEqual([5_000, 10_000, 42]);
    expect(play.end("a").status).toBe("completed");
  });

  it("are followed by longer and longer pauses, fresh after a resume", () => {
    const play = new Play(planOf("a")).open().finish(() => lost);
    const pauses = (): readonly (number | undefined)[] =>
      play.events.flatMap((event) => (event.type === "step.lost" ? [event.retry?.delayMs] : []));
    const [first, ...rest] = pauses();
    expect(first).toBe(0);
    expect(rest.pop()).toBeUndefined();
    const plain = [500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000];
    expect(rest).toHaveLength(plain.length);
    for (const [index, pause = 0] of rest.entries()) {
      expect(Math.abs(pause - (plain[index] ?? 0))).toBeLessThanOrEqual(0.2 * (plain[index] ?? 0));
    }
    play.open().end("a", lost);
    expect(pauses().at(-1)).toBe(0);
  });

  it("have a bound of their own", () => {
    const play = new Play(planOf("a", { a: retry(1) })).open().finish(() => busy);
    expect(play.status).toBe("failed");
    expect(play.launched).toHaveLength(50);
    expect(play.events.at(-2)).toMatchObject({ type: "step.paused" });
    play.open().end("a", busy);
    expect(play.run.waiting.retry.size).toBe(1);
  });
});

describe("conversations", () => {
  const agent = { work: { kind: "agent", agent: "x", prompt: "p", settings: {} } } as const;
  const started = (play: Play) =>
    play.events.flatMap((event) => (event.type === "step.started" ? [event.conversation] : []));
  const playing = (found: boolean, attempts = 1): Play => {
    const play = new Play(planOf("a", { a: { ...agent, ...retry(attempts) } }));
    let count = 0;
    play.around = { env: {}, offer: () => ({ fresh: `new-${++count}`, found }) };
    return play.open();
  };

  it("have their id in the journal before anything starts", () => {
    expect(started(playing(false))).toMatchObject([{ session: "new-1", kind: "start" }]);
  });

  it("are continued after a loss when they are there", () => {
    const play = playing(true).end("a", lost);
    expect(started(play).at(-1)).toMatchObject({ session: "new-1", kind: "continue" });
  });

  it("begin again under the same id when they left nothing", () => {
    const play = playing(false).end("a", lost);
    expect(started(play).at(-1)).toMatchObject({ session: "new-1", kind: "start" });
  });

  it("are continued after a failure", () => {
    const play = playing(true, 2).end("a", bad).finish();
    expect(started(play).at(-1)).toMatchObject({ session: "new-1", kind: "continue" });
  });

  it("are new when the remembered one is gone, at once and free of charge", () => {
    const gone: Ending = { how: "paused", reason: "session-gone", message: "no such session" };
    const play = playing(true).end("a", gone);
    expect(started(play).at(-1)).toMatchObject({ session: "new-2", kind: "start" });
    expect(play.end("a").status).toBe("completed");
  });

  it("are known by what the agent says, once", () => {
    const play = new Play(planOf("a", { a: agent })).open();
    const at = { scope: "", step: "a", visit: 1, attempt: 1 };
    const known = { type: "session-known", at, session: "its-own" } as const;
    play.tell(known, known);
    expect(play.types().filter((type) => type === "step.session")).toHaveLength(1);
    play.around = { env: {}, offer: () => ({ found: true }) };
    play.end("a", lost);
    expect(started(play).at(-1)).toMatchObject({ session: "its-own", kind: "continue" });
  });

  it("add up what they used, over attempts and losses", () => {
    const spent = { inputTokens: 5, cachedTokens: 1, outputTokens: 2, turns: 1, costUsd: 0.25 };
    const play = playing(true);
    play.end("a", { ...lost, spent }).end("a", { ...ok(), spent });
    expect(play.run.spent).toEqual({
      inputTokens: 10,
      cachedTokens: 2,
      outputTokens: 4,
      turns: 2,
      costUsd: 0.5,
    });
  });
});

describe("a budget", () => {
  const spent = { inputTokens: 60, cachedTokens: 0, outputTokens: 40, turns: 2, costUsd: 3 };
  const three = planOf("a>b b>c", {}, { budget: { usd: 5 } });

  it("stops the run where it is used up, before anything more is started", () => {
    const play = new Play(three).open().end("a", { ...ok(), spent });
    expect(play.running()).toEqual(["b"]);
    play.end("b", { ...ok(), spent });
    const reason = { code: "budget", limit: { kind: "usd", used: 6, of: 5 } };
    expect(play.run.state).toEqual({ status: "stopped", reason });
    expect(play.launched).toEqual(["a@1.1", "b@1.1"]);
  });

  it("counts what was spent before the kill, and continues when it is raised", () => {
    const play = new Play(three).open().end("a", { ...lost, spent });
    play.open();
    play.end("a", { ...ok(), spent });
    expect(play.status).toBe("stopped");
    expect(play.open().status).toBe("stopped");
    expect(play.launched).toEqual(["a@1.1", "a@1.2"]);
    play.open({ type: "funds-added", added: { usd: 5 } }).finish();
    expect(play.status).toBe("completed");
  });

  it("may be of tokens, turns or time", () => {
    for (const budget of [{ tokens: 100 }, { turns: 2 }, { timeMs: 50 }]) {
      const play = new Play(planOf("a>b", {}, { budget })).open();
      play.now += 50;
      play.end("a", { ...ok(), spent });
      expect(play.status).toBe("stopped");
    }
  });

  it("does not stop a run that is done", () => {
    const plan = planOf("a", {}, { budget: { usd: 1 } });
    expect(new Play(plan).open().end("a", { ...ok(), spent }).status).toBe("completed");
  });
});

describe("facts that come late or twice", () => {
  it("change nothing", () => {
    const play = new Play(planOf("a>b")).open();
    const at = { scope: "", step: "a", visit: 1, attempt: 1 };
    play.end("a");
    const before = play.events.length;
    play.tell({ type: "attempt-ended", at, ending: ok() });
    play.tell({ type: "attempt-ended", at, ending: lost });
    play.tell({ type: "dispatched", place: at });
    play.tell({ type: "attempt-ended", at: { ...at, step: "nobody" }, ending: ok() });
    expect(play.events).toHaveLength(before);
  });
});

it("a turn ends when it has made its share of events, however many gates wait", () => {
  const names = Array.from({ length: 2 * EVENTS_PER_TURN }, (_, index) => `g${index}`);
  const gate = { work: { kind: "gate", ask: "?", choices: [], text: "optional" } } as const;
  const play = new Play(planOf(names.join(" "), Object.fromEntries(names.map((id) => [id, gate]))));
  const opened = { type: "opened", owner: OWNER, epoch: 1 } as const;
  const activity = newActivity({ env: {}, keepsFiles: false });
  const turn = advance(play.plan, play.run, activity, [opened], 1_000);
  expect(turn.events.length).toBeLessThan(EVENTS_PER_TURN + 4);
  expect(turn.more).toBe(true);
});

describe("stopping", () => {
  it("ends what runs, starts nothing, and can be resumed", () => {
    const play = new Play(planOf("a>b")).open();
    play.tell({ type: "stop-requested", mode: "now", by: "SIGINT" });
    const at = { scope: "", step: "a", visit: 1, attempt: 1 };
    expect(play.operations("cancel")).toMatchObject([{ at, when: "now" }]);
    play.end("a", { how: "stopped", message: "stopped" });
    expect(play.status).toBe("stopped");
    play.open();
    expect(play.launched).toEqual(["a@1.1", "a@1.2"]);
  });

  it("lets running steps finish when asked to drain", () => {
    const play = new Play(planOf("a>b")).open();
    play.tell({ type: "stop-requested", mode: "after-step", by: "me" });
    expect(play.operations("cancel")).toEqual([]);
    play.end("a");
    expect(play.status).toBe("stopped");
    expect(play.launched).toEqual(["a@1.1"]);
  });

  it("is completed, not stopped, when nothing was left to do", () => {
    const play = new Play(planOf("a")).open();
    play.tell({ type: "stop-requested", mode: "after-step", by: "me" }).end("a");
    expect(play.status).toBe("completed");
  });
});

describe("going back", () => {
  const plan = planOf("a>b b>c a>d");

  it("runs a done step and all behind it again, and nothing else", () => {
    const play = new Play(plan).open().finish();
    play.open({ type: "retry-requested", step: "b" }).finish();
    expect(play.status).toBe("completed");
    expect(play.launched.slice(4)).toEqual(["b@2.1", "c@2.1"]);
  });

  it("gives a failed step another try in the same visit, and other failures theirs", () => {
    const play = new Play(planOf("a>b a>c")).open().end("a").end("b", bad).end("c", bad);
    play.open({ type: "retry-requested", step: "b", keep: true }).finish();
    expect(play.status).toBe("completed");
    expect(play.launched.slice(3)).toEqual(["c@1.2", "b@1.2"]);
    expect(play.events.filter(({ type }) => type === "step.granted")).toEqual([
      { type: "step.granted", scope: "", step: "c", visit: 1, attempts: 1 },
      { type: "step.granted", scope: "", step: "b", visit: 1, attempts: 1, files: "keep" },
    ]);
  });

  it("takes what lies before a step as done", () => {
    const play = new Play(plan).open().end("a", bad);
    play.open({ type: "rewind-requested", step: "c" }).finish();
    expect(play.status).toBe("completed");
    expect(play.launched).toEqual(["a@1.1", "d@1.1", "c@1.1"]);
    expect(play.events).toContainEqual({
      type: "run.rewound",
      step: "c",
      reopened: ["c"],
      assumed: ["a", "b"],
    });
  });

  it("goes one way where a step before it selects one, and starts nothing beside that", () => {
    const one = { split: "one" } as const;
    const gate = planOf("a>ship a>fix ship>end fix>a", { a: one });
    const play = new Play(gate).open().end("a", bad);
    play.open({ type: "rewind-requested", step: "ship" }).finish();
    expect(play.launched).toEqual(["a@1.1", "ship@1.1", "end@1.1"]);
    expect(play.status).toBe("completed");

    const meeting = planOf("a>b a>c b>d c>d", { a: one, d: { join: "any" } });
    const other = new Play(meeting).open().end("a", bad);
    other.open({ type: "rewind-requested", step: "d" }).finish();
    expect(other.launched).toEqual(["a@1.1", "d@1.1"]);
    expect(other.events).toContainEqual(expect.objectContaining({ assumed: ["a", "b"] }));
    expect([other.run.stepsDone, other.run.stepsTotal]).toEqual([4, 4]);
  });

  it("runs what is done no second time because the loop around it was", () => {
    const loop = planOf("a>b b>c b>x c>a?run.visit==1 c>d x>d", { c: { split: "one" } });
    const play = new Play(loop).open().end("a").end("b").end("x").end("c").end("a", bad);
    play.open({ type: "rewind-requested", step: "d" }).finish();
    expect(play.status).toBe("completed");
    expect(play.launched.slice(4)).toEqual(["a@2.1", "d@1.1"]);
  });

  it("refuses a step that is not there, or that cannot run yet", () => {
    const play = new Play(plan).open().end("a", bad);
    expect(() => play.open({ type: "rewind-requested", step: "x" })).toThrow(Refusal);
    const other = new Play(plan).open().end("a", bad);
    expect(() => other.open({ type: "retry-requested", step: "c" })).toThrow(
      /a before it is not done/,
    );
  });
});

it("takes a run over from a dead owner without losing its place", () => {
  const play = new Play(planOf("a>b")).open().end("a");
  play.tell({ type: "opened", owner: { ...OWNER, pid: 2 }, epoch: 2 });
  expect(play.running()).toEqual(["b"]);
  expect(play.launched).toEqual(["a@1.1", "b@1.1"]);
});
