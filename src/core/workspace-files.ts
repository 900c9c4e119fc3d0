/**
 * The workspaces of a run, and what is known of the files in each. Steps share the run's workspace
 * unless they, or a composite step around them, have `workspace: own`.
 *
 * Owns: which workspace a visit works in, which files an attempt starts from, and what events say
 * about the files there.
 * Does not: touch a file (room `workspace`), or decide when an operation on files starts
 * (operations.ts).
 * Invariants:
 * - files/W3 A step that completed with changed files in a worktree is named by one commit: it stays
 *   in `uncommitted` until `run.committed` names it, no matter who owns the run then. A restore of files
 *   that have its work keeps that commit.
 * - files/W1 A workspace is `clean` only while it is known to equal its last snapshot: no process
 *   has started in it since, and the owner is the same.
 */

import type { Plan, Recover } from "../plan/plan.ts";
import { unreachable } from "../util/assert.ts";
import { defined } from "../util/defined.ts";
import type { Conversation, EventOf, Saved } from "./event.ts";
import {
  draft,
  enclosingScopes,
  hasProcess,
  isComposite,
  isIdle,
  type Run,
  recoverFor,
  type Scope,
  stepOf,
  type Visit,
  visitRef,
  type WorkspaceFiles,
} from "./run.ts";
import { visitText } from "./step-path.ts";

/** The run's own workspace, which steps share. */
export const SHARED = "";

type FilesEvent = EventOf<"run.placed" | "run.restored" | "run.committed">;

const UNKNOWN: WorkspaceFiles = { clean: false };

/** The workspace in which a visit works. */
export function workspaceOf(visit: Visit): string {
  return hasOwnWorkspace(visit) ? visitText(visitRef(visit)) : workspaceOfScope(visit.record.scope);
}

/** The workspace that the steps of a scope share. */
export function workspaceOfScope(scope: Scope): string {
  return enclosingScopes(scope).find(instanceHasOwnWorkspace)?.id ?? SHARED;
}

/** The workspace into which the work of an instance is merged. */
export function workspaceAround(scope: Scope): string {
  return scope.parent === undefined ? SHARED : workspaceOfScope(scope.parent.record.scope);
}

/** True when a visit has its own workspace, which is merged when the visit succeeds. */
export function hasOwnWorkspace(visit: Visit): boolean {
  return stepOf(visit).own === true && hasProcess(stepOf(visit));
}

/** True when the steps of an instance work in the instance's own workspace. */
export function instanceHasOwnWorkspace({ parent }: Scope): boolean {
  return parent !== undefined && stepOf(parent).own === true && isComposite(stepOf(parent));
}

/** True when the workspace of an instance was made, so that it may hold work to merge. */
export function hasOwnFiles(run: Run, scope: Scope): boolean {
  return instanceHasOwnWorkspace(scope) && filesIn(run, scope.id).base !== undefined;
}

/** True when the workspace of an instance around a visit must still be made. */
export function isUnmade(run: Run, visit: Visit): boolean {
  if (run.unmade.size === 0) return false;
  return enclosingScopes(visit.record.scope).some((scope) => run.unmade.has(scope));
}

/** What is known of the files in a workspace. */
export function filesIn(run: Run, workspace: string): WorkspaceFiles {
  return run.files.get(workspace) ?? UNKNOWN;
}

/** The commit of the run's branch to check out with the files of a snapshot, if it is a later one. */
export function commitWith(run: Run, snapshot: string): string | undefined {
  return filesIn(run, SHARED).commits?.get(snapshot);
}

/** The snapshot that a workspace equals now; undefined when its files may have changed since. */
export function knownBase(run: Run, workspace: string): string | undefined {
  const { clean, snapshot } = filesIn(run, workspace);
  return clean ? snapshot : undefined;
}

/** True when no other visit has used the workspace since a visit started. */
export function workedAlone(run: Run, visit: Visit): boolean {
  if (hasOwnWorkspace(visit)) return true;
  return filesIn(run, workspaceOf(visit)).latest === visit && visit.workedBesideOthers !== true;
}

