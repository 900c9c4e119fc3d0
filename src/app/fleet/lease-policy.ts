/**
 * The policy of a worker for leases: when it renews its own, until when each one counts on this machine,
 * when it must give a run up, and when it may take over the run of another worker. The worker and the
 * simulator call the same code.
 *
 * Owns: every decision about the time of a lease, whether a worker may acquire one, and which directory
 *   of a run it may use then.
 * Does not: read a lease, a clock or a disk, send a renewal, or end a process. Each time is an argument,
 *   in milliseconds of the machine's boot clock, which also counts while the machine sleeps. Only `store`
 *   times are by the clock of the store.
 * Invariants:
 * - lease-policy/K1 A lease counts here from when its renewal was sent, not from when the answer
 *   arrived, and it ends here a margin before it can end in the store.
 * - lease-policy/K2 A worker takes runs only after the store's clock has shown that the clock of this
 *   machine does not run slow; when it does, the worker gives up all its runs.
 * - lease-policy/K3 A run that was given up is never renewed again, whatever answer still arrives.
 * - lease-policy/T1 A worker takes the lease of another one only after the store's clock says that the
 *   lease has run out. That a process here is dead proves nothing about the steps of another directory.
 * - lease-policy/T2 A worker adopts a lease of its own directory at once, if the process that held it is
 *   proven dead in this boot of this machine: a copy of a machine has another boot.
 * - lease-policy/T3 The directory of a run is used again only by the owner that directly follows the one
 *   that used it last, in the same boot: after another owner the disk may be an older image, and no step
 *   is left to adopt. Otherwise the worker first ends everything that still runs in the directory, moves
 *   it away, and makes it from the store.
 * - lease-policy/T4 A job only says that somebody should look: a run that has ended is driven again only
 *   for a request that it has not handled.
 * - lease-policy/T5 A run that its worker stopped in order to hand it over wants a driver until it is
 *   driven, and so does one that a person resumed: the worker that takes it may die before that. In the
 *   same way, a stop of a run that no worker has counts until the run has an event after it.
 */
import type { Owner, Recorded } from "../../core/event.ts";
import type { RunState } from "../../core/run.ts";
import type { LeasesRenewed } from "../../journal/journal.ts";
import { LEASE_MS, type Lease, type LeaseTime } from "../../journal/leases.ts";
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
/** A jump of either clock by at most this much is no reason to give runs up; the margin covers it. */
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

/** A renewal that was sent. */
export interface Renewal {
  readonly sentAt: number;
  readonly epochs: ReadonlyMap<string, number>;
}

/** Why a worker must give a run up: no renewal in time, another owner, or a clock that runs slow. */
export type LeaseLoss = "not-renewed" | "another-owner" | "slow-clock";

/** A run that the worker must give up: it ends the steps and tells the store nothing. */
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

  /** True when the worker may take runs (lease-policy/K2). */
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

  /** True while this lease counts; only then may a step start or an event be appended. */
  holds(runId: string, epoch: number, now: number): boolean {
    const held = this.#held.get(runId);
    return held?.epoch === epoch && !this.#lost.has(runId) && now < held.deadline;
  }

  /** When the worker must act next: renew, count a renewal as failed, or give a run up. */
  nextAt(): number {
    const deadlines = [...this.#held.values()].map(({ deadline }) => deadline);
    return Math.min(this.#renewAt(), ...deadlines);
  }

  /** The renewal to send now, if it is time; an earlier one without an answer counts as failed. */
  renew(now: number): Renewal | undefined {
    if (now < this.#renewAt()) return undefined;
    if (this.#renewal !== undefined) this.failed(this.#renewal);
    const epochs = new Map([...this.#held].map(([runId, { epoch }]) => [runId, epoch]));
    this.#renewal = { sentAt: now, epochs };
    this.#lastSentAt = now;
    return this.#renewal;
  }

  /** The answer to a renewal arrived; even a late one counts from when the renewal was sent. */
  answered(renewal: Renewal, answer: LeasesRenewed, receivedAt: number): void {
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

  /** The runs that the worker must give up now; each is named once (lease-policy/K3). */
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
 * answers. How long an answer was under way is unknown, so each comparison has a minimum and a maximum.
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

/**
 * What a worker may do with the lease of a run that wants a driver: "take" a free one, "adopt" one of its
 * own directory, or "wait" for its end. The id of its directory and the boot of its machine identify it.
 */
export function takeoverOf(
  lease: Lease | undefined,
  { worker, boot }: Pick<Owner, "worker" | "boot">,
  isProvenDead: (owner: Owner) => boolean,
): "take" | "adopt" | "wait" {
  const owner = lease?.owner;
  if (owner === undefined || lease?.hasExpired === true) return "take";
  const isOurs = owner.worker === worker && owner.boot === boot;
  return isOurs && isProvenDead(owner) ? "adopt" : "wait";
}

/**
 * Whether the directory that a worker has of a run is the run's newest (lease-policy/T3). `usedUnder` is the
 * epoch that the directory notes when an owner begins to use it; undefined when that was in another boot.
 */
export function mayUseDirectory(usedUnder: number | undefined, epoch: number): boolean {
  return usedUnder === epoch - 1;
}

/** The author of the stop by which a worker that ends hands its runs over. */
export const HANDOVER = "the end of the worker";

/** Whether a worker that has taken the lease of a run drives it, or releases it again (lease-policy/T4). */
export function wantsDriver(state: RunState, pendingRequests: number): boolean {
  const hasEnded = ["completed", "failed", "stopped"].includes(state.status);
  return !hasEnded || pendingRequests > 0 || isHandedOver(state);
}

/** Whether a worker has stopped a run in order to hand it over (lease-policy/T5). */
export function isHandedOver(state: RunState): boolean {
  if (state.status !== "stopped") return false;
  return state.reason.code === "requested" && state.reason.by === HANDOVER;
}

/** Whether a run that somebody resumed or stopped after an event has only moved since then. */
export function isUnchangedSince(last: number, events: readonly Recorded[]): boolean {
  return events.every(({ seq, event }) => seq <= last || event.type === "run.moved");
}
