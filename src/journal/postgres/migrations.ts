/**
 * The tables in PostgreSQL, the migrations from older versions, and the rights of the three roles.
 *
 * Owns: the schema `perdure`, its version, and who may do what with it.
 * Does not: read or write rows (sql.ts).
 * Invariants:
 * - postgres/M1 A released migration never changes; a change of the tables is one more migration.
 * - postgres/M2 All missing migrations, the rights and the new version are one transaction, under one
 *   lock of the database.
 * - postgres/M3 A migration says which older programs may still work with its tables; they are not
 *   disturbed while it runs. A program that may not is refused when it opens the journal.
 */
import { JournalError } from "../journal-error.ts";
import { LEASE_MS } from "../leases.ts";
import { integerIn, textIn } from "../rows.ts";
import type { PostgresClient } from "./connection.ts";

/** One step of the schema. */
interface Migration {
  readonly sql: string;
  /** The oldest version of the schema whose programs work with the tables after this step. */
  readonly worksFrom: number;
}

/**
 * The row of a run has everything that an append compares and changes: the lease, the head of its
 * events and the documented columns. So an append locks and writes one row, besides the new ones.
 * Its indexes are on columns that an append does not change, and its pages have room for the next
 * version of a row, so that no index changes either.
 *
 * `events` has no foreign key: an event is inserted by the statement that has just locked its run.
 * `xact` is the transaction that wrote it, for `changedSince`.
 */
const TABLES = `
CREATE TABLE perdure.plans (
  fingerprint text COLLATE "C" PRIMARY KEY,
  text text NOT NULL
);

CREATE TABLE perdure.pipeline_state (
  run bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
  pipeline_id text COLLATE "C" PRIMARY KEY,
  pipeline_name text NOT NULL,
  status text NOT NULL,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  input text,
  input_type text NOT NULL,
  steps_total integer NOT NULL,
  steps_completed integer NOT NULL,
  cleaned_at timestamptz,
  file text NOT NULL,
  forked_from text,
  fingerprint text NOT NULL,
  last_seq integer NOT NULL,
  last_crc bigint NOT NULL,
  epoch integer NOT NULL DEFAULT 0,
  owner text,
  held_until timestamptz,
  requests_seen bigint NOT NULL DEFAULT 0,
  files_revision integer NOT NULL DEFAULT 0
) WITH (fillfactor = 70);
CREATE INDEX pipeline_state_by_creation ON perdure.pipeline_state (created_at, pipeline_id);
CREATE INDEX pipeline_state_held ON perdure.pipeline_state (run) WHERE owner IS NOT NULL;

CREATE TABLE perdure.events (
  run bigint NOT NULL,
  seq integer NOT NULL,
  type text NOT NULL,
  version integer NOT NULL,
  time bigint NOT NULL,
  data text NOT NULL,
  facts text,
  crc bigint NOT NULL,
  xact bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint,
  PRIMARY KEY (run, seq)
);
CREATE INDEX events_by_xact ON perdure.events USING brin (xact) WITH (autosummarize = on);
CREATE FUNCTION perdure.refuse_change() RETURNS trigger LANGUAGE plpgsql
  AS $$ BEGIN RAISE EXCEPTION 'events never change'; END $$;
CREATE TRIGGER events_never_change BEFORE UPDATE OR DELETE ON perdure.events
  FOR EACH STATEMENT EXECUTE FUNCTION perdure.refuse_change();

CREATE TABLE perdure.step_state (
  place bigint GENERATED ALWAYS AS IDENTITY,
  pipeline_id text COLLATE "C" NOT NULL,
  step_id text COLLATE "C" NOT NULL,
  state text NOT NULL,
  retry_count integer NOT NULL,
  started_at timestamptz,
  completed_at timestamptz,
  workspace_path text,
  error_message text,
  PRIMARY KEY (pipeline_id, step_id)
) WITH (fillfactor = 70);

CREATE TABLE perdure.requests (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  run bigint NOT NULL REFERENCES perdure.pipeline_state (run),
  type text NOT NULL,
  attempt text COLLATE "C",
  key text COLLATE "C",
  data text NOT NULL,
  UNIQUE (run, attempt),
  UNIQUE (run, key)
);
CREATE INDEX requests_by_run ON perdure.requests (run, id);

CREATE TABLE perdure.files (
  run bigint NOT NULL REFERENCES perdure.pipeline_state (run),
  path text COLLATE "C" NOT NULL,
  mode integer NOT NULL,
  bytes bigint NOT NULL,
  blobs text[],
  revision integer NOT NULL,
  PRIMARY KEY (run, path)
);
CREATE INDEX files_by_revision ON perdure.files (run, revision);

CREATE TABLE perdure.blobs (
  hash text COLLATE "C" PRIMARY KEY,
  bytes bytea STORAGE EXTERNAL NOT NULL,
  seen_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
`;

