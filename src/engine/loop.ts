/**
 * The only loop, for new and resumed runs alike. A turn turns facts into events, makes the events
 * durable, and then lets executors start the operations.
 *
 * Owns: the order of a turn (facts -> events -> disk -> operations -> watchers, so that a step does not
 *   wait for the files that report the previous one), and waiting.
 * Does not: decide anything (room `core`), or act on the world (executors/).
 * Invariants:
 * - engine/E1 Nothing else acts between the decision of a turn and the end of its append: facts
 *   wait in the queue, and executors start operations only after the append.
 * - engine/E4 A failed append ends this loop: the run in memory is then ahead of the disk, and only
 *   a new replay can be trusted.
 * - engine/E5 This owner starts or adopts every attempt that the journal calls running:
 *   `takeOperations` offers nothing else (core/operations.ts).
 * - engine/J1 Operations start only after their events are on the disk.
 * - loop/L1 Nothing of the loop outlives `drive`, which closes its executors at the end.
 */

import type { Operation } from "../core/action.ts";
import { type Activity, newActivity } from "../core/activity.ts";
import { advance, type Turn } from "../core/advance.ts";
import type { Owner, Recorded, RememberedEnvironment, WorkspaceUsed } from "../core/event.ts";
import { takeChanges } from "../core/evolve.ts";
import type { Environment, Fact } from "../core/fact.ts";
import { retriedBy } from "../core/graph/retry.ts";
import { waitsForPerson } from "../core/next-actions.ts";
import type { Run, RunState } from "../core/run.ts";
import { summaryOf, type WorkspaceOf } from "../core/summary.ts";
import { recordedTurn, TurnLog } from "../core/turn.ts";
import { type RunLog, recordedIn } from "../journal/run-log.ts";
import type { Plan, Recover } from "../plan/plan.ts";
import { assert, unreachable } from "../util/assert.ts";
import type { Clock } from "../util/clock.ts";
import { closeAll } from "../util/close.ts";
import { defined } from "../util/defined.ts";
import type { Executors, FactWriter } from "./executors/executor.ts";

/** Receives every batch of events after it is on the disk; its operations may have started. */
type Watcher = (events: readonly Recorded[], run: Run) => void;

/** Where facts wait for the loop. */
export interface FactQueue extends FactWriter {
  readonly isEmpty: boolean;
  /** Waits for facts and returns all of them; none after the time, or when the loop is woken. */
  take(waitMs: number | undefined): Promise<readonly Fact[]>;
}

/** Node's timers cannot wait longer; the loop then makes one more turn. */
const WAIT_MAX_MS = 2 ** 31 - 1;

/** A queue with one reader, the loop. The operations under way limit its length. */
export class Mailbox implements FactQueue {
  #facts: Fact[] = [];
  #isWoken = false;
  #wake: (() => void) | undefined;
  #error: Error | undefined;

  post(fact: Fact): void {
    this.#facts.push(fact);
    this.#wake?.();
  }

  /** Makes the loop check its gates without a fact. */
  wake(): void {
    this.#isWoken = true;
    this.#wake?.();
  }

  fail(error: unknown): void {
    this.#error ??= error instanceof Error ? error : new Error(String(error));
    this.#wake?.();
  }

  get isEmpty(): boolean {
    return this.#facts.length === 0;
  }

  async take(waitMs: number | undefined): Promise<readonly Fact[]> {
    if (this.isEmpty && !this.#isWoken && this.#error === undefined) await this.#wait(waitMs);
    if (this.#error !== undefined) throw this.#error;
    // The wake-up came together with facts: the next call returns at once, without facts.
    if (this.isEmpty) this.#isWoken = false;
    const taken = this.#facts;
    this.#facts = [];
    return taken;
  }

  #wait(waitMs: number | undefined): Promise<void> {
    return new Promise((resolve) => {
      const timer =
        waitMs === undefined
          ? undefined
          : setTimeout(() => this.#wake?.(), Math.min(Math.max(0, waitMs), WAIT_MAX_MS));
      this.#wake = () => {
        clearTimeout(timer);
        this.#wake = undefined;
        resolve();
      };
    });
  }
}

interface LoopOptions {
  readonly log: RunLog;
  readonly runId: string;
  readonly plan: Plan;
  /** The replay of all events in the journal, made after the lease was acquired. */
  readonly run: Run;
  readonly owner: Owner;
  readonly epoch: number;
  /** A person's choice for interrupted conversations. */
  readonly recover?: Recover;
  /** The choice for single visits, by their step path (`fix@2`). */
  readonly choices?: Readonly<Record<string, Recover>>;
  /** Interrupted work continues on the current files. */
  readonly files?: "keep";
  /** No step takes the result of an earlier run. */
  readonly cache?: "off";
  /** The parts of the owner's environment that the run records. */
  readonly remembers?: RememberedEnvironment;
  /** How many more turns agents get that have used theirs. */
  readonly turns?: number;
  /** The workspaces of visits; absent when all use the shared workspace. */
  readonly workspaceOf?: WorkspaceOf;
  readonly clock: Clock;
  readonly env: Environment;
  /** True when the files executor takes snapshots, restores and merges. */
  readonly keepsFiles: boolean;
  /** The workspace of the run, when it is not the project's own directory. */
  readonly placed?: WorkspaceUsed;
  readonly queue: FactQueue;
  readonly executors: Executors;
  readonly watch: Watcher;
  /** Returns whether to wait for people when nothing else can happen. */
  readonly stay: () => boolean;
  /** Leaves the run when nothing can happen for longer than this; without it, the loop waits. */
  readonly waitMaxMs?: number;
}

/** Drives one run as its owner until the run ends or stops, or an append fails. */
export class Loop {
  readonly #options: LoopOptions;
  readonly #activity: Activity;
  #run: Run;
  #broken = false;
  #unseen: Recorded[] = [];
  readonly #turnLog = new TurnLog();

