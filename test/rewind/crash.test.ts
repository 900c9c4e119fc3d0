/**
 * `rewind` and `fork` killed at their failpoints: whole or not at all, and the user's files
 * untouched.
 */
import * as fs from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { CRASH_ALL } from "../rig/crash-all.ts";
import { WALK_MS } from "../rig/patience.ts";
import { type MadeRun, MadeRuns, type Repo } from "./rig.ts";

/** More failpoints than either passes. */
const FAILPOINTS_MAX = 400;
/** Each kill is followed by a whole run, so not every failpoint is visited. */
const STRIDE = CRASH_ALL ? 1 : 25;
const WHOLE = { "log.txt": "one\na\nb\nc\n", "a.txt": "a\n", "c.txt": "c\n" };

const RUNS = new MadeRuns();

/** The completed run that each test begins with. */
function completed(): Promise<MadeRun> {
  return RUNS.again("completed", (repo) => repo.made("sequential", "worktree"));
}

/** Kills a command at a failpoint, by its number or name; false when it got through. */
async function killed(
  repo: Repo,
  place: number | string,
  ...args: readonly string[]
): Promise<boolean> {
  const log = repo.project.path("failpoints");
  fs.rmSync(log, { force: true });
  const env = { PERDURE_FAILPOINT: String(place), PERDURE_FAILPOINT_LOG: log };
  const { signal, exit, stderr } = await repo.project.run(args, { cwd: repo.dir, env });
  if (signal !== "SIGKILL") expect({ exit, stderr }).toEqual({ exit: 0, stderr: "" });
  return signal === "SIGKILL";
}

it("a rewind that is killed anywhere is done by the next one", { timeout: WALK_MS }, async () => {
  const { repo, id, own } = await completed();
  let rounds = 1;
  for (let nth = 1; ; nth += STRIDE) {
    expect(nth).toBeLessThan(FAILPOINTS_MAX);
    const died = await killed(repo, nth, "rewind", id, "b");
    if (died) await repo.must("rewind", id, "b");
    const where = `killed at failpoint ${nth}`;
    expect(repo.files("worktree", id), where).toEqual({ "log.txt": "one\na\n", "a.txt": "a\n" });
    rounds++;
    await repo.must("resume", id, "--quiet");
    expect(repo.effects(), where).toEqual({ a: 1, b: rounds, c: rounds });
    expect(repo.files("worktree", id), where).toEqual(WHOLE);
    expect(repo.own(), where).toEqual(own);
    expect(repo.fsck(), where).toBe("");
    if (!died) break;
  }
  expect(rounds).toBeGreaterThan(2);
});

it("a rewind that is killed continues with `resume` as well", { timeout: WALK_MS }, async () => {
  const { repo, id } = await completed();
  for (let nth = 3; ; nth += STRIDE * 3) {
    const died = await killed(repo, nth, "rewind", id, "b");
    await repo.must("resume", id, "--quiet");
    const { a, b, c } = repo.effects();
    expect([a, b], `killed at failpoint ${nth}`).toEqual([1, c]);
    expect(repo.files("worktree", id), `killed at failpoint ${nth}`).toEqual(WHOLE);
    if (!died) break;
  }
  expect(await repo.must("doctor")).toContain("the journal is intact");
});

it("a fork that is killed is there whole, or not at all", { timeout: WALK_MS }, async () => {
  const { repo, id, own } = await completed();
  const there = repo.files("worktree", id);
  const outcomes = new Set<string>();
  // The failpoints that a whole one passes; the first command is not killed.
  let places: readonly (number | string)[] = [0];
  for (let turn = 0; turn < places.length; turn++) {
    const before = repo.ids();
    const where = `killed at failpoint ${places[turn]}`;
    const died = await killed(repo, places[turn] ?? "", "fork", id, "--at", "b");
    expect(died, where).toBe(turn > 0);
    if (!died) {
      const passed = repo.project.read("failpoints").trim().split("\n");
      const names = [...new Set(passed)].map((name) => `${name}:1`);
      places = [0, ...(CRASH_ALL ? passed.map((_, index) => index + 1) : names)];
    }
    const made = repo.ids().filter((one) => !before.includes(one));
    outcomes.add(`${died ? "killed" : "done"}, ${made.length} made`);
    for (const fork of made) {
      const { b = 0 } = repo.effects();
      await repo.must("resume", fork, "--quiet");
      expect(repo.effects(), where).toEqual({ a: 1, b: b + 1, c: b + 1 });
      expect(repo.files("worktree", fork), where).toEqual(WHOLE);
    }
    expect(repo.files("worktree", id), where).toEqual(there);
    expect(repo.own(), where).toEqual(own);
    expect(repo.fsck(), where).toBe("");
  }
  expect([...outcomes].toSorted()).toEqual(["done, 1 made", "killed, 0 made", "killed, 1 made"]);
  expect(await repo.must("doctor")).toContain("the journal is intact");
});

it("a fork is rebuilt with its lineage when the journal is lost", {
  timeout: WALK_MS,
}, async () => {
  const { repo, id } = await completed();
  await repo.must("fork", id, "--at", "b");
  const [fork = ""] = repo.ids();
  const database = join(repo.dir, ".perdure", "state.db");
  for (const suffix of ["", "-wal", "-shm"]) fs.rmSync(database + suffix, { force: true });
  await repo.must("doctor", "--repair");
  const runs = JSON.parse(await repo.must("list", "--output", "json")) as {
    pipeline_id: string;
    forked_from: { run_id: string } | null;
  }[];
  expect(runs.map((run) => [run.pipeline_id, run.forked_from?.run_id])).toEqual([
    [fork, id],
    [id, undefined],
  ]);
  await repo.must("resume", fork, "--quiet");
  expect(repo.files("worktree", fork)).toEqual(WHOLE);
});
