/** When the next attempt starts: arithmetic only. The jitter is a function of the attempt, so replay and
 * the simulator get the same delays. */
import type { Backoff } from "../../plan/plan.ts";
import { seededRandom, seedOf } from "../../util/random.ts";
import type { Retry } from "../event.ts";

/** The next attempt after the n-th failure of a visit. */
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

/** Between two attempts of a step that is killed again and again. */
const LOSS_PAUSE: Backoff = { initialMs: 500, factor: 2, maxMs: 60_000, jitter: 0.2 };

/** The next attempt after the n-th loss of a visit: at once after the first, later ones wait. */
export function retryAfterLoss(losses: number, now: number, salt: string): Retry {
  if (losses <= 1) return { at: now, delayMs: 0 };
  return retryAfterFailure(LOSS_PAUSE, losses - 1, now, `${salt}/loss`);
}

/** How often the agent of a visit may be kept from continuing before a person is asked. */
export const PAUSES_MAX = 50;

/** Between two attempts of an agent whose service is busy. */
const PAUSE_FIRST_MS = 5_000;
const PAUSE_MAX_MS = 5 * 60_000;

/** The next attempt after the n-th pause of a visit; what the service said outweighs our guess. */
export function retryAfterPause(pauses: number, now: number, askedMs: number | undefined): Retry {
  const delayMs = askedMs ?? Math.min(PAUSE_FIRST_MS * 2 ** (pauses - 1), PAUSE_MAX_MS);
  return { at: now + delayMs, delayMs };
}
