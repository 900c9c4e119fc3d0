/**
 * The journal in PostgreSQL: the truth about every run of a fleet.
 *
 * Owns: how its parts belong together, which versions of the tables it opens, and the schedules.
 * Does not: create tables that are there: least privilege is for everybody after the first.
 */
import type { FleetJournal, FleetTransaction, SqlResult, StoredSchedules } from "../journal.ts";
import { JournalError } from "../journal-error.ts";
import { integerIn, textIn } from "../sqlite/row.ts";
import {
  type PostgresClient,
  PostgresPool,
  repeated,
  type Sql,
  serverError,
} from "./connection.ts";
import { postgresBlobs, postgresFiles } from "./files.ts";
import { postgresInbox } from "./inbox.ts";
import { postgresLeases, renewAll } from "./leases.ts";
import { checkVersion, migrate, type PreparedDatabase } from "./migrations.ts";
import { Heads, type PostgresParts } from "./parts.ts";
import { postgresRunLog } from "./run-log.ts";
import { LEASE, SCHEDULE } from "./sql.ts";
import { WakeUps } from "./wake-ups.ts";

/**
 * "create" makes the tables, or brings them to this version, if they are not there or too old; only then
 * it needs the right to do so.
 */
type OpenMode = "create" | "read-write";

/** Makes the tables and roles, or brings them to this version; may be repeated. Throws JournalError. */
export async function setUpPostgres(address: string, leaseMs?: number): Promise<PreparedDatabase> {
  const pool = new PostgresPool(address);
  try {
    return await pool.withClient((client) => migrate(client, leaseMs));
  } finally {
    await pool.close();
  }
}

/** Opens the journal at an address. Throws JournalError, at once when the server is away. */
export async function openPostgresJournal(
  address: string,
  { mode = "read-write" }: { readonly mode?: OpenMode } = {},
): Promise<FleetJournal> {
  const pool = new PostgresPool(address);
  try {
    await pool.withClient((client) => prepare(client, mode));
  } catch (error) {
    await pool.close();
    throw error;
  }
  const wakeUps = new WakeUps(pool);
  const parts = { sql: pool, heads: new Heads(), wakeUps };
  return {
    ...portsOf(parts, pool),
    blobs: postgresBlobs(pool),
    transaction: (body) => transaction(parts, pool, body),
    renewAll: (epochs) => renewAll(pool, epochs),
    unattended: async (limit, withinMs) => {
      const rows = await repeated(pool, { text: LEASE.unattended, values: [limit, withinMs] });
      return rows.map((row) => ({
        runId: textIn(row, "pipeline_id"),
        inMs: integerIn(row, "in_ms"),
      }));
    },
    listen: (channel) => wakeUps.toChannel(channel),
    close: async () => {
      await wakeUps.close();
      await pool.close();
    },
  };
}

async function prepare(client: PostgresClient, mode: OpenMode): Promise<void> {
  try {
    await checkVersion(client);
  } catch (error) {
    const isMissing = error instanceof JournalError && error.code === "not-set-up";
    if (mode === "read-write" || !isMissing) throw error;
    await migrate(client).catch((failed: unknown) => {
      const mapped = serverError(failed, client.name);
      throw mapped instanceof JournalError && mapped.code === "forbidden" ? error : mapped;
    });
  }
}

function portsOf(parts: PostgresParts, pool: PostgresPool): FleetTransaction {
  const { sql } = parts;
  return {
    log: postgresRunLog(parts),
    leases: postgresLeases(sql, pool),
    inbox: postgresInbox(parts),
    files: postgresFiles(sql),
    schedules: postgresSchedules(sql),
    executeSql: (text, values = []) => executeSql(sql, text, values),
  };
}

/** What a transaction has read or written of heads counts only when it is committed. */
function transaction<T>(
  { wakeUps }: PostgresParts,
  pool: PostgresPool,
  body: (transaction: FleetTransaction) => Promise<T>,
): Promise<T> {
  return pool.transaction((sql) => body(portsOf({ sql, heads: new Heads(), wakeUps }, pool)));
}

/** A text without values may have several statements. */
async function executeSql(sql: Sql, text: string, values: readonly unknown[]): Promise<SqlResult> {
  const rows: unknown = await sql.once(values.length === 0 ? { text } : { text, values });
  return { rows: rows as SqlResult["rows"] };
}

/** The port on a server. */
function postgresSchedules(sql: Sql): StoredSchedules {
  return {
    list: async () => {
      const rows = await repeated(sql, { text: SCHEDULE.list });
      return rows.map((row) => ({
        name: textIn(row, "name"),
        cron: textIn(row, "cron"),
        since: integerIn(row, "since"),
        ...(row.last_run === null ? {} : { lastRun: textIn(row, "last_run") }),
      }));
    },
    runOf: async (name) => {
      const [row] = await repeated(sql, { text: SCHEDULE.run, values: [name] });
      return row === undefined ? undefined : textIn(row, "run");
    },
    put: async (name, cron, { text, blobs }) => {
      await repeated(sql, { text: SCHEDULE.put, values: [name, cron, text, blobs] });
    },
    ran: async (name, runId) => {
      await repeated(sql, { text: SCHEDULE.ran, values: [name, runId] });
    },
    remove: async (name) => {
      return sql.settled(async (isAgain) => {
        const removed = await sql.once({ text: SCHEDULE.remove, values: [name] });
        return removed.length > 0 || isAgain;
      });
    },
  };
}
