/** The bundles of a long run: each needs only those before it, and they do not become too many. */
import * as fs from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { ShippedSnapshots } from "../../src/app/fleet/shipped-snapshots.ts";
import type { Run } from "../../src/core/run.ts";
import { runDirOf, stateDirOf } from "../../src/engine/state-dir.ts";
import { WORKSPACE_DEFAULT } from "../../src/plan/build.ts";
import { readBundle } from "../../src/workspace/snapshot/bundle.ts";
import { takeSnapshot } from "../../src/workspace/snapshot/snapshot.ts";
import { hasCommit, listRefs, REFS } from "../../src/workspace/snapshot/store.ts";
import { gitProject, open, scratch, write } from "../workspace/rig.ts";

const SNAPSHOTS = 55;

it("bundles are merged into one now and then, and stay readable in their order (S4)", async () => {
  const project = gitProject({ "a.txt": "a\n" });
  const { store, workspace } = await open(project);
  const stateDir = store.stateDir;
  const dir = runDirOf({ ...stateDirOf(project), root: stateDir }, "r1");
  const run = { id: "r1", created: { cwd: project } } as unknown as Run;
  const kept = { plan: WORKSPACE_DEFAULT, dir, stateDir, run: () => run };
  const nothing = { names: "", bundles: [], first: [], base: [] };
  const shipped = new ShippedSnapshots(kept, nothing);
  const stored = new Map<string, string>();
  const place = scratch();
  let most = 0;
  for (let at = 1; at <= SNAPSHOTS; at++) {
    write(project, { [`${at % 7}.txt`]: `${at}\n` });
    // Most names are used again, so that what they named before is nowhere any more.
    const name = at % 5 === 0 ? `kept-${at}` : "moving";
    await takeSnapshot(workspace, { ref: `${REFS}r1/${name}`, message: name });
    const { parts, removed, done } = await shipped.parts();
    for (const part of parts) {
      if (!("file" in part)) continue;
      const file = join(place, part.path.replaceAll("/", "-"));
      fs.copyFileSync(part.file, file);
      stored.set(part.path, file);
    }
    for (const path of removed) stored.delete(path);
    done();
    most = Math.max(most, stored.size);
  }
  expect(most).toBe(50);
  expect(stored.size).toBeLessThan(10);
  expect((await shipped.parts()).parts).toEqual([]);
  const other = await open(scratch());
  for (const path of [...stored.keys()].toSorted()) {
    await readBundle(other.store, stored.get(path) ?? "");
  }
  for (const { commit } of await listRefs(store)) {
    expect(await hasCommit(other.store, commit)).toBe(true);
  }
});
