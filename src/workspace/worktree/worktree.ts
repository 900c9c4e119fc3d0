/**
 * The directory in which a run works: a worktree on a branch of the user's repository, an empty
 * directory, or a copy of the project.
 *
 * Owns: making them completely or not at all; repairing and removing worktrees, and their state. A
 * copy has no `.git` and no state directory, but ignored files, because a project without its
 * installed packages does not run.
 * Does not: choose names, or restore files (restore.ts does, after a repair), or care which branch
 * or commit is checked out: the steps of a run may commit, switch and detach.
 *
 * workspace/T1 A worktree is ready when its mark is written. A worktree without the mark was never
 *   used, and is made again.
 * workspace/T2 An existing branch is used only if it is at the requested commit.
 * workspace/T3 A removal is refused while the branch has commits, or the directory has content,
 *   that exists nowhere else.
 */

import { constants, existsSync, type Stats } from "node:fs";
import * as fs from "node:fs/promises";
import { dirname, join } from "node:path";
import { assert } from "../../util/assert.ts";
import { failpoint } from "../../util/failpoint.ts";
import { absent, directoryOf, pathUnder, type RawPath, splitNul } from "../disk.ts";
import { git, gitAmongWorktrees, gitLine } from "../git.ts";
import { findRepository, headOf, type Repository, theirs } from "../repository.ts";
import { WorkspaceError } from "../workspace-error.ts";
import {
  commitOf,
  connect,
  entryOf,
  holderOf,
  isAt,
  isReady,
  listWorktrees,
  markReady,
  removeEntry,
  staleLocks,
} from "./worktree-list.ts";

interface WorktreeLocation {
  readonly repository: Repository;
  readonly path: string;
  /** The branch's short name, such as "perdure/1a2b3c4d". */
  readonly branch: string;
}

/** Makes a worktree on a new branch at `base`; can be killed anywhere and called again. */
export async function createWorktree(
  options: WorktreeLocation & {
    readonly base: string;
    /** Ignored files of the repository to copy: git's glob patterns. */
    readonly include?: readonly string[];
    /** Changes the files before the worktree counts as made. */
    readonly fill?: () => Promise<void>;
  },
): Promise<void> {
  const { repository, path, fill } = options;
  const base = await needBase(repository, options.base);
  if (await connectWorktree(repository, path)) return;
  await removeHalfMade(options);
  await needFreePath(path, "is to be a worktree of this run");
  await needBranchAt(options, base);
  await fs.mkdir(dirname(path), { recursive: true });
  await addWorktree(options);
  await copyIncluded(repository, path, options.include ?? []);
  await fill?.();
  failpoint("workspace.worktree-filled");
  const made = entryOf(repository, path);
  assert(made !== undefined, "git has made an entry for the worktree");
  await markReady(made.entry);
  failpoint("workspace.worktree-ready");
}

/**
 * Connects a complete worktree with its repository, also after a kill, or after the project was
 * moved or copied. False when there is none at this path.
 */
export async function connectWorktree(repository: Repository, path: string): Promise<boolean> {
  const listed = entryOf(repository, path);
  if (listed === undefined || !isReady(listed.entry)) return false;
  // A directory without the file `.git` is not this worktree.
  if ((await fs.stat(join(path, ".git")).catch(absent)) === undefined) return false;
  await connect(path, listed.entry);
  return true;
}

/** Removes a half-made worktree, and the lock on its branch. */
async function removeHalfMade({ repository, path, branch }: WorktreeLocation): Promise<void> {
  const listed = listWorktrees(repository).filter((one) => isAt(one, path));
  for (const one of listed) await removeEntry(one);
  // After an early kill, a directory contains only the file `.git`.
  const names = (await fs.readdir(path).catch(absent)) ?? [];
  if (names.length === 1 && names[0] === ".git") await fs.rm(path, { recursive: true });
  for (const lock of staleLocks(repository, path, branch)) await fs.rm(lock, { force: true });
}

/**
 * Makes a worktree again whose directory is missing, on its branch; without the branch, on a new
 * one at `tip`. The caller then restores the last snapshot.
 */
export async function repairWorktree(
  options: WorktreeLocation & { readonly tip: string; readonly include?: readonly string[] },
): Promise<void> {
  const { repository, branch } = options;
  const alive = await commitOf(repository, `refs/heads/${branch}`);
  await createWorktree({ ...options, base: alive ?? options.tip });
}

/** A worktree to remove; with `force` even if that loses work. */
interface WorktreeRemoval extends WorktreeLocation {
  readonly force?: boolean;
}

/**
 * Refuses a removal that would lose work (workspace/T3), or that cannot be done. Changes nothing.
 */
export async function checkRemoval(options: WorktreeRemoval): Promise<void> {
  const { repository, path, branch, force = false } = options;
  const tip = await commitOf(repository, `refs/heads/${branch}`);
  const held = tip === undefined ? undefined : holderOf(repository, branch);
  if (held !== undefined && held !== path && existsSync(held)) {
    throw branchTaken(branch, `is checked out in ${held}`);
  }
  if (force) return;
  if (tip !== undefined) await refuseLoneBranch(options);
  if (!(await connectWorktree(repository, path))) return;
  await refuseLoneHead(options);
  await refuseUnsaved(path);
}

