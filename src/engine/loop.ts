/**
 * The only loop: new and resumed runs go through it alike. A turn makes events of facts, makes them
 * durable, and then lets executors begin the operations.
 *
 * Owns: the order of a turn: facts -> events -> disk -> operations -> whoever watches, so that a step
 * does not wait for the files that report the one before it; and waiting.
 * Does not: decide anything (room `core`), or touch the world (executors/).
 * Invariants:
 * - E1 Nothing else acts between the decision of a turn and the end of its append: facts wait in the
 *   inlet, and executors begin operations only after it.
 * - E4 A failed append ends this loop: the run in memory is then ahead of the disk, and only a new
 *   replay can be trusted.
 * - E5 Whatever the journal says is running is started by this owner or adopted: `takeOperations` offers
 *   nothing else (core/operations.ts).
 * - J1 Operations begin only after the events that say so are on the disk.
 * - loop/L1 Nothing of the loop outlives `drive`: it ends by closing its executors.
 */

import type { Operation } from "../core/action.ts";
import { type Activity, newActivity } from "../core/activity.ts";
import { advance, type Turn } from "../core/advance.ts";
import {
  EVENT_VERSION,
  type Owner,
  type Placed,
  type Recorded,
  type RememberedEnvironment,
} from "../core/event.ts";
import { takeChanges } from "../core/evolve.ts";
import type { Environment, Fact } from "../core/fact.ts";
import { retriedBy } from "../core/graph/rewind.ts";
import { waitsForPerson } from "../core/next-actions.ts";
import type { Run, RunState } from "../core/run.ts";
import { summaryOf, type WorkspaceOf } from "../core/summary.ts";
import { recordedTurn, TurnLog } from "../core/turn.ts";
import type { RunLog, Write } from "../journal/run-log.ts";
import type { Plan, Recover } from "../plan/plan.ts";
import { assert, unreachable } from "../util/assert.ts";
import type { Clock } from "../util/clock.ts";
import type { Executors, Outlet } from "./executors/executor.ts";

/** Sees every batch of events after it is on the disk; its operations may have begun. */
export type Watcher = (events: readonly Recorded[], run: Run) => void;

/** Where facts wait for the loop. */
export interface Inlet extends Outlet {
  readonly isEmpty: boolean;
  /** All facts that are there, as soon as there is one; none when the time is up or it is woken. */
  take(waitMs: number | undefined): Promise<readonly Fact[]>;
}

/** Node's timers cannot wait longer; the loop just comes round once more. */
const WAIT_MAX_MS = 2 ** 31 - 1;

/** A queue with one reader: the loop. What waits in it is bounded by what the loop has under way. */
export class Mailbox implements Inlet {
  #facts: Fact[] = [];
  #isWoken = false;
  #wake: (() => void) | undefined;
  #error: Error | undefined;

  post(fact: Fact): void {
    this.#facts.push(fact);
    this.#wake?.();
  }

