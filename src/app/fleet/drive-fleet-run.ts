/**
 * Drives one run of a fleet as its owner: makes its directory, drives it with the loop of every run,
 * stores what it leaves, and releases it or hands it over.
 *
 * Owns: the directory of a run on a worker, and the order of these steps.
 * Does not: take the lease or renew it (worker.ts), or choose what is stored (ship.ts).
 * Invariants:
 * - drive-fleet-run/R1 The directory notes the epoch of the owner that uses it, once it is complete and
 *   before anything starts in it (lease-policy/T3).
 * - drive-fleet-run/R2 A directory that is not used again has no living step: its leash is removed and
 *   its processes are ended before it is moved away.
 * - drive-fleet-run/R3 Everything is stored before the lease is released; the release and the next job
 *   of the run are one transaction.
 * - drive-fleet-run/R4 After the lease is lost, nothing of this owner is appended or stored.
 */
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Owner } from "../../core/event.ts";
import { waitsFor } from "../../core/graph/visit-state.ts";
import { waitsForPerson } from "../../core/next-actions.ts";
import { type Run, waitingFor } from "../../core/run.ts";
import { runDirOf, stateDirOf } from "../../engine/state-dir.ts";
import { pendingAmong } from "../../journal/inbox.ts";
import type { FleetJournal, SqlDatabase } from "../../journal/journal.ts";
import { JournalError } from "../../journal/journal-error.ts";
import type { RunLog } from "../../journal/run-log.ts";
import { leashFile, leashMarker, writeLeash } from "../../runner/process/leash.ts";
import { sweep } from "../../runner/process/sweep.ts";
import type { Clock } from "../../util/clock.ts";
import { driveOwned } from "../drive/drive.ts";
import { OwnerRequests } from "../drive/owner-requests.ts";
import { type OwnOptions, ownWith } from "../drive/ownership.ts";
import { NO_DISPLAY } from "../drive/screen.ts";
import { type LoadedRun, loadRun, recordMove } from "../loaded-run.ts";
import type { Project, WantedStop } from "../project/project.ts";
import type { FleetParts } from "./dispatch.ts";
import { fetchRun } from "./fetch.ts";
import { keepSlot } from "./groups.ts";
import {
  HANDOVER,
  isHandedOver,
  isUnchangedSince,
  mayUseDirectory,
  wantsDriver,
} from "./lease-policy.ts";
import { openShipper, type Shipper } from "./ship.ts";
import { markStored, OWNER_NOTE } from "./worker-directory.ts";

/** How often the output of running steps is shipped. */
const SHIP_EVERY_MS = 2_000;
/** A run that waits for a longer time than this gives its place at the worker to another one. */
const WAIT_MAX_MS = 5_000;

/** The lease of a run, as its owner sees it. */
interface RunLease {
  readonly owner: Owner;
  readonly epoch: number;
  /** True while the lease counts on this machine. */
  holds(): boolean;
  /** The deadline of the steps, in seconds of uptime. */
  deadline(): number;
  /** The clock of the store, so that the times of a run fit together wherever it was driven. */
  readonly clock: Clock;
}

/** What somebody wanted of a run while no worker had it. */
interface WantedDrive {
  /** The last event of a run that had ended when somebody resumed it. */
  readonly resumeAt: number | undefined;
  readonly stop: WantedStop | undefined;
}

/** What driving a run needs of its worker. */
interface DriveSite extends FleetParts {
  /** The directory of the worker. */
  readonly directory: string;
}

/** The state of a run after this worker has driven it. */
export type DrivenResult =
  /** The run has ended, waits for a person, or wants no driver. */
  | { readonly how: "left"; readonly status: string }
  /** The run is queued for the time that it waits for. */
  | { readonly how: "waits"; readonly until: number }
  /** The run is queued again: another worker continues it. */
  | { readonly how: "handed-over" }
  /** The lease was lost: another owner has the run, or will have it. */
  | { readonly how: "lost" };

/** The lease of a run was lost while it was driven. */
export class LeaseLost extends Error {
  override readonly name = "LeaseLost";
}

/** What the directory of a run notes about the owner that uses it. */
interface OwnerNote {
  readonly epoch: number;
  readonly boot: string;
  readonly leash: string;
}

/** The directory of a run on a worker. */
interface RunPlace {
  readonly project: Project;
  /** The file with the deadline of the run's steps. */
  readonly leash: string;
}

/** A run at a worker. */
export class FleetRun {
  readonly runId: string;
  readonly #site: DriveSite;
  readonly #lease: RunLease;
  readonly #home: string;
  #leash: string | undefined;
  #requests: OwnerRequests | undefined;
  #loss: LeaseLost | undefined;
  #isDraining = false;

  constructor(site: DriveSite, runId: string, lease: RunLease) {
    this.runId = runId;
    this.#site = site;
    this.#lease = lease;
    this.#home = join(site.directory, "runs", runId);
  }

