/**
 * The notes that the service keeps between two of its processes, in the user's state directory: its
 * process and when it was last alive, since when it knows each schedule, and when it may clean for the
 * first time.
 *
 * Owns: these files; each is there whole or not at all, and is on the disk before anything relies on it.
 * Does not: keep anything of a run. Without these files no run is lost, and none starts twice.
 */
import { mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import type { Identity } from "../../runner/process/identity.ts";
import { sha256 } from "../../util/json.ts";
import type { ServiceProblem } from "../../view/service-text.ts";
import { readUserState, userStatePath } from "../project/user-state.ts";

const FOLDER = "service";
const KEY_LENGTH = 16;

/** The end of the boot before this one, as far as the service saw it. */
export interface EarlierBoot {
  readonly boot: string;
  /** When the service was alive for the last time. */
  readonly seenAt: number;
}

/** The service as its last pass left it. */
interface ServiceNote {
  readonly identity: Identity;
  readonly seenAt: number;
  /** The boot before this one. */
  readonly earlier?: EarlierBoot;
  readonly problems: readonly ServiceProblem[];
}

/** What is known of a schedule. */
interface ScheduleNote {
  /** The service has known the schedule since then; earlier times are not made up for. */
  readonly since: number;
  /** The time whose run could not be started, how often and when that was tried, and why. */
  readonly failed?: {
    readonly time: number;
    readonly attempts: number;
    readonly at: number;
    readonly message: string;
  };
}

/** When the service may clean for the first time, and how many stale runs it had found before. */
interface CleanNote {
  readonly from: number;
  readonly runs: number;
}

/** A note in a file; it is there whole or not at all. */
interface NoteFile<Note extends object> {
  /** Undefined when there is no note, or when another program has damaged the file. */
  read(): Note | undefined;
  /** Writes the note; it is on the disk when this returns. */
  write(note: Note): void;
  remove(): void;
}

/** The note of each pass of the service. */
export const SERVICE_NOTE = noteFile<ServiceNote>("running.json");

/** The note of the first clean. A service that is installed again gives notice again. */
export const CLEAN_NOTE = noteFile<CleanNote>("clean.json");

/** When the service cleans for the first time, while that is in the future. */
export function firstCleanAt(now: number): number | undefined {
  const { from = 0 } = CLEAN_NOTE.read() ?? {};
  return now < from ? from : undefined;
}

/** The note of the schedule of a file; another schedule in the same file has another note. */
export function scheduleNote(file: string, schedule: string): NoteFile<ScheduleNote> {
  const key = sha256(`${file}\n${schedule}`).slice(0, KEY_LENGTH);
  return noteFile(`schedule-${key}.json`);
}

function noteFile<Note extends object>(name: string): NoteFile<Note> {
  return {
    read: () => {
      try {
        const text = readUserState(FOLDER, name);
        return text === undefined ? undefined : (JSON.parse(text) as Note);
      } catch (error) {
        // Only another program can have written half of it; it is written again.
        if (error instanceof SyntaxError) return undefined;
        throw error;
      }
    },
    write: (note) => writeWhole(userStatePath(FOLDER, name), JSON.stringify(note)),
    remove: () => rmSync(userStatePath(FOLDER, name), { force: true }),
  };
}

function writeWhole(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const draft = `${path}.${process.pid}`;
  writeFileSync(draft, text, { mode: 0o600, flush: true });
  renameSync(draft, path);
}
