/**
 * The tables of the queues: those of pg-boss, and those that this room keeps beside them; and the setup
 * of a whole store.
 *
 * An administrator sets a store up once, so that nobody else needs the right to change tables or roles.
 * A user who has that right may also just start: the first one makes the tables.
 *
 * Owns: setting up the queues, and which role may do what with them.
 * Does not: queue anything (dispatch.ts), or know the tables of the journal
 *   (journal/postgres/migrations.ts).
 */
import { type ConstructorOptions, PgBoss } from "pg-boss";
import type { FleetJournal, SqlDatabase } from "../../journal/journal.ts";
import { JournalError } from "../../journal/journal-error.ts";
import { LEASE_MS } from "../../journal/leases.ts";
import { isStoreAddress, openStore, setUpStore, storeName } from "../../journal/open.ts";
import { formatDuration } from "../../util/duration.ts";
import type { PreparedStore } from "../../view/fleet-overview.ts";
import { advice, Refusal } from "../refusal.ts";

/** The schema of the queues, and of what this room keeps beside them. */
export const QUEUE_SCHEMA = "perdure_queue";

/** The queue of runs that require no label; the names of the others begin with it. */
export const QUEUE = "runs";
/** The runs that no worker could drive. */
export const DEAD_LETTERS = "dead-runs";

/** How long a job is kept that no worker took, and one that has ended. */
const RETENTION_SECONDS = 365 * 24 * 3_600;
const ENDED_SECONDS = 24 * 3_600;

export const QUEUE_OPTIONS = {
  // One job of a run waits at a time; its key is the run.
  policy: "short",
  retryLimit: 0,
  retentionSeconds: RETENTION_SECONDS,
  deleteAfterSeconds: ENDED_SECONDS,
} as const;

/** Serialises set-ups of one database. */
const LOCK = "select pg_advisory_xact_lock(1886544242, 3)";

const TABLES = `
create table if not exists ${QUEUE_SCHEMA}.wanted_runs (
  run_id text primary key,
  queue text not null,
  priority integer not null,
  failures integer not null default 0,
  deaths integer not null default 0,
  resume_at integer,
  reason text
);
alter table ${QUEUE_SCHEMA}.wanted_runs add column if not exists deaths integer not null default 0;
alter table ${QUEUE_SCHEMA}.wanted_runs add column if not exists resume_at integer;
alter table ${QUEUE_SCHEMA}.wanted_runs add column if not exists stop jsonb;
create table if not exists ${QUEUE_SCHEMA}.workers (
  worker text primary key,
  host text not null,
  pid integer not null,
  version text not null,
  labels text[] not null,
  concurrency integer not null,
  runs text[] not null,
  state text not null,
  started_at timestamptz not null,
  seen_at timestamptz not null
);
create table if not exists ${QUEUE_SCHEMA}.group_runs (
  run_id text primary key,
  group_name text not null,
  group_max integer not null,
  priority integer not null,
  holds_slot boolean not null default false,
  parked_at timestamptz,
  resume_at integer
);
create index if not exists group_runs_by_name on ${QUEUE_SCHEMA}.group_runs (group_name)
  where holds_slot or parked_at is not null;
`;

/** A submitter changes jobs only to queue a run earlier, and to send a dead letter again. */
const RIGHTS = `
do $$ begin
  if exists (select from pg_roles where rolname = 'perdure_worker') then
    grant usage on schema ${QUEUE_SCHEMA} to perdure_worker, perdure_submitter, perdure_reader;
    grant select on all tables in schema ${QUEUE_SCHEMA}
      to perdure_worker, perdure_submitter, perdure_reader;
    grant insert, update, delete on all tables in schema ${QUEUE_SCHEMA} to perdure_worker;
    grant insert on ${QUEUE_SCHEMA}.queue to perdure_submitter;
    grant insert, update on ${QUEUE_SCHEMA}.job, ${QUEUE_SCHEMA}.job_common,
      ${QUEUE_SCHEMA}.wanted_runs, ${QUEUE_SCHEMA}.group_runs to perdure_submitter;
  end if;
end $$;
`;

/** The newest columns of wanted_runs, and the newest table: where they are, everything is. */
const NEWEST = { columns: ["deaths", "resume_at", "stop"], groups: `${QUEUE_SCHEMA}.group_runs` };