/**
 * The length of a lease, and pipelines that start at certain times. An older program has a length of its
 * own; each owner counts with the one that it has written, so they may differ.
 */
const LEASE_AND_SCHEDULES = `
ALTER TABLE perdure.store ADD COLUMN lease_ms integer NOT NULL DEFAULT ${LEASE_MS.usual}
  CHECK (lease_ms BETWEEN ${LEASE_MS.min} AND ${LEASE_MS.max});

CREATE TABLE perdure.schedules (
  name text COLLATE "C" PRIMARY KEY,
  cron text NOT NULL,
  since timestamptz NOT NULL,
  last_run text,
  run text NOT NULL,
  blobs text[] NOT NULL
);
`;

/** The migration at index k makes version k + 1. */
const MIGRATIONS: readonly Migration[] = [
  { sql: TABLES, worksFrom: 1 },
  { sql: LEASE_AND_SCHEDULES, worksFrom: 1 },
];

/** The version that this program knows. */
const VERSION = MIGRATIONS.length;

const SCHEMA = `
CREATE SCHEMA IF NOT EXISTS perdure;
CREATE TABLE IF NOT EXISTS perdure.store (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  version integer NOT NULL,
  works_from integer NOT NULL
);
`;

/** The groups of rights; people and workers log in with roles of their own that belong to one. */
const ROLES = ["perdure_reader", "perdure_submitter", "perdure_worker"] as const;

/**
 * Roles belong to the whole server, so another database may have created them. A user who may not
 * create them has to ask an administrator; the owner of the schema needs none of them.
 */
const CREATE_ROLES = ROLES.map(
  (role) => `
DO $$ BEGIN
  CREATE ROLE ${role} NOLOGIN;
EXCEPTION WHEN duplicate_object OR unique_violation OR insufficient_privilege THEN NULL;
END $$;`,
).join("");

/** What each role may do; each may also do what the roles above it in this list may. */
const RIGHTS = `
REVOKE ALL ON SCHEMA perdure FROM PUBLIC;
GRANT USAGE ON SCHEMA perdure TO perdure_reader, perdure_submitter, perdure_worker;
GRANT SELECT ON ALL TABLES IN SCHEMA perdure
  TO perdure_reader, perdure_submitter, perdure_worker;
GRANT INSERT ON perdure.plans, perdure.pipeline_state, perdure.events, perdure.step_state,
  perdure.requests, perdure.files, perdure.blobs TO perdure_submitter, perdure_worker;
GRANT UPDATE (files_revision) ON perdure.pipeline_state TO perdure_submitter;
GRANT UPDATE (mode, bytes, blobs, revision) ON perdure.files TO perdure_submitter;
GRANT UPDATE (seen_at) ON perdure.blobs TO perdure_submitter, perdure_worker;
GRANT UPDATE ON perdure.pipeline_state, perdure.step_state, perdure.files TO perdure_worker;
GRANT DELETE ON perdure.step_state, perdure.blobs TO perdure_worker;
GRANT INSERT, UPDATE, DELETE ON perdure.schedules TO perdure_submitter;
GRANT UPDATE (last_run) ON perdure.schedules TO perdure_worker;
`;