/** Removes a worktree and its branch; missing ones are no error. */
export async function removeWorktree(options: WorktreeRemoval): Promise<void> {
  const { repository, path, branch } = options;
  await checkRemoval(options);
  for (const lock of staleLocks(repository, path, branch)) await fs.rm(lock, { force: true });
  const tip = await commitOf(repository, `refs/heads/${branch}`);
  const listed = entryOf(repository, path);
  if (listed !== undefined) await removeEntry({ ...listed, path });
  failpoint("workspace.worktree-removed");
  if (tip === undefined) return;
  await gitAmongWorktrees(theirs(repository.commonDir), "branch", "-q", "-D", "--", branch);
  failpoint("workspace.branch-removed");
}

/** Copies the ignored files of a checkout that patterns name. */
async function copyIncluded(
  repository: Repository,
  to: string,
  include: readonly string[],
): Promise<void> {
  if (include.length === 0) return;
  const globs = include.map((glob) => `:(glob)${glob}`);
  const flags = ["-z", "--others", "--ignored", "--exclude-standard"];
  const call = theirs(repository.topLevel);
  const listed = splitNul((await git(call, "ls-files", ...flags, "--", ...globs)).stdout);
  const wanted = listed.filter((path) => !path.startsWith(".perdure/") && !path.endsWith("/"));
  for (const path of wanted) await copyOne(repository.topLevel, to, path);
}

async function copyOne(from: string, to: string, path: RawPath): Promise<void> {
  const [source, target] = [pathUnder(from, path), pathUnder(to, path)];
  const parent = directoryOf(path);
  if (parent !== "") await fs.mkdir(pathUnder(to, parent), { recursive: true });
  await fs.rm(target, { force: true });
  await copyFile(source, target, await fs.lstat(source));
}

async function needBase(repository: Repository, base: string): Promise<string> {
  const commit = await commitOf(repository, base);
  if (commit !== undefined) return commit;
  throw new WorkspaceError(
    "snapshot-missing",
    `there is no commit ${base} in ${repository.topLevel} to make a worktree from`,
    "make a first commit, or name another base",
  );
}

async function needFreePath(path: string, why: string): Promise<void> {
  const names = await fs.readdir(path).catch(absent);
  if (names === undefined || names.length === 0) return;
  throw new WorkspaceError("path-taken", `${path} ${why}, but contains files`, "move it away");
}

/** workspace/T2; a branch of another worktree cannot be used either. */
async function needBranchAt({ repository, branch }: WorktreeLocation, base: string): Promise<void> {
  const tip = await commitOf(repository, `refs/heads/${branch}`);
  if (tip === undefined) {
    await gitAmongWorktrees(
      theirs(repository.commonDir),
      "branch",
      "--no-track",
      "--",
      branch,
      base,
    );
    failpoint("workspace.worktree-branched");
    return;
  }
  if (tip !== base) throw branchTaken(branch, `exists already, at ${tip} instead of ${base}`);
  const held = holderOf(repository, branch);
  if (held === undefined) return;
  if (existsSync(held)) throw branchTaken(branch, `is checked out in ${held}`);
  // A missing directory does not hold the branch.
  for (const one of listWorktrees(repository)) if (one.path === held) await removeEntry(one);
}

async function addWorktree({ repository, path, branch }: WorktreeLocation): Promise<void> {
  await gitAmongWorktrees(
    theirs(repository.commonDir),
    "worktree",
    "add",
    "-q",
    "--no-checkout",
    path,
    branch,
  );
  failpoint("workspace.worktree-added");
  await git(theirs(path), "reset", "-q", "--hard");
  failpoint("workspace.worktree-checked-out");
}

/** How many commits are only on this branch. */
export async function uniqueCommits(repository: Repository, branch: string): Promise<number> {
  // Without the HEADs of other worktrees, which are the branches in question.
  const all = ["--not", `--exclude=refs/heads/${branch}`, "--single-worktree", "--all"];
  const flags = ["rev-list", "--count", `refs/heads/${branch}`, ...all];
  return Number(await gitLine(theirs(repository.commonDir), ...flags));
}

async function refuseLoneBranch({ repository, branch }: WorktreeLocation): Promise<void> {
  const count = await uniqueCommits(repository, branch);
  if (count === 0) return;
  throw new WorkspaceError(
    "work-at-risk",
    `the branch ${branch} has ${count} ${count === 1 ? "commit" : "commits"} that no other branch has`,
    `merge or push it, or keep it with: git branch <name> ${branch}`,
  );
}

