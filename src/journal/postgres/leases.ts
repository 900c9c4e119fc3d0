/**
 * The leases in PostgreSQL. They run out by the clock of the server, which is the only one that counts.
 *
 * Owns: the compare-and-swap on a lease, and its renewal.
 * Does not: judge owners (leases.ts), or decide when a worker gives up (app/fleet).
 */

import type { LeasesRenewed } from "../journal.ts";
import { JournalError } from "../journal-error.ts";
import type {
  Acquired,
  AcquireRequest,
  HeldLease,
  LeaseBlock,
  Leases,
  LeaseTime,
} from "../leases.ts";
import { integerIn, type Row, textIn } from "../sqlite/row.ts";
import { leaseIn, unknownRun } from "../sqlite/run-rows.ts";
import { type PostgresPool, repeated, type Sql, serverError } from "./connection.ts";
import { LEASE } from "./sql.ts";

/** A renewal that takes longer is given up: its worker has a deadline. */
const RENEW_MS = 3_000;

/** The port on a server; `pool` gives the connection that holds a block. */
export function postgresLeases(sql: Sql, pool: PostgresPool): Leases {
  return {
    of: async (runId) => leaseOf(await leaseRow(sql, runId), runId),
    held: () => heldIn(sql),
    acquire: (runId, request) => acquire(sql, runId, request),
    renew: async (runId, epoch) => {
      const [row] = await repeated(sql, {
        text: LEASE.renew,
        values: [runId, epoch],
        name: "renew",
      });
      if (row !== undefined) return timeIn(row);
      await leaseRow(sql, runId);
      const why = `lease ${epoch} is not the current one`;
      throw new JournalError("stale-writer", `Another process owns run ${runId} now: ${why}.`);
    },
    release: async (runId, epoch) => {
      const released = await repeated(sql, { text: LEASE.release, values: [runId, epoch] });
      if (released.length === 0) await leaseRow(sql, runId);
    },
    block: (dead) => block(pool, dead),
  };
}

/** Extends many leases with one statement, tried once. */
export async function renewAll(
  sql: Sql,
  epochs: ReadonlyMap<string, number>,
): Promise<LeasesRenewed> {
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

function acquire(sql: Sql, runId: string, { owner, judged }: AcquireRequest): Promise<Acquired> {
  const text = JSON.stringify(owner);
  const isByExpiry = judged?.hasExpired === true;
  return sql.settled(async (isAgain) => {
    const values = [runId, judged?.epoch ?? 0, text, isByExpiry, isAgain];
    const [row] = await sql.once({ text: LEASE.acquire, values });
    if (row !== undefined) return { ok: true, epoch: integerIn(row, "epoch"), time: timeIn(row) };
    await leaseRow(sql, runId);
    return { ok: false };
  });
}

/** A lock of a session, which ends with it: the next one to acquire a lease waits for it. */
async function block(
  pool: PostgresPool,
  dead: readonly HeldLease[],
): Promise<LeaseBlock | undefined> {
  const client = await pool.connect();
  try {
    await client.query(LEASE.block);
    const judged = new Map(dead.map(({ runId, epoch }) => [runId, epoch]));
    const others = (await heldIn(pool)).filter(({ runId, epoch }) => judged.get(runId) !== epoch);
    if (others.length === 0) return { lift: () => client.end() };
  } catch (error) {
    await client.end();
    throw serverError(error, pool.name);
  }
  await client.end();
  return undefined;
}

function timeIn(row: Row): LeaseTime {
  return { now: integerIn(row, "now"), heldMs: integerIn(row, "held_ms") };
}
