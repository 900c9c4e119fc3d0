/**
 * Opens the journal of a project, which is a SQLite file, or of a fleet, which is a server; callers see
 * only the ports. What speaks to a server is loaded only for the address of one.
 */
import type { FleetJournal } from "./fleet-journal.ts";
import type { Journal } from "./journal.ts";
import { openSqliteJournal } from "./sqlite/sqlite.ts";

/** Opens the journal in a file. Throws JournalError. */
export function openJournal(
  file: string,
  mode: "create" | "read-only" | "read-write",
): Promise<Journal> {
  return openSqliteJournal(file, { mode });
}

/** True for a text that is the address of a store. */
export function isStoreAddress(text: string): boolean {
  return /^postgres(ql)?:\/\//.test(text);
}

/** The server and the database of an address, for messages: never its user or password. */
export async function storeName(address: string): Promise<string> {
  const { addressName } = await import("./postgres/address.ts");
  return addressName(address);
}

/**
 * Opens the journal of a fleet. "create" makes its tables if they are not there, "set-up" also gives the
 * roles their rights.
 */
export async function openStore(
  address: string,
  mode: "create" | "read-write" | "set-up",
): Promise<FleetJournal> {
  const { openPostgresJournal } = await import("./postgres/postgres.ts");
  return openPostgresJournal(address, { mode });
}