  /** Moves the deadline of the run's steps on. */
  renewed(): void {
    if (this.#leash !== undefined) writeLeash(this.#leash, this.#lease.deadline());
  }

  /** Stops the run so that another worker continues it; a second call ends its steps at once. */
  drain(): void {
    this.#isDraining = true;
    this.#requests?.end(HANDOVER);
  }

  /** The lease is lost: ends every step now, and the loop without a further append. */
  async lost(why: string): Promise<void> {
    this.#loss ??= new LeaseLost(why);
    this.#requests?.abandon(this.#loss);
    await this.#endSteps();
  }

  /** Drives the run until it has nothing more to do here. */
  async drive(wanted: WantedDrive): Promise<DrivenResult> {
    try {
      return await this.#drive(wanted);
    } catch (error) {
      const isLost = this.#loss !== undefined || isStale(error);
      if (isLost) this.#loss ??= new LeaseLost("another owner has the run");
      // Whatever failed: the lease is never released while a step lives.
      await this.#endSteps();
      if (!isLost) throw error;
      return { how: "lost" };
    }
  }

  /** Drives nothing: ends what an earlier process of this worker has left running. */
  async refuse(reason: string): Promise<never> {
    const before = noteIn(join(this.#home, OWNER_NOTE));
    if (before !== undefined) await endOnLeash(before.leash);
    throw new Error(reason);
  }

  /** Ends every process of the run at once; none can start any more. */
  async #endSteps(): Promise<void> {
    const leash = this.#leash;
    this.#leash = undefined;
    if (leash !== undefined) await endOnLeash(leash);
  }

  async #drive({ resumeAt, stop }: WantedDrive): Promise<DrivenResult> {
    const { journal } = this.#site;
    const somewhere = this.#projectIn(join(this.#home, "project"));
    const first = await loadRun(somewhere, this.runId);
    if (!(await this.#wantsDriver(first, resumeAt))) return this.#leave(first.run);
    const { project: base, leash } = await this.#makePlace(first);
    const requests = await OwnerRequests.open(journal.inbox, this.runId);
    this.#requests = requests;
    if (this.#isDraining) requests.end(HANDOVER);
    const { owner, epoch } = this.#lease;
    // The lease proves that the steps of an earlier owner are dead; those of this worker are adopted.
    const options = { takeOver: true, beside: true, ...stopOption(stop, first) };
    const known = await loadRun(base, this.runId);
    const owned = await ownWith(base, known, options, { owner, epoch });
    const shipper = await openShipper({
      ...{ project: base, known: owned.known, epoch },
      files: journal.files,
      blobs: journal.blobs,
      transaction: (body) => journal.transaction(body),
    });
    const log = this.#guarded(shipper.wrap(journal.log));
    const project = { ...base, journal: { ...base.journal, log } };
    const stopShipping = this.#shipRegularly(shipper);
    try {
      const display = NO_DISPLAY;
      const { clock } = this.#lease;
      const times = { clock, waitMaxMs: WAIT_MAX_MS };
      const run = await driveOwned(project, owned, requests, {
        ...{ ...options, display, leash, ...times },
      });
      await stopShipping();
      if (this.#loss !== undefined) throw this.#loss;
      await shipper.close();
      const ended = await this.#end(run);
      markStored(this.#home, epoch);
      return ended;
    } finally {
      await stopShipping();
    }
  }

  /** Whether somebody has to do something about the run now. */
  async #wantsDriver(known: LoadedRun, resumeAt: number | undefined): Promise<boolean> {
    const { run, answers } = known;
    if (known.cleanedAt !== undefined) return false;
    if (resumeAt !== undefined && isUnchangedSince(resumeAt, known.events)) return true;
    const requests = await this.#site.journal.inbox.after(this.runId, 0);
    // A message alone continues no run that has ended: its agent gets it later.
    const pending = pendingAmong(requests, run).filter(({ type }) => type !== "message").length;
    // An answer continues a run that waits for it, and none that somebody has stopped.
    if (!wantsDriver(run.state, pending)) return false;
    const isDue = (dueAt(run) ?? Number.POSITIVE_INFINITY) <= this.#lease.clock.now();
    return !waitsForPerson(run) || isDue || answers.size + pending > 0;
  }

  /** Makes the directory of the run, or uses that of the owner before (drive-fleet-run/R1). */
  async #makePlace(known: LoadedRun): Promise<RunPlace> {
    const { journal } = this.#site;
    const { epoch, owner } = this.#lease;
    const { boot } = owner;
    const note = join(this.#home, OWNER_NOTE);
    const before = noteIn(note);
    const usedUnder = before?.boot === boot ? before?.epoch : undefined;
    const previousOwnerIsUs = mayUseDirectory(usedUnder, epoch);
    if (!previousOwnerIsUs) {
      if (before !== undefined) await endOnLeash(before.leash);
      rmSync(note, { force: true });
    }
    const store = { log: journal.log, files: journal.files, blobs: journal.blobs };
    const { runId } = this;
    const fetched = await fetchRun({ store, runId, into: this.#home, previousOwnerIsUs });
    const project = this.#projectIn(fetched.directory);
    const run = runDirOf(project.dir, runId);
    mkdirSync(run.root, { recursive: true, mode: 0o700 });
    if (this.#loss !== undefined) throw this.#loss;
    if (fetched.moved !== undefined) await recordMove(project, known, epoch, fetched.moved);
    const leash = leashFile(run.root);
    writeLeash(leash, this.#lease.deadline());
    writeFileSync(`${note}.new`, JSON.stringify({ epoch, boot, leash }), {
      mode: 0o600,
      flush: true,
    });
    renameSync(`${note}.new`, note);
    this.#leash = leash;
    return { project, leash };
  }

  #projectIn(directory: string): Project {
    return {
      dir: stateDirOf(directory),
      journal: portsOf(this.#site.journal),
      isOfFleet: true,
    };
  }

  /** A log that refuses appends once the lease no longer counts here (drive-fleet-run/R4). */
  #guarded(log: RunLog): RunLog {
    return {
      ...log,
      append: async (runId, write) => {
        if (!this.#lease.holds() || this.#loss !== undefined) {
          throw new JournalError(
            "stale-writer",
            `The lease of run ${runId} no longer counts here.`,
          );
        }
        await log.append(runId, write);
      },
    };
  }

  /** Ships what running steps write, one shipment after the other; returns how to stop that. */
  #shipRegularly(shipper: Shipper): () => Promise<void> {
    let last: Promise<void> = Promise.resolve();
    let isBusy = false;
    const timer = setInterval(() => {
      if (isBusy || this.#loss !== undefined) return;
      isBusy = true;
      last = shipper
        .shipRunning()
        // The next shipment, or the one before an event, reports a failure that lasts.
        .catch(() => undefined)
        .finally(() => {
          isBusy = false;
        });
    }, SHIP_EVERY_MS);
    return async () => {
      clearInterval(timer);
      await last;
    };
  }

  async #end(run: Run): Promise<DrivenResult> {
    const { status } = run.state;
    if (isHandedOver(run.state)) {
      await this.#release(async (transaction) => {
        await keepSlot(transaction, this.runId, run.seq);
        await this.#site.dispatch.want(transaction, this.runId, "now");
      });
      return { how: "handed-over" };
    }
    const until = status === "running" ? dueAt(run) : undefined;
    if (until !== undefined) {
      await this.#release((transaction) =>
        this.#site.dispatch.want(transaction, this.runId, { at: until }),
      );
      return { how: "waits", until };
    }
    return this.#leave(run);
  }

  /** The run has ended, or waits for a person; only then it keeps its slot. */
  async #leave({ state }: Run): Promise<DrivenResult> {
    await this.#release(async (transaction) => {
      if (!wantsDriver(state, 0)) await this.#site.dispatch.leave(transaction, this.runId);
    });
    return { how: "left", status: state.status };
  }

  /** Releases the lease together with what follows from that (drive-fleet-run/R3). */
  async #release(then: (transaction: SqlDatabase) => Promise<void>): Promise<void> {
    const { journal, dispatch } = this.#site;
    await journal.transaction(async (transaction) => {
      await dispatch.succeed(transaction, this.runId);
      await transaction.leases.release(this.runId, this.#lease.epoch);
      await then(transaction);
    });
  }
}

/** The stop of a run that no worker had, unless the run has continued since then. */
function stopOption(stop: WantedStop | undefined, { events }: LoadedRun): Pick<OwnOptions, "stop"> {
  if (stop === undefined || !isUnchangedSince(stop.seq, events)) return {};
  return { stop: { mode: stop.mode, by: stop.by } };
}

/** When a run continues by itself: a time comes, or the time for an answer is over. */
function dueAt(run: Run): number | undefined {
  const times: number[] = [];
  for (const { state } of waitingFor(run, "time", "retry", "person")) {
    if (waitsFor(state, "retry")) times.push(state.until);
    if (waitsFor(state, "time")) times.push(state.wake.at);
    if (waitsFor(state, "person") && state.deadline !== undefined) times.push(state.deadline.at);
  }
  return times.length === 0 ? undefined : Math.min(...times);
}

/**
 * Ends everything on a leash, and that alone: another worker on this machine may have the run already.
 */
async function endOnLeash(leash: string): Promise<void> {
  rmSync(leash, { force: true });
  await sweep(leashMarker(leash));
}

/** Which owner uses a directory; undefined when none has used it. */
function noteIn(file: string): OwnerNote | undefined {
  if (!existsSync(file)) return undefined;
  return JSON.parse(readFileSync(file, "utf8")) as OwnerNote;
}

function isStale(error: unknown): boolean {
  for (let at: unknown = error; at instanceof Error; at = at.cause) {
    if (at instanceof JournalError && at.code === "stale-writer") return true;
  }
  return false;
}

function portsOf({ log, leases, inbox }: FleetJournal): Project["journal"] {
  // The journal belongs to the worker, which closes it.
  return { log, leases, inbox, close: async () => undefined };
}
