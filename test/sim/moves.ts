/**
 * Machines that are destroyed between two owners: the next one makes the directory of the run elsewhere,
 * from the snapshots that were stored, as `src/app/fleet` does.
 */
import type { EventOf, RunEvent } from "../../src/core/event.ts";
import { replay } from "../../src/core/evolve.ts";
import { maybeStarted, savedIn } from "../../src/core/move.ts";
import { attemptOf, type Run } from "../../src/core/run.ts";
import { fullSummary } from "../../src/core/summary.ts";
import type { MemoryJournal } from "../../src/journal/memory.ts";
import type { Write } from "../../src/journal/run-log.ts";
import type { Plan } from "../../src/plan/plan.ts";
import type { Random } from "../../src/util/random.ts";
import type { FakeFiles } from "./fake-files.ts";
import type { World } from "./world.ts";

interface MovesOptions {
  readonly runId: string;
  readonly journal: MemoryJournal;
  readonly planOf: (fingerprint: string) => Plan;
  readonly files: FakeFiles;
  readonly world: World;
  readonly random: Random;
}

/** The machines of one simulated run, and what is stored for the next one. */
export class Moves {
  readonly #options: MovesOptions;
  #stored: Parameters<typeof savedIn>[0] = {};
  /** The machine is gone, and no event says yet where the run continues. */
  #isDestroyed = false;
  #machines = 1;

  constructor(options: MovesOptions) {
    this.#options = options;
  }

  /** Now and then the files are stored while the run is driven. */
  sometimesSave(run: Run): void {
    // Files that are about to be replaced are not those of the run.
    if (run.restoring === undefined && this.#options.random.chance(0.05)) this.#save(run, run.seq);
  }

  /** What must be stored with the events of a write: work that waits, and commits. */
  beforeAppend({ afterSeq, events }: Write): void {
    const seq = afterSeq + events.length;
    if (events.some(isHeld)) this.#save(this.#runAt(afterSeq), seq);
    const committed = events.findLast((event) => event.type === "run.committed")?.commit;
    if (committed === undefined) return;
    const { snapshot } = this.#runAt(afterSeq);
    if (snapshot === undefined) return;
    const commit = this.#options.files.withCommit(snapshot, committed);
    this.#stored = { ...this.#stored, commit, seq };
  }

  /** Destroys the machine: whoever owns the run next has to move it. */
  destroy(): void {
    this.#isDestroyed = true;
  }

  /**
   * Makes the directory of the run on another machine, if the last one is gone, and records that. An
   * owner that dies before has done nothing: the next one makes the directory again.
   */
  async move(epoch: number, time: number): Promise<EventOf<"run.moved"> | undefined> {
    if (!this.#isDestroyed) return undefined;
    const { runId, journal, files, world, random } = this.#options;
    const run = this.#runAt(Number.POSITIVE_INFINITY);
    const saved = savedIn(this.#stored, (seq) => this.#runAt(seq));
    const { commit = run.snapshot } = saved;
    files.expectKept(run.snapshot, commit);
    // A person may have other files in the project into which the run is imported.
    const isImported = run.workspace === undefined && commit !== undefined && random.chance(0.5);
    world.destroy(maybeStarted(run).map(attemptOf));
    files.moveTo(run, { ...saved, ...(commit === undefined ? {} : { commit }) }, isImported);
    const moved: EventOf<"run.moved"> = {
      type: "run.moved",
      from: `/machine-${this.#machines}`,
      to: `/machine-${this.#machines + 1}`,
      ...(commit === undefined ? {} : { commit }),
      ...(isImported ? { files: "restore" } : {}),
    };
    const write = { epoch, afterSeq: run.seq, time, events: [moved], summary: fullSummary(run) };
    await journal.log.append(runId, write);
    this.#isDestroyed = false;
    this.#machines++;
    return moved;
  }

  #save(run: Run, seq: number): void {
    this.#stored = { ...this.#stored, ...this.#options.files.save(run), seq, ownSeq: seq };
  }

  #runAt(seq: number): Run {
    const { runId, journal, planOf } = this.#options;
    return replay(planOf, runId, journal.contents.load(runId).events.slice(0, seq));
  }
}

function isHeld({ type }: RunEvent): boolean {
  return type === "step.submitted" || type === "step.conflicted";
}
