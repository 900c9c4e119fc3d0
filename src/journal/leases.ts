/**
 * The port that says which process owns a run. Only the owner may append to the run's log.
 *
 * Owns: that a run has one owner at a time, that epochs only grow, and, where leases run out, the only
 *   clock that counts.
 * Does not: know whether an owner is alive. The caller reads a lease, judges its holder by its own
 *   evidence, and acquires against exactly the lease that it has judged (`takeLease`).
 * Invariants:
 * - leases/J2 Each owner has a higher epoch than all owners before it; an append names its epoch,
 *   so an owner that was replaced cannot write.
 * - leases/J9 A lease that was judged by its expiry is acquired only while it is expired: a renewal
 *   that came in between wins.
 */
import type { Owner } from "../core/event.ts";
import { JournalError } from "./journal-error.ts";

/**
 * How long a lease that runs out is held after its last renewal. A shorter one than the usual would leave
 * no time for a machine that is busy, or whose clock runs slow.
 */
export const LEASE_MS = { min: 12_000, usual: 12_000, max: 600_000 } as const;

export interface Leases {
  /** The lease of a run; undefined when the run never had an owner. */
  of(runId: string): Promise<Lease | undefined>;
  /** All leases that have a holder. */
  held(): Promise<readonly HeldLease[]>;
  /** Makes `owner` the owner of a run, if the lease has not changed since the caller judged it. */
  acquire(runId: string, request: AcquireRequest): Promise<Acquired>;
  /**
   * Confirms the lease, and extends one that runs out; undefined when this one does not. Throws
   * "stale-writer" when the run has another owner.
   */
  renew(runId: string, epoch: number): Promise<LeaseTime | undefined>;
  /** Releases the lease; does nothing when another owner has it. */
  release(runId: string, epoch: number): Promise<void>;
  /**
   * Prevents every process from acquiring a lease until the block is lifted or this process ends.
   * Undefined when a lease has a holder that the caller has not judged to be dead.
   */
  block(dead: readonly HeldLease[]): Promise<LeaseBlock | undefined>;
}

export interface Lease {
  readonly epoch: number;
  /** Absent when the lease was released. */
  readonly owner?: Owner;
  /** By the journal's own clock, the lease has run out. Leases of a file never do. */
  readonly hasExpired?: true;
}

/** Of a lease that runs out: the journal's clock now, and how long the lease is held from then. */
export interface LeaseTime {
  readonly now: number;
  readonly heldMs: number;
}

export interface HeldLease extends Lease {
  readonly runId: string;
  readonly owner: Owner;
}

export interface AcquireRequest {
  readonly owner: Owner;
  /**
   * The lease that the caller has read: released, expired, or held by an owner that is proven dead.
   */
  readonly judged: Lease | undefined;
}

/** The caller has the lease, or the lease has changed since the caller judged it. */
export type Acquired =
  | { readonly ok: true; readonly epoch: number; readonly time?: LeaseTime }
  | { readonly ok: false };

/** While the block exists, no process acquires a lease. */
export interface LeaseBlock {
  lift(): Promise<void>;
}

/** The held leases whose holder is not among those that the caller has judged to be dead. */
export function unjudged(
  held: readonly HeldLease[],
  dead: readonly HeldLease[],
): readonly HeldLease[] {
  const judged = new Map(dead.map(({ runId, epoch }) => [runId, epoch]));
  return held.filter(({ runId, epoch }) => judged.get(runId) !== epoch);
}

/** How often other processes may acquire the lease first before `takeLease` gives up. */
const ACQUIRE_ROUNDS_MAX = 100;

/** The owner that asks for a lease, and the evidence that a holder is alive. */
interface LeaseClaim {
  readonly owner: Owner;
  readonly isAlive: (owner: Owner) => boolean;
}

/** The caller has the lease, or a living owner does. */
type Claimed =
  | { readonly ok: true; readonly epoch: number; readonly time?: LeaseTime }
  | { readonly ok: false; readonly owner: Owner };

/** Acquires the lease of a run unless its holder lives; judges again when the lease has changed. */
export async function takeLease(
  leases: Leases,
  runId: string,
  claim: LeaseClaim,
): Promise<Claimed> {
  for (let round = 0; round < ACQUIRE_ROUNDS_MAX; round++) {
    const judged = await leases.of(runId);
    const holder = judged?.owner;
    if (holder !== undefined && isHeld(judged, claim)) return { ok: false, owner: holder };
    const acquired = await leases.acquire(runId, { owner: claim.owner, judged });
    if (acquired.ok) return acquired;
  }
  throw new JournalError("busy", `Too many processes want to own run ${runId} at once.`);
}

/**
 * A worker of a fleet holds its lease until that runs out, even when its process is dead: its steps
 * may live. Only the next process of the same worker sees them, and may go by the process.
 */
function isHeld(
  { owner: holder, hasExpired }: Lease = { epoch: 0 },
  { owner, isAlive }: LeaseClaim,
): boolean {
  if (holder === undefined || hasExpired === true) return false;
  return (holder.worker !== undefined && holder.worker !== owner.worker) || isAlive(holder);
}
