/**
 * The worktrees of a repository, read from git's own files (a list by git itself fails, or leaves them
 * out, when one of them was killed while it was made), and what a kill in the middle of git's work
 * leaves behind: locks, half-made worktrees, files on their way into the store.
 *
 * Owns: reading and removing single entries; finding what a kill has left in what is ours, and telling
 * it from the files of a process at work.
 * Does not: make worktrees (worktree.ts). Nothing here has to run for a run to continue: whoever
 * resumes removes what is in the way by itself.
 */
import {
  type Dirent,
  existsSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  statSync,
} from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { git } from "../git.ts";
import { findRepository, type Repository, theirs } from "../repository.ts";

/** A linked worktree as the repository knows it. */
interface ListedWorktree {
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

/** A file or directory that nobody needs. */
export interface Leftover {
  readonly path: string;
  readonly what: "lock" | "half-made worktree" | "unfinished object";
}

/** Whatever is younger may belong to a process at work. */
const AGE_MS_MIN = 60_000;
const UNFINISHED = /^tmp_(obj|pack|idx|rev)_/;
const WORK = /\.work-(\d+)-/;

/** Finds what kills have left in the state of a project and in its repository. */
export async function findLeftovers(
  project: string,
  stateDir: string,
): Promise<readonly Leftover[]> {
  const repository = await findRepository(project);
  return [
    ...(repository === undefined ? [] : inRepository(repository, stateDir)),
    ...filesBelow(join(stateDir, "snapshots.git", "objects"), 2)
      .filter((path) => UNFINISHED.test(path.slice(path.lastIndexOf("/") + 1)))
      .map((path): Leftover => ({ path, what: "unfinished object" })),
    ...filesBelow(join(stateDir, "runs"), 3)
      .filter((path) => isDead(Number(WORK.exec(path)?.[1] ?? process.pid)))
      .map((path): Leftover => ({ path, what: "unfinished object" })),
  ].filter(({ path }) => isOld(path));
}

function inRepository(repository: Repository, stateDir: string): readonly Leftover[] {
  const ours = listWorktrees(repository).filter(({ path }) => path.startsWith(`${stateDir}/`));
  const half = ours.filter(({ entry }) => !isReady(entry));
  const torn = listWorktrees(repository).filter(({ entry }) => isTorn(entry));
  const locks = ours
    .filter(({ entry }) => isReady(entry))
    .flatMap(({ path, branch = "" }) =>
      staleLocks(repository, path, branch.replace("refs/heads/", "")),
    );
  const { commonDir } = repository;
  const branches = filesBelow(join(commonDir, "refs", "heads", "perdure"), 1);
  const old = filesBelow(join(commonDir, "refs", "perdure"), 4);
  const found = [...locks, ...[...branches, ...old].filter((path) => path.endsWith(".lock"))];
  return [
    ...half.flatMap(({ path, entry }): Leftover[] => [
      { path, what: "half-made worktree" },
      { path: entry, what: "half-made worktree" },
    ]),
    ...torn.map(({ entry }): Leftover => ({ path: entry, what: "half-made worktree" })),
    ...[...new Set(found)].map((path): Leftover => ({ path, what: "lock" })),
  ];
}

/** True when a power failure has emptied the file with which git finds the repository. */
function isTorn(entry: string): boolean {
  return statSync(join(entry, "commondir"), { throwIfNoEntry: false })?.size === 0;
}

function filesBelow(directory: string, depth: number): readonly string[] {
  if (depth < 0) return [];
  let entries: readonly Dirent[];
  try {
    entries = readdirSync(directory, { withFileTypes: true });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return [];
    throw error;
  }
  return entries.flatMap((entry) => {
    const path = join(directory, entry.name);
    return entry.isDirectory() ? filesBelow(path, depth - 1) : [path];
  });
}

function isOld(path: string): boolean {
  const facts = statSync(path, { throwIfNoEntry: false });
  return facts !== undefined && Date.now() - facts.mtimeMs > AGE_MS_MIN;
}

function isDead(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ESRCH";
  }
}
