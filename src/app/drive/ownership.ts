/**
 * Takes the lease of a run, so that no other process drives or changes it.
 *
 * Owns: every refusal to take it: another owner is alive, steps may be alive where this process cannot
 * see them, or a person has the conversation of an agent open.
 * Does not: drive the run (drive.ts).
 * Invariants:
 * - ownership/P6 The lease is taken before anything is read that a decision depends on.
 */

import type { Owner, StopMode } from "../../core/event.ts";
import type { FactOf } from "../../core/fact.ts";
import { attemptOf, visitRef } from "../../core/run.ts";
import { stepPath } from "../../core/step-path.ts";
import { attemptDirOf } from "../../engine/state-dir.ts";
import { JournalError } from "../../journal/journal-error.ts";
import { takeLease } from "../../journal/leases.ts";
import { isStoreAddress } from "../../journal/open.ts";
import { mayLiveElsewhere } from "../../runner/process/adopt.ts";
import { findMarked, openMarker } from "../../runner/process/sweep.ts";
import { why } from "../../view/why.ts";
import { type LoadedRun, reloadOwned, whyInputOf } from "../loaded-run.ts";
import { directoryUserOf, refuseSharing } from "../project/directory-sharing.ts";
import { type Project, shortIdOf } from "../project/project.ts";
import {
  advice,
  after,
  asRefusal,
  command,
  type Next,
  Refusal,
  RunOwned,
  when,
} from "../refusal.ts";
import { isOwnerAlive, isOwnerElsewhere, ownerText, thisOwner } from "./owner.ts";

/** The options that decide whether this process can own a run. */
export interface OwnOptions {
  /** Starts no step: records the requests, then stops the run in this name. */
  readonly stopBy?: string;
  /** Starts no step: stops those that run, in this mode. */
  readonly stop?: { readonly mode: StopMode; readonly by: string };
  /** The edit that the person adopted after they saw the run as it was loaded. */
  readonly update?: FactOf<"update-requested">;
  /** The person says that an owner elsewhere and its steps are dead. */
  readonly takeOver?: boolean;
  /** The run may share its directory with other runs. */
  readonly beside?: boolean;
  /** The person wants the run to continue in a copy of its project. */
  readonly asCopy?: boolean;
  /** The directory of `--logs` that the person named. */
  readonly logs?: string | undefined;
}

/** A run that this process owns. */
export interface OwnedRun {
  readonly known: LoadedRun;
  readonly owner: Owner;
  readonly epoch: number;
}

/**
 * Takes the lease of a run and loads its present state. Throws when another process has the lease.
 */
export async function own(
  project: Project,
  known: LoadedRun,
  options: OwnOptions,
  owner = thisOwner(),
): Promise<OwnedRun> {
  const { id: runId } = known;
  const { journal } = project;
  refuseOfFleet(project, known, "driving a run");
  const isAlive = (other: Owner): boolean => options.takeOver !== true && isOwnerAlive(other);
  const acquired = await takeLease(journal.leases, runId, { owner, isAlive });
  if (!acquired.ok) throw ownedError(await shortIdOf(journal, runId), acquired.owner);
  const { epoch } = acquired;
  return await ownWith(project, known, options, { owner, epoch }).catch(async (error: unknown) => {
    await journal.leases.release(runId, epoch);
    throw error;
  });
}

/** Loads the present state of a run whose lease this process has. Throws when it must not drive it. */
export async function ownWith(
  project: Project,
  known: LoadedRun,
  options: OwnOptions,
  { owner, epoch }: Omit<OwnedRun, "known">,
): Promise<OwnedRun> {
  const { shortId } = known;
  const { takeOver: forced } = options;
  // Reloading reuses `known`, so read its position first.
  const seenSeq = known.run.seq;
  const { asCopy = false, logs } = options;
  const loaded = await reloadOwned(project, known, { epoch, asCopy, logs });
  if (options.update !== undefined && loaded.run.seq !== seenSeq) {
    const message = `run ${shortId} has continued since its update was shown`;
    throw new Refusal("run-changed", message, command("resume", shortId, "--update"));
  }
  if (forced !== true) refuseUnseenSteps(loaded);
  refuseOpened(loaded);
  const starts = options.stop === undefined && options.stopBy === undefined;
  if (starts && options.beside !== true) {
    await refuseSharing(project, directoryUserOf(loaded), ["resume", shortId]);
  }
  return { known: loaded, owner, epoch };
}

/**
 * Refuses a run with a step that may still run where this process cannot see it: it would run
 * twice.
 */
