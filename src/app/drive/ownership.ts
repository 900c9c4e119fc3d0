/**
 * Takes the lease of a run, so that no other process drives or changes it; finds the other runs that
 * work in the same directory, when both work in the project itself.
 *
 * Owns: every refusal to take a run: another owner is alive, steps may be alive where this process cannot
 * see them, a person has the conversation of an agent open, or another run with agents works in the
 * directory.
 * Does not: drive the run (drive.ts), or keep the files of two runs apart; `workspace: worktree` does.
 * Invariants:
 * - ownership/P6 The lease is taken before anything is read that a decision depends on.
 * - app/Q1 Two runs with agents work in one directory only when a person wants that. Each run
 *   searches after it has taken its lease, so of two that start together at least one finds the
 *   other.
 */
import type { Owner, StopMode } from "../../core/event.ts";
import type { FactOf } from "../../core/fact.ts";
import { attemptOf, visitRef } from "../../core/run.ts";
import { stepPath } from "../../core/step-path.ts";
import { attemptDirOf } from "../../engine/state-dir.ts";
import { JournalError } from "../../journal/journal-error.ts";
import { takeLease } from "../../journal/leases.ts";
import { isStoreAddress } from "../../journal/open.ts";
import type { Plan } from "../../plan/plan.ts";
import { mayLiveElsewhere } from "../../runner/process/adopt.ts";
import { findMarked, openMarker } from "../../runner/process/sweep.ts";
import { why } from "../../view/why.ts";
import { type LoadedRun, loadRun, reloadOwned, whyInputOf } from "../loaded-run.ts";
import { livenessOf, type Project, shortIdOf } from "../project/project.ts";
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
import type { Confirm } from "./screen.ts";

/** The options that decide whether this process can own a run. */
export interface OwnOptions {
  /** Starts no step: records the requests, then stops the run; the stop names this author. */
  readonly stopBy?: string;
  /** Starts no step: stops those that run, in this mode. */
  readonly stop?: { readonly mode: StopMode; readonly by: string };
  /** The edit that the person adopted after they saw the run as it was loaded. */
  readonly update?: FactOf<"update-requested">;
  /** The person knows that an owner elsewhere and its steps are dead. */
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
    const other = await conflictingRun(project, directoryUserOf(loaded));
    if (other !== undefined) throw sharingRefusal(other, ["resume", shortId]);
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

/** A run that works, or is about to work, in a directory. */
interface DirectoryUser {
  /** Absent before the run exists. */
  readonly id?: string;
  readonly plan: Plan;
  readonly cwd: string;
}

/** A loaded run as a user of its directory. */
export function directoryUserOf({ id, plan, run }: LoadedRun): DirectoryUser {
  return { id, plan, cwd: run.created?.cwd ?? "" };
}

/** The runs that other processes drive in the same directory. */
async function runsInDirectory(
  project: Project,
  own: DirectoryUser,
): Promise<readonly LoadedRun[]> {
  if (!worksHere(own.plan)) return [];
  const open = await project.journal.log.list({ status: ["queued", "running", "waiting"] });
  const beside: LoadedRun[] = [];
  for (const { runId, lease } of open) {
    if (runId === own.id || livenessOf(lease) !== "owned") continue;
    // A step of a run may start another run.
    if (runId === process.env.PERDURE_RUN_ID) continue;
    const known = await loadRun(project, runId);
    if (worksHere(known.plan) && known.run.created?.cwd === own.cwd) beside.push(known);
  }
  return beside;
}

/** Lines for a person about the other runs in the directory. */
export async function sharingLines(
  project: Project,
  own: DirectoryUser,
): Promise<readonly string[]> {
  return (await runsInDirectory(project, own)).map(
    (other) => `R${nameOf(other).slice(1)} is also working in this directory`,
  );
}

function sharingRefusal(other: LoadedRun, typed: readonly string[]): Refusal {
  return new Refusal(
    "directory-shared",
    `${conflictText(other)}; \`workspace: worktree\` keeps them apart`,
    [command("attach", other.shortId), when("to start it anyway", ...typed, "--beside")],
  );
}

/** How to treat other runs in the directory. */
interface SharingOptions {
  readonly beside: boolean;
  /** Absent when no person is there to ask. */
  readonly confirm: Confirm | undefined;
  /** The command that starts the run. */
  readonly command: readonly string[];
}

/**
 * Returns whether a run may start, and whether the person accepts other runs in its directory. Throws
 * the refusal when there is a conflict and nobody to ask (app/Q1).
 */
export async function agreeOnSharing(
  project: Project,
  own: DirectoryUser,
  { beside, confirm, command: typed }: SharingOptions,
): Promise<{ readonly starts: boolean; readonly beside: boolean }> {
  const other = beside ? undefined : await conflictingRun(project, own);
  if (other === undefined) return { starts: true, beside };
  if (confirm === undefined) throw sharingRefusal(other, typed);
  const agreed = await confirm(`R${conflictText(other).slice(1)}`, "start it anyway");
  return { starts: agreed, beside: agreed };
}

async function conflictingRun(
  project: Project,
  own: DirectoryUser,
): Promise<LoadedRun | undefined> {
  if (!callsAgents(own.plan)) return undefined;
  return (await runsInDirectory(project, own)).find(({ plan }) => callsAgents(plan));
}

function conflictText(other: LoadedRun): string {
  const [name, cwd] = [nameOf(other), other.run.created?.cwd];
  return `${name} has agents working in ${cwd}: the two runs would change each other's files`;
}

function nameOf({ shortId, plan }: LoadedRun): string {
  return `run ${shortId} (${plan.name})`;
}

function worksHere({ workspace }: Plan): boolean {
  return workspace === undefined || workspace.kind === "here";
}

/** True for a plan whose agents are called, not simulated. */
function callsAgents({ agents, reading }: Plan): boolean {
  return Object.keys(agents).length > 0 && reading?.simulate === undefined;
}
