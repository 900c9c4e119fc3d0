/**
 * Moves a run between a project of this machine and a store: `perdure push RUN`, and what it shares with
 * `pull` (pull.ts). Both journals have the events of the run; at every moment one of the two places owns
 * it. The run, its files and its place in a queue appear in the store together. Here the run stays as a
 * record that belongs to the store.
 *
 * Owns: the leases that say where a run lives, and carrying over its events and requests.
 * Does not: choose the stored files (ship.ts).
 * Invariants:
 * - moving/M1 The lease of a run that was moved away names its new place. It never runs out, and only the
 *   command that moves the run back acquires it.
 * - moving/M2 The place that gives a run away holds it for the other place before that one gets it. After
 *   a kill in between, the same command finishes the move.
 * - moving/P1 The store has the whole run, or nothing of it that counts; until then this machine holds it.
 */
import { hostname } from "node:os";
import { dirname } from "node:path";
import type { Owner, Recorded } from "../../core/event.ts";
import { evolve, replay } from "../../core/evolve.ts";
import { attemptOf, type Run, visitRef } from "../../core/run.ts";
import { stepPath } from "../../core/step-path.ts";
import { fullSummary, type WorkspaceOf } from "../../core/summary.ts";
import { attemptDirOf, type StateDir } from "../../engine/state-dir.ts";
import { type Inbox, type LastingRequest, pendingAmong } from "../../journal/inbox.ts";
import type { StoredFile } from "../../journal/journal.ts";
import type { Lease, Leases } from "../../journal/leases.ts";
import { planFingerprints, type RunLog } from "../../journal/run-log.ts";
import type { Plan } from "../../plan/plan.ts";
import { mayLive } from "../../runner/process/adopt.ts";
import { defined } from "../../util/defined.ts";
import { failpoint } from "../../util/failpoint.ts";
import { canonicalJson } from "../../util/json.ts";
import { execute } from "../drive/drive.ts";
import { isMoverAlive, ownerText, thisOwner, thisStopper } from "../drive/owner.ts";
import { ownedError } from "../drive/ownership.ts";
import { relinkWorktrees } from "../drive/run-workspace.ts";
import { NO_DISPLAY } from "../drive/screen.ts";
import { type LoadedRun, loadRun, reloadOwned } from "../loaded-run.ts";
import { livenessOf, openLocalProject, type Project, resolveRunId } from "../project/project.ts";
import { advice, command, Refusal } from "../refusal.ts";
import type { FleetParts } from "./dispatch.ts";
import { storeRun } from "./ship.ts";

/** A run that has been moved. */
export interface MovedRun {
  readonly runId: string;
  readonly shortId: string;
  readonly pipeline: string;
  /** The place that has the run now. */
  readonly place: string;
  /** It was there already. */
  readonly isThere: boolean;
}

/** The name of a project's directory as a place, for the lease in a store. */
export function placeOf({ root }: StateDir): string {
  return `${hostname()}:${dirname(root)}`;
}

/**
 * Acquires the lease of a run in the name of the place that gets the run (moving/M1). Refuses while a
 * process owns the run, or another process moves it.
 */
export async function holdFor(
  leases: Leases,
  { runId, shortId }: { readonly runId: string; readonly shortId: string },
  place: string,
): Promise<number> {
  const judged = await leases.of(runId);
  refuseHeld(judged, shortId, place);
  const owner: Owner = { ...thisOwner(), place };
  const acquired = await leases.acquire(runId, { owner, judged });
  if (acquired.ok) return acquired.epoch;
  const message = `run ${shortId} has just got an owner`;
  throw new Refusal("run-owned", message, command("show", shortId));
}

function refuseHeld(lease: Lease | undefined, shortId: string, place: string): void {
  const owner = lease?.owner;
  if (owner === undefined || livenessOf(lease) !== "owned") return;
  if (owner.place === undefined) {
    const message = `run ${shortId} is owned by ${ownerText(owner)}`;
    throw new Refusal("run-owned", message, command("stop", shortId));
  }
  if (owner.place !== place) throw ownedError(shortId, owner);
  if (!isMoverAlive(owner)) return;
  const message = `process ${owner.pid} is moving run ${shortId} to ${place}`;
  throw new Refusal("run-owned", message, advice("wait for its end"));
}

