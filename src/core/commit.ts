/**
 * Commits of a worktree run: what completed steps leave is committed on the run's branch.
 *
 * Owns: which steps have work that is not committed yet, and when a commit is due.
 * Does not: touch git (engine/executors/files.ts).
 * Invariants:
 * - commit/G1 A step that completed with changed files is named by one commit: it stays in
 *   `uncommitted` until `run.committed` names it, whoever owns the run then.
 */
import { draft, isIdle, type Run } from "./run.ts";

/** Records that a step, or an instance, left changed files in the run's workspace. */
export function noteUncommitted(run: Run, name: string): void {
  if (run.workspace?.commits !== undefined) draft(run).uncommitted.add(name);
}

/** The steps to commit now: after each step, or at the end of the run. */
export function stepsToCommit(run: Run): readonly string[] {
  const due = run.workspace?.commits === "step" || isIdle(run);
  return due ? [...run.uncommitted] : [];
}

/** Applies `run.committed` to the run. For evolve.ts alone (run/C2). */
export function noteCommit(run: Run, steps: readonly string[]): void {
  for (const step of steps) draft(run).uncommitted.delete(step);
}
