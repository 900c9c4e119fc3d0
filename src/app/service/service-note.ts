/**
 * What the service keeps between two of its processes, in the user's state directory: who it is and when
 * it was last alive, since when it knows each schedule, and when it may clean for the first time.
 *
 * Owns: these files; each is there whole or not at all, and is on the disk before anything relies on it.
 * Does not: keep anything of a run. Without these files no run is lost, and none starts twice.
 */
import { closeSync, fsyncSync, mkdirSync, openSync, renameSync, rmSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import type { Identity } from "../../runner/process/identity.ts";
import { sha256 } from "../../util/json.ts";
import type { ServiceProblem } from "../../view/service-text.ts";
import { readUserState, userStatePath } from "../project/user-state.ts";
import type { EarlierBoot } from "./continuation.ts";

const FOLDER = "service";
const KEY_LENGTH = 16;

/** The service as its last pass left it. */
interface ServiceNote {
  readonly identity: Identity;
  readonly seenAt: number;
  /** The boot before this one. */
  readonly earlier?: EarlierBoot;
  readonly problems: readonly ServiceProblem[];
}

/** What is known of a schedule. */
export interface ScheduleNote {
  /** The service has known the schedule since then; earlier times are not made up for. */
  readonly since: number;
  readonly failed?: FailedStart;
}

/** The time whose run could not be started, how often and when that was tried, and why. */
interface FailedStart {
  readonly time: number;
  readonly attempts: number;
  readonly at: number;
  readonly message: string;
}

/** When the service may clean for the first time, and how many runs it had found then. */
interface CleanNote {
  readonly from: number;
  readonly runs: number;
}

/** What the last pass of the service noted. */
export function readServiceNote(): ServiceNote | undefined {
  return readNote<ServiceNote>("running.json");
}

/** Notes a pass of the service. */
export function writeServiceNote(note: ServiceNote): void {
  writeNote("running.json", note);
}

/** The note of the schedule of a file; another schedule in the same file has another one. */
export function readScheduleNote(file: string, schedule: string): ScheduleNote | undefined {
  return readNote<ScheduleNote>(scheduleName(file, schedule));
}

/** Notes what is known of a schedule. */
export function writeScheduleNote(file: string, schedule: string, note: ScheduleNote): void {
  writeNote(scheduleName(file, schedule), note);
}

function scheduleName(file: string, schedule: string): string {
  return `schedule-${sha256(`${file}\n${schedule}`).slice(0, KEY_LENGTH)}.json`;
}

/** When the service may clean for the first time. */
export function readCleanNote(): CleanNote | undefined {
  return readNote<CleanNote>("clean.json");
}

/** Notes when the service may clean for the first time. */
export function writeCleanNote(note: CleanNote): void {
  writeNote("clean.json", note);
}

/** When the service cleans for the first time, while that is in the future. */
export function firstCleanAt(now: number): number | undefined {
  const { from = 0 } = readNote<CleanNote>("clean.json") ?? {};
  return now < from ? from : undefined;
}

/** Forgets when it may clean: a service that is installed again says so again. */
export function dropCleanNote(): void {
  rmSync(userStatePath(FOLDER, "clean.json"), { force: true });
}

function readNote<Note>(name: string): Note | undefined {
  try {
    const text = readUserState(FOLDER, name);
    return text === undefined ? undefined : (JSON.parse(text) as Note);
  } catch (error) {
    // Only another program can have written half of it; it is written again.
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

function writeNote(name: string, note: object): void {
  const path = userStatePath(FOLDER, name);
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const draft = `${path}.${process.pid}`;
  const file = openSync(draft, "w", 0o600);
  try {
    writeSync(file, JSON.stringify(note));
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  renameSync(draft, path);
}
