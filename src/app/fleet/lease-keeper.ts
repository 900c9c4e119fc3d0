/**
 * The policy by which a worker keeps its leases: when it renews them, until when each one counts on this
 * machine, and when the worker must give a run up. The worker and the simulator call the same code.
 *
 * Owns: every decision about the time of a lease.
 * Does not: read a clock, send a renewal, or end a process. Each time is an argument, in milliseconds of
 *   the machine's boot clock, which also counts while the machine sleeps. Only `store` times are by the
 *   clock of the store.
 * Invariants:
 * - lease-keeper/K1 A lease counts here from when its renewal was sent, not from when the answer
 *   arrived, and it ends here a margin before it can end in the store.
 * - lease-keeper/K2 A worker takes runs only after the store's clock has shown that the clock of this
 *   machine does not run slow; when it does, the worker gives up all its runs.
 * - lease-keeper/K3 A run that was given up is never renewed again, whatever answer still arrives.
 */
import { LEASE_MS } from "../../journal/leases.ts";
import { assert } from "../../util/assert.ts";

/** How often a worker renews its leases. The renewal is also its sign of life, without any lease. */
export const RENEW_EVERY_MS = 3_000;
/** How soon it renews again after a failure, and while its clock has not been compared yet. */
export const RENEW_AGAIN_MS = 500;
/** A renewal that has no answer after this time has failed. */
export const RENEW_TIMEOUT_MS = 2_000;
/** How often the watcher of a step reads the step's leash. */
export const LEASH_WATCH_MS = 1_000;
/**
 * How long before the end of a lease in the store its steps must end here, as a share of its length:
 * 4 s of the usual 12 s. The margin pays for the watcher's period, for a clock that runs slow, and for a
 * machine that is late because it is busy.
 */
export const LEASE_MARGIN_SHARE = 1 / 3;
/** The share by which the clock of this machine may run slower than the store's. */
export const CLOCK_SLOW_MAX = 0.1;
/** A step of either clock that is no reason to give runs up: within the margin, with all the rest. */
export const CLOCK_STEP_MAX_MS = 1_000;
/** How many answers are kept to compare the clocks: half a minute of renewals. */
const COMPARISONS_MAX = 10;

/** One answer of the store that says its time. */
interface ClockAnswer {
  readonly sentAt: number;
  readonly receivedAt: number;
  /** The store's clock between the two. */
  readonly store: number;
}

/** Of a lease that runs out: the store's clock now, and how long it is held from then. */
interface LeaseTime {
  readonly now: number;
  readonly heldMs: number;
}

/** A renewal under way. */
export interface Renewal {
  readonly sentAt: number;
  readonly epochs: ReadonlyMap<string, number>;
}

/** The answer to a renewal. */
interface RenewalAnswer extends LeaseTime {
  /** The runs of the renewal whose lease is another's now, or has run out. */
  readonly lost: readonly string[];
}

/** Why a worker must give a run up: no renewal in time, another owner, or a clock that runs slow. */
export type LeaseLoss = "not-renewed" | "another-owner" | "slow-clock";

/** A run that the worker must give up: end its steps first, then drop it without a word to the store. */
interface LostLease {
  readonly runId: string;
  readonly epoch: number;
  readonly why: LeaseLoss;
}

interface Held {
  readonly epoch: number;
  readonly deadline: number;
}

/** The leases of one worker process. */
export class LeaseKeeper {
  readonly #clock = new ClockComparison();
  readonly #held = new Map<string, Held>();
  readonly #lost = new Set<string>();
  #renewal: Renewal | undefined;
  #lastSentAt: number | undefined;
  #failed = false;

  /** True when the worker may take runs (lease-keeper/K2). */
  get mayTake(): boolean {
    return this.#clock.state === "good";
  }

  /**
   * The time of the store, as far as this worker knows: the clock of its runs, so that times of one run
   * fit together whichever machines it was on. Undefined before the first answer.
   */
  storeTime(now: number): number | undefined {
    return this.#clock.storeTime(now);
  }

  /** The worker has acquired a lease with a request that it sent at this time. */
  took(runId: string, epoch: number, sentAt: number, { heldMs }: LeaseTime): void {
    this.#lost.delete(runId);
    this.#held.set(runId, { epoch, deadline: deadlineOf(sentAt, heldMs) });
  }

  /** The worker no longer drives a run: its lease is released, or it was given up. */
  dropped(runId: string): void {
    this.#held.delete(runId);
    this.#lost.delete(runId);
  }

  /** The end of a lease on this machine, for the leash of its steps; undefined without a lease. */
  deadlineOf(runId: string): number | undefined {
    return this.#held.get(runId)?.deadline;
  }

  /** True while this lease counts: only then may a step start or an append leave. */
  holds(runId: string, epoch: number, now: number): boolean {
    const held = this.#held.get(runId);
    return held?.epoch === epoch && !this.#lost.has(runId) && now < held.deadline;
  }

