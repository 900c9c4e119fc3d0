/**
 * Moved runs: the project of a run is in another directory, and the paths in the run change with it.
 * On another machine, its workspaces are made again from snapshots. Earlier events stay as they were.
 *
 * Owns: which paths of a run belong to its project; the choice among the snapshots that are known of a
 *   workspace; which attempts may have started elsewhere.
 * Does not: move a file, take a snapshot or make a workspace (rooms `engine` and `app`).
 */

import { foundBy } from "./attempt/reuse.ts";
import type { EventOf, Output } from "./event.ts";
import { isOver } from "./graph/visit-state.ts";
import { draft, type Run, type Visit, waitingFor } from "./run.ts";
import {
  filesIn,
  hasOwnFiles,
  hasOwnWorkspace,
  noteFiles,
  restoreFirst,
  SHARED,
  workspaceOf,
} from "./workspace-files.ts";

/** A path in the old directory, changed to the new one; other paths stay as they are. */
export function movedPath(
  { from, to }: Pick<EventOf<"run.moved">, "from" | "to">,
  path: string,
): string {
  if (path === from) return to;
  return path.startsWith(`${from}/`) ? `${to}${path.slice(from.length)}` : path;
}

/**
 * Applies `run.moved` to the run: for evolve.ts (run/C2), and to inspect a project that was moved.
 */
export function move(run: Run, event: EventOf<"run.moved">): void {
  const { created, workspace } = run;
  const at = (path: string): string => movedPath(event, path);
  if (created !== undefined) {
    const logs = created.logs === undefined ? {} : { logs: at(created.logs) };
    const project = created.project === undefined ? {} : { project: at(created.project) };
    const paths = { cwd: at(created.cwd), file: at(created.file) };
    draft(run).created = { ...created, ...paths, ...project, ...logs };
  }
  if (workspace !== undefined) draft(run).workspace = { ...workspace, path: at(workspace.path) };
  for (const { steps } of run.scopes.values()) {
    for (const record of steps) for (const visit of record?.visits ?? []) moveVisit(visit, at);
  }
  if (event.commit === undefined) return;
  noteFiles(run, SHARED, { snapshot: event.commit, clean: false });
  // The run's own workspace is made again from the snapshot; the project belongs to a person.
  const shared = workspace === undefined || workspace.kind === "here";
  if (shared && event.files === "restore") restoreFirst(run, event.commit, true);
}

function moveVisit(visit: Visit, at: (path: string) => string): void {
  const move = (output: Output): Output => ({ ...output, path: at(output.path) });
  const { state, conversation, submitted } = visit;
  const moveAll = (outputs: Readonly<Record<string, Output>>): Record<string, Output> =>
    Object.fromEntries(Object.entries(outputs).map(([name, one]) => [name, move(one)] as const));
  if (state.status === "completed") {
    draft(visit).state = { ...state, outputs: moveAll(state.outputs) };
  }
  if (submitted !== undefined) {
    const held = { ...submitted.held, outputs: moveAll(submitted.held.outputs) };
    draft(visit).submitted = { ...submitted, held };
  }
  if (conversation?.checkpoint !== undefined) {
    draft(visit).conversation = { ...conversation, checkpoint: move(conversation.checkpoint) };
  }
}

/** Snapshots of the files as they are now. */
export interface SavedFiles {
  /** Those of the run's workspace; absent when it has none yet. */
  readonly commit?: string;
  /** Those of the workspaces of single steps and instances, by name. */
  readonly own: Readonly<Record<string, string>>;
}

/**
 * The workspaces of single steps and instances whose work is not merged, and the last snapshot of
 * each that the journal knows.
 */
export function ownWorkspaces(run: Run): ReadonlyMap<string, string | undefined> {
  const known = new Map<string, string | undefined>();
  const waiting = waitingFor(run, "owner", "retry", "slot", "probe", "person");
  for (const visit of [...run.running, ...waiting, ...run.failed]) {
    if (hasOwnWorkspace(visit)) known.set(workspaceOf(visit), visit.base);
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
export function savedIn(
  /** Snapshots that were stored while the run was driven, and the last event before each. */
  stored: Partial<SavedFiles> & { readonly seq?: number; readonly ownSeq?: number },
  at: (seq: number) => Run,
): SavedFiles {
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
    (visit) =>
      foundBy(visit) === undefined && (!hasOwnWorkspace(visit) || visit.base !== undefined),
  );
}
