/**
 * The port that stores pieces of files, each under the hash of its content.
 *
 * Owns: the contract of every implementation (test/journal/files-conformance.test.ts).
 * Does not: know which file a piece belongs to (stored-files.ts).
 * Invariants:
 * - blob-store/B1 A blob is durable when `put` resolves; a store never has a part of one.
 * - blob-store/B2 What `get` returns has the hash that was asked for.
 * - blob-store/B3 A blob that `missing` or `put` has seen stays for a day at least, named or not: its
 *   name is about to be stored.
 */

/** The largest size of a blob. */
export const BLOB_BYTES_MAX = 1024 * 1024;
/** How long a blob stays that no stored file names (blob-store/B3). */
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
