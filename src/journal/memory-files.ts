/**
 * Stored files and blobs in memory, for the simulator and for tests: the same contract, without a disk.
 *
 * Owns: the same refusals as the other implementations.
 * Does not: survive the process.
 */
import { assert } from "../util/assert.ts";
import {
  BLOB_BYTES_MAX,
  type BlobStore,
  type StoredFile,
  type StoredFiles,
  UNUSED_BLOB_KEPT_MS,
  verifiedBlob,
} from "./journal.ts";
import { staleLease } from "./journal-error.ts";
import type { Leases } from "./leases.ts";

interface MemoryFiles {
  readonly revisions: Map<string, { readonly file: StoredFile; readonly revision: number }>;
  revision: number;
}

/** Stored files in memory; the leases say who may put files. */
export function memoryStoredFiles(leases: Pick<Leases, "of">): StoredFiles {
  const runs = new Map<string, MemoryFiles>();
  const filesOf = (runId: string): MemoryFiles => {
    const known = runs.get(runId) ?? { revisions: new Map(), revision: 0 };
    runs.set(runId, known);
    return known;
  };
  return {
    changedSince: async (runId, since) => {
      const { revisions, revision } = filesOf(runId);
      const files = [...revisions.values()].filter((one) => one.revision > since);
      return { revision, files: files.map(({ file }) => file) };
    },
    put: async (runId, epoch, files) => {
      const lease = await leases.of(runId);
      if ((lease?.epoch ?? 0) !== epoch) throw staleLease(runId, epoch);
      const known = filesOf(runId);
      known.revision++;
      for (const file of files) {
        known.revisions.set(file.path, { file, revision: known.revision });
      }
    },
    named: async (hashes) => {
      const named = new Set<string>();
      for (const { revisions } of runs.values()) {
        for (const { file } of revisions.values())
          for (const one of file.blobs ?? []) named.add(one);
      }
      return new Set(hashes.filter((hash) => named.has(hash)));
    },
  };
}

/** Blobs in memory. */
export function memoryBlobs(
  files: Pick<StoredFiles, "named">,
  now: () => number = Date.now,
): BlobStore {
  const blobs = new Map<string, { readonly bytes: Buffer; seenAt: number }>();
  const seen = (hash: string): boolean => {
    const blob = blobs.get(hash);
    if (blob !== undefined) blob.seenAt = now();
    return blob !== undefined;
  };
  return {
    missing: async (hashes) => new Set(hashes.filter((hash) => !seen(hash))),
    put: async (all) => {
      for (const { hash, bytes } of all) {
        assert(bytes.length <= BLOB_BYTES_MAX, "a blob is no larger than BLOB_BYTES_MAX");
        if (!seen(hash)) blobs.set(hash, { bytes: Buffer.from(bytes), seenAt: now() });
      }
    },
    get: async (hash) => verifiedBlob(hash, blobs.get(hash)?.bytes),
    removeUnused: async () => {
      const named = await files.named([...blobs.keys()]);
      let removed = 0;
      for (const [hash, { seenAt }] of blobs) {
        if (named.has(hash) || now() - seenAt <= UNUSED_BLOB_KEPT_MS) continue;
        blobs.delete(hash);
        removed++;
      }
      return removed;
    },
    close: async () => undefined,
  };
}