/** True when the queues are set up, by this version or a newer one. */
export async function hasQueues(sql: SqlDatabase): Promise<boolean> {
  const { columns, groups } = NEWEST;
  const { rows } = await sql.executeSql(
    `select to_regclass($2) is not null and count(*) = cardinality($1::text[]) as there
     from pg_attribute where attrelid = to_regclass('${QUEUE_SCHEMA}.wanted_runs')
       and attname = any ($1) and not attisdropped`,
    [columns, groups],
  );
  return rows[0]?.there === true;
}

/**
 * Creates the tables and roles of a store, or brings them to this version, and sets how long leases
 * last. May be repeated, even while workers run.
 */
export async function initStore(address: string, leaseMs?: number): Promise<PreparedStore> {
  if (!isStoreAddress(address)) {
    const next = advice("give an address such as postgres://user@host/database");
    throw new Refusal("bad-option", "that is not the address of a store", next);
  }
  if (leaseMs !== undefined && (leaseMs < LEASE_MS.min || leaseMs > LEASE_MS.max)) {
    const [min, max] = [formatDuration(LEASE_MS.min), formatDuration(LEASE_MS.max)];
    throw new Refusal("bad-option", `--lease takes a duration from ${min} to ${max}`);
  }
  const tables = await setUpStore(address, leaseMs);
  const journal = await openStore(address, "read-write");
  try {
    await setUpQueues(journal);
  } finally {
    await journal.close();
  }
  return { ...tables, store: await storeName(address) };
}

/** Makes the tables and the first queues, and gives the roles their rights; may be repeated. */
export async function setUpQueues(journal: FleetJournal): Promise<void> {
  try {
    await journal.transaction(async (transaction) => {
      await transaction.executeSql(LOCK);
      // pg-boss uses transactions of its own; this one only serialises set-ups.
      const boss = bossOf(journal, { supervise: false, migrate: true });
      await boss.start();
      try {
        for (const name of [QUEUE, DEAD_LETTERS]) await boss.createQueue(name, QUEUE_OPTIONS);
      } finally {
        await stopBoss(boss);
      }
      // Outside of the transaction that holds the lock: inside, the server may still remember that the
      // schema did not exist.
      await journal.executeSql(TABLES);
      await journal.executeSql(RIGHTS);
    });
  } catch (error) {
    throw isForbidden(error) ? notSetUp(error) : error;
  }
}

/**
 * Starts pg-boss for a worker, which keeps the queues in order, or for a client, which writes nothing by
 * itself. Tables of a newer version are used as they are; older ones are migrated if the user may do so.
 */
export async function startBoss(journal: FleetJournal, role: "worker" | "client"): Promise<PgBoss> {
  const supervise = role === "worker";
  try {
    if (!supervise) {
      const boss = bossOf(journal, { supervise, migrate: false });
      const isSame = await boss.start().then(
        () => true,
        (error: unknown) => {
          if (error instanceof JournalError) throw error;
          return false;
        },
      );
      if (isSame) return boss;
      await stopBoss(boss);
    }
    const boss = bossOf(journal, { supervise, migrate: true });
    await boss.start();
    return boss;
  } catch (error) {
    throw isForbidden(error) ? notSetUp(error) : error;
  }
}

/** Ends the timers of pg-boss; the connections belong to the journal. */
export async function stopBoss(boss: PgBoss): Promise<void> {
  await boss.stop({ graceful: false, close: false });
}

function bossOf(
  journal: FleetJournal,
  how: { readonly supervise: boolean; readonly migrate: boolean },
): PgBoss {
  const boss = new PgBoss({
    db: bossDatabase(journal),
    schema: QUEUE_SCHEMA,
    // Only the owner of an index may rebuild it, and a worker is not the owner.
    reindex: false,
    schedule: false,
    ...how,
  });
  // The statements of its timers fail while the server is away; it repeats them.
  boss.on("error", () => undefined);
  return boss;
}

/** A database as pg-boss sees it. */
export function bossDatabase(sql: SqlDatabase): NonNullable<ConstructorOptions["db"]> {
  return {
    executeSql: async (text, values) => {
      const { rows } = await sql.executeSql(text, values);
      return { rows: [...rows] };
    },
  };
}

/** True for a refusal by the server, even one that pg-boss has wrapped in another error. */
function isForbidden(error: unknown): boolean {
  if (error instanceof JournalError && error.code === "forbidden") return true;
  return error instanceof Error && error.cause !== undefined && isForbidden(error.cause);
}

function notSetUp(cause: unknown): JournalError {
  const message = "The queues of the store are not set up, or are those of an older version.";
  return new JournalError("not-set-up", message, { cause });
}
