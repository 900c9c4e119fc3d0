/**
 * The files of a run that continues on another machine: which workspaces are made there, with which
 * snapshots, and what may have run before.
 *
 * Owns: the choice among the snapshots that are known of a workspace.
 * Does not: take snapshots, or make a workspace (rooms `engine` and `app`).
 */
import { foundBy } from "./attempt/reuse.ts";
import { isOver } from "./graph/visit-state.ts";
import { type Run, type Visit, waitingFor } from "./run.ts";
import { filesIn, hasOwnFiles, worksApart, workspaceOf } from "./workspace-files.ts";

/** Snapshots of the files as they are now. */
export interface SavedFiles {
  /** Those of the run's workspace; absent when it has none yet. */
  readonly commit?: string;
  /** Those of the workspaces of single steps and instances, by name. */
  readonly own: Readonly<Record<string, string>>;
}

/** Snapshots that were stored while the run was driven, and the last event before each. */
export interface SavedSnapshots extends Partial<SavedFiles> {
  readonly seq?: number;
  readonly ownSeq?: number;
}

/**
 * The workspaces of single steps and instances whose work is not merged, and the last snapshot of
 * each that the journal knows.
 */
export function ownWorkspaces(run: Run): ReadonlyMap<string, string | undefined> {
  const known = new Map<string, string | undefined>();
  const waiting = waitingFor(run, "owner", "retry", "slot", "probe", "person");
  for (const visit of [...run.running, ...waiting, ...run.failed]) {
    if (worksApart(visit)) known.set(workspaceOf(visit), visit.base);
  }
  for (const scope of run.scopes.values()) {
    const isOpen = scope.parent !== undefined && !isOver(scope.parent.state);
    if (isOpen && hasOwnFiles(run, scope)) known.set(scope.id, filesIn(run, scope.id).snapshot);
  }
  return known;
}

/**
 * The newest snapshots: those that were stored last, unless a later event knows more about the same
 * files.
 */
export function savedIn(stored: SavedSnapshots, at: (seq: number) => Run): SavedFiles {
  const { commit, own = {}, seq = 0, ownSeq = 0 } = stored;
  const [then, thenOwn, now] = [at(seq), at(ownSeq), at(Number.POSITIVE_INFINITY)];
  const isNewest = (workspace: string): boolean =>
    thenOwn.files.get(workspace)?.snapshot === now.files.get(workspace)?.snapshot;
  const kept: Record<string, string> = {};
  for (const [workspace, known] of ownWorkspaces(now)) {
    const saved = (isNewest(workspace) ? own[workspace] : undefined) ?? known;
    if (saved !== undefined) kept[workspace] = saved;
  }
  const shared = commit !== undefined && then.snapshot === now.snapshot ? { commit } : {};
  return { ...shared, own: kept };
}

/**
 * The visits whose attempts may have started elsewhere. A step that works apart and has no base yet did
 * not: its workspace was never made. Nor did one that takes the result of an earlier run (reuse/Q1).
 */
export function maybeStarted({ running }: Run): readonly Visit[] {
  return [...running].filter(
    (visit) => foundBy(visit) === undefined && (!worksApart(visit) || visit.base !== undefined),
  );
}
