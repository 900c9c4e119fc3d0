/**
 * A run that this process drives, in the hands of a program.
 *
 * Owns: the program's end of a run: events, the result, the request to stop.
 * Does not: drive anything itself: it goes the way of the command line (cli/execute.ts), without its
 * signals and its printing.
 * Invariants:
 * - H1 Nobody has to listen: the run goes on whether its events are read or not.
 * - H2 When this owner's part is over, well or not, the lease is free: the process lives on, so its
 *   name in the lease would be no evidence.
 */

import { dirname } from "node:path";
import { driveOwned, type ExecuteOptions } from "../app/drive.ts";
import { type KnownRun, loadRun } from "../app/known-run.ts";
import { OwnerRequests } from "../app/owner-requests.ts";
import { type OwnedRun, own } from "../app/ownership.ts";
import type { Project } from "../app/project.ts";
import { asRefusal } from "../app/refusal.ts";
import { NO_DISPLAY } from "../app/screen.ts";
import type { StopMode } from "../core/event.ts";
import { EXIT, type ExitCode, exitCodeOf } from "../view/exit-code.ts";
import type { EventJson } from "../view/json/run-json.ts";
import { eventStream } from "./event-stream.ts";
import { type RunView, runView } from "./run-view.ts";

/** Where a run stands after our part of it. */
export interface RunResult extends RunView {
  /** What the command line would exit with: 0 done, 3 failed, 5 timed out, 6 waiting, 143 stopped. */
  readonly exitCode: ExitCode;
}

/** A run that this process drives; iterating over it gives its events. */
export interface RunHandle extends AsyncIterable<EventJson> {
  readonly id: string;
  /** The events from the start of our part on; each iterator gets all of them. */
  readonly events: AsyncIterable<EventJson>;
  /** Resolves when our part is over, also when the pipeline failed; rejects when it cannot go on. */
  readonly done: Promise<RunResult>;
  /** Stops the run so that it can be resumed; a second call ends its processes at once. */
  stop(mode?: StopMode): Promise<RunResult>;
}

export type HandleOptions = Omit<ExecuteOptions, "display" | "greet"> & {
  readonly signal?: AbortSignal | undefined;
};

/** Takes a run and drives it; throws when somebody else has it. Closes the project at the end. */
export async function drivenRun(
  project: Project,
  known: KnownRun,
  after: number,
  options: HandleOptions,
): Promise<RunHandle> {
  const { id } = known;
  const requests = await OwnerRequests.open(project.journal.inbox, id);
  const display = NO_DISPLAY;
  const owned = await own(project, known, { ...options, beside: true });
  const abort = (): void => requests.end("its program");
  options.signal?.addEventListener("abort", abort);
  if (options.signal?.aborted === true) abort();
  let over = false;
  const drive = async (): Promise<RunResult> => {
    try {
      const run = await driveOwned(project, owned, requests, { ...options, display });
      await project.journal.leases.release(id, owned.epoch);
      const exitCode = exitCodeOf(run, requests.first);
      return { ...runView(await loadRun(project, id)), exitCode };
    } catch (error) {
      await releaseIfPossible(project, owned);
      throw asRefusal(error) ?? error;
    } finally {
      options.signal?.removeEventListener("abort", abort);
      await project.journal.close();
      over = true;
    }
  };
  return handleOf({
    id,
    done: drive(),
    stream: () => ({
      from: dirname(project.dir.root),
      after,
      isOver: async () => over,
    }),
    stop: (mode) => requests.end("its program", mode),
  });
}

/** A run that is over already: there is nothing to do for us. */
export async function endedRun(project: Project, known: KnownRun): Promise<RunHandle> {
  const done = Promise.resolve({ ...runView(known), exitCode: EXIT.done });
  await project.journal.close();
  return handleOf({
    id: known.id,
    done,
    stream: () => ({
      from: dirname(project.dir.root),
      after: known.run.seq,
      isOver: async () => true,
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
  async function* events(): AsyncGenerator<EventJson, void> {
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

/** A disk that fails is reported by the run itself, and what it reported first is what counts. */
async function releaseIfPossible(project: Project, { known, epoch }: OwnedRun): Promise<void> {
  try {
    await project.journal.leases.release(known.id, epoch);
  } catch (error) {
    if (asRefusal(error) === undefined) throw error;
  }
}