  constructor(options: LoopOptions) {
    this.#options = options;
    this.#run = options.run;
    this.#activity = newActivity(options);
    takeChanges(this.#run);
  }

  get run(): Run {
    return this.#run;
  }

  /** Runs until nothing is left to do for this owner. */
  async drive(requests: readonly Fact[]): Promise<RunState> {
    let state: RunState;
    try {
      state = await this.#turns(requests);
    } catch (error) {
      // An error of closing, on the same disk, must not hide the first error.
      await this.#close().catch(() => undefined);
      throw error;
    }
    await this.#close();
    return state;
  }

  async #turns(requests: readonly Fact[]): Promise<RunState> {
    const { queue, executors, clock } = this.#options;
    let turn = await this.open(requests);
    await executors.gates.look(queue);
    for (;;) {
      await this.#begin(turn);
      this.show();
      const { state } = this.#run;
      if (state.status !== "running" && state.status !== "stopping") return state;
      if (!turn.more && (await this.#isLeftToPeople())) return state;
      if (!turn.more && this.#isLeftToTime(turn)) return state;
      const { wakeAt } = turn;
      const waitMs = wakeAt === undefined ? undefined : wakeAt - clock.now();
      const facts = turn.more ? [] : await queue.take(waitMs);
      if (facts.length === 0) await executors.gates.look(queue);
      turn = await this.turn(facts);
    }
  }

  /** The first turn of a new owner. */
  open(requests: readonly Fact[]): Promise<Turn> {
    const { owner, epoch, recover, choices, files, cache, remembers, turns, placed } =
      this.#options;
    const place: readonly Fact[] =
      placed === undefined ? [] : [{ type: "placed", workspace: placed }];
    const opened = {
      type: "opened",
      owner,
      epoch,
      ...defined({ recover, choices, files, cache }),
      ...(this.#options.keepsFiles ? { keepsFiles: true as const } : {}),
      ...defined({ remembers, turns }),
    } as const;
    return this.turn([{ ...opened, ...retriedBy(this.#run, requests) }, ...place, ...requests]);
  }

  /** One turn: when it resolves, its events are durable. */
  async turn(facts: readonly Fact[]): Promise<Turn> {
    assert(!this.#broken, "a loop whose append failed is not used again");
    const { log, runId, plan, epoch, clock } = this.#options;
    const now = clock.now();
    const afterSeq = this.#run.seq;
    this.#broken = true;
    const turn = advance(plan, this.#run, this.#activity, facts, now);
    this.#run = turn.run;
    const factsText = this.#turnLog.add(recordedTurn(now, facts, this.#activity), turn);
    if (factsText !== undefined) {
      const changes = takeChanges(turn.run);
      const summary = summaryOf(turn.run, changes, this.#options.workspaceOf);
      const write = { afterSeq, time: now, facts: factsText, events: turn.events };
      await log.append(runId, { epoch, ...write, summary });
      this.#unseen.push(...recordedIn(write));
    }
    this.#broken = false;
    return turn;
  }

  /** Lets executors start the operations of a turn. */
  async #begin(turn: Turn): Promise<void> {
    const { executors, queue } = this.#options;
    if (turn.events.some(({ type }) => type === "step.asked")) await executors.gates.look(queue);
    for (const operation of turn.operations) beginOperation(executors, operation, queue);
  }

  /** Shows the events of the last turns to the watcher. */
  show(): void {
    const unseen = this.#unseen;
    this.#unseen = [];
    if (unseen.length > 0) this.#options.watch(unseen, this.#run);
  }

  /** True when only a person can continue the run, and this owner does not wait for people. */
  async #isLeftToPeople(): Promise<boolean> {
    const { executors, queue, stay } = this.#options;
    if (!waitsForPerson(this.#run)) return false;
    await executors.gates.look(queue);
    return queue.isEmpty && !stay();
  }

  /** True when nothing is under way, and the next thing happens later than this owner waits for. */
  #isLeftToTime({ wakeAt, operations }: Turn): boolean {
    const { waitMaxMs, queue, clock } = this.#options;
    if (waitMaxMs === undefined || wakeAt === undefined) return false;
    const isIdle = operations.length === 0 && queue.isEmpty && this.#run.running.size === 0;
    const { files, lookups } = this.#activity;
    const isLooking = [...lookups.values()].some(({ pending }) => pending);
    return isIdle && files.size === 0 && !isLooking && wakeAt - clock.now() > waitMaxMs;
  }

  async #close(): Promise<void> {
    const { processes, files, gates, probes, results } = this.#options.executors;
    const { status } = this.#run.state;
    const executors = [probes, results, files, gates, processes];
    await closeAll(executors.map((executor) => ({ close: () => executor.close(status) })));
  }
}

function beginOperation(executors: Executors, operation: Operation, writer: FactWriter): void {
  const { processes, files, gates, probes, results } = executors;
  switch (operation.type) {
    case "launch":
    case "adopt":
    case "cancel":
    case "look-up":
      return processes.begin(operation, writer);
    case "recall":
      return results.begin(operation, writer);
    case "probe":
      return probes.begin(operation, writer);
    case "expire":
      return gates.begin(operation, writer);
    case "snapshot":
    case "make-workspace":
    case "restore":
    case "reuse":
    case "rewind-files":
    case "merge":
    case "merge-scope":
    case "commit":
      return files.begin(operation, writer);
    default:
      return unreachable(operation);
  }
}
