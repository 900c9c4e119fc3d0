/**
 * The worktrees of a repository, read from git's own files: a list by git itself fails, or leaves
 * them out, when one of them was killed while it was made.
 *
 * Owns: reading and removing single entries; finding locks that a kill has left.
 * Does not: make worktrees (worktree.ts).
 */
import { existsSync, readdirSync, readFileSync, readlinkSync, realpathSync } from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { git } from "./git.ts";
import { type Repository, theirs } from "./repository.ts";

/** A linked worktree as the repository knows it. */
export interface ListedWorktree {
  /** Its directory; "" when it was killed before that was written. */
  readonly path: string;
  /** Its entry in the repository. */
  readonly entry: string;
  /** The full name of the branch that is checked out; undefined when none is. */
  readonly branch: string | undefined;
}

/** A worktree whose making was finished has this file in its entry. */
const READY = "perdure-ready";
const GITDIR = /^gitdir: (.*)\n?$/s;
const BRANCH = /^ref: (refs\/.+)$/;

/** The linked worktrees; one whose directory is gone is in it as well. */
export function listWorktrees({ commonDir }: Repository): readonly ListedWorktree[] {
  const folder = join(commonDir, "worktrees");
  return namesIn(folder).map((name) => {
    const entry = join(folder, name);
    const gitFile = textOf(join(entry, "gitdir"))?.replace(/\n$/, "") ?? "";
    const [, branch] = BRANCH.exec(textOf(join(entry, "HEAD"))?.trimEnd() ?? "") ?? [];
    return { path: gitFile === "" ? "" : dirname(resolve(entry, gitFile)), entry, branch };
  });
}

/** Who has a branch checked out: a directory. */
export function holderOf(repository: Repository, branch: string): string | undefined {
  const { commonDir } = repository;
  const name = `refs/heads/${branch}`;
  const head = textOf(join(commonDir, "HEAD"))?.trimEnd();
  if (head === `ref: ${name}`) return dirname(commonDir);
  return listWorktrees(repository).find((one) => one.branch === name)?.path;
}

/** The entry of exactly this directory. */
export function entryOf(repository: Repository, path: string): ListedWorktree | undefined {
  const listed = listWorktrees(repository);
  const named = idIn(path);
  return (
    listed.find((one) => isAt(one, path)) ??
    // A project that was moved or copied: the directory still names its entry.
    listed.find(({ entry }) => named !== undefined && basename(entry) === named && isReady(entry))
  );
}

/** True for the entry of a directory, by whichever of its names. */
export function isAt({ path: listed }: ListedWorktree, path: string): boolean {
  return listed === path || (listed !== "" && listed === realPath(path));
}

/** True when the making of a worktree was finished. */
export function isReady(entry: string): boolean {
  return existsSync(join(entry, READY));
}

/** Says that a worktree is complete. */
export async function markReady(entry: string): Promise<void> {
  await writeFile(join(entry, READY), "", { flush: true });
}

/** Makes a directory and its entry name each other, whatever a kill or a move has left. */
export async function connect(path: string, entry: string): Promise<void> {
  const gitFile = join(realPath(path), ".git");
  if (textOf(gitFile) !== `gitdir: ${entry}\n`) await writeFile(gitFile, `gitdir: ${entry}\n`);
  const back = join(entry, "gitdir");
  if (textOf(back) !== `${gitFile}\n`) await writeFile(back, `${gitFile}\n`);
}

/** Removes a worktree; what is half made as well. */
export async function removeEntry({ path, entry }: ListedWorktree): Promise<void> {
  if (path !== "") await rm(path, { recursive: true, force: true });
  await rm(entry, { recursive: true, force: true });
}

/**
 * Locks on a worktree and its branch that nobody holds: git was killed. A lock counts as held while
 * any process works in the directory.
 */
export function staleLocks(repository: Repository, path: string, branch: string): string[] {
  const entry = entryOf(repository, path)?.entry;
  const inEntry = entry === undefined ? [] : namesIn(entry).map((name) => join(entry, name));
  const ofBranch = join(repository.commonDir, "refs", "heads", `${branch}.lock`);
  const locks = [...inEntry, ofBranch].filter((one) => one.endsWith(".lock") && existsSync(one));
  return locks.length === 0 || isWorkedIn(path) ? [] : locks;
}

/** The commit that a name stands for, or undefined when there is none. */
export async function commitOf(repository: Repository, name: string): Promise<string | undefined> {
  const call = { ...theirs(repository.commonDir), answers: [1, 128] };
  const result = await git(call, "rev-parse", "-q", "--verify", `${name}^{commit}`);
  return result.exit === 0 ? result.stdout.toString("utf8").trimEnd() : undefined;
}

/** True when a process has its working directory in this one; not known everywhere. */
function isWorkedIn(path: string): boolean {
  return namesIn("/proc").some((pid) => {
    if (!/^\d+$/.test(pid)) return false;
    try {
      const cwd = readlinkSync(join("/proc", pid, "cwd"));
      return cwd === path || cwd.startsWith(`${path}/`);
    } catch {
      // It has ended, or it is another user's, who does not work in a directory of ours.
      return false;
    }
  });
}

/** The name of the entry that a worktree's directory says it has. */
function idIn(path: string): string | undefined {
  const [, entry] = GITDIR.exec(textOf(join(path, ".git")) ?? "") ?? [];
  return entry === undefined ? undefined : basename(entry);
}

function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}

function textOf(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return undefined;
  }
}

function namesIn(directory: string): readonly string[] {
  try {
    return readdirSync(directory);
  } catch {
    return [];
  }
}
