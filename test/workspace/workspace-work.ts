/** Works on a workspace; workspace-process.ts does it in a process that tests kill. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { findRepository } from "../../src/workspace/repository.ts";
import { applyChanges } from "../../src/workspace/snapshot/apply.ts";
import { mergeSnapshots } from "../../src/workspace/snapshot/merge.ts";
import { restoreSnapshot } from "../../src/workspace/snapshot/restore.ts";
import { takeSnapshot } from "../../src/workspace/snapshot/snapshot.ts";
import { dropRefs, listRefs, openStore, packStore } from "../../src/workspace/snapshot/store.ts";
import { openWorkspace, type Workspace } from "../../src/workspace/snapshot/workspace.ts";
import { createWorktree, removeWorktree } from "../../src/workspace/worktree/worktree.ts";
import { commitOf } from "../../src/workspace/worktree/worktree-list.ts";

async function worktreePlace(project: string): Promise<Parameters<typeof removeWorktree>[0]> {
  const repository = await findRepository(project);
  if (repository === undefined) throw new Error("no repository");
  return {
    repository,
    path: join(project, ".perdure", "runs", "r1", "tree"),
    branch: "perdure/r1",
  };
}

/** Does what the words say; gives what it made. */
export async function workOn(...words: readonly string[]): Promise<string> {
  const [what = "", project = "", first = "", second = "", third = ""] = words;
  const stateDir = join(project, ".perdure");
  if (what === "worktree") {
    const place = await worktreePlace(project);
    await createWorktree({ ...place, base: first, include: [".env"] });
    return (await commitOf(place.repository, place.branch)) ?? "no branch";
  }
  if (what === "remove-worktree") {
    await removeWorktree(await worktreePlace(project));
    return "removed";
  }
  const store = await openStore({ project, stateDir });
  if (what === "merge") {
    const options = { base: first, ours: second, theirs: third, message: "merge", at: 1000 };
    return (await mergeSnapshots(store, { ...options, ref: "refs/perdure/r1/merged" })).tree;
  }
  if (what === "drop") {
    await dropRefs(
      store,
      (await listRefs(store)).map(({ ref }) => ref),
    );
    return "dropped";
  }
  if (what === "pack") {
    await packStore(store);
    return "packed";
  }
  const indexFile = join(stateDir, "runs", "r1", "index");
  const workspace = await openWorkspace(store, { path: project, indexFile });
  if (what === "snapshot") {
    return (await takeSnapshot(workspace, { ref: first, message: "a snapshot" })).tree;
  }
  if (what === "apply") {
    return JSON.stringify(
      (await applyChanges(workspace, { from: first, to: second })).changedMeanwhile,
    );
  }
  if (what === "loop") return loop(project, workspace, first);
  if (what === "restore") return String((await restoreSnapshot(workspace, first)).exact);
  throw new Error(`unknown: ${what}`);
}

/** Changes, snapshots and restores until it is killed. */
async function loop(project: string, workspace: Workspace, commit: string): Promise<never> {
  for (let n = 0; ; n++) {
    writeFileSync(join(project, "a.txt"), `changed ${n}\n`);
    writeFileSync(join(project, `new-${n}.txt`), "n\n");
    await takeSnapshot(workspace, { ref: "refs/perdure/r1/loop", message: "m" });
    console.log("taken");
    await restoreSnapshot(workspace, commit);
    console.log("restored");
  }
}