  /** When the worker must look again: to renew, to call a renewal failed, or to give a run up. */
  nextAt(): number {
    const deadlines = [...this.#held.values()].map(({ deadline }) => deadline);
    return Math.min(this.#renewAt(), ...deadlines);
  }

  /** The renewal to send now, if it is time; a renewal without an answer has failed by then. */
  renew(now: number): Renewal | undefined {
    if (now < this.#renewAt()) return undefined;
    if (this.#renewal !== undefined) this.failed(this.#renewal);
    const epochs = new Map([...this.#held].map(([runId, { epoch }]) => [runId, epoch]));
    this.#renewal = { sentAt: now, epochs };
    this.#lastSentAt = now;
    return this.#renewal;
  }

  /** The answer to a renewal arrived. One that came too late still counts from when it was sent. */
  answered(renewal: Renewal, answer: RenewalAnswer, receivedAt: number): void {
    const { sentAt, epochs } = renewal;
    this.#clock.add({ sentAt, receivedAt, store: answer.now });
    for (const [runId, epoch] of epochs) {
      const held = this.#held.get(runId);
      if (held?.epoch !== epoch) continue;
      if (answer.lost.includes(runId)) {
        this.#lost.add(runId);
      } else {
        const deadline = Math.max(held.deadline, deadlineOf(sentAt, answer.heldMs));
        this.#held.set(runId, { epoch, deadline });
      }
    }
    if (this.#renewal === renewal) this.#ended(false);
  }

  /** A renewal could not be sent, or has no answer; the next one follows soon. */
  failed(renewal: Renewal): void {
    if (this.#renewal === renewal) this.#ended(true);
  }

  /** The store refused a write of this lease: another worker owns the run. */
  refused(runId: string, epoch: number): void {
    if (this.#held.get(runId)?.epoch === epoch) this.#lost.add(runId);
  }

  /** The runs that the worker must give up now; each is named once (lease-keeper/K3). */
  giveUp(now: number): readonly LostLease[] {
    const slow = this.#clock.state === "slow";
    const lost: LostLease[] = [];
    for (const [runId, { epoch, deadline }] of this.#held) {
      const why = this.#lost.has(runId) ? "another-owner" : slow ? "slow-clock" : "not-renewed";
      if (why !== "not-renewed" || now >= deadline) lost.push({ runId, epoch, why });
    }
    for (const { runId } of lost) this.dropped(runId);
    // The clock must be proven again before the worker takes further runs.
    if (slow) this.#clock.forget();
    return lost;
  }

  #renewAt(): number {
    if (this.#lastSentAt === undefined) return Number.NEGATIVE_INFINITY;
    if (this.#renewal !== undefined) return this.#lastSentAt + RENEW_TIMEOUT_MS;
    const soon = this.#failed || !this.mayTake;
    return this.#lastSentAt + (soon ? RENEW_AGAIN_MS : RENEW_EVERY_MS);
  }

  #ended(failed: boolean): void {
    this.#renewal = undefined;
    this.#failed = failed;
  }
}

/** The end of a lease here: counted from the request, which reached the store later, if at all. */
function deadlineOf(sentAt: number, heldMs: number): number {
  assert(heldMs >= LEASE_MS.min, "a lease of the store is long enough to be renewed");
  return sentAt + heldMs * (1 - LEASE_MARGIN_SHARE);
}

/**
 * Compares the clock of this machine with the store's, by the time that passes on each between two
 * answers. How long an answer was under way is unknown, so each comparison has a least and a most.
 */
class ClockComparison {
  #answers: ClockAnswer[] = [];
  #isGood = false;
  #isSlow = false;

  /** "unknown" until the clock is proven; "slow" when it is proven to run slow. */
  get state(): "unknown" | "good" | "slow" {
    if (this.#isSlow) return "slow";
    return this.#isGood ? "good" : "unknown";
  }

  add(answer: ClockAnswer): void {
    for (const earlier of this.#answers) {
      const passed = answer.store - earlier.store;
      const most = answer.receivedAt - earlier.sentAt;
      const least = answer.sentAt - earlier.receivedAt;
      if (passed > most * (1 + CLOCK_SLOW_MAX) + CLOCK_STEP_MAX_MS) this.#isSlow = true;
      const fits = passed > 0 && passed <= least * (1 + CLOCK_SLOW_MAX);
      if (least >= RENEW_AGAIN_MS / 2 && fits) this.#isGood = true;
    }
    this.#answers = [...this.#answers, answer].slice(-COMPARISONS_MAX);
  }

  storeTime(now: number): number | undefined {
    const last = this.#answers.at(-1);
    return last === undefined ? undefined : last.store + now - last.receivedAt;
  }

  forget(): void {
    this.#answers = this.#answers.slice(-1);
    this.#isGood = false;
    this.#isSlow = false;
  }
}
