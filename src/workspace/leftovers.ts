/**
 * What a kill in the middle of git's work leaves behind: locks, half-made worktrees, files on their
 * way into the store.
 *
 * Owns: finding such files in what is ours, and telling them from those of a process at work.
 * Does not: need to run for a run to continue; whoever resumes removes what is in the way by itself.
 */
import { type Dirent, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { findRepository, type Repository } from "./repository.ts";
import { isReady, listWorktrees, staleLocks } from "./worktree-list.ts";

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
