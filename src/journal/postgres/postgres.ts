/**
 * The journal in PostgreSQL: the truth about every run of a fleet. Leases run out by the clock of the
 * server, which is the only one that counts.
 *
 * Owns: how its parts belong together, which versions of the tables it opens, the leases (their
 *   compare-and-swap and renewal) and the schedules.
 * Does not: judge owners (leases.ts), decide when a worker gives up (app/fleet), or create tables that are
 *   there: least privilege is for everybody after the first.
 */
import type {
  FleetJournal,
  FleetTransaction,
  LeasesRenewed,
  SqlDatabase,
  StoredSchedules,
} from "../journal.ts";
import { JournalError, staleLease, unknownRun } from "../journal-error.ts";
import { type HeldLease, type Leases, type LeaseTime, unjudged } from "../leases.ts";
import { integerIn, leaseIn, type Row, textIn } from "../rows.ts";
import {
  type PostgresClient,
  PostgresPool,
  repeated,
  type Sql,
  serverError,
} from "./connection.ts";
import { postgresBlobs, postgresFiles } from "./files.ts";
import { postgresInbox } from "./inbox.ts";
import { checkVersion, migrate, type PreparedDatabase } from "./migrations.ts";
import { Heads, postgresRunLog } from "./run-log.ts";
import { LEASE, SCHEDULE } from "./sql.ts";
import { WakeUps } from "./wake-ups.ts";

/** A renewal that takes longer is given up: its worker has a deadline. */
const RENEW_MS = 3_000;

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
  return {
    ...portsOf(pool, pool, wakeUps),
    blobs: postgresBlobs(pool),
    transaction: (body) => pool.transaction((sql) => body(portsOf(sql, pool, wakeUps))),
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

/** The ports. What a transaction learns of the heads of runs counts only when it is committed. */
function portsOf(sql: Sql, pool: PostgresPool, wakeUps: WakeUps): FleetTransaction {
  return {
    log: postgresRunLog({ sql, heads: new Heads(), wakeUps }),
    leases: postgresLeases(sql, pool),
    inbox: postgresInbox(sql, wakeUps),
    files: postgresFiles(sql),
    schedules: postgresSchedules(sql),
    // A text without values may have several statements.
    executeSql: async (text, values = []) => {
      const rows: unknown = await sql.once(values.length === 0 ? { text } : { text, values });
      return { rows: rows as Awaited<ReturnType<SqlDatabase["executeSql"]>>["rows"] };
    },
  };
}

/** The port on a server; `pool` gives the connection that holds a block. */
function postgresLeases(sql: Sql, pool: PostgresPool): Leases {
  return {
    of: async (runId) => leaseOf(await leaseRow(sql, runId), runId),
    held: () => heldIn(sql),
    acquire: async (runId, { owner, judged }) => {
      const { epoch = 0, hasExpired = false } = judged ?? {};
      return sql.settled(async (isAgain) => {
        const values = [runId, epoch, JSON.stringify(owner), hasExpired, isAgain];
        const [row] = await sql.once({ text: LEASE.acquire, values });
        if (row !== undefined) {
          return { ok: true, epoch: integerIn(row, "epoch"), time: timeIn(row) };
        }
        await leaseRow(sql, runId);
        return { ok: false };
      });
    },
    renew: async (runId, epoch) => {
      const values = [runId, epoch];
      const [row] = await repeated(sql, { text: LEASE.renew, values, name: "renew" });
      if (row !== undefined) return timeIn(row);
      await leaseRow(sql, runId);
      throw staleLease(runId, epoch);
    },
    release: async (runId, epoch) => {
      const released = await repeated(sql, { text: LEASE.release, values: [runId, epoch] });
      if (released.length === 0) await leaseRow(sql, runId);
    },
    // A lock of a session, which ends with it: the next one to acquire a lease waits for it.
    block: async (dead) => {
      const client = await pool.connect();
      try {
        await client.query(LEASE.block);
        if (unjudged(await heldIn(pool), dead).length === 0) return { lift: () => client.end() };
      } catch (error) {
        await client.end();
        throw serverError(error, pool.name);
      }
      await client.end();
      return undefined;
    },
  };
}

/** Extends many leases with one statement, which is sent once. */
async function renewAll(sql: Sql, epochs: ReadonlyMap<string, number>): Promise<LeasesRenewed> {
  const values = [[...epochs.keys()], [...epochs.values()]];
  const [row = {}] = await sql.once({ text: LEASE.renewAll, values, timeoutMs: RENEW_MS });
  const renewed = new Set(row.run_ids as unknown as readonly string[]);
  return { ...timeIn(row), lost: [...epochs.keys()].filter((runId) => !renewed.has(runId)) };
}

async function leaseRow(sql: Sql, runId: string): Promise<Row> {
  const [row] = await repeated(sql, { text: LEASE.get, values: [runId] });
  return row ?? unknownRun(runId);
}

/** Before its first owner, a run has the epoch 0. */
function leaseOf(row: Row, runId: string): ReturnType<typeof leaseIn> {
  return row.epoch === 0 ? undefined : leaseIn(row, runId);
}

async function heldIn(sql: Sql): Promise<readonly HeldLease[]> {
  return (await repeated(sql, { text: LEASE.held })).flatMap((row) => {
    const runId = textIn(row, "pipeline_id");
    const lease = leaseOf(row, runId);
    return lease?.owner === undefined ? [] : [{ runId, ...lease, owner: lease.owner }];
  });
}

function timeIn(row: Row): LeaseTime {
  return { now: integerIn(row, "now"), heldMs: integerIn(row, "held_ms") };
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
