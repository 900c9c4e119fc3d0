/**
 * The files of a database as this process last saw them, and `state.db-newest`, a small file with the
 * number of the newest event. A database that lost its `-wal`, or that was restored from a copy without
 * one, is a valid older database. SQLite cannot detect that; the number can.
 *
 * Owns: noticing that another program removed, replaced, truncated or changed a file (journal/B2), and
 *   the file with the number. Each write touches that file, which wakes the followers of a run
 *   (subscription.ts).
 * Does not: read the database (database.ts), or say which events are lost; the second copies of the runs
 *   do (repair/repair.ts).
 * Invariants:
 * - journal/B4 While no name in the directory changes, the times of the -wal are not looked at. Linux
 *   gives a file that was looked at a new time with its next write, and the next commit then waits for
 *   that time to be stored, too: it takes nearly twice as long.
 * - journal/N1 The number is written after the commit and read before the database is opened, so it
 *   may lag behind a whole database and never leads it.
 */
import * as fs from "node:fs";
import { dirname } from "node:path";
import { fileCodeOf, guarded, JournalError } from "../journal-error.ts";

/** The suffix of the file with the number, after the name of the database. */
export const NEWEST_SUFFIX = "-newest";
const FILE_MODE = 0o600;
const DIGITS = 16;
/** Two changes of a directory within this time may leave it with the same time. */
const TIME_STEP_MAX_MS = 100;

/** The state of a file; all values are 0 when there is none. */
interface SeenFile {
  readonly inode: number;
  readonly size: number;
  readonly mtimeMs: number;
}

/** The files of a database that this process has open. */
export class DatabaseFiles {
  readonly #file: string;
  readonly #directory: string;
  #seen: SeenFile;
  /** When a name in the directory last changed. */
  #namesMs = 0;
  /** 0 until the first look: before, another process may still remove the -wal. */
  #walInode = 0;
  /** The open file with the number of the newest event. */
  #newest: number | undefined;

  constructor(file: string) {
    this.#file = file;
    this.#directory = dirname(file);
    this.#seen = seenFile(file);
  }

  /** The size of the database. */
  get size(): number {
    return this.#seen.size;
  }

  /** True when another program has changed the database. Throws "broken" when it lost a part. */
  look(): boolean {
    const seen = this.#seen;
    const now = seenFile(this.#file);
    const isReplaced = now.inode !== seen.inode || this.#isWalReplaced();
    if (isReplaced || now.size < seen.size) {
      const what = isReplaced ? "removed or replaced" : "truncated";
      throw new JournalError(
        "broken",
        `${this.#file} was ${what} while this process was using it.`,
      );
    }
    this.#seen = now;
    return now.size !== seen.size || now.mtimeMs !== seen.mtimeMs;
  }

  /** Takes the database as it is after a write of this process. */
  noteWrite(): void {
    this.#seen = seenFile(this.#file);
  }

  /** Records the newest event of the database; it must be committed. */
  recordNewest(newest: number): void {
    const file = this.#file + NEWEST_SUFFIX;
    guarded(file, () => {
      const { O_WRONLY, O_CREAT, O_NOFOLLOW } = fs.constants;
      this.#newest ??= fs.openSync(file, O_WRONLY | O_CREAT | O_NOFOLLOW, FILE_MODE);
      fs.writeSync(this.#newest, `${String(newest).padStart(DIGITS, "0")}\n`, 0);
    });
  }

  close(): void {
    if (this.#newest !== undefined) fs.closeSync(this.#newest);
    this.#newest = undefined;
  }

  #isWalReplaced(): boolean {
    const namesMs = seenFile(this.#directory).mtimeMs;
    if (namesMs === this.#namesMs && Date.now() - namesMs > TIME_STEP_MAX_MS) return false;
    const { inode } = seenFile(`${this.#file}-wal`);
    if (this.#walInode > 0 && inode !== this.#walInode) return true;
    this.#namesMs = namesMs;
    this.#walInode = inode;
    return false;
  }
}

function seenFile(path: string): SeenFile {
  return guarded(path, () => {
    const { ino = 0, size = 0, mtimeMs = 0 } = fs.statSync(path, { throwIfNoEntry: false }) ?? {};
    return { inode: ino, size, mtimeMs };
  });
}

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
