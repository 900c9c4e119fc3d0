/**
 * One owner's hold on a run: makes every turn durable.
 *
 * Owns: the order of a turn: facts -> events -> disk -> effects -> whoever watches, so that a step
 * does not wait for the files that tell of the one before it.
 * Does not: start processes or wait (drive.ts), or decide anything (room `core`).
 * Invariants:
 * - E1 One await per turn of the loop; here there is none.
 * - J1 `turn` returns what is to be started only after the events that say so are on the disk.
 * - E4 A failed append ends this engine: the run in memory is then ahead of the disk, and only a
 *   new replay can be trusted.
 */
import { advance, type Turn } from "../core/advance.ts";
import { EVENT_VERSION, type Owner, type Recorded } from "../core/event.ts";
import { takeChanges } from "../core/evolve.ts";
import type { Fact, Surroundings } from "../core/fact.ts";
import { retriedBy } from "../core/rewind.ts";
import type { Run } from "../core/run.ts";
import { summaryOf, type WorkspaceOf } from "../core/summary.ts";
import type { Journal } from "../journal/journal.ts";
import type { Plan, Recover } from "../plan/plan.ts";
import { assert } from "../util/assert.ts";
import type { Clock } from "../util/clock.ts";

/** Sees every batch of events after it is on the disk; its effects may have begun. */
export type Watcher = (events: readonly Recorded[], run: Run) => void;

export interface EngineOptions {
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
  /** Work that goes on starts from the files that are there. */
  readonly files?: "keep";
  /** Where visits work; in the run's shared workspace if absent. */
  readonly workspaceOf?: WorkspaceOf;
  readonly clock: Clock;
  readonly around: Surroundings;
  readonly watch: Watcher;
}

/** Drives the turns of one run as its owner. */
export class Engine {
  readonly #options: EngineOptions;
  #run: Run;
  #broken = false;
  #unseen: Recorded[] = [];

  constructor(options: EngineOptions) {
    this.#options = options;
    this.#run = options.run;
    takeChanges(this.#run);
  }

  get run(): Run {
    return this.#run;
  }

  get plan(): Plan {
    return this.#options.plan;
  }

  /** The first turn of a new owner. */
  open(wishes: readonly Fact[]): Turn {
    const { owner, epoch, recover, choices, files } = this.#options;
    const opened = {
      type: "opened",
      owner,
      epoch,
      ...(recover === undefined ? {} : { recover }),
      ...(choices === undefined ? {} : { choices }),
      ...(files === undefined ? {} : { files }),
    } as const;
    return this.turn([{ ...opened, ...retriedBy(wishes) }, ...wishes]);
  }

  /** One turn: when it returns, everything that it says is durable. */
  turn(facts: readonly Fact[]): Turn {
    assert(!this.#broken, "an engine whose append failed is not used again");
    const { journal, runId, plan, epoch, clock, around } = this.#options;
    const now = clock.now();
    const afterSeq = this.#run.seq;
    this.#broken = true;
    const turn = advance(plan, this.#run, facts, now, around);
    this.#run = turn.run;
    if (turn.events.length > 0) {
      const changes = takeChanges(turn.run);
      const summary = summaryOf(turn.run, changes, this.#options.workspaceOf);
      journal.append(runId, { epoch, afterSeq, time: now, events: turn.events, summary });
      for (const [index, event] of turn.events.entries()) {
        const seq = afterSeq + 1 + index;
        this.#unseen.push({ seq, time: now, version: EVENT_VERSION, event });
      }
    }
    this.#broken = false;
    return turn;
  }

  /** Shows what the last turns recorded to whoever watches. */
  show(): void {
    const unseen = this.#unseen;
    this.#unseen = [];
    if (unseen.length > 0) this.#options.watch(unseen, this.#run);
  }
}