/** Serialises migrations of one database. */
const MIGRATION_LOCK = "SELECT pg_advisory_xact_lock(1886544242, 1)";

/** What setting up the tables did. */
export interface PreparedDatabase {
  /** The version of the tables before; 0 when there were none. */
  readonly before: number;
  readonly version: number;
  /** The roles that this server lacks, because the user may not create them. */
  readonly missingRoles: readonly string[];
  readonly leaseMs: number;
}

/**
 * Creates the schema or brings it to this program's version, and sets the length of a lease, if one is
 * given. Throws JournalError.
 */
export async function migrate(client: PostgresClient, leaseMs?: number): Promise<PreparedDatabase> {
  await client.query("BEGIN");
  try {
    await client.query(MIGRATION_LOCK);
    await client.query(SCHEMA);
    const { version } = await storedVersion(client);
    refuseNewer(client.name, await storedVersion(client));
    for (const { sql, worksFrom } of MIGRATIONS.slice(version)) {
      await client.query(sql);
      await client.query(
        `INSERT INTO perdure.store (version, works_from) VALUES (${VERSION}, ${worksFrom})
         ON CONFLICT (only_row) DO UPDATE
         SET version = excluded.version, works_from = excluded.works_from`,
      );
    }
    if (leaseMs !== undefined) {
      await client.query("UPDATE perdure.store SET lease_ms = $1", [leaseMs]);
    }
    await client.query(CREATE_ROLES);
    const missing = await missingRoles(client);
    if (missing.length === 0) await client.query(RIGHTS);
    const [row = {}] = await client.query("SELECT version, lease_ms FROM perdure.store");
    await client.query("COMMIT");
    return {
      ...{ before: version, version: integerIn(row, "version"), missingRoles: missing },
      leaseMs: integerIn(row, "lease_ms"),
    };
  } catch (error) {
    await client.query("ROLLBACK").catch(() => undefined);
    throw error;
  }
}

/** The roles that this server lacks. */
async function missingRoles(client: PostgresClient): Promise<readonly string[]> {
  const rows = await client.query("SELECT rolname FROM pg_roles WHERE rolname LIKE 'perdure\\_%'");
  const known = new Set(rows.map((row) => textIn(row, "rolname")));
  return ROLES.filter((role) => !known.has(role));
}

/** Throws unless this program works with the tables of the database. */
export async function checkVersion(client: PostgresClient): Promise<void> {
  const [row] = await client.query("SELECT to_regclass('perdure.store')::text AS store");
  const stored = typeof row?.store === "string" ? await storedVersion(client) : NO_STORE;
  refuseNewer(client.name, stored);
  if (stored.version >= VERSION) return;
  const message =
    stored.version === 0
      ? `${client.name} is not a store of Perdure yet`
      : `${client.name} has version ${stored.version}, and this program needs ${VERSION}`;
  throw new JournalError("not-set-up", `${message}.`);
}

interface StoredVersion {
  readonly version: number;
  readonly worksFrom: number;
}

const NO_STORE: StoredVersion = { version: 0, worksFrom: 0 };

async function storedVersion(client: PostgresClient): Promise<StoredVersion> {
  const [row] = await client.query("SELECT version, works_from FROM perdure.store");
  if (row === undefined) return NO_STORE;
  return { version: Number(row.version), worksFrom: Number(row.works_from) };
}

function refuseNewer(name: string, { version, worksFrom }: StoredVersion): void {
  if (worksFrom <= VERSION) return;
  throw new JournalError(
    "newer",
    `${name} has version ${version}, and this program knows version ${VERSION}: a newer perdure ` +
      "wrote it. Upgrade perdure to use it.",
  );
}