/** Refuses if a worktree without a branch has commits that are on no branch. */
async function refuseLoneHead({ path }: WorktreeLocation): Promise<void> {
  const head = await headOf(path);
  if (head === undefined || head.branch !== undefined) return;
  const flags = ["rev-list", "--count", "HEAD", "--not", "--branches", "--tags", "--remotes"];
  const count = Number(await gitLine(theirs(path), ...flags));
  if (count === 0) return;
  throw new WorkspaceError(
    "work-at-risk",
    `${count} ${count === 1 ? "commit" : "commits"} in ${path} ${count === 1 ? "is" : "are"} on no branch`,
    `keep them with: git -C '${path}' branch <name>`,
  );
}

async function refuseUnsaved(path: string): Promise<void> {
  const flags = ["status", "--porcelain", "-z", "--untracked-files=all"];
  const items = splitNul((await git(theirs(path), ...flags)).stdout);
  if (items.length === 0) return;
  throw new WorkspaceError(
    "work-at-risk",
    `${path} has ${items.length} changed ${items.length === 1 ? "file" : "files"} that no commit holds`,
    "commit them, or look at them with: git status",
  );
}

function branchTaken(branch: string, why: string): WorkspaceError {
  return new WorkspaceError(
    "branch-taken",
    `the branch ${branch} ${why}`,
    `rename it (git branch -m ${branch} <name>) or give it up there`,
  );
}

/** The state of a worktree. */
export type WorktreeState =
  | { readonly status: "there" }
  /** Safe to repair: the branch has all commits, the last snapshot the files. */
  | { readonly status: "directory-gone"; readonly tip: string }
  /** Safe to repair from the snapshot and the commit that it kept. */
  | { readonly status: "both-gone" }
  /** The directory is missing, and the branch is checked out elsewhere. */
  | { readonly status: "branch-held-elsewhere"; readonly holder: string }
  /** The path is another file or directory. */
  | { readonly status: "not-a-worktree" }
  | { readonly status: "not-a-repository" };

interface WorktreeQuestion {
  /** A directory of the repository that the worktree belongs to. */
  readonly project: string;
  readonly path: string;
  readonly branch: string;
  /** An earlier owner may have been killed while it made the worktree again. */
  readonly mayBeHalfMade: boolean;
}

/** Reads the state of a worktree. A half-made one counts as missing. */
export async function stateOfWorktree(question: WorktreeQuestion): Promise<WorktreeState> {
  const { project, path, branch, mayBeHalfMade } = question;
  const repository = await findRepository(project);
  if (repository === undefined) return { status: "not-a-repository" };
  if (await connectWorktree(repository, path)) return { status: "there" };
  const isHalfMade = mayBeHalfMade && entryOf(repository, path) !== undefined;
  if (existsSync(path) && !isHalfMade) return { status: "not-a-worktree" };
  const holder = holderOf(repository, branch);
  if (holder !== undefined && holder !== path && existsSync(holder)) {
    return { status: "branch-held-elsewhere", holder };
  }
  const tip = await commitOf(repository, `refs/heads/${branch}`);
  return tip === undefined ? { status: "both-gone" } : { status: "directory-gone", tip };
}

/** What a copy of a project does not have. */
const LEFT_OUT: ReadonlySet<string> = new Set([".git", ".perdure"]);

/** Makes an empty directory; an existing one must be empty. */
export async function makeDirectory(path: string): Promise<void> {
  await fs.mkdir(path, { recursive: true });
  await needFreePath(path, "is to be a fresh directory");
}

/** Copies a project, and shares blocks if the file system can; after a kill it starts again. */
export async function copyProject(options: {
  readonly from: string;
  readonly to: string;
}): Promise<void> {
  const { from, to } = options;
  if ((await fs.stat(to).catch(absent)) !== undefined) return;
  const partial = `${to}.partial`;
  await fs.rm(partial, { recursive: true, force: true });
  await fs.mkdir(dirname(to), { recursive: true });
  await fs.mkdir(partial);
  for (const name of await namesIn(from, "")) {
    if (!LEFT_OUT.has(name)) await copyEntry(from, partial, name);
  }
  failpoint("workspace.copy-filled");
  await fs.rename(partial, to);
  failpoint("workspace.copy-made");
}

async function copyEntry(from: string, to: string, path: RawPath): Promise<void> {
  const [source, target] = [pathUnder(from, path), pathUnder(to, path)];
  const facts = await fs.lstat(source);
  await copyFile(source, target, facts);
  if (facts.isFile()) await fs.utimes(target, facts.atime, facts.mtime);
  if (facts.isDirectory()) {
    await fs.mkdir(target);
    for (const name of await namesIn(from, path))
      await copyEntry(from, to, `${path}/${name}` as RawPath);
    await fs.chmod(target, facts.mode & 0o7777);
  }
}

/** Copies a file or a link; does nothing for anything else. */
async function copyFile(source: Buffer, target: Buffer, facts: Stats): Promise<void> {
  if (facts.isSymbolicLink()) await fs.symlink(await fs.readlink(source, "buffer"), target);
  else if (facts.isFile()) await fs.copyFile(source, target, constants.COPYFILE_FICLONE);
}

async function namesIn(from: string, path: string): Promise<readonly RawPath[]> {
  return (await fs.readdir(pathUnder(from, path), "latin1")) as RawPath[];
}
