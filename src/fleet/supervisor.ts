/**
 * The supervisor of a worker: starts it as a process of its own, and again when it dies.
 *
 * Owns: the process, the pauses between starts, and the signals for it.
 * Does not: know the store or runs. The next process finds the steps of the one before, as after any
 *   kill.
 * Invariants:
 * - supervisor/V1 A worker that dies is replaced at once; one that dies soon again and again, after
 *   pauses that grow up to a limit.
 * - supervisor/V2 A worker whose supervisor dies drains: its channel to the supervisor closes.
 */
import { type ChildProcess, spawn } from "node:child_process";

/** A worker that lives for longer than this has started well. */
const WELL_MS = 10_000;
const PAUSE_MIN_MS = 500;
const PAUSE_MAX_MS = 30_000;

const SIGNALS = ["SIGINT", "SIGTERM"] as const;

interface SupervisorOptions {
  /** The program and the arguments of the worker process. */
  readonly argv: readonly string[];
  readonly say: (line: string) => void;
}

/** Keeps a worker alive until it ends by itself; returns its exit status. */
export async function supervise({ argv, say }: SupervisorOptions): Promise<number> {
  let worker: ChildProcess | undefined;
  let isEnding = false;
  let wasReady = false;
  let endPause = (): void => undefined;
  const forward = (signal: NodeJS.Signals): void => {
    isEnding = true;
    endPause();
    worker?.kill(signal);
  };
  for (const signal of SIGNALS) process.on(signal, forward);
  try {
    for (let early = 0; ; ) {
      const startedAt = performance.now();
      worker = startWorker(argv, () => {
        wasReady = true;
      });
      const { status, text } = await endOf(worker);
      // It has drained, or it could not start at all and has said why.
      if (status === 0 || isEnding || (!wasReady && status !== undefined)) return status ?? 1;
      const isEarly = performance.now() - startedAt < WELL_MS;
      const pauseMs = early === 0 ? 0 : Math.min(PAUSE_MIN_MS * 2 ** early, PAUSE_MAX_MS);
      early = isEarly ? early + 1 : 0;
      const when = pauseMs === 0 ? "now" : `in ${pauseMs / 1_000} s`;
      say(`the worker has died (${text}); it is started again ${when}`);
      if (pauseMs > 0) {
        await new Promise<void>((done) => {
          endPause = done;
          setTimeout(done, pauseMs);
        });
      }
      if (isEnding) return 0;
    }
  } finally {
    for (const signal of SIGNALS) process.off(signal, forward);
  }
}

/** Starts the worker in a session of its own: the keys of a terminal reach only the supervisor. */
function startWorker(argv: readonly string[], onReady: () => void): ChildProcess {
  const [program = process.execPath, ...args] = argv;
  const child = spawn(program, args, {
    detached: true,
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  child.once("message", onReady);
  return child;
}

interface WorkerEnd {
  /** Undefined when a signal ended it. */
  readonly status: number | undefined;
  readonly text: string;
}

function endOf(child: ChildProcess): Promise<WorkerEnd> {
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code, signal) => {
      resolve({ status: code ?? undefined, text: signal ?? `exit status ${code}` });
    });
  });
}