/** The running visits, other than this one, that work in a workspace. */
export function othersIn(run: Run, workspace: string, but?: Visit): readonly Visit[] {
  return [...run.running].filter((visit) => visit !== but && workspaceOf(visit) === workspace);
}

/**
 * The files that an attempt starts from. The first attempt takes them as they are. A later one
 * starts from the same files, if the workspace is the run's own, or if a person or the author says
 * so. An attempt that continues a conversation, or replaces one that is gone, keeps the current
 * files, and so does one that ran beside others. If a person chose to keep files, later attempts
 * start from those.
 */
export function filesFor(
  plan: Plan,
  run: Run,
  visit: Visit,
  conversation: Conversation | undefined,
  base: string | undefined,
): { readonly base?: string; readonly restore?: true; readonly keep?: true } {
  if (plan.workspace?.snapshots !== true || !hasProcess(stepOf(visit))) return {};
  // Work that only waits for a verdict or a merge stays as it is.
  if (visit.held !== undefined || visit.submitted !== undefined) return {};
  if (visit.base === undefined) return base === undefined ? {} : { base };
  const wanted = visit.interrupted === true ? recoverFor(run, visit) : undefined;
  const continues = conversation?.kind === "continue" || conversation?.gone === true;
  // An own workspace is merged against its base, no matter who changed it.
  if (visit.files === "keep" && !continues && stepOf(visit).own !== true) {
    return base === undefined ? { keep: true } : { base };
  }
  if (!startsOver(plan, run, visit, { wanted, continues })) return {};
  return { base: visit.base, restore: true };
}

/** True when the next attempt of a visit starts from the files that the visit started from. */
export function startsOver(
  plan: Plan,
  run: Run,
  visit: Visit,
  { wanted, continues }: { readonly wanted: Recover | undefined; readonly continues: boolean },
): boolean {
  if (visit.base === undefined || visit.files === "keep" || continues) return false;
  const theirs = plan.workspace?.kind === "here" && workspaceOf(visit) === SHARED;
  const usual = theirs ? "continue" : "restart";
  return (wanted ?? usual) === "restart" && workedAlone(run, visit);
}

/** The steps whose work is to be committed now: after each step, or at the end of the run. */
export function stepsToCommit(run: Run): readonly string[] {
  const due = run.workspace?.commits === "step" || isIdle(run);
  return due ? [...run.uncommitted] : [];
}

const PATHS_SHOWN_MAX = 5;

/** A sentence about files that two steps changed differently. */
export function conflictText(paths: readonly string[]): string {
  const shown = paths.slice(0, PATHS_SHOWN_MAX).join(", ");
  const more = paths.length > PATHS_SHOWN_MAX ? ` and ${paths.length - PATHS_SHOWN_MAX} more` : "";
  return `its work does not fit what other steps did in ${shown}${more}`;
}

// The functions below change a run, for evolve.ts alone (run/C2).

/** Changes what is known of the files in a workspace. */
export function noteFiles(run: Run, workspace: string, change: Partial<WorkspaceFiles>): void {
  const files = { ...filesIn(run, workspace), ...change };
  draft(run).files.set(workspace, files);
  if (workspace === SHARED && files.snapshot !== undefined) draft(run).snapshot = files.snapshot;
}

/** Restores the files to this snapshot, if there is one, before anything else starts. */
export function restoreFirst(run: Run, commit: string | undefined, moved?: true): void {
  if (commit === undefined) return;
  const isMoved = moved ?? run.restoring?.moved;
  draft(run).restoring = { commit, since: run.seq + 1, ...defined({ moved: isMoved }) };
}

/** Forgets that files equal a snapshot: a new owner does not know what happened since. */
export function markFilesUncertain(run: Run): void {
  for (const workspace of run.files.keys()) noteFiles(run, workspace, { clean: false });
}

