/**
 * Moved runs: the project of a run is in another directory, and the paths in the run change with
 * it. Earlier events stay as they were.
 *
 * Owns: which paths of a run belong to its project.
 * Does not: move any file.
 */

import type { Output, RunMoved } from "./event.ts";
import { draft, type Run, type Visit } from "./run.ts";
import { noteFiles, restoreFirst, SHARED } from "./workspace-files.ts";

/** A path in the old directory, changed to the new one; other paths stay as they are. */
export function movedPath({ from, to }: Pick<RunMoved, "from" | "to">, path: string): string {
  if (path === from) return to;
  return path.startsWith(`${from}/`) ? `${to}${path.slice(from.length)}` : path;
}

/**
 * Applies `run.moved` to the run: for evolve.ts (run/C2), and to inspect a project that was moved.
 */
export function move(run: Run, event: RunMoved): void {
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
