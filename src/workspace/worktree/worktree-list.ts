/**
 * The worktrees of a repository, read from git's own files (git's list fails or is incomplete when
 * one of them was killed during its creation), and the leftovers of a kill: locks, half-made
 * worktrees, temporary files of the store.
 *
 * Owns: reading and removing single entries; finding leftovers, and distinguishing them from the
 * files of working processes.
 * Does not: make worktrees (worktree.ts). A resume does not need the removal of leftovers.
 */
import {
  existsSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  statSync,
} from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { entriesIn, isDead } from "../disk.ts";
import { git } from "../git.ts";
import { findRepository, type Repository, theirs } from "../repository.ts";
import { replaceFile } from "../snapshot/store-files.ts";

/** A linked worktree as the repository knows it. */
interface ListedWorktree {
  /** Its directory; "" when git was killed before it was written. */
  readonly path: string;
  /** Its entry in the repository. */
  readonly entry: string;
  /** The full name of the branch that is checked out; undefined when none is. */
  readonly branch: string | undefined;
}

/** The entry of a complete worktree has this file. */
const READY = "perdure-ready";
const GITDIR = /^gitdir: (.*?)\n?$/s;
const BRANCH = /^ref: (refs\/.+)$/;

/** The linked worktrees, including those without a directory. */
export function listWorktrees({ commonDir }: Repository): readonly ListedWorktree[] {
  const folder = join(commonDir, "worktrees");
  return namesIn(folder).map((name) => {
    const entry = join(folder, name);
    const gitFile = textOf(join(entry, "gitdir"))?.replace(/\n$/, "") ?? "";
    const [, branch] = BRANCH.exec(textOf(join(entry, "HEAD"))?.trimEnd() ?? "") ?? [];
    return { path: gitFile === "" ? "" : dirname(resolve(entry, gitFile)), entry, branch };
  });
}

/** The directory in which a branch is checked out. */
export function holderOf(repository: Repository, branch: string): string | undefined {
  const { commonDir } = repository;
  const name = `refs/heads/${branch}`;
  const head = textOf(join(commonDir, "HEAD"))?.trimEnd();
  if (head === `ref: ${name}`) return dirname(commonDir);
  return listWorktrees(repository).find((one) => one.branch === name)?.path;
}

/** The entry of a directory. */
export function entryOf(repository: Repository, path: string): ListedWorktree | undefined {
  const listed = listWorktrees(repository);
  const named = idIn(path);
  return (
    listed.find((one) => isAt(one, path)) ??
    // After a move or a copy of the project, the directory still names its entry.
    listed.find(({ entry }) => named !== undefined && basename(entry) === named && isReady(entry))
  );
}

/** True for the entry of a directory, by its path or its real path. */
export function isAt({ path: listed }: ListedWorktree, path: string): boolean {
  return listed === path || (listed !== "" && listed === realPath(path));
}

/** True when a worktree is complete. */
export function isReady(entry: string): boolean {
  return existsSync(join(entry, READY));
}

/** Marks a worktree as complete. */
export async function markReady(entry: string): Promise<void> {
  await writeFile(join(entry, READY), "", { flush: true });
}

/**
 * Makes a directory and its entry refer to each other. `git worktree repair` is not used for that: in
 * a copy of a project it would follow the old link and change the original repository.
 */
export async function connect(path: string, entry: string): Promise<void> {
  const gitFile = join(realPath(path), ".git");
  if (textOf(gitFile) !== `gitdir: ${entry}\n`) await replaceFile(gitFile, `gitdir: ${entry}\n`);
  const back = join(entry, "gitdir");
  if (textOf(back) !== `${gitFile}\n`) await replaceFile(back, `${gitFile}\n`);
}

/** Removes a worktree, even a half-made one. */
export async function removeEntry({ path, entry }: ListedWorktree): Promise<void> {
  if (path !== "") await rm(path, { recursive: true, force: true });
  await rm(entry, { recursive: true, force: true });
}

/**
 * Locks on a worktree and its branch that a killed git left. A lock counts as held while any
 * process works in the directory.
 */
export function staleLocks(repository: Repository, path: string, branch: string): string[] {
  const entry = entryOf(repository, path)?.entry;
  const inEntry = entry === undefined ? [] : namesIn(entry).map((name) => join(entry, name));
  const ofBranch = join(repository.commonDir, "refs", "heads", `${branch}.lock`);
  const locks = [...inEntry, ofBranch].filter((one) => one.endsWith(".lock") && existsSync(one));
  return locks.length === 0 || isWorkedIn(path) ? [] : locks;
}

/** The commit of a name; undefined when there is none. */
export async function commitOf(repository: Repository, name: string): Promise<string | undefined> {
  const call = { ...theirs(repository.commonDir), answers: [1, 128] };
  const result = await git(call, "rev-parse", "-q", "--verify", `${name}^{commit}`);
  return result.exit === 0 ? result.stdout.toString("utf8").trimEnd() : undefined;
}

/** True when a process has its working directory in this one; only Linux shows it. */
export function isWorkedIn(path: string): boolean {
  return namesIn("/proc").some((pid) => {
    if (!/^\d+$/.test(pid)) return false;
    try {
      const cwd = readlinkSync(join("/proc", pid, "cwd"));
      return cwd === path || cwd.startsWith(`${path}/`);
    } catch {
      // It has ended, or belongs to another user, who does not work in this directory.
      return false;
    }
  });
}

/** The name of the entry in the .git file of a worktree. */
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

/** A file or directory that no process needs. */
interface Leftover {
  readonly path: string;
  readonly what: "lock" | "half-made worktree" | "unfinished object";
}

/** A younger file may belong to a working process. */
const AGE_MS_MIN = 60_000;
const UNFINISHED = /^tmp_(obj|pack|idx|rev)_/;
const WORK = /\.work-(\d+)-/;

/** Finds the leftovers of kills in the state of a project and in its repository. */
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
  const damaged = listWorktrees(repository).filter(({ entry }) => isDamaged(entry));
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
    ...damaged.map(({ entry }): Leftover => ({ path: entry, what: "half-made worktree" })),
    ...[...new Set(found)].map((path): Leftover => ({ path, what: "lock" })),
  ];
}

/** True when a power failure emptied the file `commondir` of an entry. */
function isDamaged(entry: string): boolean {
  return statSync(join(entry, "commondir"), { throwIfNoEntry: false })?.size === 0;
}

function filesBelow(directory: string, depth: number): readonly string[] {
  if (depth < 0) return [];
  return entriesIn(directory).flatMap((entry) => {
    const path = join(directory, entry.name);
    return entry.isDirectory() ? filesBelow(path, depth - 1) : [path];
  });
}

function isOld(path: string): boolean {
  const facts = statSync(path, { throwIfNoEntry: false });
  return facts !== undefined && Date.now() - facts.mtimeMs > AGE_MS_MIN;
}
