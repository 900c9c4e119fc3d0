/**
 * Removes the files of runs, and keeps their records.
 *
 * Owns: the choice of runs, the removal of their files, and the removal of shared files that no run
 * uses any longer. The copies of runs of fleets go as a whole (fleet/reading-copy.ts).
 * Does not: remove records of runs from the journal.
 */

import { existsSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { outputsNamedBy } from "../core/outputs.ts";
import { attemptOf, visitRef } from "../core/run.ts";
import { stepPath } from "../core/step-path.ts";
import { attemptDirOf, runDirOf, type StateDir } from "../engine/state-dir.ts";
import { hasFiles } from "../journal/journal.ts";
import { type LeaseBlock, takeLease } from "../journal/leases.ts";
import type { RunSummary } from "../journal/run-log.ts";
import { mayLive } from "../runner/process/adopt.ts";
import { parseBytes } from "../util/bytes.ts";
import { defined } from "../util/defined.ts";
import { parseAge } from "../util/duration.ts";
import { failpoint } from "../util/failpoint.ts";
import { shownStatus } from "../view/run-table.ts";
import type { SnapshotStore } from "../workspace/snapshot/store.ts";
import { WorkspaceError } from "../workspace/workspace-error.ts";
import type { removeWorktree } from "../workspace/worktree/worktree.ts";
import { isOwnerAlive, thisOwner } from "./drive/owner.ts";
import { cleanCopies, sizeOf } from "./fleet/reading-copy.ts";
import { type LoadedRun, loadRun } from "./loaded-run.ts";
import { livenessOf, type Project, resolveRunId, shortIdOf } from "./project/project.ts";
import { Refusal } from "./refusal.ts";

export interface CleanOptions {
  readonly olderThan?: string;
  readonly status?: string;
  readonly keepLast?: string;
  readonly maxSize?: string;
  readonly dryRun?: boolean;
  readonly all?: boolean;
  readonly force?: boolean;
}

const COPY_ID_SHOWN = 8;
const STATES = ["completed", "failed", "interrupted", "waiting"];

/** The result for one run. */
export interface CleanedRun {
  readonly runId: string;
  readonly shortId: string;
  readonly folder: string;
  /** Why Perdure kept the files of the run, if it did. */
  readonly kept?: string;
}

/** The result for all runs. */
interface CleanResult {
  readonly runs: number;
  /** The size of the removed folders; with `--dry-run`, of those that a clean would remove. */
  readonly bytes: number;
  /** True when unused outputs were kept, because a run has a living owner. */
  readonly outputsKept: boolean;
}

/** Removes the copies of runs of fleets; those that were used after `olderThan` stay. */
export function cleanFleetCopies(
  { olderThan, dryRun = false }: CleanOptions,
  report: (run: CleanedRun) => void,
): CleanResult {
  const copies = cleanCopies({ usedBefore: Date.now() - ageOf(olderThan), dryRun });
  for (const { runId, folder } of copies) {
    report({ runId, shortId: runId.slice(0, COPY_ID_SHOWN), folder });
  }
  const bytes = copies.reduce((sum, one) => sum + one.bytes, 0);
  return { runs: copies.length, bytes, outputsKept: false };
}

/** Cleans the named runs, or the runs that the options choose: by default all completed ones. */
export async function cleanRuns(
  project: Project,
  ids: readonly string[],
  options: CleanOptions,
  report: (run: CleanedRun) => void,
): Promise<CleanResult> {
  const chosen = await chooseRuns(project, ids, options);
  const forks = forksOf(await project.journal.log.list({}));
  const { force = false, dryRun = false } = options;
  let freed = 0;
  let last: LoadedRun | undefined;
  // The newest run comes first, so a fork goes before the run that it was forked from.
  for (const { runId, forkedFrom } of chosen) {
    const known = await loadRun(project, runId);
    const { shortId, dir } = known;
    const bytes = sizeOf(dir.root);
    const [fork] = forks.get(runId) ?? [];
    const kept =
      fork === undefined
        ? await removeRun(project, known, { force, dryRun })
        : `run ${await shortIdOf(project.journal, fork)} was forked from it and uses its files`;
    report({ runId, shortId, folder: dir.root, ...defined({ kept }) });
    if (kept !== undefined) continue;
    forks.get(forkedFrom ?? "")?.delete(runId);
    freed += bytes;
    last = known;
  }
  const outputsKept = dryRun ? false : !(await tidy(project, last));
  return { runs: chosen.length, bytes: freed, outputsKept };
}

/** The forks of each run that still have files: they use outputs in the folder of that run. */
function forksOf(runs: readonly RunSummary[]): ReadonlyMap<string, Set<string>> {
  const forks = new Map<string, Set<string>>();
  for (const { runId, forkedFrom, cleanedAt } of runs) {
    if (forkedFrom === undefined || cleanedAt !== undefined) continue;
    forks.set(forkedFrom, (forks.get(forkedFrom) ?? new Set()).add(runId));
  }
  return forks;
}

async function chooseRuns(
  project: Project,
  ids: readonly string[],
  options: CleanOptions,
): Promise<readonly RunSummary[]> {
  const { journal, dir } = project;
  const named = new Set<string>();
  for (const id of ids) named.add(await resolveRunId(journal, id));
  const before = Date.now() - ageOf(options.olderThan);
  const states = statesOf(options);
  const keepLast = countOf(options.keepLast);
  const isUnfinished = (run: RunSummary): boolean => existsSync(runDirOf(dir, run.runId).root);
  const all = await journal.log.list({});
  const uncleaned = all.filter(({ cleanedAt }) => cleanedAt === undefined);
  const kept = new Set(uncleaned.slice(0, keepLast));
  const fits = await fitting(project, uncleaned, options.maxSize);
  return all.filter((run) => {
    if (named.size > 0 && !named.has(run.runId)) return false;
    // A kill interrupted the removal of this run.
    if (run.cleanedAt !== undefined) return isUnfinished(run);
    if (named.size > 0) return true;
    return run.updatedAt <= before && states.has(stateOf(run)) && !kept.has(run) && !fits.has(run);
  });
}

function ageOf(text: string | undefined): number {
  if (text === undefined) return 0;
  const age = parseAge(text);
  if (age === undefined) {
    throw new Refusal(
      "bad-option",
      `--older-than takes a duration such as 7d or 12h, not "${text}"`,
    );
  }
  return age;
}

/** The states of the runs to clean. Without `--all`, no run with a living owner has one of them. */
function statesOf({ status, all }: CleanOptions): ReadonlySet<string> {
  if (all === true) return new Set([...STATES, "queued", "running"]);
  const words = (status ?? "completed").split(",").map((word) => word.trim());
  const wrong = words.find((word) => !STATES.includes(word));
  if (wrong === undefined) return new Set(words);
  throw new Refusal("bad-option", `--status takes ${STATES.join(", ")}, not "${wrong}"`);
}

function countOf(text: string | undefined): number {
  if (text === undefined) return 0;
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new Refusal("bad-option", `--keep-last takes a whole number, not "${text}"`);
}

function stateOf(run: RunSummary): string {
  return shownStatus({ ...run, alive: livenessOf(run.lease) === "owned" });
}

/** The newest runs whose files together fit into a size; none without a size. */
async function fitting(
  project: Project,
  runs: readonly RunSummary[],
  size: string | undefined,
): Promise<ReadonlySet<RunSummary>> {
  const fits = new Set<RunSummary>();
  if (size === undefined) return fits;
  let left = parseBytes(size);
  if (left === undefined) {
    throw new Refusal("bad-option", `--max-size takes a size such as 500MB or 2GB, not "${size}"`);
  }
  const counted = new Set<string>();
  for (const run of runs) {
    left -= sizeOf(runDirOf(project.dir, run.runId).root);
    const { events } = await project.journal.log.load(run.runId);
    for (const { sha256, bytes } of events.flatMap(({ event }) => outputsNamedBy(event))) {
      // Runs share artifacts: each artifact counts for the newest run that names it.
      if (!counted.has(sha256)) left -= bytes;
      counted.add(sha256);
    }
    if (left < 0) break;
    fits.add(run);
  }
  return fits;
}

/**
 * Removes the artifacts that no run names, including those that a killed clean left, and packs the
 * snapshots. Returns false when a living owner prevented the search for unused artifacts.
 */
async function tidy(project: Project, last: LoadedRun | undefined): Promise<boolean> {
  const { artifacts } = runDirOf(project.dir, "");
  let done = true;
  if (existsSync(artifacts)) {
    const { dropArtifacts } = await import("../workspace/artifact.ts");
    const block = await blockOwners(project);
    done = block !== undefined;
    try {
      if (block !== undefined) dropArtifacts(artifacts, await project.journal.log.outputs());
    } finally {
      await block?.lift();
    }
  }
  const store = last === undefined ? undefined : await storeOf(project, last);
  if (store === undefined) return done;
  const { tidyStore } = await import("../workspace/snapshot/store.ts");
  const held = await project.journal.leases.held();
  await tidyStore(store, { others: held.some(({ owner }) => isOwnerAlive(owner)) });
  return done;
}

/** Prevents other processes from taking a lease; undefined while a living process has one. */
async function blockOwners({ journal }: Project): Promise<LeaseBlock | undefined> {
  const held = await journal.leases.held();
  const dead = held.filter(({ owner }) => !isOwnerAlive(owner));
  return journal.leases.block(dead);
}

interface RemovalOptions {
  readonly force: boolean;
  readonly dryRun: boolean;
}

/** Removes the files of a run; returns the reason when it keeps them. */
async function removeRun(
  project: Project,
  known: LoadedRun,
  options: RemovalOptions,
): Promise<string | undefined> {
  const living = livingReason(known);
  if (living !== undefined) return living;
  try {
    if (!options.dryRun) return await removeOwned(project, known, options);
    const worktree = await worktreeOf(project, known);
    if (worktree === undefined) return undefined;
    const { checkRemoval } = await import("../workspace/worktree/worktree.ts");
    await checkRemoval({ ...worktree, force: options.force });
    return undefined;
  } catch (error) {
    if (!(error instanceof WorkspaceError)) throw error;
    const forced =
      error.code === "work-at-risk" ? `, or: perdure clean ${known.shortId} --force` : "";
    return `${error.message}; ${error.remedy}${forced}`;
  }
}

/** The snapshots of a project, if it has any. */
async function storeOf({ dir }: Project, known: LoadedRun): Promise<SnapshotStore | undefined> {
  const stateDir = dir.root;
  if (!existsSync(join(stateDir, "snapshots.git"))) return undefined;
  const { openStore } = await import("../workspace/snapshot/store.ts");
  return openStore({ project: directoryOf(dir, known), stateDir });
}

/**
 * Why a run is still alive: it has an owner, or a step that outlived its owner and writes files.
 */
function livingReason({ run, dir, shortId, liveness }: LoadedRun): string | undefined {
  if (liveness === "owned") return "it is running";
  const living = [...run.running].find((visit) => mayLive(attemptDirOf(dir, attemptOf(visit))));
  if (living === undefined) return undefined;
  return `its step ${stepPath(visitRef(living))} still runs; continue it: perdure resume ${shortId}`;
}

async function removeOwned(
  project: Project,
  known: LoadedRun,
  options: RemovalOptions,
): Promise<string | undefined> {
  const { journal } = project;
  const acquired = await takeLease(journal.leases, known.id, {
    owner: thisOwner(),
    isAlive: isOwnerAlive,
  });
  if (!acquired.ok) return "it is running";
  try {
    await removeAll(project, known, options);
    if (hasFiles(journal)) {
      const { removeStored } = await import("./fleet/ship.ts");
      await removeStored(journal, known.id, acquired.epoch);
    }
    return undefined;
  } finally {
    await journal.leases.release(known.id, acquired.epoch);
  }
}

/**
 * Removes everything. The journal says so before snapshots and folder go, so that the next clean
 * can finish an interrupted one.
 */
async function removeAll(
  project: Project,
  known: LoadedRun,
  { force }: RemovalOptions,
): Promise<void> {
  await removeOwn(project, known);
  const worktree = await worktreeOf(project, known);
  if (worktree !== undefined) {
    const { removeWorktree } = await import("../workspace/worktree/worktree.ts");
    await removeWorktree({ ...worktree, force });
  }
  if (known.cleanedAt === undefined) await project.journal.log.markCleaned(known.id, Date.now());
  await dropSnapshots(project, known);
  failpoint("clean.refs-dropped");
  if (existsSync(known.dir.root)) rmSync(known.dir.root, { recursive: true });
  failpoint("clean.folder-removed");
}

async function dropSnapshots(project: Project, known: LoadedRun): Promise<void> {
  const store = await storeOf(project, known);
  if (store === undefined) return;
  const { dropRefs, listRefs, REFS } = await import("../workspace/snapshot/store.ts");
  const refs = await listRefs(store, `${REFS}${known.id}/`);
  await dropRefs(
    store,
    refs.map(({ ref }) => ref),
  );
}

/** Removes the worktrees of single steps. */
async function removeOwn(project: Project, known: LoadedRun): Promise<void> {
  const below = join(known.dir.root, "own");
  if (!existsSync(below)) return;
  const { findRepository } = await import("../workspace/repository.ts");
  const { removeOwnWorktrees } = await import("../workspace/worktree/own-worktree.ts");
  const { branchOf } = await import("../engine/run-workspace.ts");
  const repository = await findRepository(directoryOf(project.dir, known));
  if (repository === undefined) return;
  await removeOwnWorktrees(repository, { below, branches: `${branchOf(known.id)}-` });
}

/** The worktree of a run, complete or not. */
async function worktreeOf(
  project: Project,
  known: LoadedRun,
): Promise<Parameters<typeof removeWorktree>[0] | undefined> {
  const { plan, run, dir, id } = known;
  if (plan.workspace?.kind !== "worktree") return undefined;
  const { findRepository } = await import("../workspace/repository.ts");
  const { branchOf, workspacePathOf } = await import("../engine/run-workspace.ts");
  const repository = await findRepository(directoryOf(project.dir, known));
  if (repository === undefined) return undefined;
  const branch = run.workspace?.branch ?? branchOf(id);
  return { repository, path: workspacePathOf(dir), branch };
}

/** The directory in which a run started; the project's directory when that is gone. */
function directoryOf(dir: StateDir, { run }: LoadedRun): string {
  const cwd = run.created?.cwd ?? "";
  return existsSync(cwd) ? cwd : dirname(dir.root);
}
