/** A moved run has the paths of its new place, whatever state it was in. */
import { expect, it } from "vitest";
import { EVENT_VERSION, type EventOf } from "../../src/core/event.ts";
import { evolve } from "../../src/core/evolve.ts";
import { movedPath } from "../../src/core/move.ts";
import { currentVisit } from "../../src/core/run.ts";
import { planOf } from "./plans.ts";
import { Play } from "./play.ts";

const MOVE = { from: "/old/place", to: "/new" };

it("maps what lies below the old place, and nothing else", () => {
  expect(movedPath(MOVE, "/old/place")).toBe("/new");
  expect(movedPath(MOVE, "/old/place/a/b")).toBe("/new/a/b");
  expect(movedPath(MOVE, "/old/placebo")).toBe("/old/placebo");
  expect(movedPath(MOVE, "/tmp/x")).toBe("/tmp/x");
});

it("moves the paths of a run, and has the project's files put back where that was asked for", () => {
  const play = new Play(planOf("a>b")).open();
  const output = { path: "/old/place/out", sha256: "s", bytes: 1 };
  const outputs = { out: output, far: { ...output, path: "/tmp/x" } };
  play.end("a", { how: "exited", exit: 0, context: {}, outputs });
  play.tell({ type: "placed", workspace: { kind: "worktree", path: "/old/place/w" } });
  const moved: EventOf<"run.moved"> = {
    type: "run.moved",
    ...MOVE,
    commit: "c1",
    files: "restore",
  };
  const at = { seq: play.run.seq + 1, time: play.now, version: EVENT_VERSION };
  const run = evolve(play.plan, play.run, { ...at, event: moved });
  expect(currentVisit(run.scopes.get("")?.steps[0])?.state).toMatchObject({
    outputs: { out: { path: "/new/out" }, far: { path: "/tmp/x" } },
  });
  expect(run.workspace).toEqual({ kind: "worktree", path: "/new/w" });
  expect(run.snapshot).toBe("c1");
  expect(run.restoring).toBeUndefined();
});

it("keeps the project's files where that was asked for", () => {
  for (const files of ["keep", "restore"] as const) {
    const play = new Play(planOf("a")).open();
    const at = { seq: play.run.seq + 1, time: play.now, version: EVENT_VERSION };
    const event: EventOf<"run.moved"> = { type: "run.moved", ...MOVE, commit: "c1", files };
    const run = evolve(play.plan, play.run, { ...at, event });
    const restoring = { commit: "c1", since: run.seq, moved: true };
    expect(run.restoring).toEqual(files === "restore" ? restoring : undefined);
  }
});