  /** Makes the loop look at its gates although there is no fact. */
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
    // Woken while facts came in: the next call returns none at once.
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

export interface LoopOptions {
  readonly log: RunLog;
  readonly runId: string;
  readonly plan: Plan;
  /** The replay of all events that the journal holds now that the lease is ours. */
  readonly run: Run;
  readonly owner: Owner;
  readonly epoch: number;
  /** What a person wants done with conversations that were cut off. */
  readonly recover?: Recover;
  /** The same for single visits, by their place (`fix@2`). */
  readonly choices?: Readonly<Record<string, Recover>>;
  /** Interrupted work continues on the files that are there. */
  readonly files?: "keep";
  /** What of the owner's environment the run is to remember. */
  readonly remembers?: RememberedEnvironment;
  /** How many turns more agents get that have used up theirs. */
  readonly turns?: number;
  /** Where visits work; in the run's shared workspace if absent. */
  readonly workspaceOf?: WorkspaceOf;
  readonly clock: Clock;
  readonly env: Environment;
  /** Whether the files executor takes snapshots, restores and merges. */
  readonly keepsFiles: boolean;
  /** Where the run works, when that is not the project's own directory. */
  readonly placed?: Placed;
  readonly inlet: Inlet;
  readonly executors: Executors;
  readonly watch: Watcher;
  /** Whether to wait for people when nothing else can move; asked whenever that is the case. */
  readonly stay: () => boolean;
}

/** Drives one run as its owner, until it ends, stops, or cannot be written any more. */
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
      // What closing runs into, on the same disk, must not hide what came first.
      await this.#close().catch(() => undefined);
      throw error;
    }
    await this.#close();
    return state;
  }

  async #turns(requests: readonly Fact[]): Promise<RunState> {
    const { inlet, executors, clock } = this.#options;
    let turn = await this.open(requests);
    await executors.gates.look(inlet);
    for (;;) {
      await this.#begin(turn);
      this.show();
      const { state } = this.#run;
      if (state.status !== "running" && state.status !== "stopping") return state;
      if (!turn.more && (await this.#isLeftToPeople())) return state;
      const facts = turn.more ? [] : await inlet.take(waitMs(turn, clock.now()));
      if (facts.length === 0) await executors.gates.look(inlet);
      turn = await this.turn(facts);
    }
  }

  /** The first turn of a new owner. */
  open(requests: readonly Fact[]): Promise<Turn> {
    const { owner, epoch, recover, choices, files, remembers, turns, placed } = this.#options;
    const place: readonly Fact[] =
      placed === undefined ? [] : [{ type: "placed", workspace: placed }];
    const opened = {
      type: "opened",
      owner,
      epoch,
      ...(recover === undefined ? {} : { recover }),
      ...(choices === undefined ? {} : { choices }),
      ...(files === undefined ? {} : { files }),
      ...(this.#options.keepsFiles ? { keepsFiles: true as const } : {}),
      ...(remembers === undefined ? {} : { remembers }),
      ...(turns === undefined ? {} : { turns }),
    } as const;
    return this.turn([{ ...opened, ...retriedBy(requests) }, ...place, ...requests]);
  }

  /** One turn: when it resolves, everything that it says is durable. */
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
      this.#unseen.push(...recordedEvents(write));
    }
    this.#broken = false;
    return turn;
  }

  /** Lets executors begin what a turn offers. */
  async #begin(turn: Turn): Promise<void> {
    const { executors, inlet } = this.#options;
    if (turn.events.some(({ type }) => type === "step.asked")) await executors.gates.look(inlet);
    for (const operation of turn.operations) beginOperation(executors, operation, inlet);
  }

  /** Shows what the last turns recorded to whoever watches. */
  show(): void {
    const unseen = this.#unseen;
    this.#unseen = [];
    if (unseen.length > 0) this.#options.watch(unseen, this.#run);
  }

  /** True when only people can move the run, and it is not for this owner to wait for them. */
  async #isLeftToPeople(): Promise<boolean> {
    const { executors, inlet, stay } = this.#options;
    if (!waitsForPerson(this.#run)) return false;
    await executors.gates.look(inlet);
    return inlet.isEmpty && !stay();
  }

  async #close(): Promise<void> {
    const { processes, files, gates, probes } = this.#options.executors;
    const { status } = this.#run.state;
    for (const executor of [probes, files, gates, processes]) await executor.close(status);
  }
}

/** How long nothing has to be looked at; undefined when only facts count. */
function waitMs({ wakeAt }: Turn, now: number): number | undefined {
  return wakeAt === undefined ? undefined : wakeAt - now;
}

/** The events of an append as a reader of the journal would get them. */
function recordedEvents(
  write: Pick<Write, "afterSeq" | "time" | "events"> & { readonly facts: string },
): readonly Recorded[] {
  const { afterSeq, time, events, facts } = write;
  return events.map((event, index) => {
    const recorded = { seq: afterSeq + 1 + index, time, version: EVENT_VERSION, event };
    return index === 0 ? { ...recorded, facts } : recorded;
  });
}

function beginOperation(executors: Executors, operation: Operation, outlet: Outlet): void {
  const { processes, files, gates, probes } = executors;
  switch (operation.type) {
    case "adopt":
      return processes.adopt?.(operation.at, outlet);
    case "cancel":
      return processes.stop?.(operation.at, operation.when);
    case "launch":
    case "look-up":
      return processes.begin(operation, outlet);
    case "probe":
      return probes.begin(operation, outlet);
    case "expire":
      return gates.begin(operation, outlet);
    case "snapshot":
    case "make-workspace":
    case "restore":
    case "rewind-files":
    case "merge":
    case "merge-scope":
      return files.begin(operation, outlet);
    default:
      return unreachable(operation);
  }
}
