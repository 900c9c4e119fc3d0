/**
 * The simulated store of a fleet: the journal in memory with leases that run out, stored files, jobs, and
 * the network that leads to it. What must hold of every write is checked here, where it would happen.
 */
import type { AttemptRef, Recorded } from "../../../src/core/event.ts";
import { emptyRun, evolve, takeChanges } from "../../../src/core/evolve.ts";
import { attemptOf, type Run } from "../../../src/core/run.ts";
import { attemptText } from "../../../src/core/step-path.ts";
import { pendingAmong } from "../../../src/journal/inbox.ts";
import type { StoredFile, StoredFiles } from "../../../src/journal/journal.ts";
import { JournalError } from "../../../src/journal/journal-error.ts";
import type { Acquired, AcquireRequest, LeaseTime } from "../../../src/journal/leases.ts";
import { type MemoryJournal, memoryJournal } from "../../../src/journal/memory.ts";
import { memoryStoredFiles } from "../../../src/journal/memory-files.ts";
import type { Write } from "../../../src/journal/run-log.ts";
import type { Plan } from "../../../src/plan/plan.ts";
import type { Random } from "../../../src/util/random.ts";
import { Checkers, plansIn } from "../checkers.ts";
import { Violation } from "../conversation-checkers.ts";
import { type SimProcess, World } from "../world.ts";
import type { Directory, Machine, SimulatedProcess } from "./machine.ts";
import type { Schedule } from "./schedule.ts";

/** How long a lease lasts, by the clock of the store. */
const LEASE_MS = 12_000;
/** A request without an answer fails after this time, by the clock of the one who waits. */
const CALL_TIMEOUT_MS = 2_500;
/** A job that nobody has finished is offered again after this time. */
const JOB_EXPIRES_MS = 20_000;
/** How far the times of two events may be apart in the wrong order: what a fast clock gains. */
const TIME_BACK_MAX_MS = 5_000;
/** Some requests arrive when a partition heals, after so many seconds at most. */
const DELIVERY_ROUNDS_MAX = 40;
/** Snapshots are named so that they are found in every event. */
const SNAPSHOT = /"(snapshot-\d+)"/g;

/** One run of the fleet: the truth about it, which no worker knows as a whole. */
export class FleetRun {
  readonly runId: string;
  readonly world: World;
  readonly checkers: Checkers;
  readonly planOf: (fingerprint: string) => Plan;
  /** The run as the journal has it. */
  known: Run;
  /** When it was last written. */
  writtenAt = 0;
  #time = 0;
  readonly plan: Plan;
  /** Told of every process that has ended. */
  readonly followers = new Set<() => void>();
  /** Attempt -> the directory and the machine on which its process was started. */
  readonly #places = new Map<string, { readonly dir: Directory; readonly machine: Machine }>();
  readonly #owners = new Map<number, number>();
  readonly #stored = new Set<string>();

  constructor(runId: string, plan: Plan, journal: MemoryJournal, random: Random) {
    this.runId = runId;
    this.plan = plan;
    this.world = new World(random);
    this.world.longest = 25_000;
    const files = {
      expectSaved: (at: AttemptRef, commit: string | undefined): void => {
        if (commit === undefined && this.keepsFiles) fail(`${attemptText(at)} has no snapshot`);
      },
      expectReused: () => undefined,
      expectBystanders: (): void => undefined,
      expectCommitted: (): void => undefined,
      expectKept: (): void => undefined,
    };
    this.planOf = plansIn(journal);
    this.checkers = new Checkers(plan, runId, journal, this.world, files);
    this.known = emptyRun(runId);
  }

  get keepsFiles(): boolean {
    return this.plan.workspace?.snapshots === true;
  }

  get hasEnded(): boolean {
    return ["completed", "failed", "stopped"].includes(this.known.state.status);
  }

