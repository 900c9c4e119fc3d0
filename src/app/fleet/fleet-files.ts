/**
 * The files of a run of a fleet, brought to this machine for the person who takes the run's result or
 * exports the run. They come from the store into the copy of the run.
 *
 * Owns: which snapshot is the result, in which repository it may be taken, and which parts an exported
 *   file has.
 * Does not: merge or apply anything (take.ts), write the exported file (transfer/export.ts), or change the
 *   run, which stays in the fleet.
 * Invariants:
 * - fleet-files/X1 In an exported file, an attempt that the journal calls running has a claim of a process
 *   elsewhere, as on a machine that takes the run over (fetch/F2).
 */
import { basename, dirname, join } from "node:path";
import { replay } from "../../core/evolve.ts";
import { maybeStarted, type SavedFiles, savedIn } from "../../core/move.ts";
import { attemptOf, type Run } from "../../core/run.ts";
import { exportSaved } from "../../engine/export-files.ts";
import { attemptDirOf } from "../../engine/state-dir.ts";
import { ATTEMPT_FILE } from "../../runner/process/attempt-folder.ts";
import type { PartSource } from "../../workspace/archive.ts";
import { git } from "../../workspace/git.ts";
import { findRepository, type Repository, theirs } from "../../workspace/repository.ts";
import { openStore, type SnapshotStore } from "../../workspace/snapshot/store.ts";
import { bringWork } from "../../workspace/worktree/take.ts";
import type { LoadedRun } from "../loaded-run.ts";
import type { FleetWorkers, Project } from "../project/project.ts";
import { advice, Refusal } from "../refusal.ts";
import {
  type ArchivedRun,
  type ExportParts,
  folderParts,
  RUN_PART,
} from "../transfer/run-parts.ts";
import { ELSEWHERE } from "./fetch.ts";

/** The newest files of a run that a store has, in the copy of this machine. */
interface FetchedFiles {
  readonly about: ArchivedRun;
  readonly saved: SavedFiles;
  readonly store: SnapshotStore;
}

/** Fetches the snapshots of a run, and finds the newest ones. */
async function fetchNewest(
  { dir }: Project,
  workers: FleetWorkers,
  known: LoadedRun,
): Promise<FetchedFiles> {
  await workers.fetchFiles(known.id, "snapshots");
  const about = await workers.about(known.id);
  const { planOf, id, events } = known;
  const at = (seq: number): Run => replay(planOf, id, events.slice(0, seq));
  // The run may have continued since its events were read: a later snapshot belongs to later events.
  const isKnown = (seq = 0): boolean => seq <= events.length;
  const { commit, own, ...rest } = about;
  const then = {
    ...rest,
    ...(commit !== undefined && isKnown(about.seq) ? { commit } : {}),
    ...(own !== undefined && isKnown(about.ownSeq) ? { own } : {}),
  };
  const { commit: saved = known.run.snapshot, own: kept } = savedIn(then, at);
  const { root } = dir;
  return {
    about,
    saved: { ...(saved === undefined ? {} : { commit: saved }), own: kept },
    store: await openStore({ project: dirname(root), stateDir: root }),
  };
}

/** Brings the work of a worktree run into the repository here; undefined when the store has none. */
export async function bringResult(
  project: Project,
  workers: FleetWorkers,
  known: LoadedRun,
): ReturnType<typeof bringWork> {
  const repository = await findRepository(workers.near);
  if (repository === undefined) {
    throw notItsRepository(known, `${workers.near} belongs to no git repository`);
  }
  const { saved, store } = await fetchNewest(project, workers, known);
  if (saved.commit === undefined) return undefined;
  const within = withinWorktree(known);
  const work = await bringWork(store, repository, { snapshot: saved.commit, within });
  if (work !== undefined && !(await isRelated(repository, work.head.commit))) {
    const message = `the repository in ${repository.topLevel} has no commit that it started from`;
    throw notItsRepository(known, message);
  }
  return work;
}

/** The directory of its worktree in which the run works: that of the project in its repository. */
function withinWorktree({ id, run }: LoadedRun): string {
  const [, within = ""] = (run.workspace?.path ?? "").split(`/runs/${id}/workspace/`);
  return within;
}

async function isRelated({ topLevel }: Repository, commit: string): Promise<boolean> {
  const call = { ...theirs(topLevel), answers: [1, 128] };
  return (await git(call, "merge-base", "HEAD", commit)).exit === 0;
}

function notItsRepository({ shortId }: LoadedRun, why: string): Refusal {
  const message = `the result of run ${shortId} cannot be taken here: ${why}`;
  return new Refusal("no-workspace", message, advice("type it in a clone of its repository"));
}

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

/** fleet-files/X1. */
function claimsFor({ run, dir }: LoadedRun, folder: readonly PartSource[]): readonly PartSource[] {
  const there = new Set(folder.map(({ path }) => path));
  return maybeStarted(run)
    .map((visit) => basename(attemptDirOf(dir, attemptOf(visit))))
    .map((name) => `${RUN_PART}attempts/${name}/${ATTEMPT_FILE.pid}`)
    .filter((path) => !there.has(path))
    .map((path) => ({ path, text: ELSEWHERE }));
}
