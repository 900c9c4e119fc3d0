/**
 * The result of a run of a fleet, brought to this machine: its commits and its files come from the store,
 * into the copy of the run, and from there into the repository of the person who takes them.
 *
 * Owns: which snapshot is the result, and in which repository it may be taken.
 * Does not: merge or apply anything (take.ts), or change the run, which stays in the fleet.
 */
import { dirname } from "node:path";
import { replay } from "../../core/evolve.ts";
import { type SavedFiles, savedIn } from "../../core/move.ts";
import type { Run } from "../../core/run.ts";
import { git } from "../../workspace/git.ts";
import { findRepository, type Repository, theirs } from "../../workspace/repository.ts";
import { openStore, type SnapshotStore } from "../../workspace/snapshot/store.ts";
import { bringWork, type StoredWork } from "../../workspace/worktree/stored-work.ts";
import type { LoadedRun } from "../loaded-run.ts";
import type { FleetWorkers, Project } from "../project/project.ts";
import { advice, Refusal } from "../refusal.ts";
import type { ArchivedRun } from "../transfer/run-archive.ts";

/** The newest files of a run that a store has, in the copy of this machine. */
export interface FetchedFiles {
  readonly about: ArchivedRun;
  readonly saved: SavedFiles;
  readonly store: SnapshotStore;
}

/** Fetches the snapshots of a run, and finds the newest ones. */
export async function fetchNewest(
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
): Promise<StoredWork | undefined> {
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