/** Records that a process starts: the files in its workspace may change from now on. */
export function noteStart(run: Run, visit: Visit): void {
  const workspace = workspaceOf(visit);
  if (hasOwnWorkspace(visit)) return;
  for (const other of othersIn(run, workspace, visit)) {
    draft(other).workedBesideOthers = true;
    draft(visit).workedBesideOthers = true;
  }
  // Other visits used the workspace between two attempts: a restore must keep their work.
  if (visit.attempts > 1 && !workedAlone(run, visit)) draft(visit).workedBesideOthers = true;
  noteFiles(run, workspace, { clean: false, latest: visit });
}

/** Records a snapshot of the workspace of an attempt whose visit is still running. */
export function noteSnapshot(run: Run, visit: Visit, event: SnapshotEvent): void {
  const { snapshot, type } = event;
  if (snapshot === undefined) return;
  if (hasOwnWorkspace(visit)) {
    // Work in an own workspace reaches the outer workspace when it is merged.
    const around = workspaceOfScope(visit.record.scope);
    if (type === "step.completed") {
      return noteMerge(run, around, snapshot, visitText(visitRef(visit)));
    }
    // The work may have been merged before it turned out that no edge can be followed.
    if (type === "step.failed") noteMergedFiles(run, around);
    return;
  }
  const workspace = workspaceOf(visit);
  const ended = type !== "step.saved";
  if (type === "step.completed" && workspace === SHARED && snapshot.commit !== visit.base) {
    noteUncommitted(run, visitText(visitRef(visit)));
  }
  const clean = ended && othersIn(run, workspace, visit).length === 0;
  noteFiles(run, workspace, { snapshot: snapshot.commit, clean });
}

/** Records that the work of a step or an instance was merged into a workspace. */
export function noteMerge(run: Run, workspace: string, { commit }: Saved, name: string): void {
  if (workspace === SHARED) noteUncommitted(run, name);
  const clean = othersIn(run, workspace).length === 0;
  noteMergedFiles(run, workspace);
  noteFiles(run, workspace, { snapshot: commit, clean });
}

/** Records that a merge may have changed the files in a workspace. */
function noteMergedFiles(run: Run, workspace: string): void {
  const { latest: _latest, ...files } = filesIn(run, workspace);
  draft(run).files.set(workspace, { ...files, clean: false });
}

interface SnapshotEvent {
  readonly type: string;
  readonly snapshot?: Saved;
}

/** Records the snapshot that was taken right before an attempt. */
export function noteBase(run: Run, visit: Visit, base: string): void {
  const workspace = workspaceOfScope(visit.record.scope);
  const clean = hasOwnWorkspace(visit) && othersIn(run, workspace).length === 0;
  noteFiles(run, workspace, { snapshot: base, clean });
}

/** Records that a step, or an instance, left changed files in the run's workspace. */
function noteUncommitted(run: Run, name: string): void {
  if (run.workspace?.commits !== undefined) draft(run).uncommitted.add(name);
}

/**
 * Records a commit of the work in the run's workspace. The last snapshot was taken before it, and so was
 * the base of a step that did not complete: who restores one of them keeps the commit.
 */
function noteCommit(run: Run, commit: string | undefined): void {
  const { snapshot, commits = new Map<string, string>() } = draft(filesIn(run, SHARED));
  if (commit === undefined || snapshot === undefined) return;
  commits.set(snapshot, commit);
  const { latest } = filesIn(run, SHARED);
  const isOpen = latest !== undefined && latest.state.status !== "completed";
  if (isOpen && latest.base !== undefined) commits.set(latest.base, commit);
  noteFiles(run, SHARED, { commits });
}

/** Applies an event about the run's own workspace to the run. */
export function applyToFiles(run: Run, event: FilesEvent): void {
  switch (event.type) {
    case "run.placed":
      draft(run).workspace = event.workspace;
      return;
    case "run.restored":
      delete draft(run).restoring;
      // They hold the work of every step that was done by then: no later attempt restores others.
      noteMergedFiles(run, SHARED);
      return noteFiles(run, SHARED, { snapshot: event.commit, clean: true });
    case "run.committed":
      for (const step of event.steps) draft(run).uncommitted.delete(step);
      return noteCommit(run, event.commit);
    default:
      return unreachable(event);
  }
}
