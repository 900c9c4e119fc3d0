/**
 * The number of the newest event that a journal held, in a small file next to it. A database that lost
 * its `-wal`, or that was restored from a copy without one, is a valid older database. SQLite cannot
 * detect that; this number can.
 *
 * Owns: the file `state.db-newest`. Each write touches it, which wakes the followers of a run
 *   (subscription.ts).
 * Does not: say which events are lost; the second copies of the runs do (repair/repair.ts).
 * Invariants:
 * - journal/N1 The number is written after the commit and read before the database is opened, so it
 *   may lag behind a whole database and never leads it.
 */
import * as fs from "node:fs";
import { fileCodeOf, guarded } from "../journal-error.ts";

/** The suffix of the file, after the name of the database. */
export const NEWEST_SUFFIX = "-newest";
const FILE_MODE = 0o600;
const DIGITS = 16;

/** The newest event that a database held when this was last recorded; 0 when that is unknown. */
export function readNewest(database: string): number {
  const file = database + NEWEST_SUFFIX;
  return guarded(file, () => {
    try {
      const text = fs.readFileSync(file, "utf8");
      return /^\d+\n$/.test(text) ? Number(text) : 0;
    } catch (error) {
      // EACCES: the user may read the database, but not this file.
      if (["ENOENT", "EACCES"].includes(fileCodeOf(error) ?? "")) return 0;
      throw error;
    }
  });
}

/** Removes the number, because another database replaces the one that it belongs to. */
export function forgetNewest(database: string): void {
  fs.rmSync(database + NEWEST_SUFFIX, { force: true });
}

/** Records the number while a database is open. */
export class NewestEvent {
  readonly #file: string;
  #descriptor: number | undefined;

  constructor(database: string) {
    this.#file = database + NEWEST_SUFFIX;
  }

  /** Records the newest event of the database; it must be committed. */
  record(newest: number): void {
    guarded(this.#file, () => {
      const { O_WRONLY, O_CREAT, O_NOFOLLOW } = fs.constants;
      this.#descriptor ??= fs.openSync(this.#file, O_WRONLY | O_CREAT | O_NOFOLLOW, FILE_MODE);
      fs.writeSync(this.#descriptor, `${String(newest).padStart(DIGITS, "0")}\n`, 0);
    });
  }

  close(): void {
    if (this.#descriptor !== undefined) fs.closeSync(this.#descriptor);
    this.#descriptor = undefined;
  }
}
