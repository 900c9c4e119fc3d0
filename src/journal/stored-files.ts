/**
 * The port that says which files of a run are in the store: their paths, modes and blobs.
 *
 * Owns: the contract of every implementation (test/journal/files-conformance.test.ts).
 * Does not: hold content (blob-store.ts), or know what a file is for (app/transfer/run-archive.ts).
 * Invariants:
 * - stored-files/B4 Files are put by the owner of the lease alone: a writer with an older epoch fails
 *   with "stale-writer" and changes nothing.
 * - stored-files/B5 All files of one `put` appear together, with a higher revision than all before.
 */

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

export interface StoredChanges {
  readonly revision: number;
  readonly files: readonly StoredFile[];
}
