/** A fork in the pure core: what it has of the other run, and what it must not have. */
import { expect, it } from "vitest";
import { EVENT_VERSION, type EventOf, type Recorded } from "../../src/core/event.ts";
import { evolve, replay } from "../../src/core/evolve.ts";
import { attemptOf, type Run } from "../../src/core/run.ts";
import type { AgentSettings, Plan, Work } from "../../src/plan/plan.ts";
import { planOf } from "./plans.ts";
import { OWNER, ok, Play } from "./play.ts";

const SETTINGS: AgentSettings = {};
const conversation: Work = {
  kind: "agent",
  agent: "x",
  prompt: "p",
  session: "shared",
  settings: SETTINGS,
};
const SPENT = { inputTokens: 5, cachedTokens: 0, outputTokens: 7, turns: 1, costUsd: 0.5 };
const FROM = { run: "other", seq: 1 };

/** The run of a play under another id, cut loose from it. */
function forked(play: Play, event: Partial<EventOf<"run.forked">> = {}): Run {
  const recorded = play.events.map(
    (one, index): Recorded => ({ seq: index + 1, time: 1_000, version: EVENT_VERSION, event: one }),
  );
  const run = replay(play.plan, "fork", recorded);
  return evolve(play.plan, run, {
    seq: run.seq + 1,
    time: 2_000,
    version: EVENT_VERSION,
    event: { type: "run.forked", from: FROM, ...event },
  });
}

function talking(plan: Plan): Play {
  const play = new Play(plan);
  play.around = { env: {}, offer: () => ({ fresh: "session-1", found: true }) };
  return play.open();
}

it("adopts no attempt: what ran is ready, and its number is not used again", () => {
  const play = new Play(planOf("a b")).open();
  expect(play.running()).toEqual(["a", "b"]);
  const run = forked(play);
  expect([run.running.size, run.waiting.slot.size, run.state.status]).toEqual([0, 2, "stopped"]);
  const again = new Play(play.plan);
  again.run = run;
  again.tell({ type: "opened", owner: OWNER, epoch: 9 });
  expect(again.launched).toEqual(["a@1.2", "b@1.2"]);
});

it("continues with no conversation of the other run, and the money still counts", () => {
  const play = talking(planOf("a>b", { a: { work: conversation }, b: { work: conversation } }));
  play.end("a", { ...ok(), spent: SPENT });
  expect([...play.running()]).toEqual(["b"]);
  const run = forked(play);
  const [b] = run.waiting.slot;
  expect(b?.conversation?.session).toBeUndefined();
  expect([...run.shared.values()].filter(({ left }) => left !== true)).toEqual([]);
  expect(run.spent).toEqual(SPENT);
  const again = new Play(play.plan);
  again.run = run;
  again.around = {
    env: {},
    offer: (_, session) => ({ fresh: "session-2", found: session !== undefined }),
  };
  again.tell({ type: "opened", owner: OWNER, epoch: 9 });
  const started = again.events.findLast(({ type }) => type === "step.started");
  expect(started).toMatchObject({ conversation: { kind: "start", session: "session-2" } });
});

it("has no workspace but remembers what the other one's began with, and puts its files first", () => {
  const workspace = { kind: "worktree", path: "/w", branch: "b", base: "c0" } as const;
  const play = new Play(planOf("a>b")).open({ type: "placed", workspace });
  play.end("a");
  const run = forked(play, { restore: "c1" });
  expect(run.workspace).toBeUndefined();
  expect(run.origin).toEqual({ ...FROM, base: "c0" });
  expect(run.restoring).toMatchObject({ commit: "c1" });
  const again = new Play(play.plan);
  again.run = run;
  again.tell({ type: "opened", owner: OWNER, epoch: 9 });
  expect([again.operations("rewind-files")[0]?.commit, again.launched]).toEqual(["c1", []]);
  again.tell({ type: "restored", commit: "c1" });
  expect(again.launched).toEqual(["b@1.2"]);
});

it("lets a stop after the step wait for the files, and a stop at once not", () => {
  const make = (): Play => {
    const play = new Play(planOf("a>b")).open().finish();
    return play.open({ type: "rewind-requested", step: "b", restore: "c1" });
  };
  const patient = make();
  expect(patient.operations("rewind-files")).toMatchObject([{ commit: "c1" }]);
  patient.tell({ type: "stop-requested", mode: "after-step", by: "x" });
  expect(patient.status).toBe("stopping");
  patient.tell({ type: "restored", commit: "c1", aside: "c2" });
  expect([patient.status, patient.running()]).toEqual(["stopped", []]);
  const hasty = make().tell({ type: "stop-requested", mode: "now", by: "x" });
  expect([hasty.status, hasty.run.restoring?.commit]).toEqual(["stopped", "c1"]);
});

it("takes what a person chose for each visit, once", () => {
  const workspace = { kind: "worktree", include: [], snapshots: true, snapshotEveryMs: 1 } as const;
  const play = new Play(planOf("a", {}, { workspace })).open();
  const cut = (): void => {
    const [visit] = play.run.running;
    if (visit === undefined) throw new Error("nothing runs");
    play.tell({ type: "based", at: attemptOf(visit), base: "c0" });
    play.tell({ type: "stop-requested", mode: "now", by: "x" });
    play.end("a", { how: "stopped", message: "x" });
  };
  cut();
  play.tell({ type: "opened", owner: OWNER, epoch: 2, choices: { "a@1": "continue" } });
  expect(play.events.at(-1)).toEqual({
    type: "step.started",
    scope: "",
    step: "a",
    visit: 1,
    attempt: 2,
  });
  cut();
  play.tell({ type: "opened", owner: OWNER, epoch: 3 });
  expect(play.events.at(-1)).toMatchObject({ attempt: 3, base: "c0", restore: true });
});
