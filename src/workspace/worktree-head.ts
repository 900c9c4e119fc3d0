/**
 * The branch of a run's own worktree, which goes back together with the files.
 *
 * Owns: moving it.
 * Does not: touch a file, or any branch that is not the run's. The commits that it leaves behind are
 * kept by the snapshots that were taken while it stood there.
 */
import { failpoint } from "../util/failpoint.ts";
import { readSnapshot } from "./details.ts";
import { git } from "./git.ts";
import { headOf } from "./head.ts";
import { theirs } from "./repository.ts";
import type { SnapshotStore } from "./store.ts";

/**
 * Puts a branch back to the commit that was checked out at a snapshot. A step that commits would find
 * its work committed already otherwise.
 */
export async function moveHead(
  store: SnapshotStore,
  place: { readonly path: string; readonly branch: string },
  snapshot: string,
): Promise<void> {
  const { head: wanted } = (await readSnapshot(store, snapshot)).details;
  const now = await headOf(place.path);
  const ours = now?.branch === `refs/heads/${place.branch}`;
  if (wanted === undefined || !ours || now.commit === wanted.commit) return;
  await git(theirs(place.path), "reset", "-q", "--mixed", wanted.commit);
  failpoint("workspace.head-moved");
}
