/** Timers of any length: Node's own fire at once above 2^31-1 ms. */
const TIMER_MAX_MS = 2 ** 31 - 1;

/** Calls `fire` once, after that long; the returned function takes it back. */
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

/** Waits that long, or until the signal comes. */
export function pause(delayMs: number, hurry?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      hurry?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, delayMs);
    if (hurry?.aborted) done();
    else hurry?.addEventListener("abort", done);
  });
}
