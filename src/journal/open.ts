/**
 * Opens the journal of a project, which is a SQLite file, or of a fleet, which is a server; callers see
 * only the ports. What speaks to a server is loaded only for the address of one.
 */
import type { FleetJournal, Journal } from "./journal.ts";
import type { PreparedDatabase } from "./postgres/migrations.ts";
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

/** Opens the journal of a fleet. "create" makes its tables if they are not there. */
export async function openStore(
  address: string,
  mode: "create" | "read-write",
): Promise<FleetJournal> {
  const { openPostgresJournal } = await import("./postgres/postgres.ts");
  return openPostgresJournal(address, { mode });
}

/** The server and the database of a store, for messages: never its user or password. */
export async function storeName(address: string): Promise<string> {
  return (await import("./postgres/address.ts")).addressName(address);
}

/** Makes the tables and roles of a store, or brings them to this version. Throws JournalError. */
export async function setUpStore(address: string, leaseMs?: number): Promise<PreparedDatabase> {
  const { setUpPostgres } = await import("./postgres/postgres.ts");
  return setUpPostgres(address, leaseMs);
}
