/**
 * A worker: takes runs that want a driver, keeps their leases, and drives several of them at once.
 *
 * Owns: the places for runs, the timer of the leases, the search for runs without a driver, and the end
 *   of the worker.
 * Does not: decide about the time of a lease (lease-policy.ts), or know how a run is driven
 *   (drive-fleet-run.ts).
 * Invariants:
 * - worker/W1 The failure of one run never ends another one. A bug of Perdure ends this process; the
 *   supervisor starts a new one, which adopts the runs.
 * - worker/W2 A run is driven only under a lease that this process has taken and keeps.
 */
import type { Owner } from "../../core/event.ts";
import type { FleetJournal } from "../../journal/journal.ts";
import type { LeaseTime } from "../../journal/leases.ts";
import type { Subscription } from "../../journal/subscription.ts";
import { uptimeSeconds } from "../../runner/process/leash.ts";
import { AssertionError, assert } from "../../util/assert.ts";
import type { WorkerState } from "../../view/fleet-overview.ts";
import { isOwnerAlive, thisOwner } from "../drive/owner.ts";
import { Dispatch } from "./dispatch.ts";
import { FleetRun } from "./drive-fleet-run.ts";
import { forgetSilentWorkers, reportWorker, type WorkerMessage } from "./fleet-overview.ts";
import { claimSlot } from "./groups.ts";
import { LeaseKeeper, type LeaseLoss, takeoverOf } from "./lease-policy.ts";
import { ScheduleKeeper } from "./submit.ts";
import { tidyWorkerDisk, workerIdOf } from "./worker-directory.ts";

/** How often a worker looks for runs that want a driver and have none. */
const SEARCH_EVERY_MS = 1_000;
/** How many such runs it queues at once. */
const FOUND_MAX = 100;
/** How often it reads which queues there are. */
const REFRESH_EVERY_MS = 5_000;
/** How often it removes what it does not need any more from its disk. */
const TIDY_EVERY_MS = 3_600_000;
/** A run that was driven for this long is driven well: one that kills its worker does so sooner. */
const DRIVEN_WELL_MS = 10_000;
/** How long a worker that ends waits for its runs to be stored. */
const DRAIN_MAX_MS = 60_000;

const SECOND_MS = 1_000;

export interface WorkerSettings {
  /** The directory in which the worker keeps its runs, and its id. */
  readonly directory: string;
  /** How many runs it drives at once. */
  readonly concurrency: number;
  readonly labels: readonly string[];
}

interface DrivenFleetRun {
  readonly run: FleetRun;
  readonly startedAt: number;
  readonly done: Promise<void>;
  isDrivenWell: boolean;
}

/** A lease that this worker has just taken. */
interface TakenRun extends Awaited<ReturnType<Dispatch["begin"]>> {
  readonly runId: string;
  readonly how: "take" | "adopt";
  readonly epoch: number;
  readonly sentAt: number;
  readonly time: LeaseTime;
}

/** One worker process. */
export class Worker {
  readonly #journal: FleetJournal;
  readonly #dispatch: Dispatch;
  readonly #settings: WorkerSettings;
  readonly #say: (message: WorkerMessage) => void;
  readonly #owner: Owner & { readonly worker: string };
  readonly #labels: ReadonlySet<string>;
  readonly #keeper = new LeaseKeeper();
  readonly #runs = new Map<string, DrivenFleetRun>();
  readonly #ended = Promise.withResolvers<void>();
  readonly #wanted: Subscription;
  readonly #scheduled: ScheduleKeeper;
  #state: WorkerState = "working";
  #isAway = false;
  #isTaking = false;
  #isReady = false;
  #timers: NodeJS.Timeout[] = [];

  private constructor(
    journal: FleetJournal,
    dispatch: Dispatch,
    settings: WorkerSettings,
    say: (message: WorkerMessage) => void,
  ) {
    this.#journal = journal;
    this.#dispatch = dispatch;
    this.#settings = settings;
    this.#say = say;
    this.#owner = { ...thisOwner(), worker: workerIdOf(settings.directory) };
    this.#labels = new Set(settings.labels);
    this.#wanted = dispatch.listen();
    this.#scheduled = new ScheduleKeeper({ journal, dispatch });
  }

