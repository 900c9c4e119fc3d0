/** The source of the time. Pure code gets the time as an argument. */
export interface Clock {
  /** Milliseconds since the Unix epoch. */
  now(): number;
}

/**
 * Wall time at creation plus monotonic time since then: a change of the system's clock has no
 * effect.
 */
export function systemClock(): Clock {
  const wallAtStartMs = Date.now();
  const monotonicAtStartMs = performance.now();
  return { now: () => Math.round(wallAtStartMs + performance.now() - monotonicAtStartMs) };
}
