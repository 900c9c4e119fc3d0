/**
 * Supervises the process of a step, whether this runner started it or adopted it: its limits, its
 * stop, its end.
 *
 * Owns: the timers, the measurement of the output, the one ending.
 * Does not: notice that the process ended (the caller reports it by `wrapperEnded`), or read its
 * output.
 * Invariants:
 * - runner/V1 `ended` resolves once; after a timeout, a stop or a loss only when nothing is left
 *   alive. It rejects when the system refuses something meanwhile (no more files may be opened).
 * - runner/V2 an exit status that was complete before the first signal counts; a later one is the
 *   effect of the signal and does not count.
 * - runner/V3 processes that the work left running are ended before `ended` resolves, unless the
 *   step may leave them running and has succeeded.
 */
import { type Stats, statSync } from "node:fs";
import { join } from "node:path";
import { formatDuration } from "../../util/duration.ts";
import {
  ATTEMPT_FILE,
  type Cause,
  checkOutputFile,
  type ExitStatus,
  KILLED,
  readExit,
  recordCause,
  wasKilled,
} from "./attempt-folder.ts";
import { findLive, type ProcessTree } from "./process-tree.ts";
import type { Limits, ProcessEnding, StepProcess } from "./step-process.ts";
import { endAll, endLeftovers } from "./sweep.ts";
import { longTimer } from "./waiting.ts";

/** The supervised process. */
interface Subject {
  readonly dir: string;
  readonly tree: ProcessTree;
  readonly limits: Limits;
  /** How long it has been running already. */
  readonly ageMs: number;
}

/** How often the output is measured. */
const OUTPUT_CHECK_MS = 1_000;

/** Supervises one process until it has ended. */
export class Supervision implements StepProcess {
  readonly ended: Promise<ProcessEnding>;
  readonly #subject: Subject;
  readonly #readOutput: () => OutputReading;
  readonly #resolve: (ending: ProcessEnding) => void;
  readonly #reject: (error: unknown) => void;
  readonly #skipGrace = new AbortController();
  readonly #startedAt: number;
  #cause: Cause | "exited" | undefined;
  #cancelTimeout: (() => void) | undefined;
  #cancelOutputCheck: (() => void) | undefined;

  constructor(subject: Subject) {
    const { promise, resolve, reject } = Promise.withResolvers<ProcessEnding>();
    this.ended = promise;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#subject = subject;
    this.#startedAt = performance.now() - subject.ageMs;
    this.#readOutput = outputReader(subject.dir, subject.ageMs);
    const { timeoutMs, idleTimeoutMs = Number.POSITIVE_INFINITY } = subject.limits;
    if (timeoutMs !== undefined) {
      const message = `it ran longer than its timeout of ${formatDuration(timeoutMs)}`;
      this.#cancelTimeout = longTimer(timeoutMs - subject.ageMs, () =>
        this.guarded(() => this.#end({ how: "timed-out", limit: "timeout", message })),
      );
    }
    this.#scheduleOutputCheck(subject.ageMs > 0 ? 0 : idleTimeoutMs);
  }

