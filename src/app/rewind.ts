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

/** Rewinds the run and leaves it stopped; starts no step. */
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

/**
 * The snapshot of the files that a rewind or a restore has set aside between two loads of a run.
 */
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

/** Finds a checkpoint by a step, a visit, an attempt or a snapshot. */
export function restorePointNamed(known: LoadedRun, name: string): Checkpoint {
  const { commit } = pointOf(known, name);
  if (commit !== undefined) return { name, commit };
  throw new Refusal("impossible", `the files of "${name}" are already in place`);
}

function pointOf({ events, shortId }: LoadedRun, name: string): Point {
  return naming(shortId, () => checkpointNamed(events, name));
}

/** Writes the files of a checkpoint into an empty directory. */
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

/**
 * What a restore would change in the run's workspace; undefined when the workspace does not exist.
 */
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

/** Restores files in the run's workspace; sets the present ones aside and records that. */
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