  /** Starts a worker on a store. */
  static async start(
    journal: FleetJournal,
    settings: WorkerSettings,
    say: (message: WorkerMessage) => void,
  ): Promise<Worker> {
    const dispatch = await Dispatch.open(journal, "worker");
    await dispatch.refresh();
    const worker = new Worker(journal, dispatch, settings, say);
    worker.#begin();
    return worker;
  }

  /** Resolves when the worker has drained; rejects on a bug of Perdure (worker/W1). */
  get ended(): Promise<void> {
    return this.#ended.promise;
  }

  /** Takes no further runs, and hands over those that it has; a second call ends their steps at once. */
  drain(): void {
    if (this.#state === "working") {
      this.#state = "draining";
      this.#say({ type: "draining", runs: this.#runs.size });
      // Runs that cannot be stored in this time are left to the end of their leases.
      this.#timers.push(setTimeout(() => this.#close(), DRAIN_MAX_MS));
    }
    for (const { run } of this.#runs.values()) run.drain();
    this.#endIfDone();
  }

  #begin(): void {
    this.#keepLeases();
    this.#every(SEARCH_EVERY_MS, () => this.#search());
    this.#every(REFRESH_EVERY_MS, () => this.#dispatch.refresh());
    this.#every(TIDY_EVERY_MS, () => this.#tidy());
    this.#watchQueues().catch((error: unknown) => this.#ended.reject(error));
  }

