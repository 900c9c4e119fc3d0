/**
 * Sets up the store of a fleet.
 *
 * Owns: what an administrator does once, so that nobody else needs the right to change tables or roles.
 *   A user who has that right may also just start: the first one makes the tables.
 * Does not: know the tables (journal/postgres/migrations.ts).
 */
import { isStoreAddress, openStore } from "../../journal/open.ts";
import { advice, Refusal } from "../refusal.ts";

/** Creates the tables and roles of a store, or brings them to this version. May be repeated. */
export async function initStore(address: string): Promise<void> {
  refuseOtherAddress(address);
  await (await openStore(address, "set-up")).close();
}

function refuseOtherAddress(address: string): void {
  if (isStoreAddress(address)) return;
  const next = advice("give an address such as postgres://user@host/database");
  throw new Refusal("bad-option", "that is not the address of a store", next);
}
