/** Waits for a time of any length, and for changes of a file if the system can report them. */
import { type FSWatcher, watch } from "node:fs";

/** Node's timers fire at once for a longer delay. */
const TIMER_MAX_MS = 2 ** 31 - 1;

/** Calls `fire` once, after that long; the returned function cancels it. */
export function longTimer(delayMs: number, fire: () => void): () => void {
  const due = performance.now() + delayMs;
  let timer: NodeJS.Timeout;
  const arm = (): void => {
    const leftMs = Math.max(0, due - performance.now());
    timer = leftMs > TIMER_MAX_MS ? setTimeout(arm, TIMER_MAX_MS) : setTimeout(fire, leftMs);
  };
  arm();
  return () => clearTimeout(timer);
}

/** Waits for the delay, or until the signal is aborted. */
export function pause(delayMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, delayMs);
    if (signal?.aborted) done();
    else signal?.addEventListener("abort", done);
  });
}

/**
 * Calls `onChange` when the file changes. The returned function stops this; undefined means that
 * the system cannot watch it (no such file, or too many watches), so the caller must poll.
 */
export function watchFile(file: string, onChange: () => void): (() => void) | undefined {
  let watcher: FSWatcher;
  try {
    watcher = watch(file, { persistent: false }, onChange);
  } catch (error) {
    if (error instanceof Error) return undefined;
    throw error;
  }
  const close = (): void => watcher.close();
  watcher.on("error", close);
  return close;
}