  /** Repeats a duty; it fails while the store is away, and is repeated. */
  #every(ms: number, duty: () => Promise<void>): void {
    let isBusy = false;
    const timer = setInterval(() => {
      if (isBusy) return;
      isBusy = true;
      // `#attempted` never rejects.
      void this.#attempted(duty).then(() => {
        isBusy = false;
      });
    }, ms);
    this.#timers.push(timer);
  }

  async #attempted(duty: () => Promise<void>): Promise<void> {
    try {
      await duty();
    } catch (error) {
      this.#failed(error);
    }
  }

  /** A bug ends the process; everything else is a store that is away. */
  #failed(error: unknown): void {
    if (isBug(error)) return this.#ended.reject(error);
    if (!this.#isAway) this.#say({ type: "store-away", reason: messageOf(error) });
    this.#isAway = true;
  }

  async #watchQueues(): Promise<void> {
    while (await this.#wanted.changed()) await this.#attempted(() => this.#takeAll());
  }

  /** Renews the leases when it is time, and gives up runs whose lease no longer counts. */
  #keepLeases(): void {
    if (this.#state === "ended") return;
    const now = bootMs();
    for (const { runId, why } of this.#keeper.giveUp(now)) this.#giveUp(runId, why);
    const renewal = this.#keeper.renew(now);
    if (renewal !== undefined) {
      this.#journal
        .renewAll(renewal.epochs)
        .then((answer) => {
          this.#keeper.answered(renewal, answer, bootMs());
          for (const { run } of this.#runs.values()) run.renewed();
          return this.#reported();
        })
        .catch((error: unknown) => {
          this.#keeper.failed(renewal);
          this.#failed(error);
        })
        .finally(() => this.#keepLeases());
    }
    const waitMs = Math.max(10, this.#keeper.nextAt() - bootMs());
    clearTimeout(this.#leaseTimer);
    this.#leaseTimer = setTimeout(() => this.#keepLeases(), waitMs);
  }

  #leaseTimer: NodeJS.Timeout | undefined;

  /** After an answer of the store: the worker is known, and takes what waits for it. */
  async #reported(): Promise<void> {
    if (this.#isAway) this.#say({ type: "store-back" });
    this.#isAway = false;
    await reportWorker(this.#journal, {
      worker: this.#owner.worker,
      labels: this.#settings.labels,
      concurrency: this.#settings.concurrency,
      runs: [...this.#runs.keys()],
      state: this.#state,
    });
    for (const driven of this.#runs.values()) await this.#noteDrivenWell(driven);
    if (!this.#keeper.mayTake || this.#isReady) return;
    this.#isReady = true;
    this.#say({ type: "ready", worker: this.#owner.worker });
    await forgetSilentWorkers(this.#journal);
    await this.#adoptOwn();
    await this.#takeAll();
    await this.#tidy();
  }

  /** Makes room on the disk; a failure says nothing about the store. */
  async #tidy(): Promise<void> {
    try {
      await tidyWorkerDisk(this.#settings.directory, (runId) => this.#runs.has(runId));
    } catch (error) {
      if (isBug(error)) throw error;
      this.#say({ type: "not-removed", reason: messageOf(error) });
    }
  }

  async #noteDrivenWell(driven: DrivenFleetRun): Promise<void> {
    if (driven.isDrivenWell || bootMs() - driven.startedAt < DRIVEN_WELL_MS) return;
    await this.#dispatch.succeed(this.#journal, driven.run.runId);
    driven.isDrivenWell = true;
  }

  /** Takes back the runs of the process before this one; their steps may still run. */
  async #adoptOwn(): Promise<void> {
    for (const { runId, owner } of await this.#journal.leases.held()) {
      if (owner.worker !== this.#owner.worker || this.#runs.has(runId)) continue;
      const taken = await this.#takeLease(runId);
      if (taken !== undefined) this.#drive(taken);
    }
  }

  /** Queues what wants a driver and has none, and takes what it may. */
  async #search(): Promise<void> {
    if (this.#state !== "working" || !this.#isReady) return;
    await this.#wantUnattended();
    await this.#dispatch.admitWaiting();
    for (const { name, runId } of await this.#scheduled.startDue(this.#storeTime())) {
      this.#say({ type: "scheduled", name, runId });
    }
    await this.#takeAll();
  }

  /** Queues runs without a driver, and comes back when the next lease runs out before the next search. */
  async #wantUnattended(): Promise<void> {
    const found = await this.#journal.unattended(FOUND_MAX, SEARCH_EVERY_MS);
    const others = found.filter(({ runId }) => !this.#runs.has(runId));
    for (const { runId } of others.filter(({ inMs }) => inMs === 0)) {
      await this.#journal.transaction((transaction) =>
        this.#dispatch.want(transaction, runId, { afterMs: 0 }),
      );
    }
    const next = others.map(({ inMs }) => inMs).filter((inMs) => inMs > 0);
    clearTimeout(this.#expiryTimer);
    if (next.length === 0 || this.#state !== "working") return;
    this.#expiryTimer = setTimeout(
      () => {
        // `#attempted` never rejects.
        void this.#attempted(async () => {
          await this.#wantUnattended();
          await this.#takeAll();
        });
      },
      Math.min(...next),
    );
  }

  #expiryTimer: NodeJS.Timeout | undefined;

  /** Takes runs from the queues while there is a place for one. */
  async #takeAll(): Promise<void> {
    if (this.#isTaking) return;
    this.#isTaking = true;
    try {
      while (this.#mayTake()) {
        const taken = await this.#takeNext();
        if (taken === "none") return;
        if (taken !== undefined) this.#drive(taken);
      }
    } finally {
      this.#isTaking = false;
    }
  }

  #mayTake(): boolean {
    const isFree = this.#runs.size < this.#settings.concurrency;
    return isFree && this.#state === "working" && this.#isReady && this.#keeper.mayTake;
  }

  /** The next run of the queues; "none" when they are empty, undefined when it has an owner. */
  #takeNext(): Promise<TakenRun | undefined | "none"> {
    const sentAt = bootMs();
    return this.#journal.transaction(async (transaction) => {
      const runId = await this.#dispatch.take(transaction, this.#labels);
      if (runId === undefined) return "none";
      return this.#acquire(transaction, runId, sentAt);
    });
  }

  #takeLease(runId: string): Promise<TakenRun | undefined> {
    const sentAt = bootMs();
    return this.#journal.transaction((transaction) => this.#acquire(transaction, runId, sentAt));
  }

  async #acquire(
    transaction: Parameters<Parameters<FleetJournal["transaction"]>[0]>[0],
    runId: string,
    sentAt: number,
  ): Promise<TakenRun | undefined> {
    const judged = await transaction.leases.of(runId);
    const how = takeoverOf(judged, this.#owner, (owner) => !isOwnerAlive(owner));
    if (how === "wait") return undefined;
    if (this.#runs.has(runId)) {
      // This process still ends what it did under a lease that it has lost: the job is not for nothing.
      await this.#dispatch.want(transaction, runId, { afterMs: SEARCH_EVERY_MS });
      return undefined;
    }
    if (!(await claimSlot(transaction, runId))) return undefined;
    const acquired = await transaction.leases.acquire(runId, { owner: this.#owner, judged });
    if (!acquired.ok || acquired.time === undefined) return undefined;
    const begun = await this.#dispatch.begin(transaction, runId, how);
    return { ...begun, runId, how, epoch: acquired.epoch, sentAt, time: acquired.time };
  }

  #drive({ runId, how, epoch, sentAt, time, refusal, resumeAt, stop }: TakenRun): void {
    this.#keeper.took(runId, epoch, sentAt, time);
    const lease = {
      owner: this.#owner,
      epoch,
      holds: () => this.#keeper.holds(runId, epoch, bootMs()),
      deadline: () => (this.#keeper.deadlineOf(runId) ?? sentAt) / SECOND_MS,
      clock: { now: () => this.#storeTime() },
    };
    const { directory } = this.#settings;
    const site = { journal: this.#journal, dispatch: this.#dispatch, directory };
    const run = new FleetRun(site, runId, lease);
    this.#say({ type: "took", runId, how });
    const driving = refusal === undefined ? run.drive({ resumeAt, stop }) : run.refuse(refusal);
    const done = driving
      .then((result) => {
        if (result.how !== "lost") this.#say({ type: "ended", runId, result });
      })
      .catch((error: unknown) => this.#runFailed(runId, epoch, error))
      .finally(() => this.#left(runId));
    const startedAt = bootMs();
    this.#runs.set(runId, { run, startedAt, done, isDrivenWell: false });
  }

  /** The run could not be driven: it is queued again, or becomes a dead letter (worker/W1). */
  async #runFailed(runId: string, epoch: number, error: unknown): Promise<void> {
    const reason = messageOf(error);
    if (isBug(error)) {
      // The next process adopts the run, and must not die of it for ever.
      await this.#dispatch.blame(this.#journal, runId, reason).catch(() => undefined);
      return this.#ended.reject(error);
    }
    try {
      const next = await this.#journal.transaction(async (transaction) => {
        await transaction.leases.release(runId, epoch);
        return this.#dispatch.fail(transaction, runId, reason);
      });
      this.#say({ type: "failed", runId, reason, next });
    } catch (second) {
      // The lease runs out, and a worker finds the run.
      this.#say({ type: "failed", runId, reason, next: "again" });
      this.#failed(second);
    }
  }

  #left(runId: string): void {
    this.#keeper.dropped(runId);
    this.#runs.delete(runId);
    this.#endIfDone();
    if (this.#state === "working") void this.#attempted(() => this.#takeAll());
  }

  #storeTime(): number {
    const time = this.#keeper.storeTime(bootMs());
    assert(time !== undefined, "a worker takes runs after the store has told its time");
    return Math.round(time);
  }

  #giveUp(runId: string, why: LeaseLoss): void {
    const driven = this.#runs.get(runId);
    if (driven === undefined) return;
    this.#say({ type: "lost", runId, why });
    driven.run.lost(why).catch((error: unknown) => this.#ended.reject(error));
  }

  #endIfDone(): void {
    if (this.#state === "draining" && this.#runs.size === 0) this.#close();
  }

  #close(): void {
    if (this.#state === "ended") return;
    this.#state = "ended";
    clearTimeout(this.#leaseTimer);
    clearTimeout(this.#expiryTimer);
    for (const timer of this.#timers) clearTimeout(timer);
    this.#wanted.close();
    this.#sayGoodbye().then(this.#ended.resolve, this.#ended.reject);
  }

  async #sayGoodbye(): Promise<void> {
    const { labels, concurrency } = this.#settings;
    const { worker } = this.#owner;
    const report = { worker, labels, concurrency, runs: [], state: this.#state };
    // Others see its end even without this row.
    await reportWorker(this.#journal, report).catch(() => undefined);
    await this.#dispatch.close();
  }
}

/** Milliseconds of the boot clock, which continues while the machine sleeps. */
function bootMs(): number {
  return uptimeSeconds() * SECOND_MS;
}

function isBug(error: unknown): boolean {
  for (let at: unknown = error; at instanceof Error; at = at.cause) {
    if (at instanceof AssertionError) return true;
  }
  return false;
}

/** What happened, without the layers around it. */
function messageOf(error: unknown): string {
  let at: unknown = error;
  while (at instanceof Error && at.cause instanceof Error) at = at.cause;
  return at instanceof Error ? at.message : String(at);
}
