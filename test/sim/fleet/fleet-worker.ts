/**
 * A simulated worker: the real policy of leases and takeovers on a simulated machine and network. Its
 * process dies, is paused and drains; its supervisor starts the next one.
 */
import {
  LeaseKeeper,
  mayUseDirectory,
  type Renewal,
  takeoverOf,
} from "../../../src/app/fleet/lease-policy.ts";
import type { Owner } from "../../../src/core/event.ts";
import { JournalError } from "../../../src/journal/journal-error.ts";
import { type Leases, takeLease } from "../../../src/journal/leases.ts";
import type { Random } from "../../../src/util/random.ts";
import { type Directory, type Machine, SimulatedProcess } from "./machine.ts";
import type { Cancel } from "./schedule.ts";
import { Drained, type FleetBug, LeaseLost, Session, type SessionParts } from "./session.ts";
import type { Link, SimulatedStore } from "./store.ts";

const RUNS_MAX = 2;
const FETCH_EVERY_MS = 1_500;

/** What all workers of a simulation share. */
export interface Fleet {
  readonly random: Random;
  readonly store: SimulatedStore;
  readonly bug: FleetBug | undefined;
  newPid(): number;
  newSnapshot(): string;
  note(line: string): void;
  fatal(error: unknown): void;
}

export class SimulatedWorker {
  readonly id: string;
  readonly machine: Machine;
  readonly link: Link;
  readonly #fleet: Fleet;
  readonly #wallOffset: number;
  #process: SimulatedProcess | undefined;
  #keeper = new LeaseKeeper();
  #sessions = new Map<string, Session | undefined>();
  #isDraining = false;
  /** Somebody wants the next process as soon as this one has drained. */
  #startsAgain = false;
  #cancelTick: Cancel | undefined;

  constructor(id: string, machine: Machine, link: Link, fleet: Fleet) {
    this.id = id;
    this.machine = machine;
    this.link = link;
    this.#fleet = fleet;
    this.#wallOffset = Math.round((fleet.random.next() - 0.5) * 7_200_000);
  }

  get process(): SimulatedProcess | undefined {
    return this.#process?.isAlive === true ? this.#process : undefined;
  }