  /** Each epoch has one owner, and no other writes with it. */
  acquired(epoch: number, pid: number): void {
    if (this.#owners.has(epoch)) fail(`epoch ${epoch} was given to two owners`);
    this.#owners.set(epoch, pid);
    this.checkers.requests.beforeOwner();
  }

  wrote(epoch: number, pid: number): void {
    const owner = this.#owners.get(epoch);
    if (owner !== pid) fail(`process ${pid} wrote with the epoch ${epoch} of process ${owner}`);
  }

  stored(files: readonly StoredFile[]): void {
    for (const { path } of files) this.#stored.add(path);
  }

  /** Events are in the journal: every file that they name is in the store (fleet/S1). */
  recorded(events: readonly Recorded[], asked = false): void {
    for (const one of events) {
      for (const [, name = ""] of JSON.stringify(one.event).matchAll(SNAPSHOT)) {
        if (!this.#stored.has(`bundles/${name}`))
          fail(`an event names ${name}, which is not stored`);
      }
      this.#checkFolder(one);
      if (one.time < this.#time - TIME_BACK_MAX_MS) fail(`time goes back at event ${one.seq}`);
      this.#time = Math.max(this.#time, one.time);
      if (one.event.type === "run.opened" && this.hasEnded && !asked) {
        fail("a run that has ended was resumed, and nobody asked");
      }
      this.known = evolve(this.planOf, this.known, one);
    }
    takeChanges(this.known);
    this.checkers.afterAppend(events, this.known);
  }

  #checkFolder({ event }: Recorded): void {
    if (event.type !== "step.completed" && event.type !== "step.failed") return;
    const attempt = attemptText(event);
    if (this.#places.has(attempt) && !this.#stored.has(folderOf(attempt))) {
      const process = this.world.processes.get(attempt);
      if (process !== undefined && !process.killed) fail(`the files of ${attempt} are not stored`);
    }
  }

  /** A process of the run starts: no other directory may have a living one at that time. */
  started(at: AttemptRef, dir: Directory, machine: Machine, judges: boolean): SimProcess {
    this.#places.set(attemptText(at), { dir, machine });
    this.expectAlone(dir);
    this.checkers.afterSpawn(at, judges);
    const process = this.world.processes.get(attemptText(at));
    if (process === undefined) fail(`${attemptText(at)} has no process`);
    return process;
  }

  /** No process of the run lives outside of this directory. */
  expectAlone(dir: Directory): void {
    for (const { at } of this.world.alive()) {
      const place = this.#places.get(attemptText(at));
      if (place !== undefined && place.dir.id !== dir.id) {
        const where = `${place.machine.name} ${place.dir.id}`;
        fail(`two writers: ${attemptText(at)} lives in ${where}, and ${dir.id} works as well`);
      }
    }
  }

  isIn(attempt: string, dir: Directory): boolean {
    return this.#places.get(attempt)?.dir.id === dir.id;
  }

  /** Ends the processes in a directory, or on a machine that goes down. */
  end(where: Directory | Machine): void {
    for (const process of this.world.alive()) {
      const place = this.#places.get(attemptText(process.at));
      if (place?.dir === where || place?.machine === where) this.kill(process);
    }
  }

  kill(process: SimProcess): void {
    this.world.kill(process);
    for (const tell of this.followers) tell();
  }

  /** What was left in other directories is lost, if nobody recorded it. */
  movedTo(dir: Directory): void {
    for (const process of this.world.processes.values()) {
      if (this.isIn(attemptText(process.at), dir) || process.killed) continue;
      process.killed = true;
      process.killedAt = Math.min(this.world.now, process.endsAt);
    }
  }
}

/** The path of the folder of an attempt. */
export function folderOf(attempt: string): string {
  return `run/attempts/${attempt}`;
}

export class SimulatedStore {
  readonly journal: MemoryJournal;
  readonly files: StoredFiles;
  readonly runs = new Map<string, FleetRun>();
  isDown = false;
  /** Planted: nobody looks for requests to runs without an owner. */
  forgetsRequests = false;
  /** How far its clock is off. */
  skew = 0;
  readonly #schedule: Schedule;
  readonly #queued = new Set<string>();
  readonly #active = new Map<string, number>();

  constructor(schedule: Schedule) {
    this.#schedule = schedule;
    this.journal = memoryJournal({ leaseTime: () => this.#time() });
    this.files = memoryStoredFiles(this.journal.leases);
  }

  #time(): LeaseTime {
    return { now: this.#schedule.now + this.skew, heldMs: LEASE_MS };
  }

  run(runId: string): FleetRun {
    const run = this.runs.get(runId);
    if (run === undefined) fail(`there is no run ${runId}`);
    return run;
  }

  isSettled({ runId, known, hasEnded }: FleetRun): boolean {
    const { lease } = this.journal.contents.find(runId);
    const busy = lease?.owner !== undefined || this.#queued.has(runId);
    return hasEnded && !busy && !this.#hasPending(runId, known);
  }

  enqueue(runId: string): void {
    this.#queued.add(runId);
  }

  /** The next job, and a look at runs that want a driver and have none. */
  async fetch(): Promise<string | undefined> {
    await this.#scan();
    const [runId] = this.#queued;
    if (runId === undefined) return undefined;
    this.#queued.delete(runId);
    this.#active.set(runId, this.#schedule.now + JOB_EXPIRES_MS);
    return runId;
  }

  async #scan(): Promise<void> {
    for (const [runId, until] of this.#active) {
      if (this.#schedule.now < until) continue;
      this.#active.delete(runId);
      this.enqueue(runId);
    }
    for (const run of this.runs.values()) {
      const { runId, known } = run;
      const lease = await this.journal.leases.of(runId);
      if (lease?.owner === undefined) {
        if (!this.forgetsRequests && this.#hasPending(runId, known)) this.enqueue(runId);
      } else if (lease.hasExpired === true) {
        await this.journal.leases.release(runId, lease.epoch);
        if (!run.hasEnded || this.#hasPending(runId, known)) this.enqueue(runId);
      }
    }
  }

  /** A request that nobody has handled, or an answer that nobody has recorded. */
  #hasPending(runId: string, known: Run): boolean {
    const { contents } = this.journal;
    const answers = contents.answers(runId);
    // A question of a run that has ended is no reason to drive it.
    const open = this.run(runId).hasEnded ? [] : [...known.waiting.person];
    const answered = open.some((visit) => answers.has(attemptText(attemptOf(visit))));
    return answered || pendingAmong(contents.requests(runId), known).length > 0;
  }

  /** In one transaction: the lease is released, and the job is done or goes back to its queue. */
  async handOver(runId: string, epoch: number, again: boolean): Promise<void> {
    await this.journal.leases.release(runId, epoch);
    this.done(runId);
    if (again) this.enqueue(runId);
  }

  done(runId: string): void {
    this.#active.delete(runId);
  }

  async acquire(pid: number, runId: string, request: AcquireRequest): Promise<Acquired> {
    const acquired = await this.journal.leases.acquire(runId, request);
    if (acquired.ok) this.run(runId).acquired(acquired.epoch, pid);
    return acquired;
  }

  /** Renews all leases of a worker; gives those that it has lost. */
  async renew(
    epochs: ReadonlyMap<string, number>,
  ): Promise<LeaseTime & { readonly lost: readonly string[] }> {
    const lost: string[] = [];
    for (const [runId, epoch] of epochs) {
      try {
        await this.journal.leases.renew(runId, epoch);
      } catch (error) {
        if (!(error instanceof JournalError)) throw error;
        lost.push(runId);
      }
    }
    return { ...this.#time(), lost };
  }

  async append(pid: number, runId: string, write: Write): Promise<void> {
    const run = this.run(runId);
    await this.journal.log.append(runId, write);
    this.#expectOwner(runId, write.epoch);
    run.wrote(write.epoch, pid);
    run.writtenAt = this.#schedule.now;
    const asked = this.#hasPending(runId, run.known);
    run.recorded(await this.journal.log.eventsAfter(runId, write.afterSeq), asked);
  }

  #expectOwner(runId: string, epoch: number): void {
    const { lease } = this.journal.contents.find(runId);
    if (lease?.epoch !== epoch) fail(`a worker that was replaced wrote to ${runId}`);
  }

  async put(runId: string, epoch: number, files: readonly StoredFile[]): Promise<void> {
    await this.files.put(runId, epoch, files);
    this.#expectOwner(runId, epoch);
    this.run(runId).stored(files);
  }
}

/** The network between a machine and the store. */
export class Link {
  carriesRequests = true;
  carriesAnswers = true;
  /** The longest time that a message is under way. */
  slowestMs = 20;
  /** Called when an answer arrives, which is the worst time to die or to be paused. */
  onAnswer: ((process: SimulatedProcess, risk: number) => void) | undefined;
  readonly #schedule: Schedule;
  readonly #random: Random;
  readonly #store: SimulatedStore;
  readonly #onError: (error: unknown) => void;

  constructor(
    schedule: Schedule,
    random: Random,
    store: SimulatedStore,
    onError: (error: unknown) => void,
  ) {
    this.#onError = onError;
    this.#schedule = schedule;
    this.#random = random;
    this.#store = store;
  }

  /** Sends a request of a process; what the store does happens there, whatever becomes of us. */
  call<T>(
    process: SimulatedProcess,
    request: (store: SimulatedStore) => Promise<T>,
    risk = 1,
  ): Promise<T> {
    return new Promise((resolve, reject) => {
      let isOver = false;
      const finish = (settle: () => void): void => {
        if (isOver) return;
        isOver = true;
        cancel();
        process.run(settle);
      };
      const cancel = process.machine.after(CALL_TIMEOUT_MS, () => {
        finish(() => reject(new JournalError("unreachable", "The store does not answer.")));
      });
      const answer = (settle: () => void): void => {
        this.#schedule.after(this.#delay(), () => {
          if (!this.carriesAnswers || !process.machine.isUp || isOver) return;
          this.onAnswer?.(process, risk);
          finish(settle);
        });
      };
      let rounds = this.#random.chance(0.3) ? DELIVERY_ROUNDS_MAX : 0;
      const deliver = (): void => {
        if (!this.carriesRequests || this.#store.isDown) {
          if (rounds-- > 0) this.#schedule.after(1_000, deliver);
          return;
        }
        request(this.#store).then(
          (value) => answer(() => resolve(value)),
          (error: unknown) => {
            if (error instanceof JournalError) answer(() => reject(error));
            else this.#onError(error);
          },
        );
      };
      this.#schedule.after(this.#delay(), deliver);
    });
  }

  #delay(): number {
    return 1 + this.#random.below(this.slowestMs);
  }
}

function fail(message: string): never {
  throw new Violation(message);
}
