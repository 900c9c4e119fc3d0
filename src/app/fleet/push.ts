/**
 * `perdure push RUN`: moves a run of this machine to a fleet, with its events, files and conversations.
 *
 * Owns: the order. The run is held here for the store, everything is stored, and then the run, its files
 *   and its place in a queue appear in the store together.
 * Does not: remove anything here; the run stays as a record that belongs to the store.
 * Invariants:
 * - push/P1 The store has the whole run, or nothing of it that counts; then this machine still holds it.
 */
import { replay } from "../../core/evolve.ts";
import { attemptOf, visitRef } from "../../core/run.ts";
import { stepPath } from "../../core/step-path.ts";
import { fullSummary } from "../../core/summary.ts";
import { attemptDirOf } from "../../engine/state-dir.ts";
import type { StoredFile } from "../../journal/journal.ts";
import { planFingerprints } from "../../journal/run-log.ts";
import { mayLive } from "../../runner/process/adopt.ts";
import { defined } from "../../util/defined.ts";
import { failpoint } from "../../util/failpoint.ts";
import { execute } from "../drive/drive.ts";
import { thisStopper } from "../drive/owner.ts";
import { relinkWorktrees } from "../drive/run-workspace.ts";
import { NO_DISPLAY } from "../drive/screen.ts";
import { type LoadedRun, loadRun, reloadOwned } from "../loaded-run.ts";
import { openLocalProject, type Project, resolveRunId } from "../project/project.ts";
import { command, Refusal } from "../refusal.ts";
import type { FleetParts } from "./dispatch.ts";
import {
  appendRecorded,
  carryRequests,
  hasRun,
  holdFor,
  type MovedRun,
  placeOf,
  refuseDifferent,
} from "./moving.ts";
import { storeRun } from "./ship.ts";

/** A run that nobody has owned in the store yet. */
const NO_EPOCH = 0;

/** Moves a run of the project that serves a directory to a store. */
export async function pushRun(
  parts: FleetParts,
  from: string,
  named: string,
  place: string,
): Promise<MovedRun> {
  const project = await openLocalProject(from, "read-write");
  try {
    const runId = await resolveRunId(project.journal, named);
    const first = await loadRun(project, runId);
    refuse(first);
    const continues = !["completed", "failed", "stopped"].includes(first.run.state.status);
    const settled = await settleSteps(project, first);
    const epoch = await holdFor(project.journal.leases, { runId, shortId: first.shortId }, place);
    failpoint("push.held");
    const known = await reloadOwned(project, settled, { epoch });
    await relinkWorktrees(project, known);
    const isThere = await give(parts, project, known, continues);
    const { shortId, plan } = known;
    return { runId, shortId, pipeline: plan.name, place, isThere };
  } finally {
    await project.journal.close();
  }
}

function refuse(known: LoadedRun): void {
  const { shortId, cleanedAt, run, dir } = known;
  if (cleanedAt !== undefined) {
    const message = `the files of run ${shortId} were removed by perdure clean`;
    throw new Refusal("files-removed", message, command("show", shortId));
  }
  if (known.liveness === "owned") return;
  const living = [...run.running].find((visit) => mayLive(attemptDirOf(dir, attemptOf(visit))));
  if (living === undefined) return;
  const message = `step ${stepPath(visitRef(living))} of run ${shortId} still runs`;
  throw new Refusal("steps-alive", message, command("stop", shortId));
}

/** Records how the steps ended that a dead owner had started: their evidence is on this machine. */
async function settleSteps(project: Project, known: LoadedRun): Promise<LoadedRun> {
  if (known.liveness === "owned" || known.run.running.size === 0) return known;
  const stop = { mode: "now", by: thisStopper() } as const;
  return (await execute(project, known, { display: NO_DISPLAY, stop })).known;
}

/** Gives the run to the store; true when the store owns it already. */
async function give(
  { journal, dispatch }: FleetParts,
  project: Project,
  known: LoadedRun,
  continues: boolean,
): Promise<boolean> {
  const { id, run, plan } = known;
  const isKnown = await hasRun(journal.log, id);
  const stored = isKnown ? (await journal.log.load(id)).events : [];
  refuseDifferent(known.shortId, stored, known.events);
  const lease = isKnown ? await journal.leases.of(id) : undefined;
  const isOurs = lease?.owner?.place === placeOf(project.dir);
  if (isKnown && !isOurs) return true;
  const files = await filesFor(project, known, journal, isKnown);
  failpoint("push.stored");
  await journal.transaction(async (to) => {
    if (lease !== undefined) await continueIn(to.log, lease.epoch, known, stored.length);
    else await to.log.receive(received(known));
    const epoch = (await to.leases.of(id))?.epoch ?? NO_EPOCH;
    await to.files.put(id, epoch, files);
    await carryRequests(project.journal.inbox, to.inbox, run);
    for (const [attempt, answer] of known.answers) await to.inbox.answer(id, { attempt, answer });
    await to.leases.release(id, epoch);
    const { requires = [], concurrency: limit } = plan;
    const group = limit && { name: limit.group, max: limit.max };
    const queue = { requires: [...new Set(requires)], priority: 0, ...defined({ group }) };
    await dispatch.register(to, id, queue);
    if (continues) await dispatch.sendAgain(to, id, run.seq);
  });
  failpoint("push.given");
  return false;
}

/** Everything that the run has; what the store has beside it is removed there. */
async function filesFor(
  project: Project,
  known: LoadedRun,
  { files, blobs }: FleetParts["journal"],
  isKnown: boolean,
): Promise<readonly StoredFile[]> {
  const own = await storeRun({ project, known, blobs });
  const paths = new Set(own.map(({ path }) => path));
  const before = isKnown ? (await files.changedSince(known.id, 0)).files : [];
  const gone = before.filter(({ path, blobs: has }) => has !== undefined && !paths.has(path));
  return [...own, ...gone.map(({ path, mode }) => ({ path, mode, bytes: 0 }))];
}

function received(known: LoadedRun): Parameters<FleetParts["journal"]["log"]["receive"]>[0] {
  const { id: runId, events, planText, planTexts, answers, run } = known;
  const texts = planFingerprints(events).map((one) => planTexts.get(one) ?? planText);
  return {
    ...{ runId, events, planTexts: [...new Set(texts)] },
    answers: Object.fromEntries(answers),
    summary: fullSummary(run),
  };
}

/** Appends what has happened here since the run was pulled. */
async function continueIn(
  log: FleetParts["journal"]["log"],
  epoch: number,
  { id, planOf, planTexts, events }: LoadedRun,
  length: number,
): Promise<void> {
  const run = replay(planOf, id, events.slice(0, length));
  await appendRecorded(log, epoch, { planOf, planTexts, run, events: events.slice(length) });
}