/** Appends the events that a journal lacks, turn by turn, as the owner of its lease. */
export async function appendMissing(
  log: Pick<RunLog, "append">,
  epoch: number,
  moving: {
    readonly runId: string;
    readonly planOf: (fingerprint: string) => Plan;
    readonly planTexts: ReadonlyMap<string, string>;
    readonly events: readonly Recorded[];
    /** How many of these events the journal has. */
    readonly known: number;
    readonly workspaceOf?: WorkspaceOf;
  },
): Promise<void> {
  const { runId, planOf, planTexts, events, known, workspaceOf } = moving;
  let run = replay(planOf, runId, events.slice(0, known));
  for (const turn of turnsOf(events.slice(known))) {
    const [first] = turn;
    if (first === undefined) continue;
    const afterSeq = run.seq;
    run = turn.reduce((now, recorded) => evolve(planOf, now, recorded), run);
    const updated = turn.findLast(({ event }) => event.type === "run.updated")?.event;
    const planText =
      updated?.type === "run.updated" ? planTexts.get(updated.fingerprint) : undefined;
    await log.append(runId, {
      ...{ epoch, afterSeq, time: first.time, events: turn.map(({ event }) => event) },
      summary: fullSummary(run, workspaceOf),
      ...defined({ facts: first.facts, planText }),
    });
  }
}

/** The events of each append: the facts of a turn are with its first event. */
function turnsOf(events: readonly Recorded[]): readonly (readonly Recorded[])[] {
  const turns: Recorded[][] = [];
  for (const recorded of events) {
    const last = turns.at(-1);
    const isNew = recorded.facts !== undefined || last?.[0]?.time !== recorded.time;
    if (last === undefined || isNew) turns.push([recorded]);
    else last.push(recorded);
  }
  return turns;
}

/** Refuses when two journals have different runs under one id: the shorter one must be a beginning. */
export function refuseDifferent(
  shortId: string,
  one: readonly Recorded[],
  other: readonly Recorded[],
): void {
  const length = Math.min(one.length, other.length);
  if (canonicalJson(one.slice(0, length)) === canonicalJson(other.slice(0, length))) return;
  const message = `the store has another run ${shortId}: it continued in both places`;
  throw new Refusal("run-exists", message, command("show", shortId));
}

/** Carries over the requests that a run has not handled. Each has a key, so a repetition is harmless. */
export async function carryRequests(from: Inbox, to: Pick<Inbox, "send">, run: Run): Promise<void> {
  for (const request of pendingAmong(await from.after(run.id, 0), run)) {
    const { id: _, ...sent } = request as LastingRequest & { readonly id: number };
    await to.send(run.id, sent);
  }
}

/** True when a journal has a run with this id. */
export async function hasRun(log: Pick<RunLog, "resolve">, runId: string): Promise<boolean> {
  return (await log.resolve(runId)).includes(runId);
}

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
    refuseUnmovable(first);
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

function refuseUnmovable(known: LoadedRun): void {
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

/** Records how the steps of a dead owner ended: their evidence is on this machine. */
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
  const { id, run, plan, events, planOf, planTexts } = known;
  const isKnown = await hasRun(journal.log, id);
  const stored = isKnown ? (await journal.log.load(id)).events : [];
  refuseDifferent(known.shortId, stored, events);
  const lease = isKnown ? await journal.leases.of(id) : undefined;
  const isOurs = lease?.owner?.place === placeOf(project.dir);
  if (isKnown && !isOurs) return true;
  const files = await filesFor(project, known, journal, isKnown);
  failpoint("push.stored");
  await journal.transaction(async (to) => {
    if (lease === undefined) {
      const texts = planFingerprints(events).map((one) => planTexts.get(one) ?? known.planText);
      const answers = Object.fromEntries(known.answers);
      const summary = fullSummary(run);
      await to.log.receive({
        ...{ runId: id, events, planTexts: [...new Set(texts)], answers, summary },
      });
    } else {
      const moving = { runId: id, planOf, planTexts, events, known: stored.length };
      await appendMissing(to.log, lease.epoch, moving);
    }
    // A run that nobody has owned in the store has the epoch 0.
    const epoch = (await to.leases.of(id))?.epoch ?? 0;
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

/** All files of the run, and the removal of what else the store has of it. */
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
