/**
 * A run on its way between a project of this machine and a store. Both have its events; at every moment
 * one of the two owns it.
 *
 * Owns: the leases that say where a run lives, and carrying over its events and requests.
 * Does not: carry files (push.ts, pull.ts).
 * Invariants:
 * - moving/M1 A run that was moved away has a lease that names its new place. It runs out never, and no
 *   process but the command that moves the run back takes it.
 * - moving/M2 The place that gives a run away is held before the other one gets it. A command that was
 *   killed in between is repeated, and finishes the move.
 */
import { hostname } from "node:os";
import { dirname } from "node:path";
import type { Owner, Recorded } from "../../core/event.ts";
import { evolve } from "../../core/evolve.ts";
import type { Run } from "../../core/run.ts";
import { fullSummary, type WorkspaceOf } from "../../core/summary.ts";
import type { StateDir } from "../../engine/state-dir.ts";
import { type Inbox, type LastingRequest, pendingAmong } from "../../journal/inbox.ts";
import type { Lease, Leases } from "../../journal/leases.ts";
import type { RunLog } from "../../journal/run-log.ts";
import type { Plan } from "../../plan/plan.ts";
import { canonicalJson } from "../../util/json.ts";
import { isMoverAlive, ownerText, thisOwner } from "../drive/owner.ts";
import { ownedError } from "../drive/ownership.ts";
import { livenessOf } from "../project/project.ts";
import { advice, command, Refusal } from "../refusal.ts";

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
 * Takes the lease of a run in the name of the place that gets it (moving/M1). Refuses while a process
 * owns the run, or another one moves it.
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

/** Events of a run that a journal lacks, and the plans that they name. */
interface Continuation {
  readonly planOf: (fingerprint: string) => Plan;
  readonly planTexts: ReadonlyMap<string, string>;
  /** The run before these events. */
  readonly run: Run;
  readonly events: readonly Recorded[];
  readonly workspaceOf?: WorkspaceOf;
}

/** Appends the events that a journal lacks, turn by turn, as the owner of its lease. */
export async function appendRecorded(
  log: Pick<RunLog, "append">,
  epoch: number,
  { planOf, planTexts, run: before, events, workspaceOf }: Continuation,
): Promise<void> {
  let run = before;
  for (const turn of turnsOf(events)) {
    const [first] = turn;
    if (first === undefined) continue;
    const afterSeq = run.seq;
    run = turn.reduce((now, recorded) => evolve(planOf, now, recorded), run);
    const updated = turn.findLast(({ event }) => event.type === "run.updated")?.event;
    const planText =
      updated?.type === "run.updated" ? planTexts.get(updated.fingerprint) : undefined;
    await log.append(run.id, {
      ...{ epoch, afterSeq, time: first.time, events: turn.map(({ event }) => event) },
      summary: fullSummary(run, workspaceOf),
      ...(first.facts === undefined ? {} : { facts: first.facts }),
      ...(planText === undefined ? {} : { planText }),
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
