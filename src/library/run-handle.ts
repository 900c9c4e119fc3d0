/**
 * A run that this process drives, in the hands of a program.
 *
 * Owns: the program's end of a run: events, the result, the wish to stop.
 * Does not: drive anything itself: it goes the way of the command line (cli/execute.ts), without its
 * signals and its printing.
 * Invariants:
 * - H1 Nobody has to listen: the run goes on whether its events are read or not.
 * - H2 When this owner's part is over, well or not, the lease is free: the process lives on, so its
 *   name in the lease would be no evidence.
 */
import { dirname } from "node:path";
import { driveOwned, type ExecuteOptions, own } from "../app/execute.ts";
import { type KnownRun, loadRun } from "../app/known-run.ts";
import { thisOwner } from "../app/owner.ts";
import type { Project } from "../app/project.ts";
import { asRefusal } from "../app/refusal.ts";
import { type Display, NO_DISPLAY } from "../app/screen.ts";
import { Wishes } from "../app/wishes.ts";
import type { StopMode } from "../core/event.ts";
import { JournalError } from "../journal/journal.ts";
import type { ToldEvent } from "../view/event-json.ts";
import { EXIT, type ExitCode, exitCodeOf } from "../view/exit-code.ts";
import { Bell, eventStream } from "./event-stream.ts";
import { type RunView, runView } from "./run-view.ts";

/** How often the journal is asked whether somebody else wants the run to stop. */
const REQUEST_LOOK_MS = 250;

/** Where a run stands after our part of it. */
export interface RunResult extends RunView {
  /** What the command line would exit with: 0 done, 3 failed, 5 timed out, 6 waiting, 143 stopped. */
  readonly exitCode: ExitCode;
}

/** A run that this process drives; iterating over it gives its events. */
export interface RunHandle extends AsyncIterable<ToldEvent> {
  readonly id: string;
  /** The events from the start of our part on; each iterator gets all of them. */
  readonly events: AsyncIterable<ToldEvent>;
  /** Resolves when our part is over, also when the pipeline failed; rejects when it cannot go on. */
  readonly done: Promise<RunResult>;
  /** Stops the run so that it can be resumed; a second call ends its processes at once. */
  stop(mode?: StopMode): Promise<RunResult>;
}

export type HandleOptions = Omit<ExecuteOptions, "display" | "greet"> & {
  readonly signal?: AbortSignal | undefined;
};

/** Takes a run and drives it; throws when somebody else has it. Closes the project at the end. */
export function drivenRun(
  project: Project,
  known: KnownRun,
  after: number,
  options: HandleOptions,
): RunHandle {
  const { id } = known;
  const wishes = new Wishes(project.journal, id);
  const bell = new Bell();
  const display: Display = {
    openScreen: async (given) => ({
      ...(await NO_DISPLAY.openScreen(given)),
      update: () => bell.ring(),
    }),
  };
  const owned = own(
    project,
    known,
    { ...options, display, beside: true },
    { ...thisOwner(), unsignalled: true },
  );
  const looking = setInterval(() => tryOf(() => wishes.look()), REQUEST_LOOK_MS);
  const abort = (): void => wishes.end("its program");
  options.signal?.addEventListener("abort", abort);
  if (options.signal?.aborted === true) abort();
  let over = false;
  const drive = async (): Promise<RunResult> => {
    try {
      const run = await driveOwned(project, owned, wishes, { ...options, display });
      project.journal.release(id, owned.epoch);
      const exitCode = exitCodeOf(run, wishes.first);
      return { ...runView(loadRun(project, id)), exitCode };
    } catch (error) {
      tryOf(() => project.journal.release(id, owned.epoch));
      throw asRefusal(error) ?? error;
    } finally {
      clearInterval(looking);
      options.signal?.removeEventListener("abort", abort);
      project.journal.close();
      over = true;
      bell.ring();
    }
  };
  return handleOf({
    id,
    done: drive(),
    stream: () => ({
      from: dirname(project.dir.root),
      after,
      isOver: () => over,
      pause: () => bell.heard(),
    }),
    stop: (mode) => wishes.end("its program", mode),
  });
}

/** A run that is over already: there is nothing to do for us. */
export function endedRun(project: Project, known: KnownRun): RunHandle {
  const done = Promise.resolve({ ...runView(known), exitCode: EXIT.done });
  project.journal.close();
  return handleOf({
    id: known.id,
    done,
    stream: () => ({
      from: dirname(project.dir.root),
      after: known.run.seq,
      isOver: () => true,
      pause: async () => undefined,
    }),
    stop: () => undefined,
  });
}

interface Parts {
  readonly id: string;
  readonly done: Promise<RunResult>;
  readonly stream: () => Omit<Parameters<typeof eventStream>[0], "runId">;
  readonly stop: (mode: StopMode | undefined) => void;
}

function handleOf({ id, done, stream, stop }: Parts): RunHandle {
  async function* events(): AsyncGenerator<ToldEvent, void> {
    yield* eventStream({ ...stream(), runId: id });
    // Who only reads events must hear of a failure too.
    await done;
  }
  // H1: whoever asks for the result or the events hears of a failure; the program need not.
  done.catch(() => undefined);
  return {
    id,
    done,
    events: { [Symbol.asyncIterator]: events },
    [Symbol.asyncIterator]: events,
    stop: (mode) => {
      stop(mode);
      return done;
    },
  };
}

/** A disk that fails is told of by the run itself, and what it said first is what counts. */
function tryOf(body: () => void): void {
  try {
    body();
  } catch (error) {
    if (!(error instanceof JournalError)) throw error;
  }
}
