/**
 * The files of a database as this process last saw them.
 *
 * Owns: noticing that another program removed, replaced, truncated or changed them (journal/B2).
 * Does not: read them (database.ts).
 * Invariants:
 * - journal/B4 While no name in their directory changes, no look at the times of the -wal. Linux gives
 *   a file that was looked at a new time with its next write, and the next commit then waits for that
 *   time to be stored, too: it takes nearly twice as long.
 */
import * as fs from "node:fs";
import { dirname } from "node:path";
import { guarded, JournalError } from "../journal-error.ts";

/** Two changes of a directory within this time may leave it with the same time. */
const TIME_STEP_MAX_MS = 100;

/** The state of a file; 0 for a missing one. */
interface SeenFile {
  readonly inode: number;
  readonly size: number;
  readonly mtimeMs: number;
}

/** What this process knows of the files of a database that it has open. */
export class DatabaseFiles {
  readonly #file: string;
  readonly #directory: string;
  #seen: SeenFile;
  /** When a name in the directory last changed. */
  #namesMs = 0;
  /** 0 until the first look: before, another process may still remove the -wal. */
  #walInode = 0;

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
