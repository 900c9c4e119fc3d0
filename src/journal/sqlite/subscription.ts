/**
 * Wakes the watchers of a journal in a file, in every process of this machine: a writer touches a
 * small file after its commit, and the system reports that to all who watch the file. The database's own
 * files are no signal, because SQLite writes them before a commit can be seen.
 *
 * Owns: the files `state.db-newest` (new events and leases; written by database-files.ts) and
 *   `state.db-inbox` (new requests) as signals, and a slow timer for writers that were killed after the
 *   commit and for file systems that report nothing.
 * Does not: say what is new, or for which run.
 */
import * as fs from "node:fs";
import { ChangeSignal, type Subscription } from "../subscription.ts";
import type { Database } from "./database.ts";
import { NEWEST_SUFFIX } from "./database-files.ts";

const INBOX_SUFFIX = "-inbox";
const FILE_MODE = 0o600;
/** How often a watcher wakes without a signal. */
const LOOK_MS = 1_000;

/** All subscriptions of one open journal. */
export class FileSubscriptions {
  readonly #file: string;
  readonly #open = new Set<Subscription>();

  constructor({ file }: Database) {
    this.#file = file;
  }

  toLog(): Subscription {
    return this.#watch(this.#file + NEWEST_SUFFIX);
  }

  toInbox(): Subscription {
    const file = this.#file + INBOX_SUFFIX;
    touch(file);
    return this.#watch(file);
  }

  wakeInboxes(): void {
    touch(this.#file + INBOX_SUFFIX);
  }

  close(): void {
    for (const subscription of this.#open) subscription.close();
  }

  #watch(file: string): Subscription {
    let watcher: fs.FSWatcher | undefined;
    const stopWatching = (): void => {
      watcher?.close();
      watcher = undefined;
    };
    const signal = new ChangeSignal(() => {
      clearInterval(timer);
      stopWatching();
      this.#open.delete(signal);
    });
    const watch = (): void => {
      watcher ??= watchFile(file, (isGone) => {
        if (isGone) stopWatching();
        signal.notify();
      });
    };
    watch();
    const timer = setInterval(() => {
      watch();
      signal.notify();
    }, LOOK_MS);
    this.#open.add(signal);
    return signal;
  }
}

/** Undefined when the file is missing or the system watches no more files: the timer remains. */
function watchFile(file: string, onChange: (isGone: boolean) => void): fs.FSWatcher | undefined {
  try {
    const watcher = fs.watch(file, (event) => onChange(event === "rename"));
    return watcher.on("error", () => onChange(true));
  } catch {
    return undefined;
  }
}

/** Wakes the watchers of a file. When the signal fails, the timer wakes them later. */
function touch(file: string): void {
  try {
    const { O_WRONLY, O_CREAT, O_NOFOLLOW } = fs.constants;
    const descriptor = fs.openSync(file, O_WRONLY | O_CREAT | O_NOFOLLOW, FILE_MODE);
    try {
      fs.writeSync(descriptor, "\n", 0);
    } finally {
      fs.closeSync(descriptor);
    }
  } catch {
    // A full or read-only disk; the request itself is durable.
  }
}