function refuseUnseenSteps({ run, dir, shortId }: LoadedRun): void {
  const unseen = [...run.running].find((visit) =>
    mayLiveElsewhere(attemptDirOf(dir, attemptOf(visit))),
  );
  if (unseen === undefined) return;
  const step = stepPath(visitRef(unseen));
  const message =
    `step ${step} of run ${shortId} was started in another container or on another machine, ` +
    "and may still run there";
  throw new Refusal("steps-alive", message, takeOver(shortId));
}

/**
 * Owns a run while `body` runs. A refusal releases the lease. After any other error this process
 * ends, and the lease of a dead process is free.
 */
export async function asOwner<T>(
  project: Project,
  known: LoadedRun,
  owner: Owner,
  body: (epoch: number) => Promise<T>,
): Promise<T> {
  const { journal } = project;
  refuseOfFleet(project, known, "this command");
  const acquired = await takeLease(journal.leases, known.id, { owner, isAlive: isOwnerAlive });
  if (!acquired.ok) throw ownedError(known.shortId, acquired.owner);
  const { epoch } = acquired;
  try {
    const result = await body(epoch);
    await journal.leases.release(known.id, epoch);
    return result;
  } catch (error) {
    if (asRefusal(error) !== undefined) await journal.leases.release(known.id, epoch);
    throw error;
  }
}

/**
 * The error of an owner that was replaced. Whatever else failed, it failed because the next owner
 * changes the same files.
 */
export async function replacedError(
  { journal }: Project,
  { known: { id }, epoch }: OwnedRun,
): Promise<JournalError | undefined> {
  // A journal that cannot be read says nothing about owners; the first error is the one to report.
  const lease = await journal.leases.of(id).catch(() => undefined);
  if (lease === undefined || lease.epoch === epoch) return undefined;
  const why = `its lease has epoch ${lease.epoch}, and this process had ${epoch}`;
  return new JournalError("stale-writer", `Another process owns run ${id} now: ${why}.`);
}

/** Refuses to continue a run while the program of an earlier `perdure open` still runs. */
export function refuseOpened({ id, plan, shortId }: LoadedRun): void {
  if (Object.values(plan.agents).every(({ adapter }) => adapter === "command")) return;
  const pids = findMarked(openMarker(id));
  if (pids.length === 0) return;
  const message = `the program that perdure open started on run ${shortId} is still running`;
  throw new Refusal(
    "agent-open",
    message,
    after(`end it (kill ${pids.join(" ")})`, "resume", shortId),
  );
}

/** The refusal to drive a run; undefined when nothing prevents it. */
export function unavailable(
  known: LoadedRun,
  options: { readonly takeOver?: boolean } = {},
): Refusal | undefined {
  if (known.cleanedAt !== undefined) {
    const { happened, commands } = why(whyInputOf(known, Date.now()));
    return new Refusal("files-removed", happened, commands.slice(0, 1).map(advice));
  }
  const { owner } = known.lease ?? {};
  return known.liveness === "owned" && owner !== undefined && options.takeOver !== true
    ? ownedError(known.shortId, owner)
    : undefined;
}

/** The refusal to drive a run that another process owns. */
export function ownedError(shortId: string, owner: Owner): RunOwned {
  if (owner.place !== undefined) return movedError(shortId, owner, owner.place);
  const message = `run ${shortId} is owned by ${ownerText(owner)}`;
  const isUnseen = owner.worker === undefined && isOwnerElsewhere(owner);
  const next = isUnseen ? takeOver(shortId) : ownedNext(shortId, owner);
  return new RunOwned(owner, message, next);
}

/** Refuses what works only where a run is, for a run that workers drive. */
export function refuseOfFleet(
  { workers }: Project,
  { shortId }: Pick<LoadedRun, "shortId">,
  what: string,
): void {
  if (workers === undefined) return;
  const message = `${what} works only where the run is, and run ${shortId} is in the fleet`;
  throw new Refusal("of-fleet", message, when("bring it here first", "pull", shortId));
}

/** Refuses a run that lives in another place: nobody reads its inbox here. */
export function refuseMoved({ shortId, lease }: LoadedRun): void {
  const owner = lease?.owner;
  if (owner?.place !== undefined) throw ownedError(shortId, owner);
}

/** The refusal for a run that lives in another place since `push` or `pull`. */
function movedError(shortId: string, owner: Owner, place: string): RunOwned {
  const back = isStoreAddress(place)
    ? when("to get it back", "pull", shortId)
    : when("there, to give it back", "push", shortId);
  return new RunOwned(owner, `run ${shortId} was moved to ${place}`, back);
}

function ownedNext(shortId: string, { opens }: Owner): Next {
  if (opens === undefined) return command("attach", shortId);
  return after("end the agent's program there", "resume", shortId);
}

/** The next command when only a person can know that a process is dead. */
function takeOver(shortId: string): Next {
  return when("if you know that it is dead", "resume", shortId, "--take-over");
}
