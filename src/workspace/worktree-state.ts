/**
 * What has become of a run's worktree while nobody looked.
 *
 * Owns: telling the states apart. Which branch or commit is checked out is no state of its own: the
 * steps of a run may commit, switch and detach in it as they like.
 * Does not: repair anything (worktree.ts does).
 */
import { existsSync } from "node:fs";
import { findRepository } from "./repository.ts";
import { isThere } from "./worktree.ts";
import { commitOf, holderOf } from "./worktree-list.ts";

/** Each state with what a person needs to know of it. */
export type WorktreeState =
  | { readonly status: "there" }
  /** Safe to repair: the branch has all commits, the last snapshot the files. */
  | { readonly status: "directory-gone"; readonly tip: string }
  /** Safe to repair from the snapshot and the commit that it kept. */
  | { readonly status: "both-gone" }
  /** The directory is gone, and somebody has the branch checked out. */
  | { readonly status: "branch-held-elsewhere"; readonly holder: string }
  /** Something else stands at the path. */
  | { readonly status: "not-a-worktree" }
  | { readonly status: "not-a-repository" };

export interface WorktreeQuestion {
  /** A directory of the repository that the worktree belongs to. */
  readonly project: string;
  readonly path: string;
  readonly branch: string;
}

/** Looks at a worktree. */
export async function stateOfWorktree({
  project,
  path,
  branch,
}: WorktreeQuestion): Promise<WorktreeState> {
  const repository = await findRepository(project);
  if (repository === undefined) return { status: "not-a-repository" };
  if (await isThere(repository, path)) return { status: "there" };
  if (existsSync(path)) return { status: "not-a-worktree" };
  const holder = holderOf(repository, branch);
  if (holder !== undefined && holder !== path && existsSync(holder)) {
    return { status: "branch-held-elsewhere", holder };
  }
  const tip = await commitOf(repository, `refs/heads/${branch}`);
  return tip === undefined ? { status: "both-gone" } : { status: "directory-gone", tip };
}
