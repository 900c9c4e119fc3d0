/** Opens the journal of a project. It is a SQLite file today; callers see only the ports. */
import type { Journal } from "./journal.ts";
import { openSqliteJournal } from "./sqlite/sqlite.ts";

/** Opens the journal in a file. Throws JournalError. */
export function openJournal(
  file: string,
  mode: "create" | "read-only" | "read-write",
): Promise<Journal> {
  return openSqliteJournal(file, { mode });
}
