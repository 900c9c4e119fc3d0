/**
 * Workers are killed wherever they ship or fetch, together with their steps; every second time their
 * machine is gone, too. Others then complete the run, and what is left equals an uninterrupted run:
 * files, commits, outputs. No step that was recorded as completed runs again.
 *
 * Each failpoint is struck once, in the middle of the run; PERDURE_CRASH_ALL=1 strikes it every time that it is passed.
 */
import * as fs from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { listRefs, openStore } from "../../src/workspace/snapshot/store.ts";
import { CRASH_ALL } from "../rig/crash-all.ts";
import { type KillPlace, killAtEach } from "../rig/kill-walk.ts";
import { WALK_MS } from "../rig/patience.ts";
import { Hold, type Result } from "../rig/project.ts";
import { contentOf, userGit } from "../workspace/rig.ts";
import { FleetProject, initGit } from "./fleet-project.ts";
import { openTestStore } from "./test-store.ts";

/** The failpoints of shipping and fetching; those of steps and snapshots have walks of their own. */
const OURS = /^(ship|fetch|blobs|repository|import)\.|^workspace\.bundle/;

/** Text of the pipeline. */
function pipeline(): string {
  return `name: walk
workspace: worktree
steps:
  - { id: one, outputs: { app: out/app }, run: "echo 1 >> a.txt; echo app > \\"$PERDURE_OUTPUT_APP\\"; ${fleet.effect("one")}" }
  - { id: left, needs: one, workspace: own, run: "echo l > l; ${fleet.effect("left")}" }
  - { id: right, needs: one, workspace: own, run: "echo r > r; ${fleet.effect("right")}" }
  - { id: last, needs: [left, right], run: "cat l r \${{ outputs.one.app }} > all; ${fleet.effect("last")}" }
`;
}

interface Remains {
  readonly files: Readonly<Record<string, string>>;
  readonly commits: readonly string[];
  readonly tree: string;
}

let fleet: FleetProject;
beforeEach(() => {
  fleet = new FleetProject();
});
afterEach(() => fleet.remove());

function remainsAt(worker: string, id: string): Remains {
  const repository = fleet.at(worker, id);
  const branch = `perdure/${id.slice(0, 8)}`;
  const place = join(repository, ".perdure", "runs", id, "workspace");
  return {
    files: contentOf(place),
    commits: userGit(repository, "log", "--format=%s", branch).trim().split("\n").toSorted(),
    tree: userGit(repository, "rev-parse", `${branch}^{tree}`).trim(),
  };
}

/** Runs a worker with a log of the failpoints that it passes. */
async function walk(
  worker: string,
  id: string,
  place: string | undefined,
): Promise<{ readonly result: Result; readonly passed: readonly string[] }> {
  const log = join(fleet.fleet, `failpoints-${worker}`);
  const env: Record<string, string> = { PERDURE_FAILPOINT_LOG: log };
  if (place !== undefined) env.PERDURE_FAILPOINT = place;
  const result = await fleet.driven(worker, id, env);
  const passed = fs.readFileSync(log, "utf8").split("\n").slice(0, -1);
  fs.rmSync(log);
  return { result, passed };
}

it("a run completes wherever its workers are killed", { timeout: WALK_MS }, async () => {
  initGit(fleet.dir);
  fleet.write("p.yaml", pipeline());
  const id = await fleet.submitted();
  const template = join(fleet.fleet, "template");
  fs.cpSync(fleet.storePath, template, { recursive: true });
  const { result, passed } = await walk("one", id, undefined);
  expect(result.stdout, result.stderr).toBe("completed\n");
  const remains = remainsAt("one", id);
  expect(remains.commits).toHaveLength(5);
  let kills = 0;
  await killAtEach(struckAmong(passed), async (body) => {
    for (const worker of ["one", "two"]) fleet.destroy(worker);
    fs.rmSync(fleet.storePath, { recursive: true });
    fs.cpSync(template, fleet.storePath, { recursive: true });
    fs.rmSync(fleet.path("effects"), { force: true });
    let worker = "one";
    await body({
      drive: async (place, where) => {
        const driven = await walk(worker, id, place);
        if (driven.result.signal !== "SIGKILL") {
          expect(driven.result.stdout, `${where}: ${driven.result.stderr}`).toBe("completed\n");
          return undefined;
        }
        await fleet.killStepsOf(id);
        if (kills % 2 === 0) fleet.destroy(worker);
        if (kills % 4 < 2) worker = worker === "one" ? "two" : "one";
        kills++;
        return driven.passed.at(-1);
      },
      check: async (where) => {
        expect(remainsAt(worker, id), where).toEqual(remains);
        await expectOnce(id, where);
      },
    });
  });
});

