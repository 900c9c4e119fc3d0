/**
 * The tables, and how those of an older version become today's.
 *
 * Owns: the schema, its version and its identity in the file's header.
 * Does not: read or write rows (sql.ts).
 * Invariants:
 * - M1 A released migration never changes; a change of the tables is one more migration.
 * - M2 All missing migrations and the new version are one transaction.
 * - J5 `pipeline_state` and `step_state` are caches for people with `sqlite3`; their times are
 *   ISO-8601 text. Not a cache: `cleaned_at`, which no event says, and the head (sqlite.ts, J8).
 */
import { JournalError } from "./journal.ts";

/** "PERD": marks a SQLite file as ours. */
export const APPLICATION_ID = 0x50455244;

const VERSION_1 = `
CREATE TABLE plans (
  fingerprint TEXT NOT NULL PRIMARY KEY,
  text TEXT NOT NULL
) STRICT;

CREATE TABLE runs (
  run INTEGER PRIMARY KEY,
  run_id TEXT NOT NULL UNIQUE,
  fingerprint TEXT NOT NULL REFERENCES plans
) STRICT;

CREATE TABLE events (
  run INTEGER NOT NULL REFERENCES runs,
  seq INTEGER NOT NULL,
  type TEXT NOT NULL,
  version INTEGER NOT NULL,
  time INTEGER NOT NULL,
  data TEXT NOT NULL,
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

CREATE TABLE requests (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  run INTEGER NOT NULL REFERENCES runs,
  type TEXT NOT NULL,
  data TEXT NOT NULL
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

/** One row for each attempt of a gate that was answered; the first one counts (H1). */
const VERSION_2 = `
CREATE TABLE answers (
  run INTEGER NOT NULL REFERENCES runs,
  attempt TEXT NOT NULL,
  data TEXT NOT NULL,
  PRIMARY KEY (run, attempt)
) STRICT;
`;

/** The migration at index k leads from version k to version k + 1. */
export const MIGRATIONS: readonly string[] = [VERSION_1, VERSION_2];

/** What a migration needs of a database. */
export interface Migratable {
  readonly file: string;
  exec(sql: string): void;
  integer(sql: string): number;
  write<T>(name: string, body: () => T): T;
}

/** Brings a database to the version of the last migration. Throws "newer" when it is beyond. */
export function migrate(database: Migratable, migrations: readonly string[]): void {
  if (versionOf(database, migrations) === migrations.length) return;
  database.write("migrate", () => {
    // Read again: another process may have migrated before this one got the lock.
    const version = versionOf(database, migrations);
    for (const migration of migrations.slice(version)) database.exec(migration);
    database.exec(`PRAGMA application_id = ${APPLICATION_ID}`);
    database.exec(`PRAGMA user_version = ${migrations.length}`);
  });
}

/** The version of the tables in a database. Throws "newer" when no migration here leads to it. */
export function versionOf(database: Migratable, migrations: readonly string[]): number {
  const version = database.integer("PRAGMA user_version");
  if (version <= migrations.length) return version;
  throw new JournalError(
    "newer",
    `${database.file} has version ${version}, and this program knows version ` +
      `${migrations.length}: a newer perdure wrote it. Upgrade perdure to use it.`,
  );
}
