/**
 * A store for tests of shipping and fetching: PostgreSQL, or a directory with SQLite for the journal
 * and for the list of stored files, and a shared directory for blobs. Several processes may use it, and
 * be killed.
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { FilesTransaction } from "../../src/app/fleet/ship.ts";
import type { BlobStore, Journal, StoredFile, StoredFiles } from "../../src/journal/journal.ts";
import { JournalError } from "../../src/journal/journal-error.ts";
import { isStoreAddress, openStore } from "../../src/journal/open.ts";
import { openSqliteJournal } from "../../src/journal/sqlite/sqlite.ts";
import { openBlobDirectory } from "./blob-directory.ts";

export interface TestStore extends Journal {
  readonly files: StoredFiles;
  readonly blobs: BlobStore;
  readonly transaction?: FilesTransaction;
}

/** Opens a store: in a directory, or at an address of PostgreSQL; creates it if there is none. */
export async function openTestStore(place: string): Promise<TestStore> {
  return isStoreAddress(place) ? openStore(place, "create") : openDirectoryStore(place);
}

async function openDirectoryStore(root: string): Promise<TestStore> {
  mkdirSync(join(root, "blobs"), { recursive: true });
  const journal = await openSqliteJournal(join(root, "state.db"), { mode: "create" });
  const database = new DatabaseSync(join(root, "files.db"));
  database.exec("PRAGMA busy_timeout = 60000; PRAGMA journal_mode = WAL");
  database.exec(
    `CREATE TABLE IF NOT EXISTS file (
       run TEXT, path TEXT, revision INTEGER, data TEXT, PRIMARY KEY (run, path))`,
  );
  const files = storedFiles(database, journal);
  const blobs = await openBlobDirectory(join(root, "blobs"), files);
  const close = async (): Promise<void> => {
    database.close();
    await journal.close();
  };
  return { ...journal, files, blobs, close };
}

function storedFiles(database: DatabaseSync, { leases }: Journal): StoredFiles {
  const revisionOf = (runId: string): number => {
    const sql = "SELECT coalesce(max(revision), 0) AS revision FROM file WHERE run = ?";
    return Number(database.prepare(sql).get(runId)?.revision);
  };
  const filesIn = (sql: string, ...values: readonly (string | number)[]): readonly StoredFile[] =>
    database
      .prepare(sql)
      .all(...values)
      .map(({ data }) => JSON.parse(String(data)) as StoredFile);
  return {
    changedSince: async (runId, revision) => ({
      revision: revisionOf(runId),
      files: filesIn("SELECT data FROM file WHERE run = ? AND revision > ?", runId, revision),
    }),
    put: async (runId, epoch, files) => {
      if (((await leases.of(runId))?.epoch ?? 0) !== epoch) {
        throw new JournalError("stale-writer", `Another process owns run ${runId} now.`);
      }
      database.exec("BEGIN IMMEDIATE");
      const revision = revisionOf(runId) + 1;
      const put = database.prepare("INSERT OR REPLACE INTO file VALUES (?, ?, ?, ?)");
      for (const file of files) put.run(runId, file.path, revision, JSON.stringify(file));
      database.exec("COMMIT");
    },
    named: async (hashes) => {
      const named = new Set(filesIn("SELECT data FROM file").flatMap(({ blobs = [] }) => blobs));
      return new Set(hashes.filter((hash) => named.has(hash)));
    },
  };
}