it("a step starts again whose machine died before the step had files of its own", async () => {
  initGit(fleet.dir);
  const [left, right] = [fleet.effect("left"), fleet.effect("right")];
  fleet.write(
    "p.yaml",
    `workspace: worktree
steps:
  - { id: left, needs: [], workspace: own, run: "echo l > l; ${left}" }
  - { id: right, needs: [], workspace: own, run: "echo r > r; ${right}" }
`,
  );
  const id = await fleet.submitted();
  const template = join(fleet.fleet, "template");
  fs.cpSync(fleet.storePath, template, { recursive: true });
  const { passed } = await walk("one", id, undefined);
  fleet.destroy("one");
  fs.rmSync(fleet.storePath, { recursive: true });
  fs.cpSync(template, fleet.storePath, { recursive: true });
  fs.rmSync(fleet.path("effects"));
  // In the middle of the first snapshot, for which both steps wait.
  expect(passed).toContain("workspace.tree-written");
  expect((await walk("one", id, "workspace.tree-written:1")).result.signal).toBe("SIGKILL");
  fleet.destroy("one");
  const types = (await (await fleet.store()).log.load(id)).events.map(({ event }) => event.type);
  expect(types.slice(-2)).toEqual(["step.started", "step.started"]);
  const again = await walk("two", id, undefined);
  expect(again.result.stdout, again.result.stderr).toBe("completed\n");
  expect(fleet.effects()).toEqual({ left: 1, right: 1 });
});

it("the next machine commits what a destroyed one had not, even while another step runs again", async () => {
  initGit(fleet.dir);
  const hold = new Hold(join(fleet.dir, "hold-right"));
  fleet.write(
    "p.yaml",
    `name: walk
workspace: worktree
steps:
  - { id: left, needs: [], workspace: own, run: "echo l > l; ${fleet.effect("left")}" }
  - { id: right, needs: [], workspace: own, run: "echo r > r; ${hold.command}; ${fleet.effect("right")}" }
`,
  );
  const id = await fleet.submitted();
  // The completion of the first step is recorded; its commit is not made.
  const env = { PERDURE_FAILPOINT: "workspace.work-added:1" };
  const first = fleet.worker("one", id, env);
  await hold.arrived();
  expect((await first.ended).signal).toBe("SIGKILL");
  await fleet.killStepsOf(id);
  fleet.destroy("one");
  const second = fleet.worker("two", id);
  await hold.release();
  const { stdout, stderr } = await second.ended;
  expect(stdout, stderr).toBe("completed\n");
  expect(remainsAt("two", id).commits).toEqual(["first", "walk: left", "walk: right"]);
  expect(fleet.effects()).toEqual({ left: 1, right: 1 });
});

it("a lost step is judged by its own files, not by what another machine could not record", async () => {
  const run = `echo a > a.txt; ${fleet.effect("work")}`;
  fleet.write("p.yaml", `workspace: directory\nsteps: [{ id: work, run: "${run}" }]\n`);
  const id = await fleet.submitted();
  // The machine has the snapshot of a step that has ended, stores it, and is lost before it records it.
  for (const failpoint of ["workspace.after:2", "ship.put:1"]) {
    const { signal } = await fleet.driven("one", id, { PERDURE_FAILPOINT: failpoint });
    expect(signal, failpoint).toBe("SIGKILL");
  }
  await fleet.killStepsOf(id);
  fleet.destroy("one");
  const directory = await fleet.fetched("two", id);
  const snapshots = await openStore({
    project: directory,
    stateDir: join(directory, ".perdure"),
  });
  const commits = new Map((await listRefs(snapshots)).map(({ ref, commit }) => [ref, commit]));
  const named = (when: string) => commits.get(`refs/perdure/${id}/work@1.1/${when}`);
  expect(named("unrecorded")).toEqual(expect.any(String));
  // The files that the next machine has: those before the step, or newer ones that were shipped since.
  const shipped = [...commits].flatMap(([ref, commit]) => (ref.includes("/export/") ? commit : []));
  expect([named("before"), ...shipped]).toContain(named("after"));
  const { result } = await walk("two", id, undefined);
  expect(result.stdout, result.stderr).toBe("completed\n");
  expect(fleet.effects()).toEqual({ work: 2 });
});

/** The failpoints to strike: each one in the middle of its occurrences. */
function struckAmong(passed: readonly string[]): readonly KillPlace[] {
  const places = passed.flatMap((name, index) =>
    OURS.test(name) ? [{ name, nth: index + 1 }] : [],
  );
  if (CRASH_ALL) return places;
  const byName = [...Map.groupBy(places, ({ name }) => name).values()];
  expect(byName.length).toBeGreaterThan(15);
  return byName.flatMap((same) => same[Math.floor(same.length / 2)] ?? []);
}

/** Each step completed once, and ran no more often than it was lost. */
async function expectOnce(id: string, where: string): Promise<void> {
  const store = await openTestStore(fleet.storePath);
  const { events } = await store.log.load(id);
  await store.close();
  const counts: Record<string, number> = {};
  for (const { event } of events) {
    if (event.type === "step.completed") counts[event.step] = (counts[event.step] ?? 0) + 1;
  }
  expect(counts, where).toEqual({ one: 1, left: 1, right: 1, last: 1 });
  for (const [step, count] of Object.entries(fleet.effects())) {
    const started = events.filter(
      ({ event }) => event.type === "step.started" && event.step === step,
    );
    expect(count, `${where}: ${step}`).toBeLessThanOrEqual(started.length);
  }
}
