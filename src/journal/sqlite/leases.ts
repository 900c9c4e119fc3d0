/**
 * The leases in a SQLite file. They do not expire: an owner is replaced only when it is proven dead.
 *
 * Owns: the compare-and-swap on a lease.
 * Does not: judge owners (leases.ts).
 */

import { JournalError } from "../journal-error.ts";
import type { Acquired, AcquireRequest, HeldLease, Lease, LeaseBlock, Leases } from "../leases.ts";
import type { Database } from "./database.ts";
import { textIn } from "./row.ts";
import { keyOf, leaseIn } from "./run-rows.ts";
import { LEASE } from "./sql.ts";

/** The port on an open database. */
export function sqliteLeases(database: Database): Leases {
  return {
    of: async (runId) => leaseOf(database, runId),
    held: async () => heldIn(database),
    acquire: async (runId, request) => acquire(database, runId, request),
    renew: async (runId, epoch) => {
      const lease = leaseOf(database, runId);
      if (lease?.owner !== undefined && lease.epoch === epoch) return undefined;
      const why = `lease ${epoch} is not the current one`;
      throw new JournalError("stale-writer", `Another process owns run ${runId} now: ${why}.`);
    },
    release: async (runId, epoch) => {
      database.verify();
      database.write("release", () => {
        database.run(LEASE.release, keyOf(database, runId), epoch);
      });
    },
    block: async (dead) => block(database, dead),
  };
}

function leaseOf(database: Database, runId: string): Lease | undefined {
  const row = database.get(LEASE.get, keyOf(database, runId));
  return row && leaseIn(row, runId);
}

function heldIn(database: Database): readonly HeldLease[] {
  return database.all(LEASE.held).flatMap((row) => {
    const runId = textIn(row, "run_id");
    const lease = leaseIn(row, runId);
    return lease?.owner === undefined ? [] : [{ runId, epoch: lease.epoch, owner: lease.owner }];
  });
}

/** The epoch identifies the judged lease: each owner has an epoch of its own. */
function acquire(database: Database, runId: string, { owner, judged }: AcquireRequest): Acquired {
  const epoch = (judged?.epoch ?? 0) + 1;
  const text = JSON.stringify(owner);
  return database.write("acquire", () => {
    const key = keyOf(database, runId);
    const { changes } =
      judged === undefined
        ? database.run(LEASE.first, key, epoch, text)
        : database.run(LEASE.replace, epoch, text, key, judged.epoch);
    return changes === 1 ? { ok: true, epoch } : { ok: false };
  });
}

function block(database: Database, dead: readonly HeldLease[]): LeaseBlock | undefined {
  const lock = database.lockWrites();
  try {
    const judged = new Map(dead.map(({ runId, epoch }) => [runId, epoch]));
    const others = heldIn(database).filter(({ runId, epoch }) => judged.get(runId) !== epoch);
    if (others.length === 0) return { lift: async () => lock.release() };
  } catch (error) {
    lock.release();
    throw error;
  }
  lock.release();
  return undefined;
}
