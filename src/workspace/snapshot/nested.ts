/**
 * Git repositories inside a workspace: submodules, clones, other worktrees.
 *
 * Owns: how snapshots treat them: their files belong to the snapshot like all others, and their
 * commits are recorded. A worktree of the project's own repository is only named.
 * Does not: change their .git, or read the files that they ignore.
 */
import { realpath } from "node:fs/promises";
import { kindAt, pathUnder, type RawPath, splitNul } from "../disk.ts";
import { git } from "../git.ts";
import { findRepository, headOf, type Repository, theirs } from "../repository.ts";
import type { Details } from "./details.ts";
import type { Workspace } from "./workspace.ts";

export interface NestedRepository {
  readonly path: RawPath;
  /** Its own index. */
  readonly indexFile: string;
}

interface NestedScan {
  readonly repositories: readonly NestedRepository[];
  readonly files: readonly RawPath[];
  /** Worktrees of the project's own repository. */
  readonly worktrees: readonly RawPath[];
}

const NOTHING: NestedScan = { repositories: [], files: [], worktrees: [] };
const DEPTH_MAX = 8;

/** True when the directory at this path is a repository. */
export async function isNested(workspace: Workspace, path: string): Promise<boolean> {
  return (await kindAt(workspace.path, `${path}/.git`)) !== undefined;
}

/** The files of a nested repository, and of the repositories in it. */
export async function scanNested(
  workspace: Workspace,
  path: RawPath,
  depth = 0,
): Promise<NestedScan> {
  const directory = pathUnder(workspace.path, path).toString();
  const repository = await findRepository(directory);
  if (repository === undefined || depth > DEPTH_MAX) return NOTHING;
  if (await isOwnWorktree(workspace, repository)) return { ...NOTHING, worktrees: [path] };
  const flags = ["-z", "--cached", "--others", "--exclude-standard"];
  const listed = splitNul((await git(theirs(directory), "ls-files", ...flags)).stdout);
  const parts = await Promise.all(
    [...new Set(listed)].map((name) => scanEntry(workspace, `${path}/${name}`, depth)),
  );
  const own = { path, indexFile: repository.indexFile };
  return {
    repositories: [own, ...parts.flatMap(({ repositories }) => repositories)],
    files: parts.flatMap(({ files }) => files),
    worktrees: parts.flatMap(({ worktrees }) => worktrees),
  };
}

/** The commits that are checked out in nested repositories, by their paths. */
export async function headsOf(
  workspace: Workspace,
  paths: readonly RawPath[],
): Promise<Details["nested"]> {
  return Promise.all(
    paths.map(async (path) => {
      const directory = pathUnder(workspace.path, path).toString();
      return { path, head: (await headOf(directory))?.commit };
    }),
  );
}

/** Files that a checkout tracks although they are ignored, below a prefix. */
export async function forcedIn(directory: string, prefix: string): Promise<readonly RawPath[]> {
  const flags = ["-z", "--cached", "--ignored", "--exclude-standard"];
  const listed = splitNul((await git(theirs(directory), "ls-files", ...flags)).stdout);
  return listed.map((name) => `${prefix}${name}` as RawPath);
}

async function scanEntry(workspace: Workspace, name: string, depth: number): Promise<NestedScan> {
  const path = name.replace(/\/$/, "") as RawPath;
  const directory = path !== name || (await kindAt(workspace.path, path)) === "directory";
  if (!directory) return { ...NOTHING, files: [path] };
  return (await isNested(workspace, path)) ? scanNested(workspace, path, depth + 1) : NOTHING;
}

async function isOwnWorktree(workspace: Workspace, repository: Repository): Promise<boolean> {
  const own = workspace.checkout ?? workspace.store.repository;
  if (own === undefined || repository.gitDir === repository.commonDir) return false;
  return (await realpath(own.commonDir)) === (await realpath(repository.commonDir));
}

/** The user's indexes, which decide which ignored files are tracked. */
export function indexFilesOf(workspace: Workspace, nested: readonly NestedRepository[]): string[] {
  const own = workspace.checkout === undefined ? [] : [workspace.checkout.indexFile];
  return [...own, ...nested.map(({ indexFile }) => indexFile)];
}