  stop(how: "gently" | "at-once"): void {
    const stoppedBefore = typeof this.#cause === "object" && this.#cause.how === "stopped";
    if (how === "at-once" || stoppedBefore) this.#skipGrace.abort();
    this.guarded(() => this.#end({ how: "stopped", message: "it was stopped" }));
  }

  /** Runs the action of a timer or an event; if it throws, `ended` rejects. */
  guarded(action: () => void): void {
    try {
      action();
    } catch (error) {
      this.#cancelTimers();
      this.#reject(error);
    }
  }

  release(): void {
    this.#cancelTimers();
    this.#cause ??= "exited";
  }

  /** The wrapper is gone or has written its exit status: takes the status, or reports the loss. */
  wrapperEnded(lossMessage: string): void {
    if (this.#cause !== undefined) return;
    const { dir } = this.#subject;
    const status = readExit(dir);
    const killed = status !== undefined && wasKilled(dir, status);
    if (status !== undefined && !killed) {
      this.#exited(status);
    } else {
      this.#skipGrace.abort();
      this.#endFor(killed ? KILLED : { how: "lost", started: true, message: lossMessage });
    }
  }

  /** Continues to end the process for the cause of an earlier runner. */
  resumeEnding(cause: Cause): void {
    if (this.#cause === undefined) this.#endFor(cause);
  }

  /** The wrapper ran nothing. */
  notStarted(message: string): void {
    if (this.#cause !== undefined) return;
    this.#cancelTimers();
    this.#cause = "exited";
    this.#resolve({ how: "not-started", message });
  }

  #exited(status: ExitStatus): void {
    this.#cancelTimers();
    this.#cause = "exited";
    const { limits } = this.#subject;
    const tree = { ...this.#subject.tree, leaderJustEnded: true } as const;
    const ageMs = performance.now() - this.#startedAt;
    const skipGrace = this.#skipGrace.signal;
    endedBy(status, { tree, limits, ageMs, skipGrace }).then(this.#resolve, this.#reject);
  }

  #end(cause: Cause): void {
    if (this.#cause !== undefined) return;
    const { dir, tree } = this.#subject;
    const first = findLive(tree);
    // runner/V2: it ended by itself, and the caller is about to report it.
    if (readExit(dir) !== undefined) return;
    recordCause(dir, cause);
    this.#endFor(cause, first);
  }

  #endFor(cause: Cause, first = findLive(this.#subject.tree)): void {
    this.#cause = cause;
    this.#cancelTimers();
    const { tree, limits } = this.#subject;
    const { graceMs } = limits;
    endAll(tree, { graceMs, skipGrace: this.#skipGrace.signal, first }).then(
      (left) => this.#resolve(withSurvivors(cause, left)),
      this.#reject,
    );
  }

  #scheduleOutputCheck(idleLeftMs: number): void {
    const delayMs = Math.max(1, Math.min(OUTPUT_CHECK_MS, idleLeftMs));
    this.#cancelOutputCheck = longTimer(delayMs, () => this.guarded(() => this.#checkOutput()));
  }

  #checkOutput(): void {
    const { idleTimeoutMs = Number.POSITIVE_INFINITY, outputBytesMax } = this.#subject.limits;
    const { bytes, idleMs } = this.#readOutput();
    this.#scheduleOutputCheck(idleTimeoutMs - idleMs);
    if (bytes > outputBytesMax) {
      const message = `it wrote more than ${outputBytesMax} bytes of output`;
      this.#end({ how: "timed-out", limit: "output-limit", message });
    } else if (idleMs >= idleTimeoutMs) {
      const message = `it wrote nothing for ${formatDuration(idleTimeoutMs)}`;
      this.#end({ how: "timed-out", limit: "idle", message });
    }
  }

  #cancelTimers(): void {
    this.#cancelTimeout?.();
    this.#cancelOutputCheck?.();
  }
}

/** The ending of a process with this exit status, once its leftovers are ended (runner/V3). */
export async function endedBy(
  status: ExitStatus,
  subject: Pick<Subject, "tree" | "limits" | "ageMs"> & { readonly skipGrace: AbortSignal },
): Promise<ProcessEnding> {
  const { tree, limits, ageMs, skipGrace } = subject;
  const endedWell = status.exit === 0 && (status.checkExit ?? 0) === 0;
  const mayStay = limits.leavesRunning === true && endedWell;
  const left = mayStay ? [] : await endLeftovers(tree, ageMs, skipGrace);
  return { how: "exited", ...status, ...(left.length === 0 ? {} : { left }) };
}

/** The cause, with the pids of the processes that survived. */
export function withSurvivors(cause: Cause, left: readonly number[]): Cause {
  if (left.length === 0) return cause;
  return { ...cause, message: `${cause.message}; these did not die: ${left.join(", ")}` };
}

/** How much output there is, and for how long there was no more. */
interface OutputReading {
  readonly bytes: number;
  readonly idleMs: number;
}

const FILES = [ATTEMPT_FILE.output, ATTEMPT_FILE.stderr];

/**
 * Measures the output files of a process of that age. Idle time is counted on the monotonic clock
 * from the last change that was seen; the modification time only positions a change between two
 * readings (or, at the first one, within the life of the process), so a change of the system's
 * clock has no larger effect.
 */
function outputReader(dir: string, processAgeMs: number): () => OutputReading {
  let readAt = performance.now();
  let activeAt = readAt - processAgeMs;
  let before = { bytes: -1, modifiedMs: -1 };
  let windowMs = processAgeMs;
  return () => {
    const now = performance.now();
    const measured = measure(dir);
    windowMs += now - readAt;
    if (measured.bytes !== before.bytes || measured.modifiedMs !== before.modifiedMs) {
      activeAt = now - Math.min(windowMs, Math.max(0, Date.now() - measured.modifiedMs));
    }
    readAt = now;
    windowMs = 0;
    before = measured;
    return { bytes: measured.bytes, idleMs: now - activeAt };
  };
}

function measure(dir: string): { readonly bytes: number; readonly modifiedMs: number } {
  const statOf = (file: string): Stats | undefined =>
    statSync(join(dir, file), { throwIfNoEntry: false });
  const stats = FILES.map(statOf);
  // The files of all checks exist before the work begins.
  for (let number = 1; ; number++) {
    const stat = statOf(checkOutputFile(number));
    if (stat === undefined) break;
    stats.push(stat);
  }
  return {
    bytes: stats.reduce((sum, stat) => sum + (stat?.size ?? 0), 0),
    modifiedMs: stats.reduce((latest, stat) => Math.max(latest, stat?.mtimeMs ?? 0), 0),
  };
}
