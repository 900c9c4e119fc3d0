/** A copy of a run's files for commands that only read it, and what `clean` leaves of a run. */
import * as fs from "node:fs";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { cleanRuns } from "../../src/app/clean.ts";
import { refreshCopy } from "../../src/app/fleet/reading-copy.ts";
import { loadRun } from "../../src/app/loaded-run.ts";
import { stateDirOf } from "../../src/engine/state-dir.ts";
import { listRefs, openStore } from "../../src/workspace/snapshot/store.ts";
import { scratch, userGit } from "../workspace/rig.ts";
import { FleetProject, initGit } from "./fleet-project.ts";

let fleet: FleetProject;
beforeEach(() => {
  fleet = new FleetProject();
});
afterEach(() => fleet.remove());

it("a copy has the output, artifacts and snapshots of its run, is brought up to date, and is cleaned", async () => {
  const hold = fleet.hold("two");
  const remote = `${fleet.dir}-remote.git`;
  initGit(fleet.dir);
  userGit(fleet.dir, "clone", "-q", "--bare", fleet.dir, remote);
  userGit(fleet.dir, "remote", "add", "origin", `file://${remote}`);
  userGit(fleet.dir, "fetch", "-q", "origin");
  fleet.write(
    "p.yaml",
    `name: read
steps:
  - { id: one, outputs: { app: out/app }, run: "echo hello; echo app > \\"$PERDURE_OUTPUT_APP\\"" }
  - { id: two, run: "echo begun; ${hold.command}; echo ended" }
`,
  );
  const id = await fleet.submitted();
  const worker = fleet.worker("one", id);
  await hold.arrived();
  await fleet.shipped(id, "begun");
  const store = await fleet.store();
  const dir = stateDirOf(scratch());
  const copied = { store, runId: id, dir };
  const output = (attempt: string): string =>
    fs.readFileSync(join(dir.root, "runs", id, "attempts", attempt, "output.log"), "utf8");
  expect(await refreshCopy(copied)).toBe(true);
  expect([output("one@1.1"), output("two@1.1")]).toEqual(["hello\n", "begun\n"]);
  await hold.release();
  expect((await worker.ended).stdout).toBe("completed\n");
  // The repository of the person who asks has the base, so nothing is fetched from the remote.
  fs.rmSync(remote, { recursive: true });
  expect(await refreshCopy({ ...copied, snapshots: true, near: fleet.dir })).toBe(true);
  expect(output("two@1.1")).toBe("begun\nended\n");
  expect(await refreshCopy({ ...copied, snapshots: true })).toBe(false);
  const project = { dir, journal: store };
  const { events, run } = await loadRun(project, id);
  const snapshots = await openStore({ project: dirname(dir.root), stateDir: dir.root });
  const commits = new Set((await listRefs(snapshots)).map(({ commit }) => commit));
  expect(commits.has(run.snapshot ?? "")).toBe(true);
  const app = events.flatMap(({ event }) =>
    event.type === "step.completed" ? [event.outputs.app] : [],
  );
  const { sha256 = "" } = app[0] ?? {};
  const artifact = join(dir.root, "artifacts", sha256.slice(0, 2), sha256);
  expect(fs.readFileSync(artifact, "utf8")).toBe("app\n");

  await cleanRuns(project, [id], {}, () => undefined);
  const { files } = await store.files.changedSince(id, 0);
  expect(files.every(({ blobs }) => blobs === undefined)).toBe(true);
  const age = (Date.now() - 2 * 86_400_000) / 1000;
  const stored = fs.readdirSync(join(fleet.storePath, "blobs"), {
    recursive: true,
    withFileTypes: true,
  });
  const blobs = stored.filter((entry) => entry.isFile());
  for (const { parentPath, name } of blobs) fs.utimesSync(join(parentPath, name), age, age);
  expect(await store.blobs.removeUnused()).toBe(blobs.length);
  await expect(fleet.fetched("two", id)).rejects.toMatchObject({ code: "files-removed" });
});
