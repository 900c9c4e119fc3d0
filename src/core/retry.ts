/** When to try again: arithmetic only. The jitter is a function of what it is for, so replay and
 * the simulator get the same delays. */
import type { Backoff } from "../plan/plan.ts";
import { seededRandom, seedOf } from "../util/random.ts";
import type { Retry } from "./event.ts";

/** The next try after the n-th failure of a visit. */
export function retryAfterFailure(
  backoff: Backoff,
  failures: number,
  now: number,
  salt: string,
): Retry {
  const plain = Math.min(backoff.initialMs * backoff.factor ** (failures - 1), backoff.maxMs);
  const spread = 1 + backoff.jitter * (2 * seededRandom(seedOf(`${salt}#${failures}`)).next() - 1);
  const delayMs = Math.round(plain * spread);
  return { at: now + delayMs, delayMs };
}
