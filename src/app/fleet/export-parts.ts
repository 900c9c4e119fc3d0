/**
 * The parts of a run of a fleet that an exported file has: those of the copy on this machine, and the
 * transcripts in the store.
 *
 * Does not: write the file (transfer/export.ts), or own the run.
 * Invariants:
 * - export-parts/X1 An attempt that the journal calls running has a claim of a process elsewhere, as on a
 *   machine that takes the run over (fetch/F2).
 */
import { basename, join } from "node:path";
import { maybeStarted } from "../../core/move.ts";
import { attemptOf } from "../../core/run.ts";
import { exportSaved } from "../../engine/export-files.ts";
import { attemptDirOf } from "../../engine/state-dir.ts";
import { ATTEMPT_FILE } from "../../runner/process/attempt-folder.ts";
import type { PartSource } from "../../workspace/archive.ts";
import type { LoadedRun } from "../loaded-run.ts";
import type { FleetWorkers, Project } from "../project/project.ts";
import { type ExportParts, folderParts, RUN_PART } from "../transfer/run-archive.ts";
import { ELSEWHERE } from "./fetch.ts";
import { fetchNewest } from "./fleet-result.ts";

interface FleetExport {
  /** A folder for what is fetched. */
  readonly scratch: string;
  /** The file for the snapshots. */
  readonly bundle: string;
  /** Leaves out the commits that the project's own repository has. */
  readonly withoutBase?: boolean;
}

/** Fetches what an exported file has. */
export async function fleetParts(
  project: Project,
  workers: FleetWorkers,
  known: LoadedRun,
  { scratch, bundle, withoutBase = false }: FleetExport,
): Promise<ExportParts> {
  const { id, run, dir } = known;
  const { about, saved, store } = await fetchNewest(project, workers, known);
  const files = await exportSaved(store, saved, { run, file: bundle, withoutBase });
  const { conversations } = about;
  const transcripts: PartSource[] = [];
  for (const [index, { part }] of conversations.entries()) {
    const file = join(scratch, `transcript-${index}`);
    await workers.fetchPart(id, part, file);
    transcripts.push({ path: part, file });
  }
  const notes: string[] = [];
  const folder = folderParts(dir.root, "", notes);
  const parts = [...folder, ...claimsFor(known, folder), ...transcripts];
  return { project: run.created?.project ?? about.project, files, conversations, parts, notes };
}

/** export-parts/X1. */
function claimsFor({ run, dir }: LoadedRun, folder: readonly PartSource[]): readonly PartSource[] {
  const there = new Set(folder.map(({ path }) => path));
  return maybeStarted(run)
    .map((visit) => basename(attemptDirOf(dir, attemptOf(visit))))
    .map((name) => `${RUN_PART}attempts/${name}/${ATTEMPT_FILE.pid}`)
    .filter((path) => !there.has(path))
    .map((path) => ({ path, text: ELSEWHERE }));
}
