/**
 * The journal of a project: its three ports and their errors.
 *
 * Owns: the interface of every implementation. SQLite and memory pass the same conformance suite; no
 *   other room knows which one it has.
 * Does not: define the contracts of the ports (run-log.ts, leases.ts, inbox.ts).
 */
import type { Owner } from "../core/event.ts";
import type { Inbox } from "./inbox.ts";
import type { Lease, Leases, LeaseTime } from "./leases.ts";
import type { ResultIndex, RunLog } from "./run-log.ts";

export interface Journal {
  readonly log: RunLog;
  readonly leases: Leases;
  readonly inbox: Inbox;
  /** Absent for a fleet: the files of its runs are on many machines. */
  readonly results?: ResultIndex;
  /** Closes all subscriptions and the storage. */
  close(): Promise<void>;
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

/** An error of a journal; `app` has a remedy for each code. */
export class JournalError extends Error {
  override readonly name = "JournalError";
  readonly code: JournalErrorCode;
  constructor(code: JournalErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

export type JournalErrorCode =
  /** Another owner has written to the run: this writer must stop at once. */
  | "stale-writer"
  | "disk-full"
  | "read-only"
  /** The file, a page of it or a chain of checksums is damaged. */
  | "broken"
  /** Written by a newer program. */
  | "newer"
  /** Written by an older program, in a format that this one does not read. */
  | "older"
  /** The server has no tables of this version yet, and this user may not make them. */
  | "not-set-up"
  /** The server refuses this user: its password, its certificate, or a database that is missing. */
  | "login-refused"
  /** Another process keeps the database locked. */
  | "busy"
  | "unknown-run"
  /** The store lacks a piece of a file that it should have. */
  | "unknown-blob"
  /** The server of the journal cannot be reached; what it had confirmed is not lost. */
  | "unreachable"
  /** Any other failure of reading or writing. */
  | "io";
