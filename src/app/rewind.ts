/**
 * Rewinds a run that no other process drives, and restores its files.
 *
 * Owns: the request of each command to the engine.
 * Does not: work out what a rewind does (rewind-preview.ts), or change a run; its owner does.
 */

import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { checkpointNamed, type Point } from "../view/checkpoint-name.ts";
import { restoreSnapshot } from "../workspace/snapshot/restore.ts";
import { planRestore, type RestorePreview, shownPlan } from "../workspace/snapshot/restore-plan.ts";
import { openWorkspace } from "../workspace/snapshot/workspace.ts";
import { type Executed, execute } from "./drive.ts";
import type { LoadedRun } from "./loaded-run.ts";
import { unavailable } from "./ownership.ts";
import type { Project } from "./project.ts";
import { command, naming, Refusal } from "./refusal.ts";
import { previewRewind, type RewindRequest, rewindFact } from "./rewind-preview.ts";
import { openRunWorkspace } from "./run-workspace.ts";
import { NO_DISPLAY } from "./screen.ts";

/** Rewinds the run; nothing is started, and the run stays stopped. */
export async function rewindRun(
  project: Project,
  known: LoadedRun,
  request: RewindRequest,
): Promise<Executed> {
  return execute(project, known, {
    display: NO_DISPLAY,
    foreign: "keep",
    stopBy: `perdure ${request.verb}`,
    requested: async (now) => [await rewindFact(now, await previewRewind(project, now, request))],
  });
}

/** The snapshot of what a rewind or a restore has set aside since a run was loaded, if it did. */
export function filesSetAside(before: LoadedRun, after: LoadedRun): string | undefined {
  const restored = after.events
    .slice(before.events.length)
    .findLast(({ event }) => event.type === "run.restored")?.event;
  return restored?.type === "run.restored" ? restored.aside : undefined;
}

/** The files of a checkpoint. */
interface Checkpoint {
  readonly name: string;
  readonly commit: string;
}

/** The checkpoint of a step, a visit, an attempt or a snapshot. */
export function restorePointNamed(known: LoadedRun, name: string): Checkpoint {
  const { commit } = pointOf(known, name);
  if (commit !== undefined) return { name, commit };
  throw new Refusal("impossible", `the files of "${name}" are already in place`);
}

function pointOf({ events, shortId }: LoadedRun, name: string): Point {
  return naming(shortId, () => checkpointNamed(events, name));
}

/** Writes the files into an empty directory, where nothing can be overwritten. */
export async function restoreInto(
  project: Project,
  known: LoadedRun,
  { name, commit }: Checkpoint,
  path: string,
): Promise<void> {
  const { store } = await openRunWorkspace(project, known);
  if (existsSync(path) && readdirSync(path).length > 0) {
    const next = command("restore", known.shortId, name, "--into", "NEW-DIR");
    throw new Refusal("not-empty", `${path} is not empty`, next);
  }
  mkdirSync(path, { recursive: true });
  const scratch = mkdtempSync(join(tmpdir(), "perdure-restore-"));
  try {
    const workspace = await openWorkspace(store, { path, indexFile: join(scratch, "index") });
    await restoreSnapshot(workspace, commit);
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

/** What restoring changes in the run's own workspace; undefined when that is not there. */
export async function previewRestore(
  project: Project,
  known: LoadedRun,
  { commit }: Checkpoint,
): Promise<RestorePreview | undefined> {
  const refusal = unavailable(known);
  if (refusal !== undefined) throw refusal;
  const { workspace } = await openRunWorkspace(project, known);
  return workspace && shownPlan(await planRestore(workspace, commit));
}

/** Restores the files of the run's own workspace; what is there is set aside and journalled. */
export async function restoreWorkspace(
  project: Project,
  known: LoadedRun,
  { name, commit }: Checkpoint,
  { overwrite }: { readonly overwrite: boolean },
): Promise<Executed> {
  if (known.plan.workspace?.kind === "here" && !overwrite) {
    const message = "these are your own files; nothing was changed";
    throw new Refusal("not-confirmed", message, command("restore", known.shortId, name, "--yes"));
  }
  return execute(project, known, {
    display: NO_DISPLAY,
    foreign: "keep",
    stopBy: "perdure restore",
    requested: async () => [{ type: "restore-requested", commit, of: name }],
  });
}
