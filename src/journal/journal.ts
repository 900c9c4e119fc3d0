/**
 * The journal of a project: its three ports, and what can go wrong with them.
 *
 * Owns: what every implementation offers. SQLite and memory pass the same tests; nothing outside this
 *   room knows which one it has.
 * Does not: say what the ports promise (run-log.ts, leases.ts, inbox.ts).
 */
import type { Owner } from "../core/event.ts";
import type { Inbox } from "./inbox.ts";
import type { Leases } from "./leases.ts";
import type { RunLog } from "./run-log.ts";

export interface Journal {
  readonly log: RunLog;
  readonly leases: Leases;
  readonly inbox: Inbox;
  /** Ends all subscriptions and lets go of the storage. */
  close(): Promise<void>;
}

/** How often somebody else may be faster before a caller gives up. */
const ACQUIRE_ROUNDS_MAX = 100;

/** Who wants a lease, and by what evidence a holder counts as alive. */
export interface LeaseClaim {
  readonly owner: Owner;
  readonly isAlive: (owner: Owner) => boolean;
}

/** The lease is ours, or a living owner has it. */
export type Claimed =
  | { readonly ok: true; readonly epoch: number }
  | { readonly ok: false; readonly owner: Owner };

/** Acquires the lease of a run unless its holder is alive; judges again when somebody was faster. */
export async function takeLease(
  leases: Leases,
  runId: string,
  { owner, isAlive }: LeaseClaim,
): Promise<Claimed> {
  for (let round = 0; round < ACQUIRE_ROUNDS_MAX; round++) {
    const judged = await leases.of(runId);
    const holder = judged?.owner;
    if (holder !== undefined && isAlive(holder)) return { ok: false, owner: holder };
    const acquired = await leases.acquire(runId, { owner, judged });
    if (acquired.ok) return acquired;
  }
  throw new JournalError("busy", `Too many processes want to own run ${runId} at once.`);
}

/** What can go wrong with a journal; the command line has a remedy for each code. */
export class JournalError extends Error {
  override readonly name = "JournalError";
  readonly code: JournalErrorCode;
  constructor(code: JournalErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

export type JournalErrorCode =
  /** Another owner wrote since: this writer must stop at once. */
  | "stale-writer"
  | "disk-full"
  | "read-only"
  /** The file, a page of it or a chain of checksums is damaged. */
  | "broken"
  /** Written by a newer program. */
  | "newer"
  /** Written by an older program, in a format that this one does not read. */
  | "older"
  /** Another process keeps the database locked. */
  | "busy"
  | "unknown-run"
  /** Any other failure of reading or writing. */
  | "io";
