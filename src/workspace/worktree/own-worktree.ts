/**
 * The workspace of a single step: in a project with git, a worktree on a branch of its own, so that
 * the step can commit, compare and read the history.
 *
 * Owns: making it with exactly the files of a snapshot, removing it without losing commits, and
 * moving its HEAD, which is restored together with the files.
 * Does not: merge the changes of the step (the engine does, from snapshots), or choose names.
 * Snapshots keep the commits that were checked out when they were taken.
 *
 * - own-worktree/V1 It counts as made when its files equal the snapshot; after an earlier kill it
 *   is made again from the start.
 * - own-worktree/V2 Its branch outlives the directory while it has commits that no other branch
 *   has.
 */
import { existsSync } from "node:fs";
import { mkdir, readdir, rename, symlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { failpoint } from "../../util/failpoint.ts";
import { absent, kindAt } from "../disk.ts";
import { durably, git, gitAmongWorktrees } from "../git.ts";
import {
  findRepository,
  type Head,
  headOf,
  pathWithin,
  type Repository,
  theirs,
} from "../repository.ts";
import { readSnapshot } from "../snapshot/details.ts";
import { restoreSnapshot } from "../snapshot/restore.ts";
import { returnCommit, type SnapshotStore } from "../snapshot/store.ts";
import type { Workspace } from "../snapshot/workspace.ts";
import { connectWorktree, createWorktree, uniqueCommits } from "./worktree.ts";
import { commitOf, holderOf, listWorktrees, removeEntry } from "./worktree-list.ts";

/** The directory of one step or instance, whether it exists or not. */
interface OwnDirectory {
  readonly store: SnapshotStore;
  /** The directory in which the run was started. */
  readonly project: string;
  /** The directory of the step. */
  readonly path: string;
  /** The branch's short name. */
  readonly branch: string;
  /** Opens the directory as a workspace. */
  readonly open: (path: string) => Promise<Workspace>;
}

/**
 * Makes the directory of a step with the files of a snapshot; an existing one is kept or restored.
 */
export async function makeOwnDirectory(
  own: OwnDirectory,
  snapshot: string,
  how: "as-it-is" | "restored",
): Promise<void> {
  const { store, path } = own;
  const { repository } = store;
  const { head } = (await readSnapshot(store, snapshot)).details;
  // A link leads to a part of a worktree.
  const isDirectory = (await kindAt(dirname(path), basename(path))) === "directory";
  const isPlain = isDirectory && (await kindAt(path, ".git")) === undefined;
  const isBegun = isPlain && ((await readdir(path).catch(absent)) ?? []).length > 0;
  if (repository === undefined || head === undefined || isBegun) {
    return makePlainDirectory(own, snapshot, how);
  }
  const prefix = await pathWithin(repository, own.project);
  const top = prefix === "" ? path : `${path}~top`;
  const inside = join(top, prefix);
  if (await connectWorktree(repository, top)) {
    if (how === "restored") await restoreOwn(own, inside, snapshot);
  } else await makeOwnWorktree(own, { repository, top, inside, snapshot, head: head.commit });
  // The directory has the same name wherever the project is in its repository.
  if (prefix !== "" && !existsSync(path)) await symlink(inside, path);
  failpoint("workspace.own-made");
}

async function makeOwnWorktree(
  own: OwnDirectory,
  made: {
    readonly repository: Repository;
    readonly top: string;
    readonly inside: string;
    readonly snapshot: string;
    readonly head: string;
  },
): Promise<void> {
  const { repository, top, inside, snapshot, head } = made;
  const { store, branch } = own;
  await returnCommit(store, repository, head);
  // Commits of an attempt whose directory is missing stay on the branch; the files are restored.
  const base = (await commitOf(repository, `refs/heads/${branch}`)) ?? head;
  const fill = async (): Promise<void> => {
    await mkdir(inside, { recursive: true });
    if (base !== head) await git(theirs(top), "reset", "-q", "--hard", head);
    await restoreSnapshot(await own.open(inside), snapshot);
    failpoint("workspace.own-filled");
  };
  await createWorktree({ repository, path: top, branch, base, fill });
}

async function restoreOwn(own: OwnDirectory, path: string, snapshot: string): Promise<void> {
  await restoreSnapshot(await own.open(path), snapshot);
  await moveOwnHead(own, path, snapshot);
}

/** Moves to the commit of the snapshot, on the branch of the step, not on that of the run. */
async function moveOwnHead(
  { store, branch }: OwnDirectory,
  path: string,
  snapshot: string,
): Promise<void> {
  const { head } = (await readSnapshot(store, snapshot)).details;
  if (head === undefined) return;
  await moveHead(store, path, { commit: head.commit, branch: `refs/heads/${branch}` });
}

/** Without git: a directory with only the files. */
async function makePlainDirectory(
  { path, open }: OwnDirectory,
  snapshot: string,
  how: "as-it-is" | "restored",
): Promise<void> {
  const there = existsSync(path);
  if (there && how === "as-it-is") return;
  const target = there ? path : `${path}.partial`;
  await mkdir(target, { recursive: true, mode: 0o700 });
  await restoreSnapshot(await open(target), snapshot);
  failpoint("workspace.own-filled");
  if (!there) await rename(target, path);
  failpoint("workspace.own-made");
}

/**
 * Removes the worktrees below a directory; branches with commits of their own stay
 * (own-worktree/V2).
 */
export async function removeOwnWorktrees(
  repository: Repository,
  { below, branches }: { readonly below: string; readonly branches: string },
): Promise<void> {
  for (const one of listWorktrees(repository)) {
    if (dirname(one.path) === below) await removeEntry(one);
  }
  failpoint("workspace.own-removed");
  const call = theirs(repository.commonDir);
  const flags = ["--format=%(refname:short)", `refs/heads/${branches}*`];
  const names = (await git(call, "for-each-ref", ...flags)).stdout.toString("utf8").split("\n");
  for (const name of names.filter((one) => one !== "")) {
    if ((await uniqueCommits(repository, name)) > 0) continue;
    await gitAmongWorktrees(call, "branch", "-q", "-D", "--", name);
  }
}

/**
 * Checks out a branch at a commit without changing files. Otherwise a step that commits would find
 * its work already committed.
 */
export async function moveHead(store: SnapshotStore, path: string, wanted: Head): Promise<void> {
  const now = await headOf(path);
  if (now?.commit === wanted.commit && now.branch === wanted.branch) return;
  const repository = await findRepository(path);
  if (repository === undefined) return;
  await returnCommit(store, repository, wanted.commit);
  const { branch } = wanted;
  const call = await durably(theirs(path));
  const name = branch?.replace(/^refs\/heads\//, "");
  const isFree = name !== undefined && holderOf(repository, name) === undefined;
  if (now?.branch !== branch) {
    // A branch that is missing, or that another worktree has, is not used.
    const exists = branch !== undefined && (await commitOf(repository, branch)) !== undefined;
    if (exists && isFree) await git(call, "symbolic-ref", "HEAD", branch);
    else await git(call, "update-ref", "--no-deref", "HEAD", wanted.commit);
    failpoint("workspace.head-switched");
  }
  await git(call, "reset", "-q", "--mixed", wanted.commit);
  failpoint("workspace.head-moved");
}
