/**
 * The state of a project: where it is, and which runs it has.
 *
 * Owns: the search for `.perdure`, opening the journal, and resolving run ids.
 * Does not: read or write runs (loaded-run.ts). A list of runs needs only this file, so it loads nothing
 * that drives a run.
 */
import { existsSync, lstatSync, readdirSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import type { StopMode } from "../../core/event.ts";
import { createStateDir, STATE_DIR, type StateDir, stateDirOf } from "../../engine/state-dir.ts";
import type { Journal } from "../../journal/journal.ts";
import type { Lease } from "../../journal/leases.ts";
import { openJournal } from "../../journal/open.ts";
import type { Liveness } from "../../view/step-status.ts";
import { isOwnerAlive, isOwnerElsewhere } from "../drive/owner.ts";
import { storeAddress } from "../fleet/fleet-access.ts";
import { repositoryRoot } from "../pipeline/configuration-file.ts";
import { advice, command, Refusal, when } from "../refusal.ts";
import type { ArchivedRun } from "../transfer/run-parts.ts";
import { foreignOwner, refuseUntrusted, rememberTrust } from "./state-trust.ts";
import { rememberProject } from "./user-state.ts";

/** The length of the shortest prefix of a run id that a person may type. */
const PREFIX_MIN = 4;
/** The length of the shortest prefix that Perdure prints. */
const SHORT_ID_MIN = 8;

export interface Project {
  readonly dir: StateDir;
  readonly journal: Journal;
  /** True when its runs belong to a fleet: the directory has no journal. */
  readonly isOfFleet?: true;
  /** The workers that drive its runs: this process drives none of them, and has copies of their files. */
  readonly workers?: FleetWorkers;
}

/** A stop for a run that no worker has. */
export interface WantedStop {
  /** The last event of the run: a run that has continued since then does not stop. */
  readonly seq: number;
  /** It had ended by then: only a resume may make it continue. */
  readonly hasEnded: boolean;
  readonly mode: StopMode;
  readonly by: string;
}

/** A fleet, for a process that reads and changes its runs but drives none. */
export interface FleetWorkers {
  /** The server and the database, for people. */
  readonly name: string;
  /** The directory of the person who asks; its repository may have commits of the runs. */
  readonly near: string;
  /** Queues a run that has something new to do. */
  want(runId: string): Promise<void>;
  /** Queues a run that has ended or could not be driven, so that it continues after this event. */
  resume(runId: string, seq: number): Promise<void>;
  /** Stops a run that no worker has, as of this event; "owned" when one has just taken it. */
  stop(runId: string, stop: WantedStop): Promise<"noted" | "owned" | "nothing">;
  /** Stores a file of a run's folder that no worker writes. */
  keepFile(runId: string, name: string): Promise<void>;
  /** Brings the copy of a run's files up to date: output and artifacts, or its snapshots too. */
  fetchFiles(runId: string, what: "output" | "snapshots"): Promise<void>;
  /** The description of a run in the store. */
  about(runId: string): Promise<ArchivedRun>;
  /** Writes a stored file of a run to a path. */
  fetchPart(runId: string, part: string, to: string): Promise<void>;
}

/**
 * The state directory that serves a directory: its own, or the nearest one above that belongs to
 * this user. Refuses a state directory that Perdure has not made.
 */
export function findStateDir(from: string): StateDir | undefined {
  const found = stateDirsAbove(from).find(
    ({ root }) => dirname(root) === resolve(from) || foreignOwner(root) === undefined,
  );
  if (found !== undefined) refuseUntrusted(found.root);
  return found;
}

function stateDirsAbove(from: string): readonly StateDir[] {
  const found: StateDir[] = [];
  for (let at = resolve(from); ; at = dirname(at)) {
    const dir = stateDirOf(at);
    // A broken link counts too: writing through it would create a file.
    if (lstatSync(dir.root, { throwIfNoEntry: false }) !== undefined) found.push(dir);
    if (dirname(at) === at) return found;
  }
}

/** True when there may be runs for a directory: in its state, or in a store. */
export async function hasRuns(from: string): Promise<boolean> {
  if ((await storeAddress(from)) !== undefined) return true;
  const dir = findStateDir(from);
  return dir !== undefined && !isUnused(dir);
}

/**
 * Opens the journal that serves a directory: that of a fleet if a store is named, else the one on this
 * machine. A run that is named by its id and lives on this machine is found there, too. Throws when
 * there is none.
 */
export async function openProject(
  from: string,
  mode: "read-write" | "read-only",
  named?: string,
): Promise<Project> {
  const address = await storeAddress(from);
  if (address === undefined) return openLocalProject(from, mode);
  const local = named === undefined ? undefined : await localProjectOf(from, mode, named);
  if (local !== undefined) return local;
  const { openFleetProject } = await import("../fleet/fleet-access.ts");
  return openFleetProject<Project>(address, from);
}

/** Opens a project as `openProject` does, and closes its journal after `body`. */
export async function withProject<T>(
  opening: Parameters<typeof openProject>,
  body: (project: Project) => Promise<T>,
): Promise<T> {
  const project = await openProject(...opening);
  try {
    return await body(project);
  } finally {
    await project.journal.close();
  }
}

/** The project of a run that lives on this machine; undefined when a store has it, or nobody. */
async function localProjectOf(
  from: string,
  mode: "read-write" | "read-only",
  named: string,
): Promise<Project | undefined> {
  const dir = findStateDir(from);
  if (dir === undefined || !existsSync(dir.database)) return undefined;
  const project = await openLocalProject(from, mode);
  const [runId] = await runsNamed(project.journal, named);
  const lease = runId === undefined ? undefined : await project.journal.leases.of(runId);
  if (runId !== undefined && lease?.owner?.place === undefined) return project;
  await project.journal.close();
  return undefined;
}

/** Opens the journal of this machine that serves a directory. Throws when there is none. */
export async function openLocalProject(
  from: string,
  mode: "read-write" | "read-only",
): Promise<Project> {
  const dir = findStateDir(from);
  if (dir !== undefined) refuseMissingJournal(dir);
  if (dir === undefined || !existsSync(dir.database)) {
    const [foreign] = dir === undefined ? stateDirsAbove(from) : [];
    const but = foreign === undefined ? "" : ` (${foreign.root} belongs to another user)`;
    const message = `there are no runs here: no ${STATE_DIR} in ${resolve(from)} or above it${but}`;
    throw new Refusal("no-runs", message, command("run", "FILE"));
  }
  refuseLongPath(dir);
  const journal = await openJournal(dir.database, mode);
  if (mode === "read-write") remember(dir);
  return { dir, journal };
}

/** Opens the journal that serves this directory, or creates one here. */
export async function createProject(from: string): Promise<Project> {
  const dir = createdStateDir(from);
  return { dir, journal: await openJournal(dir.database, "create") };
}

/** The state directory that serves a directory, or a new one here. */
export function createdStateDir(from: string): StateDir {
  const dir = findStateDir(from) ?? newStateDir(from);
  refuseMissingJournal(dir);
  refuseLongPath(dir);
  try {
    createStateDir(dir);
    remember(dir);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    const message = `the state of the run cannot be kept in ${dir.root}: ${reason}`;
    throw new Refusal(
      "cannot-keep-state",
      message,
      advice("make the directory writable, or run with -C DIR"),
    );
  }
  return dir;
}

/** Records that the directory was checked, and that there is a project. */
function remember({ root }: StateDir): void {
  rememberTrust(root);
  rememberProject(dirname(root));
}

/** SQLite opens no file with a path longer than 512 bytes, including the suffixes that it adds. */
const DATABASE_PATH_BYTES_MAX = 504;
/** A new journal has a longer name until it is complete. */
const NEW_NAME_BYTES = ".creating-00000000-0000-0000-0000-000000000000".length;

function refuseLongPath({ database }: StateDir): void {
  const added = existsSync(database) ? 0 : NEW_NAME_BYTES;
  const bytes = Buffer.byteLength(database) + added;
  if (bytes <= DATABASE_PATH_BYTES_MAX) return;
  const limit = `the path of its journal has ${bytes} bytes; the limit is ${DATABASE_PATH_BYTES_MAX}`;
  const message = `the path of this project is too long: ${limit}`;
  throw new Refusal(
    "cannot-keep-state",
    message,
    advice("move the project to a directory with a shorter path"),
  );
}

function newStateDir(from: string): StateDir {
  const dir = stateDirOf(repositoryRoot(from) ?? resolve(from));
  refuseUntrusted(dir.root);
  return dir;
}

/** True when no run was ever created here: a kill came before the first journal existed. */
export function isUnused(dir: StateDir): boolean {
  return !existsSync(dir.database) && !hasRunFolders(dir);
}

function hasRunFolders({ root }: StateDir): boolean {
  const runs = join(root, "runs");
  return existsSync(runs) && readdirSync(runs).length > 0;
}

/** Refuses run folders without a journal: a new journal would hide these runs. */
function refuseMissingJournal(dir: StateDir): void {
  const hasJournal = (): boolean => existsSync(dir.database);
  // Checked again after the folders: another process may have made the journal, and then a folder.
  if (hasJournal() || !hasRunFolders(dir) || hasJournal()) return;
  const message = `${dir.database} is missing, but there are runs in ${join(dir.root, "runs")}`;
  throw new Refusal("missing-journal", message, command("doctor", "--repair"));
}

/** The refusal for a run whose state directory disappeared while it ran, whatever failed first. */
export function removedState(
  { dir, isOfFleet }: Project,
  shortId: string,
  file = "FILE",
): Refusal | undefined {
  if (isOfFleet === true || existsSync(dir.database)) return undefined;
  if (!isUnused(dir)) {
    const message = `${dir.database} was removed while run ${shortId} was using it`;
    return new Refusal("missing-journal", message, command("doctor", "--repair"));
  }
  const message =
    `${dir.root} was removed while run ${shortId} was using it: ` +
    "the records of its runs are lost";
  return new Refusal("state-removed", message, when("start again with", "run", relative("", file)));
}

/** The full ids of the runs with this prefix; none when it is too short, or no prefix of an id. */
export async function runsNamed(journal: Journal, prefix: string): Promise<readonly string[]> {
  const isPrefix = prefix.length >= PREFIX_MIN && /^[0-9a-f-]+$/i.test(prefix);
  return isPrefix ? journal.log.resolve(prefix.toLowerCase()) : [];
}

/** The full id of the run with this unique prefix of 4 or more characters. */
export async function resolveRunId(journal: Journal, prefix: string): Promise<string> {
  if (prefix.length < PREFIX_MIN) {
    const message = `"${prefix}" is too short for a run id: give at least ${PREFIX_MIN} characters`;
    throw new Refusal("unknown-run", message, command("list", "runs"));
  }
  const found = await runsNamed(journal, prefix);
  const [first, second] = found;
  if (first === undefined) {
    throw new Refusal("unknown-run", `there is no run ${prefix} here`, command("list", "runs"));
  }
  if (second !== undefined) {
    const message = `${prefix} is ambiguous: it may be ${found.join(" or ")}`;
    throw new Refusal("ambiguous-run", message, command("list", "runs"));
  }
  return first;
}

/** The shortest prefix of 8 or more characters that only this run has. */
export async function shortIdOf(journal: Journal, runId: string): Promise<string> {
  for (let length = SHORT_ID_MIN; length < runId.length; length += 4) {
    const prefix = runId.slice(0, length);
    if ((await journal.log.resolve(prefix)).length < 2) return prefix;
  }
  return runId;
}

/** Whether a living process, a dead process or nobody holds a lease. */
export function livenessOf(lease: Lease | undefined): Liveness {
  if (lease?.owner === undefined) return "free";
  if (lease.hasExpired === true) return "orphaned";
  // The lease of a worker counts until it runs out: its next process continues the run.
  return lease.owner.worker !== undefined || isOwnerAlive(lease.owner) ? "owned" : "orphaned";
}

/** True when the owner may live where this process cannot see it; a worker reads requests anywhere. */
export function isElsewhere(lease: Lease | undefined): boolean {
  const owner = lease?.owner;
  if (owner === undefined || owner.worker !== undefined) return false;
  return owner.place !== undefined || isOwnerElsewhere(owner);
}
