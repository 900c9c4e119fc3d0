/** The source of the time. Pure code gets the time as an argument. */
export interface Clock {
  /** Milliseconds since the Unix epoch. */
  now(): number;
}

/** Wall time at creation plus monotonic progress: setting the system's clock has no effect on it. */
export function systemClock(): Clock {
  const wallAtStartMs = Date.now();
  const monotonicAtStartMs = performance.now();
  return { now: () => Math.round(wallAtStartMs + performance.now() - monotonicAtStartMs) };
}
