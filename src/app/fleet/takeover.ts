/**
 * The policy by which a worker takes a run over. The worker and the simulator call the same code.
 *
 * Owns: whether a worker may acquire a lease, and which directory it may use then.
 * Does not: read a lease, a clock or a disk.
 * Invariants:
 * - takeover/T1 A worker takes the lease of another one only after the store's clock says that it has
 *   run out. That a process here is dead proves nothing about the steps of another directory.
 * - takeover/T2 A worker adopts a lease of its own directory at once, if the process that held it is
 *   proven dead in this boot of this machine: a copy of a machine has another boot.
 * - takeover/T3 The directory of a run is used again only by the owner that directly follows the one
 *   that used it last, in the same boot: after another one the disk may be an older image, and no step
 *   is left to adopt. Otherwise the worker first ends everything that still runs in it, moves it
 *   away, and makes the directory from the store.
 * - takeover/T4 A job means only that somebody should look: a run that has ended is driven again only
 *   for a request that it has not handled.
 * - takeover/T5 A run that its worker stopped in order to hand it over wants a driver, and so does one
 *   that a person resumed, until it is driven: the worker that takes it may die before that. In the same
 *   way, a stop of a run that no worker has counts until the run has an event after it.
 */
import type { Owner, Recorded } from "../../core/event.ts";
import type { RunState } from "../../core/run.ts";

/** A worker as the owner of runs: the id of its directory, and the boot of its machine. */
type WorkerIdentity = Pick<Owner, "boot"> & { readonly worker: string };

/** A lease as the store reports it. */
interface KnownLease {
  readonly epoch: number;
  readonly owner?: Owner & { readonly worker?: string };
  readonly hasExpired?: true;
}

/** "take" a lease that is free, "adopt" one of this worker's own directory, or "wait" for its end. */
type Takeover = "take" | "adopt" | "wait";

/** What a worker may do with the lease of a run that wants a driver. */
export function takeoverOf(
  lease: KnownLease | undefined,
  { worker, boot }: WorkerIdentity,
  isProvenDead: (owner: Owner) => boolean,
): Takeover {
  const owner = lease?.owner;
  if (owner === undefined || lease?.hasExpired === true) return "take";
  const isOurs = owner.worker === worker && owner.boot === boot;
  return isOurs && isProvenDead(owner) ? "adopt" : "wait";
}

/**
 * Whether the directory that a worker has of a run is the run's newest (takeover/T3). `usedUnder` is the
 * epoch that the directory notes when an owner begins to use it; undefined when that was in another boot.
 */
export function mayUseDirectory(usedUnder: number | undefined, epoch: number): boolean {
  return usedUnder === epoch - 1;
}

/** The author of the stop by which a worker that ends hands its runs over. */
export const HANDOVER = "the end of the worker";

/** Whether a worker that has taken the lease of a run drives it, or releases it again (takeover/T4). */
export function wantsDriver(state: RunState, pendingRequests: number): boolean {
  const hasEnded = ["completed", "failed", "stopped"].includes(state.status);
  return !hasEnded || pendingRequests > 0 || isHandedOver(state);
}

/** Whether a worker has stopped a run in order to hand it over (takeover/T5). */
export function isHandedOver(state: RunState): boolean {
  if (state.status !== "stopped") return false;
  return state.reason.code === "requested" && state.reason.by === HANDOVER;
}

/** Whether a run that somebody resumed or stopped after an event has only moved since then. */
export function isUnchangedSince(last: number, events: readonly Recorded[]): boolean {
  return events.every(({ seq, event }) => seq <= last || event.type === "run.moved");
}
