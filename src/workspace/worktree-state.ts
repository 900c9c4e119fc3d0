/**
 * What has become of a run's worktree while nobody looked.
 *
 * Owns: telling the states apart.
 * Does not: repair anything (worktree.ts does).
 */
import { realpath } from "node:fs/promises";
import { differences, type FileDifference } from "./difference.ts";
import { absent, kindAt } from "./disk.ts";
import { git } from "./git.ts";
import { headOf } from "./head.ts";
import { findRepository, theirs } from "./repository.ts";
import type { Workspace } from "./workspace.ts";
import { commitOf, listWorktrees } from "./worktree-list.ts";

/** Each state with what a person needs to know of it. */
export type WorktreeState =
  | { readonly status: "there"; readonly tip: string }
  /** Safe to repair: the branch has all commits, the last snapshot the files. */
  | { readonly status: "directory-gone"; readonly tip: string }
  /** Safe to repair from the snapshot and the commit that it kept. */
  | { readonly status: "both-gone" }
  | { readonly status: "branch-gone"; readonly head: string | undefined }
  | { readonly status: "other-branch"; readonly head: string }
  | { readonly status: "foreign-changes"; readonly changes: readonly FileDifference[] }
  | { readonly status: "branch-held-elsewhere"; readonly holder: string }
  /** The branch no longer holds the commit that the run began with. */
  | { readonly status: "base-moved"; readonly tip: string }
  /** Something else stands at the path. */
  | { readonly status: "not-a-worktree" }
  | { readonly status: "not-a-repository" };

export interface WorktreeQuestion {
  /** A directory of the repository that the worktree belongs to. */
  readonly project: string;
  readonly path: string;
  readonly branch: string;
  readonly base: string;
}

/** Looks at a worktree; `expected` is the snapshot that its files should equal. */
export async function stateOfWorktree(
  question: WorktreeQuestion,
  expected?: { readonly workspace: Workspace; readonly commit: string },
): Promise<WorktreeState> {
  const repository = await findRepository(question.project);
  if (repository === undefined) return { status: "not-a-repository" };
  const name = `refs/heads/${question.branch}`;
  const tip = await commitOf(repository, name);
  const path = await realpath(question.path).catch(absent);
  const listed = await listWorktrees(repository);
  const holder = listed.find((one) => one.branch === name);
  if (holder !== undefined && ![question.path, path].includes(holder.path)) {
    const there = await realpath(holder.path).catch(absent);
    if (there !== undefined) return { status: "branch-held-elsewhere", holder: holder.path };
  }
  if (path === undefined) {
    return tip === undefined ? { status: "both-gone" } : { status: "directory-gone", tip };
  }
  if ((await kindAt(path, ".git")) === undefined) return { status: "not-a-worktree" };
  if (!listed.some((one) => one.path === path)) return { status: "not-a-worktree" };
  const head = await headOf(path);
  if (tip === undefined) return { status: "branch-gone", head: head?.commit };
  if (head?.branch !== name) {
    return { status: "other-branch", head: head?.branch ?? head?.commit ?? "nothing" };
  }
  const call = { ...theirs(repository.commonDir), answers: [1, 128] };
  const ancestor = await git(call, "merge-base", "--is-ancestor", question.base, tip);
  if (ancestor.exit !== 0) return { status: "base-moved", tip };
  if (expected === undefined) return { status: "there", tip };
  const { workspace, commit } = expected;
  const changes = await differences(workspace.store, commit, workspace);
  return changes.length === 0 ? { status: "there", tip } : { status: "foreign-changes", changes };
}
