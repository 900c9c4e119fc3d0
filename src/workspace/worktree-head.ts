/**
 * What is checked out in a run's own worktree, which is restored together with the files.
 *
 * Owns: moving it, and the branch that is checked out with it.
 * Does not: touch a file. Commits that are left behind are kept by the snapshots that were taken
 * while they were checked out.
 */
import { failpoint } from "../util/failpoint.ts";
import { readSnapshot } from "./details.ts";
import { git } from "./git.ts";
import { type Head, headOf } from "./head.ts";
import { findRepository, theirs } from "./repository.ts";
import { giveBack, type SnapshotStore } from "./store.ts";
import { commitOf, holderOf } from "./worktree-list.ts";

/**
 * Checks out, without touching files, the branch and the commit that were checked out at a snapshot.
 * A step that commits would find its work committed already otherwise.
 */
export async function restoreHead(
  store: SnapshotStore,
  path: string,
  snapshot: string,
): Promise<void> {
  const { head } = (await readSnapshot(store, snapshot)).details;
  if (head !== undefined) await moveHead(store, path, head);
}

/** Checks out a branch at a commit without touching files. */
export async function moveHead(store: SnapshotStore, path: string, wanted: Head): Promise<void> {
  const now = await headOf(path);
  if (now?.commit === wanted.commit && now.branch === wanted.branch) return;
  const repository = await findRepository(path);
  if (repository === undefined) return;
  await giveBack(store, repository, wanted.commit);
  const { branch } = wanted;
  const name = branch?.replace(/^refs\/heads\//, "");
  const isFree = name !== undefined && holderOf(repository, name) === undefined;
  if (now?.branch !== branch) {
    // A branch that is gone, or that somebody else has by now, is not taken from them.
    const exists = branch !== undefined && (await commitOf(repository, branch)) !== undefined;
    if (exists && isFree) await git(theirs(path), "symbolic-ref", "HEAD", branch);
    else await git(theirs(path), "update-ref", "--no-deref", "HEAD", wanted.commit);
    failpoint("workspace.head-switched");
  }
  await git(theirs(path), "reset", "-q", "--mixed", wanted.commit);
  failpoint("workspace.head-moved");
}
