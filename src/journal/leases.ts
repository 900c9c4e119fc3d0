/**
 * The port that says who owns a run. Only the owner may append to its log.
 *
 * Owns: that a run has one owner at a time, and that epochs only grow.
 * Does not: know whether an owner is alive. The caller reads a lease, judges its holder by evidence of
 *   its own, and acquires against exactly the lease that it has judged (`takeLease` in journal.ts).
 * Invariants:
 * - J2 Each owner has a higher epoch than all owners before it; an append names its epoch, so an owner
 *   that was replaced cannot write.
 */
import type { Owner } from "../core/event.ts";

export interface Leases {
  /** The lease of a run; undefined when nobody has owned it yet. */
  of(runId: string): Promise<Lease | undefined>;
  /** All leases that somebody holds. */
  held(): Promise<readonly HeldLease[]>;
  /** Makes `owner` the owner of a run, if its lease is still the one that the caller has judged. */
  acquire(runId: string, request: AcquireRequest): Promise<Acquired>;
  /** Keeps the lease. Throws "stale-writer" when another owner has the run. */
  renew(runId: string, epoch: number): Promise<void>;
  /** Gives the lease back; nothing happens when another owner has it. */
  release(runId: string, epoch: number): Promise<void>;
  /**
   * Keeps everybody from acquiring a lease until the block is lifted or this process ends. Undefined
   * when somebody holds a lease that is not among those that the caller has judged to be dead.
   */
  block(dead: readonly HeldLease[]): Promise<LeaseBlock | undefined>;
}

export interface Lease {
  readonly epoch: number;
  /** Absent when the lease was released. */
  readonly owner?: Owner;
}

export interface HeldLease {
  readonly runId: string;
  readonly epoch: number;
  readonly owner: Owner;
}

export interface AcquireRequest {
  readonly owner: Owner;
  /** The lease as the caller has read it: released, or held by an owner that is proven dead. */
  readonly judged: Lease | undefined;
}

/** Either the lease is ours, or it has changed since it was judged. */
export type Acquired = { readonly ok: true; readonly epoch: number } | { readonly ok: false };

/** While it stands, nobody begins to own a run. */
export interface LeaseBlock {
  lift(): Promise<void>;
}
