/**
 * Takes the lease of a run, so that no other process drives or changes it.
 *
 * Owns: every refusal to take it: another owner is alive, steps may be alive where this process cannot
 * see them, or a person has the conversation of an agent open.
 * Does not: drive the run (drive.ts).
 * Invariants:
 * - ownership/P6 The lease is taken before anything is read that a decision depends on.
 */

import type { Owner, StopMode } from "../core/event.ts";
import type { UpdateRequested } from "../core/fact.ts";
import { attemptOf, visitRef } from "../core/run.ts";
import { stepPath } from "../core/step-path.ts";
import { attemptDirOf } from "../engine/state-dir.ts";
import { takeLease } from "../journal/journal.ts";
import { mayLiveElsewhere } from "../runner/process/adopt.ts";
import { findMarked, openMarker } from "../runner/process/sweep.ts";
import { why } from "../view/why.ts";
import { directoryUserOf, refuseSharing } from "./directory-sharing.ts";
import { type LoadedRun, reloadOwned, whyInputOf } from "./loaded-run.ts";
import { isOwnerAlive, isOwnerElsewhere, ownerText, thisOwner } from "./owner.ts";
import { type Project, shortIdOf } from "./project.ts";
import {
  advice,
  after,
  asRefusal,
  command,
  type Next,
  Refusal,
  RunOwned,
  when,
} from "./refusal.ts";

/** What somebody wants of a run, as far as it decides whether the run can be owned. */
export interface OwnOptions {
  /** Nothing is started; the run is stopped in this name once the requests are recorded. */
  readonly stopBy?: string;
  /** Nothing is started; what runs is ended in this way. */
  readonly stop?: { readonly mode: StopMode; readonly by: string };
  /** The edit that the person adopted, seeing the run as it was when it was loaded. */
  readonly update?: UpdateRequested;
  /** The person says that an owner elsewhere, and what it started there, is dead. */
  readonly takeOver?: boolean;
  /** The run may work beside others in one directory. */
  readonly beside?: boolean;
  /** The person wants the run to continue in a copy of its project. */
  readonly asCopy?: boolean;
}

/** A run that this process owns. */
export interface OwnedRun {
  readonly known: LoadedRun;
  readonly owner: Owner;
  readonly epoch: number;
}

/** Takes the lease of a run and reads what others wrote until then. Throws when somebody has it. */
export async function own(
  project: Project,
  known: LoadedRun,
  options: OwnOptions,
  owner = thisOwner(),
): Promise<OwnedRun> {
  const { id: runId, shortId } = known;
  const { journal } = project;
  const { takeOver: forced } = options;
  // A run that is loaded again is another value: the one before is taken over.
  const seenSeq = known.run.seq;
  const isAlive = (other: Owner): boolean => forced !== true && isOwnerAlive(other);
  const acquired = await takeLease(journal.leases, runId, { owner, isAlive });
  if (!acquired.ok) throw ownedError(await shortIdOf(journal, runId), acquired.owner);
  const { epoch } = acquired;
  try {
    const loaded = await reloadOwned(project, known, { epoch, asCopy: options.asCopy === true });
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
  } catch (error) {
    await journal.leases.release(runId, epoch);
    throw error;
  }
}

/** A step that outlived its owner where nobody here can see it would run a second time. */
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
 * Does something as the owner of a run, for as long as that takes. After an error that is a refusal the
 * lease is free again; after any other one, that of a dead process is evidence enough.
 */
export async function asOwner<T>(
  { journal }: Project,
  known: LoadedRun,
  owner: Owner,
  body: (epoch: number) => Promise<T>,
): Promise<T> {
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

/** Refuses to continue a run while the program of an earlier `perdure open` is still there. */
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

/** Why a run cannot be driven, if it cannot. */
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

/** The refusal to drive a run that another process drives; elsewhere, only a person can tell. */
export function ownedError(shortId: string, owner: Owner): RunOwned {
  const message = `run ${shortId} is owned by ${ownerText(owner)}`;
  const next = isOwnerElsewhere(owner) ? takeOver(shortId) : ownedNext(shortId, owner);
  return new RunOwned(owner, message, next);
}

function ownedNext(shortId: string, { opens }: Owner): Next {
  if (opens === undefined) return command("attach", shortId);
  return after("end the agent's program there", "resume", shortId);
}

/** What a person can do about something that cannot be seen from here. */
function takeOver(shortId: string): Next {
  return when("if you know that it is dead", "resume", shortId, "--take-over");
}
