/**
 * The files of runs in PostgreSQL: which ones there are, and their content as blobs.
 *
 * Owns: the fencing of their writers (journal/P4), and the verification of content
 *   (journal/P2).
 * Does not: cut files into blobs (app/fleet).
 */
import { assert } from "../../util/assert.ts";
import {
  BLOB_BYTES_MAX,
  type Blob,
  type BlobStore,
  type StoredFile,
  type StoredFiles,
  UNUSED_BLOB_KEPT_MS,
  verifiedBlob,
} from "../journal.ts";
import { staleLease, unknownRun } from "../journal-error.ts";
import { integerIn, type Row, textIn } from "../rows.ts";
import { repeated, type Sql } from "./connection.ts";
import { BLOB, FILE, putBlobs } from "./sql.ts";

/** The most bytes of blobs, and the most blobs, in one statement. */
const BATCH_BYTES_MAX = 4 * BLOB_BYTES_MAX;
const BATCH_BLOBS_MAX = 500;

/** The port on a server. */
export function postgresFiles(sql: Sql): StoredFiles {
  return {
    changedSince: async (runId, since) => {
      const rows = await repeated(sql, { text: FILE.changed, values: [runId, since] });
      const revision = integerIn(rows[0] ?? unknownRun(runId), "files_revision");
      return { revision, files: rows.filter(({ path }) => path !== null).map(fileIn) };
    },
    put: async (runId, epoch, files) => {
      const values = [runId, epoch, JSON.stringify(files)];
      const moved = await repeated(sql, { text: FILE.put, values });
      if (moved.length > 0) return;
      const [row] = await repeated(sql, { text: FILE.changed, values: [runId, 0] });
      if (row === undefined) unknownRun(runId);
      throw staleLease(runId, epoch);
    },
    named: async (hashes) => {
      const rows = await repeated(sql, { text: FILE.named, values: [hashes] });
      return new Set(rows.map((row) => textIn(row, "hash")));
    },
  };
}

/** The port on a server. */
export function postgresBlobs(sql: Sql): BlobStore {
  return {
    missing: async (hashes) => {
      if (hashes.length === 0) return new Set();
      const rows = await repeated(sql, { text: BLOB.seen, values: [hashes] });
      const seen = new Set(rows.map((row) => textIn(row, "hash")));
      return new Set(hashes.filter((hash) => !seen.has(hash)));
    },
    put: async (blobs) => {
      for (const batch of batchesOf(blobs)) {
        const values = batch.flatMap(({ hash, bytes }) => [hash, bytes]);
        await repeated(sql, { text: putBlobs(batch.length), values });
      }
    },
    get: async (hash) => {
      const [row] = await repeated(sql, { text: BLOB.get, values: [hash] });
      return verifiedBlob(hash, row?.bytes);
    },
    removeUnused: async () => {
      const statement = { text: BLOB.removeUnused, values: [UNUSED_BLOB_KEPT_MS] };
      const [row] = await repeated(sql, statement);
      return integerIn(row ?? {}, "removed");
    },
    close: async () => undefined,
  };
}

function fileIn(row: Row): StoredFile {
  const blobs: unknown = row.blobs;
  return {
    path: textIn(row, "path"),
    mode: integerIn(row, "mode"),
    bytes: integerIn(row, "bytes"),
    ...(blobs === null ? {} : { blobs: blobs as readonly string[] }),
  };
}

/** Each blob once, in the order of their names: two writers wait for each other in one direction. */
function batchesOf(blobs: readonly Blob[]): readonly (readonly Blob[])[] {
  const batches: Blob[][] = [];
  let bytes = Number.POSITIVE_INFINITY;
  const unique = [...new Map(blobs.map((blob) => [blob.hash, blob])).values()];
  for (const blob of unique.sort((a, b) => (a.hash < b.hash ? -1 : 1))) {
    assert(blob.bytes.length <= BLOB_BYTES_MAX, "a blob is no larger than BLOB_BYTES_MAX");
    bytes += blob.bytes.length;
    const batch = batches.at(-1);
    if (batch === undefined || bytes > BATCH_BYTES_MAX || batch.length >= BATCH_BLOBS_MAX) {
      batches.push([blob]);
      bytes = blob.bytes.length;
    } else {
      batch.push(blob);
    }
  }
  return batches;
}
