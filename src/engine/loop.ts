/**
 * The only loop: new and resumed runs go through it alike. A turn makes events of facts, makes them
 * durable, and then lets executors begin the operations.
 *
 * Owns: the order of a turn: facts -> events -> disk -> operations -> whoever watches, so that a step
 * does not wait for the files that report the one before it; and waiting.
 * Does not: decide anything (room `core`), or touch the world (executors/).
 * Invariants:
 * - E1 One await per turn.
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
import { waitsForPerson } from "../core/next-actions.ts";
import { retriedBy } from "../core/rewind.ts";
import type { Run, RunState } from "../core/run.ts";
import { summaryOf, type WorkspaceOf } from "../core/summary.ts";
import { recordedTurn, TurnLog } from "../core/turn.ts";
import type { Journal, Write } from "../journal/journal.ts";
import type { Plan, Recover } from "../plan/plan.ts";
import { assert, unreachable } from "../util/assert.ts";
import type { Clock } from "../util/clock.ts";
import type { Executors, Outlet } from "./executors/executor.ts";

/** Sees every batch of events after it is on the disk; its operations may have begun. */
export type Watcher = (events: readonly Recorded[], run: Run) => void;

/** How often an owner looks for answers that nobody told it of. */
const ANSWER_LOOK_MS = 2_000;

/** Where facts wait for the loop. */
export interface Inlet extends Outlet {
  readonly isEmpty: boolean;
  /** All facts that are there, as soon as there is one; none when the time is up. */
  take(waitMs: number | undefined): Promise<readonly Fact[]>;
}

export interface LoopOptions {
  readonly journal: Journal;
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
    let turn = this.open(requests);
    executors.gates.look(inlet);
    for (;;) {
      this.#begin(turn);
      this.show();
      const { state } = this.#run;
      if (state.status !== "running" && state.status !== "stopping") return state;
      if (!turn.more && this.#isLeftToPeople()) return state;
      const facts = turn.more ? [] : await inlet.take(this.#waitMs(turn, clock.now()));
      if (facts.length === 0) executors.gates.look(inlet);
      turn = this.turn(facts);
    }
  }

  /** The first turn of a new owner. */
  open(requests: readonly Fact[]): Turn {
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

  /** One turn: when it returns, everything that it says is durable. */
  turn(facts: readonly Fact[]): Turn {
    assert(!this.#broken, "a loop whose append failed is not used again");
    const { journal, runId, plan, epoch, clock } = this.#options;
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
      journal.append(runId, { epoch, ...write, summary });
      this.#unseen.push(...recordedEvents(write));
    }
    this.#broken = false;
    return turn;
  }

  /** Lets executors begin what a turn offers. */
  #begin(turn: Turn): void {
    const { executors, inlet } = this.#options;
    if (turn.events.some(({ type }) => type === "step.asked")) executors.gates.look(inlet);
    for (const operation of turn.operations) beginOperation(executors, operation, inlet);
  }

  /** Shows what the last turns recorded to whoever watches. */
  show(): void {
    const unseen = this.#unseen;
    this.#unseen = [];
    if (unseen.length > 0) this.#options.watch(unseen, this.#run);
  }

  /** True when only people can move the run, and it is not for this owner to wait for them. */
  #isLeftToPeople(): boolean {
    const { executors, inlet, stay } = this.#options;
    if (!waitsForPerson(this.#run)) return false;
    executors.gates.look(inlet);
    return inlet.isEmpty && !stay();
  }

  /** How long nothing has to be looked at; undefined when only facts count. */
  #waitMs({ wakeAt }: Turn, now: number): number | undefined {
    const timeMs = wakeAt === undefined ? undefined : wakeAt - now;
    if (this.#run.waiting.person.size === 0) return timeMs;
    return Math.min(timeMs ?? ANSWER_LOOK_MS, ANSWER_LOOK_MS);
  }

  async #close(): Promise<void> {
    const { processes, files, gates, probes } = this.#options.executors;
    const { status } = this.#run.state;
    for (const executor of [probes, files, gates, processes]) await executor.close(status);
  }
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
