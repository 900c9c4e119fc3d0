/**
 * The journal of a fleet: that of many machines, with the files of its runs.
 *
 * Owns: what a worker needs beside the ports that every journal has.
 * Does not: know a queue or a worker; their tables are behind `executeSql`.
 * Invariants:
 * - fleet-journal/F1 What happens in a transaction happens together, or not at all.
 */
import type { BlobStore } from "./blob-store.ts";
import type { Inbox } from "./inbox.ts";
import type { Journal } from "./journal.ts";
import type { Leases, LeaseTime } from "./leases.ts";
import type { RunLog } from "./run-log.ts";
import type { StoredFiles } from "./stored-files.ts";
import type { StoredSchedules } from "./stored-schedules.ts";
import type { Subscription } from "./subscription.ts";

export interface FleetJournal extends Journal, SqlDatabase {
  readonly files: StoredFiles;
  readonly schedules: StoredSchedules;
  readonly blobs: BlobStore;
  /** Calls `body` in one transaction (fleet-journal/F1). */
  transaction<T>(body: (transaction: FleetTransaction) => Promise<T>): Promise<T>;
  /** Renews leases in one statement, by the epoch of each run. Without any, it tells the time. */
  renewAll(epochs: ReadonlyMap<string, number>): Promise<LeasesRenewed>;
  /**
   * Runs without a living owner that may want a driver: their lease has run out, or does so within a
   * time, or their inbox has something newer than the last owner saw. A run that wants none may be among
   * them.
   */
  unattended(limit: number, withinMs: number): Promise<readonly UnattendedRun[]>;
  /** Wakes a listener when somebody sends a notification to this channel. */
  listen(channel: string): Subscription;
}

/** The ports of a journal within one transaction. */
export interface FleetTransaction extends SqlDatabase {
  readonly log: RunLog;
  readonly leases: Leases;
  readonly inbox: Inbox;
  readonly files: StoredFiles;
  readonly schedules: StoredSchedules;
}

/** Statements in SQL, for what is stored beside the journal: the queue, the workers. */
export interface SqlDatabase {
  executeSql(text: string, values?: readonly unknown[]): Promise<SqlResult>;
}

export interface SqlResult {
  readonly rows: readonly Readonly<Record<string, unknown>>[];
}

/** A run without a living owner now, or in so many milliseconds unless its owner renews its lease. */
interface UnattendedRun {
  readonly runId: string;
  readonly inMs: number;
}

/** The answer to a renewal of several leases. */
export interface LeasesRenewed extends LeaseTime {
  /** The runs whose lease another owner has, or which had run out. */
  readonly lost: readonly string[];
}

/** True when a journal has the files of its runs, too: that of a fleet. */
export function hasFiles<J extends Journal>(
  journal: J,
): journal is J & Pick<FleetJournal, "files" | "blobs"> {
  return "files" in journal && "blobs" in journal;
}
