/**
 * The tables, and the migrations from older versions.
 *
 * Owns: the schema, its version and its identity in the file's header.
 * Does not: read or write rows (sql.ts).
 * Invariants:
 * - journal/M1 A released migration never changes; a change of the tables is one more migration.
 * - journal/M2 All missing migrations and the new version are one transaction.
 * - migrations/J5 `pipeline_state` and `step_state` are caches for people with `sqlite3`; their
 *   times are ISO-8601 text. `cleaned_at` and the head (sqlite.ts, journal/J8) are not caches: no
 *   event holds
 * them.
 */
import { JournalError } from "../journal-error.ts";

/** "PERD": identifies the SQLite files of this program. */
export const APPLICATION_ID = 0x50455244;

const TABLES = `
CREATE TABLE plans (
  fingerprint TEXT NOT NULL PRIMARY KEY,
  text TEXT NOT NULL
) STRICT;

CREATE TABLE runs (
  run INTEGER PRIMARY KEY,
  run_id TEXT NOT NULL UNIQUE,
  fingerprint TEXT NOT NULL REFERENCES plans
) STRICT;

-- facts, of the first event of an append: the turns behind its events.
CREATE TABLE events (
  run INTEGER NOT NULL REFERENCES runs,
  seq INTEGER NOT NULL,
  type TEXT NOT NULL,
  version INTEGER NOT NULL,
  time INTEGER NOT NULL,
  data TEXT NOT NULL,
  facts TEXT,
  crc INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX events_by_run ON events (run, seq);
CREATE TRIGGER events_never_change BEFORE UPDATE ON events
  BEGIN SELECT RAISE(ABORT, 'events never change'); END;
CREATE TRIGGER events_never_go BEFORE DELETE ON events
  BEGIN SELECT RAISE(ABORT, 'events never go'); END;

CREATE TABLE leases (
  run INTEGER PRIMARY KEY REFERENCES runs,
  epoch INTEGER NOT NULL,
  owner TEXT
) STRICT;

-- attempt is the attempt of a gate that an answer is for; other requests have none.
CREATE TABLE requests (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  run INTEGER NOT NULL REFERENCES runs,
  type TEXT NOT NULL,
  attempt TEXT,
  data TEXT NOT NULL,
  UNIQUE (run, attempt)
) STRICT;
CREATE INDEX requests_by_run ON requests (run, id);

-- input_type says how input is written: a text as it is, anything else as JSON.
-- last_seq and last_crc repeat the last event, so that a lost tail is noticed. They are here and
-- not in runs because this row changes with each append anyway, and each page costs.
CREATE TABLE pipeline_state (
  pipeline_id TEXT NOT NULL PRIMARY KEY,
  pipeline_name TEXT NOT NULL,
  status TEXT NOT NULL,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  input TEXT,
  input_type TEXT NOT NULL,
  steps_total INTEGER NOT NULL,
  steps_completed INTEGER NOT NULL,
  cleaned_at TEXT,
  file TEXT NOT NULL,
  last_seq INTEGER NOT NULL,
  last_crc INTEGER NOT NULL
) STRICT;
CREATE INDEX pipeline_state_by_creation ON pipeline_state (created_at);

CREATE TABLE step_state (
  step_id TEXT NOT NULL,
  pipeline_id TEXT NOT NULL REFERENCES pipeline_state,
  state TEXT NOT NULL,
  retry_count INTEGER NOT NULL,
  started_at TEXT,
  completed_at TEXT,
  workspace_path TEXT,
  error_message TEXT,
  PRIMARY KEY (pipeline_id, step_id)
) STRICT;
`;

/** Finds the results that later runs may reuse (run-log.ts, `ResultIndex`). */
const RESULTS = `
CREATE INDEX events_by_result ON events (json_extract(data, '$.reusable.key'))
  WHERE type = 'step.completed' AND json_extract(data, '$.reusable.key') IS NOT NULL;
`;

/** The oldest version that this program reads, and the one that a new file starts with. */
export const FIRST_VERSION = 3;

/** The migration at index k changes version FIRST_VERSION - 1 + k to the next one. */
export const MIGRATIONS: readonly string[] = [TABLES, RESULTS];

/** The part of a database that migrations use. */
interface Migratable {
  readonly file: string;
  exec(sql: string): void;
  integer(sql: string): number;
  write<T>(name: string, body: () => T): T;
}

/** Migrates a database to the newest version. Throws "newer" or "older" when that is impossible. */
export function migrate(database: Migratable, migrations: readonly string[]): void {
  const newest = newestVersion(migrations);
  if (versionOf(database, migrations) === newest) return;
  database.write("migrate", () => {
    // Read again: another process may have migrated before this one had the lock.
    const version = versionOf(database, migrations);
    const done = version === 0 ? 0 : version - FIRST_VERSION + 1;
    for (const migration of migrations.slice(done)) database.exec(migration);
    database.exec(`PRAGMA application_id = ${APPLICATION_ID}`);
    database.exec(`PRAGMA user_version = ${newest}`);
  });
}

/** The version of the tables in a database; 0 for an empty one. Throws "newer" or "older". */
export function versionOf(database: Migratable, migrations: readonly string[]): number {
  const version = database.integer("PRAGMA user_version");
  const newest = newestVersion(migrations);
  if (version > newest) {
    throw new JournalError(
      "newer",
      `${database.file} has version ${version}, and this program knows version ` +
        `${newest}: a newer perdure wrote it. Upgrade perdure to use it.`,
    );
  }
  if (version > 0 && version < FIRST_VERSION) {
    throw new JournalError(
      "older",
      `${database.file} has version ${version}, and this program reads version ` +
        `${FIRST_VERSION} and later: an older perdure wrote it.`,
    );
  }
  return version;
}

/** The version after all these migrations. */
export function newestVersion(migrations: readonly string[]): number {
  return FIRST_VERSION - 1 + migrations.length;
}
