/**
 * The journal of a project, and the journal of a fleet, which many machines share: it also has the files
 * of its runs, each cut into blobs under the hashes of their content, and the pipelines that start at
 * certain times.
 *
 * Owns: the interfaces of every implementation (test/journal/conformance.test.ts,
 *   test/journal/files-conformance.test.ts). No other room knows which one it has.
 * Does not: define the contracts of the ports for runs (run-log.ts, leases.ts, inbox.ts), or know what a
 *   stored file is for (app/transfer/run-parts.ts) or which schedule is due (app/fleet). The tables of
 *   queues and workers are behind `executeSql`.
 * Invariants:
 * - journal/T1 What happens in a transaction happens together, or not at all.
 * - journal/P1 A blob is durable when `put` resolves; a store never has a part of one.
 * - journal/P2 What `get` returns has the hash that was asked for.
 * - journal/P3 A blob that `missing` or `put` has seen stays for a day at least, named or not: its name is
 *   about to be stored.
 * - journal/P4 Files are put by the owner of the lease alone: a writer with an older epoch fails with
 *   "stale-writer" and changes nothing.
 * - journal/P5 All files of one `put` appear together, with a higher revision than all before.
 */
import { createHash } from "node:crypto";
import type { Inbox } from "./inbox.ts";
import { JournalError } from "./journal-error.ts";
import type { Leases, LeaseTime } from "./leases.ts";
import type { ResultIndex, RunLog } from "./run-log.ts";
import type { Subscription } from "./subscription.ts";

export interface Journal {
  readonly log: RunLog;
  readonly leases: Leases;
  readonly inbox: Inbox;
  /** Absent for a fleet: the files of its runs are on many machines. */
  readonly results?: ResultIndex;
  /** Closes all subscriptions and the storage. */
  close(): Promise<void>;
}

export interface FleetJournal extends Journal, SqlDatabase {
  readonly files: StoredFiles;
  readonly schedules: StoredSchedules;
  readonly blobs: BlobStore;
  /** Calls `body` in one transaction (journal/T1). */
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
  executeSql(
    text: string,
    values?: readonly unknown[],
  ): Promise<{ readonly rows: readonly Readonly<Record<string, unknown>>[] }>;
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

/** The largest size of a blob. */
export const BLOB_BYTES_MAX = 1024 * 1024;
/** How long a blob stays that no stored file names (journal/P3). */
export const UNUSED_BLOB_KEPT_MS = 86_400_000;

export interface BlobStore {
  /** Those of these blobs that the store lacks. */
  missing(hashes: readonly string[]): Promise<ReadonlySet<string>>;
  /** Stores blobs; durable when the promise resolves. Storing one again changes nothing. */
  put(blobs: readonly Blob[]): Promise<void>;
  /** The content, verified against its hash. Throws JournalError "broken" or "unknown-blob". */
  get(hash: string): Promise<Buffer>;
  /** Removes blobs that no stored file names and that are older than a day. Returns their number. */
  removeUnused(): Promise<number>;
  close(): Promise<void>;
}

/** A piece of a file. */
export interface Blob {
  /** The SHA-256 of its content, in hexadecimal digits. */
  readonly hash: string;
  /** At most BLOB_BYTES_MAX. */
  readonly bytes: Buffer;
}

/** The content of a blob, if it is there and has its hash. Throws "unknown-blob" or "broken". */
export function verifiedBlob(hash: string, bytes: unknown): Buffer {
  if (!Buffer.isBuffer(bytes)) {
    throw new JournalError("unknown-blob", `The store lacks the piece ${hash}.`);
  }
  if (createHash("sha256").update(bytes).digest("hex") === hash) return bytes;
  throw new JournalError("broken", `The piece ${hash} of a file is damaged.`);
}

/** Which files of a run are in the store: their paths, modes and blobs. */
export interface StoredFiles {
  /** The files that were put after a revision (0: all), and the newest revision. */
  changedSince(runId: string, revision: number): Promise<StoredChanges>;
  /**
   * Puts or replaces files of a run, as the owner of this lease (fenced by its epoch:
   * "stale-writer"). Before its first owner, a run has the epoch 0.
   */
  put(runId: string, epoch: number, files: readonly StoredFile[]): Promise<void>;
  /** Those of these blobs that a stored file names. */
  named(hashes: readonly string[]): Promise<ReadonlySet<string>>;
}

export interface StoredFile {
  /**
   * Below the run: `run/attempts/...`, `artifacts/<sha256>`, `bundles/000001`, `transcripts/...`,
   * `about.json`.
   */
  readonly path: string;
  readonly mode: number;
  readonly bytes: number;
  /** The hashes of its blobs, in order. Absent: the file was removed. */
  readonly blobs?: readonly string[];
}

interface StoredChanges {
  readonly revision: number;
  readonly files: readonly StoredFile[];
}

/** A pipeline that a fleet starts at certain times. */
export interface StoredSchedule {
  readonly name: string;
  readonly cron: string;
  /** Times up to this one are not made up for. */
  readonly since: number;
  /** The run of the last time that was started. */
  readonly lastRun?: string;
}

/** What a new run is made from, as text, and the blobs that this names. */
interface ScheduleSource {
  readonly text: string;
  readonly blobs: readonly string[];
}

export interface StoredSchedules {
  list(): Promise<readonly StoredSchedule[]>;
  /** The text of what a run of the schedule is made from; undefined when there is no such schedule. */
  runOf(name: string): Promise<string | undefined>;
  /** Adds a schedule, or replaces the one with this name. */
  put(name: string, cron: string, run: ScheduleSource): Promise<void>;
  /** Notes which run was started last. */
  ran(name: string, runId: string): Promise<void>;
  /** Removes a schedule; false when there is none with this name. */
  remove(name: string): Promise<boolean>;
}
