/**
 * Gives a run to a fleet: stores what it needs, and queues it.
 *
 * Owns: the order: what the run needs is stored first; then the run, its files and its place in a queue,
 *   all together.
 * Does not: read a pipeline, or check its input (start.ts).
 * Invariants:
 * - submit/B1 The store has the run, its files and its job, or none of them.
 */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { EVENT_VERSION } from "../../core/event.ts";
import { runDirOf, type StateDir } from "../../engine/state-dir.ts";
import type { FleetJournal, FleetTransaction } from "../../journal/fleet-journal.ts";
import type { NewRun } from "../../journal/run-log.ts";
import type { StoredFile } from "../../journal/stored-files.ts";
import type { Plan } from "../../plan/plan.ts";
import { assert } from "../../util/assert.ts";
import { newRunOf, type RunOrigin } from "../start.ts";
import type { FleetParts, RunQueue } from "./dispatch.ts";
import { storeRun } from "./ship.ts";

/** No owner has had the run yet. */
const NO_EPOCH = 0;
/** The folder for what a submission writes before it is stored. */
const STAGING = "submitting";

/** A run for a fleet. */
export interface Submission {
  readonly plan: Plan;
  readonly origin: RunOrigin;
  readonly queue: RunQueue;
}

/** Stores a new run and queues it; returns its id. */
export async function submitRun(
  { journal, dispatch }: FleetParts,
  dir: StateDir,
  submission: Submission,
): Promise<string> {
  const stored = await storedRun(journal, dir, submission);
  await journal.transaction((transaction) => createQueued({ transaction, dispatch }, stored));
  return stored.run.runId;
}

/** A run and its files, whose blobs are in the store. */
export interface StoredRun {
  readonly run: NewRun;
  readonly files: readonly StoredFile[];
  readonly queue: RunQueue;
}

/** Creates a run with its files and its place in a queue, in one transaction (submit/B1). */
export async function createQueued(
  { transaction, dispatch }: Pick<FleetParts, "dispatch"> & { transaction: FleetTransaction },
  { run, files, queue }: StoredRun,
): Promise<void> {
  await transaction.log.create(run);
  await transaction.files.put(run.runId, NO_EPOCH, files);
  await dispatch.add(transaction, run.runId, queue);
}

/** Stores what a new run needs. */
export async function storedRun(
  journal: FleetJournal,
  dir: StateDir,
  { plan, origin, queue }: Submission,
): Promise<StoredRun> {
  const run = await newRunOf(dir, plan, origin);
  const { runId, created, time } = run;
  const planOf = (fingerprint: string): Plan => {
    assert(fingerprint === created.fingerprint, "a new run has one plan");
    return plan;
  };
  // Not among the runs of the project: a kill here must not leave a run without a journal there.
  const place = { ...runDirOf(dir, runId), root: join(dir.root, STAGING, runId) };
  const known = {
    ...{ id: runId, plan, planOf, plans: new Map([[created.fingerprint, plan]]) },
    events: [{ seq: 1, time, version: EVENT_VERSION, event: created }],
    ...{ dir: place, moved: undefined, answers: new Map() },
  };
  try {
    const files = await storeRun({ project: { dir, journal }, known, blobs: journal.blobs });
    return { run, files, queue };
  } finally {
    // The run is in the store; nothing of it stays in the project.
    rmSync(place.root, { recursive: true, force: true });
  }
}