  /** Starts a process of this worker if none lives and the machine is up, or after it has drained. */
  start(): void {
    this.#startsAgain = this.process !== undefined && this.#isDraining;
    if (this.process !== undefined || !this.machine.isUp) return;
    const process = new SimulatedProcess(this.machine, this.#fleet.newPid());
    this.machine.processes.set(process.pid, process);
    this.#process = process;
    this.#keeper = new LeaseKeeper();
    this.#sessions = new Map();
    this.#isDraining = false;
    this.#fleet.note(`${this.id} starts as process ${process.pid} on ${this.machine.name}`);
    this.#tick();
    this.#work(process).catch((error: unknown) => this.#fleet.fatal(error));
  }

  /** Hands all runs over and ends. */
  drain(): void {
    this.#isDraining = true;
    this.#fleet.note(`${this.id} drains`);
    for (const session of this.#sessions.values()) session?.abort(new Drained("drain"));
  }

  /** Renews leases and gives up those that do not count any more, whenever the policy says so. */
  #tick(): void {
    const process = this.process;
    if (process === undefined) return;
    const keeper = this.#keeper;
    this.#cancelTick?.();
    for (const { runId, why } of keeper.giveUp(this.machine.now())) {
      this.#fleet.note(`${this.id} gives up ${runId}: ${why}`);
      this.#sessions.get(runId)?.abort(new LeaseLost(why));
    }
    const renewal = keeper.renew(this.machine.now());
    if (renewal !== undefined) this.#renew(renewal, keeper, process);
    const waitMs = Math.max(1, keeper.nextAt() - this.machine.now());
    this.#cancelTick = process.after(waitMs, () => this.#tick());
  }

  #renew(renewal: Renewal, keeper: LeaseKeeper, process: SimulatedProcess): void {
    this.link
      .call(process, (store) => store.renew(renewal.epochs), 4)
      .then(
        (answer) => {
          keeper.answered(renewal, answer, this.machine.now());
          for (const session of this.#sessions.values()) session?.extendLeash();
        },
        () => keeper.failed(renewal),
      )
      .then(() => this.#tick())
      .catch((error: unknown) => this.#fleet.fatal(error));
  }

  /** Takes runs for as long as the process lives. */
  async #work(process: SimulatedProcess): Promise<void> {
    while (!this.#keeper.mayTake) await process.sleep(100);
    await this.#ignoreUnreachable(() => this.#adoptOwn(process));
    while (!this.#isDraining) {
      await this.#ignoreUnreachable(() => this.#takeOne(process));
      await process.sleep(FETCH_EVERY_MS / 2 + this.#fleet.random.below(FETCH_EVERY_MS));
    }
    while (this.#sessions.size > 0) await process.sleep(100);
    process.kill();
    if (this.#startsAgain) this.start();
  }

  async #takeOne(process: SimulatedProcess): Promise<void> {
    if (!this.#keeper.mayTake || this.#sessions.size >= RUNS_MAX) return;
    const runId = await this.link.call(process, (store) => store.fetch());
    if (runId !== undefined) this.#begin(process, runId);
  }

  /** Leases of this directory whose process is dead: their steps may still live here. */
  async #adoptOwn(process: SimulatedProcess): Promise<void> {
    const held = await this.link.call(process, (store) => store.journal.leases.held());
    for (const lease of held) {
      const takeover = takeoverOf(lease, this.#identity(), (owner) => this.#isDead(owner));
      if (takeover === "adopt") this.#begin(process, lease.runId);
    }
  }

  #begin(process: SimulatedProcess, runId: string): void {
    if (this.#sessions.has(runId)) return;
    this.#sessions.set(runId, undefined);
    this.#ignoreUnreachable(() => this.#own(process, runId))
      .finally(() => this.#sessions.delete(runId))
      .catch((error: unknown) => this.#fleet.fatal(error));
  }

  async #own(process: SimulatedProcess, runId: string): Promise<void> {
    const keeper = this.#keeper;
    const owner = this.#owner(process);
    const isAlive = (other: Owner): boolean =>
      takeoverOf({ epoch: 0, owner: other }, this.#identity(), (one) => this.#isDead(one)) ===
      "wait";
    const sentAt = this.machine.now();
    const claimed = await takeLease(this.#leases(process), runId, { owner, isAlive });
    if (!claimed.ok) return this.link.call(process, async (store) => store.done(runId));
    const { epoch, time } = claimed;
    if (time === undefined) throw new Error("a lease of a fleet runs out");
    keeper.took(runId, epoch, sentAt, time);
    this.#fleet.note(`${this.id} owns ${runId} with epoch ${epoch}`);
    const session = new Session(this.#parts(process, runId, owner, epoch));
    this.#sessions.set(runId, session);
    this.#tick();
    try {
      const dir = await this.#directory(process, runId, owner, epoch);
      if (dir !== undefined) await session.drive(dir);
    } finally {
      // A lease without a driver is not renewed: it runs out, and the run is found.
      keeper.dropped(runId);
    }
  }

  /** The run's directory here: as it was left, or made from the store (lease-policy/T3). */
  async #directory(
    process: SimulatedProcess,
    runId: string,
    { boot }: Owner,
    epoch: number,
  ): Promise<Directory | undefined> {
    const { store, bug } = this.#fleet;
    const path = `${this.id}/${runId}`;
    const run = store.run(runId);
    const old = this.machine.directory(path);
    const isOfThisBoot = old?.used?.boot === boot || bug === "old-image-used";
    const usedUnder = isOfThisBoot ? old?.used?.epoch : undefined;
    if (old !== undefined && mayUseDirectory(usedUnder, epoch)) return old;
    if (old !== undefined) {
      old.leash = undefined;
      run.end(old);
    }
    const { files } = await this.link.call(process, (one) => one.files.changedSince(runId, 0));
    // A worker that was paused meanwhile may have lost the run: nothing starts in this directory.
    if (!this.#keeper.holds(runId, epoch, this.machine.now())) return undefined;
    const dir = this.machine.makeDirectory(path);
    for (const { path: name, blobs = [] } of files) {
      const [folder, rest = ""] = name.split("/");
      if (folder === "bundles") dir.snapshots.add(rest);
      if (folder === "transcripts") dir.transcripts.set(rest, blobs);
    }
    run.expectAlone(dir);
    run.movedTo(dir);
    this.#fleet.note(`${this.id} makes ${dir.id} for ${runId}`);
    return dir;
  }

  #parts(process: SimulatedProcess, runId: string, owner: Owner, epoch: number): SessionParts {
    const { random, store, bug, newSnapshot, note, fatal } = this.#fleet;
    return {
      ...{ process, random, owner, epoch, bug, newSnapshot, note, fatal },
      keeper: this.#keeper,
      run: store.run(runId),
      wallClock: () => Math.round(this.machine.now() + this.#wallOffset),
      call: (request, risk) => this.link.call(process, request, risk),
    };
  }

  #leases(process: SimulatedProcess): Leases {
    const { call } = this.link;
    const asked = <T>(request: (leases: Leases) => Promise<T>): Promise<T> =>
      call.call(this.link, process, (store) => request(store.journal.leases)) as Promise<T>;
    return {
      of: (runId) => asked((leases) => leases.of(runId)),
      held: () => asked((leases) => leases.held()),
      acquire: (runId, request) =>
        this.link.call(process, (store) => store.acquire(process.pid, runId, request), 30),
      renew: (runId, epoch) => asked((leases) => leases.renew(runId, epoch)),
      release: (runId, epoch) => asked((leases) => leases.release(runId, epoch)),
      block: (dead) => asked((leases) => leases.block(dead)),
    };
  }

  #identity(): { readonly worker: string; readonly boot: string } {
    return { worker: this.id, boot: this.machine.boot };
  }

  #owner(process: SimulatedProcess): Owner {
    const { boot, name } = this.machine;
    return { pid: process.pid, started: "0", boot, host: name, user: "u", worker: this.id };
  }

  /** What a process can prove of another one: it sees those of its own machine only. */
  #isDead({ host, boot, pid }: Owner): boolean {
    if (host !== this.machine.name) return false;
    return boot !== this.machine.boot || this.machine.processes.get(pid)?.isAlive !== true;
  }

  async #ignoreUnreachable(act: () => Promise<void>): Promise<void> {
    try {
      await act();
    } catch (error) {
      if (!(error instanceof JournalError)) throw error;
    }
  }
}
