/**
 * Sets up the store of a fleet.
 *
 * Owns: what an administrator does once, so that nobody else needs the right to change tables or roles.
 *   A user who has that right may also just start: the first one makes the tables.
 * Does not: know the tables (journal/postgres/migrations.ts, queue-tables.ts).
 */
import { LEASE_MS } from "../../journal/leases.ts";
import { isStoreAddress, openStore, setUpStore, storeName } from "../../journal/open.ts";
import { formatDuration } from "../../util/duration.ts";
import type { PreparedStore } from "../../view/fleet-overview.ts";
import { advice, Refusal } from "../refusal.ts";
import { setUpQueues } from "./queue-tables.ts";

/**
 * Creates the tables and roles of a store, or brings them to this version, and sets how long leases
 * last. May be repeated, even while workers run.
 */
export async function initStore(address: string, leaseMs?: number): Promise<PreparedStore> {
  refuseOtherAddress(address);
  refuseOtherLength(leaseMs);
  const tables = await setUpStore(address, leaseMs);
  const journal = await openStore(address, "read-write");
  try {
    await setUpQueues(journal);
  } finally {
    await journal.close();
  }
  return { ...tables, store: await storeName(address) };
}

function refuseOtherAddress(address: string): void {
  if (isStoreAddress(address)) return;
  const next = advice("give an address such as postgres://user@host/database");
  throw new Refusal("bad-option", "that is not the address of a store", next);
}

function refuseOtherLength(leaseMs: number | undefined): void {
  if (leaseMs === undefined || (leaseMs >= LEASE_MS.min && leaseMs <= LEASE_MS.max)) return;
  const [min, max] = [formatDuration(LEASE_MS.min), formatDuration(LEASE_MS.max)];
  throw new Refusal("bad-option", `--lease takes a duration from ${min} to ${max}`);
}
