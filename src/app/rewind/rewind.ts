/**
 * Rewinds a run that no other process drives, and restores its files.
 *
 * Owns: the request of each command to the engine.
 * Does not: work out what a rewind does (rewind-preview.ts), or change a run; its owner does.
 */

import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findStep } from "../../core/run.ts";
import { parseVisit, stepPath } from "../../core/step-path.ts";
import { checkpointNamed } from "../../view/work-history.ts";
import { restoreSnapshot } from "../../workspace/snapshot/restore.ts";
import {
  planRestore,
  type RestorePreview,
  shownPlan,
} from "../../workspace/snapshot/restore-plan.ts";
import { openWorkspace } from "../../workspace/snapshot/workspace.ts";
import { type Executed, execute } from "../drive/drive.ts";
import { refuseOfFleet, unavailable } from "../drive/ownership.ts";
import { openRunWorkspace } from "../drive/run-workspace.ts";
import { NO_DISPLAY } from "../drive/screen.ts";
import type { LoadedRun } from "../loaded-run.ts";
import { isSnapshot, stepNamed } from "../project/names.ts";
import type { Project } from "../project/project.ts";
import { command, naming, Refusal } from "../refusal.ts";
import type { FilesOption } from "./rewind-files.ts";
import { previewRewind, type RewindRequest, rewindFact, visitOf } from "./rewind-preview.ts";

/** Rewinds the run and leaves it stopped; starts no step. */
export async function rewindRun(
  project: Project,
  known: LoadedRun,
  request: RewindRequest,
): Promise<Executed> {
  return execute(project, known, {
    display: NO_DISPLAY,
    foreign: "keep",
    stopBy: "perdure rewind",
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

/** A snapshot of files, and the name that a person gave. */
interface NamedSnapshot {
  readonly name: string;
  readonly commit: string;
}

/** The snapshot with this name; undefined when the name is that of a step. */
export function snapshotNamed(known: LoadedRun, name: string): NamedSnapshot | undefined {
  const { events, shortId } = known;
  if (!isSnapshot(known, name)) return undefined;
  const { commit } = naming(shortId, () => checkpointNamed(events, name));
  return commit === undefined ? undefined : { name, commit };
}

/** The files before a step or a visit, or those of a snapshot. */
function filesBefore(known: LoadedRun, name: string): NamedSnapshot {
  const snapshot = snapshotNamed(known, name);
  if (snapshot !== undefined) return snapshot;
  const place = parseVisit(stepNamed(known, name));
  const commit = visitOf(known, findStep(known.run, stepPath(place)), place)?.base;
  if (commit !== undefined) return { name, commit };
  const message = `there is no snapshot of the files before ${name}`;
  throw new Refusal("no-snapshots", message, command("timeline", known.shortId));
}

/** Writes the files before a step or a visit, or those of a snapshot, into an empty directory. */
export async function restoreInto(
  project: Project,
  known: LoadedRun,
  name: string,
  path: string,
): Promise<void> {
  const { commit } = naming(known.shortId, () => filesBefore(known, name));
  const { store } = await openRunWorkspace(project, known);
  if (existsSync(path) && readdirSync(path).length > 0) {
    const next = command("rewind", known.shortId, name, "--into", "NEW-DIR");
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
  { commit }: NamedSnapshot,
): Promise<RestorePreview | undefined> {
  refuseOfFleet(project, known, "a rewind of files alone");
  const refusal = unavailable(known);
  if (refusal !== undefined) throw refusal;
  const { workspace } = await openRunWorkspace(project, known);
  return workspace && shownPlan(await planRestore(workspace, commit));
}

/** Restores files in the run's workspace; sets the present ones aside and records that. */
export async function restoreWorkspace(
  project: Project,
  known: LoadedRun,
  { name, commit }: NamedSnapshot,
  files: FilesOption | undefined,
): Promise<Executed> {
  const here = known.plan.workspace?.kind === "here";
  if ((files ?? (here ? "keep" : "restore")) === "keep") {
    const why = here
      ? "these are your own files"
      : `${name} names files, and --files keep keeps yours`;
    const next = command("rewind", known.shortId, name, "--files", "restore");
    throw new Refusal("not-confirmed", `${why}; nothing was changed`, next);
  }
  return execute(project, known, {
    display: NO_DISPLAY,
    foreign: "keep",
    stopBy: "perdure rewind",
    requested: async () => [{ type: "restore-requested", commit, of: name }],
  });
}
