/**
 * The files in an attempt's folder through which a step's process and its runners communicate. If
 * only the checks of an attempt are killed, they run again alone, in another round: as a process
 * with a folder of its own in that of the attempt.
 *
 * Owns: their names, reading the evidence in them, the fence; the folders of rounds, how many there
 * may be, and the ending of an attempt by a round.
 * Does not: start, follow or end processes.
 * Invariants:
 * - runner/A1 a file counts only when it is complete, newline included; so does the exit status.
 * - runner/A2 `pid` is created once, exclusively: by the process, which then runs, or by a runner
 *   as a fence, and then nothing ever runs on this folder.
 * - runner/A3 a runner writes why it ends a process to `ending` before the first signal, so that
 *   the next runner does not take the exit status of the signal for that of the work.
 */
import { existsSync, mkdirSync, statSync, unlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { errorCode, textOf } from "../file-text.ts";
import { type Identity, parseIdentity } from "./identity.ts";
import { lastText } from "./output.ts";
import type { Limits, ProcessEnding } from "./step-process.ts";

/** The names of the files in an attempt's folder; `exit` is written by earlier versions only. */
export const ATTEMPT_FILE = {
  script: "script.sh",
  check: "check.sh",
  pid: "pid",
  exit: "exit",
  ending: "ending",
  output: "output.log",
  stderr: "stderr.log",
  checkOutput: "check.log",
  checkExits: "check-exits",
} as const;

/** The file with the output of the n-th command that checks the work, counted from 1. */
export function checkOutputFile(number: number): string {
  return number === 1 ? ATTEMPT_FILE.checkOutput : `check-${number}.log`;
}

/** The exit status of the work, and of its checks if there were any. */
export interface ExitStatus {
  readonly exit: number;
  readonly checkExit?: number;
}

/** The claim in the file `pid`: which process may run on this folder. */
type Claim =
  | { readonly by: "nobody" }
  /** Created but not written: the writer is still writing, or died before. */
  | { readonly by: "unknown" }
  | { readonly by: "fence" }
  | { readonly by: "process"; readonly identity: Identity };

/** Why a process had to end. */
export type Cause = Exclude<ProcessEnding, { how: "exited" | "not-started" }>;

/** The first line of `pid`, over which the exit status is written. */
export const RESERVED = ".".repeat(15);
const RESERVED_BYTES = RESERVED.length + 1;
/** The content while the checks run: the work has exited with 0. */
export const UNCHECKED = "0 ?";

const FENCE = "fenced";
const LIMITS = ["timeout", "idle", "output-limit"] as const;

/** The recorded exit status, or undefined while it is missing or incomplete. */
export function readExit(dir: string): ExitStatus | undefined {
  const text = textOf(join(dir, ATTEMPT_FILE.pid)) ?? "";
  const status = hasReserve(text) ? text : textOf(join(dir, ATTEMPT_FILE.exit));
  const found = /^(\d{1,3}) (\d{1,3}|-)\n/.exec(status ?? "");
  if (found === null) return undefined;
  const exit = Number(found[1]);
  return found[2] === "-" ? { exit } : { exit, checkExit: Number(found[2]) };
}

/** True when the work has exited with 0, and its checks have not ended. */
export function isUnchecked(dir: string): boolean {
  return (textOf(join(dir, ATTEMPT_FILE.pid)) ?? "").startsWith(`${UNCHECKED}\n`);
}

/** The exit statuses of several checks, as far as they have ended. */
export function readCheckExits(dir: string): readonly number[] {
  const lines = (textOf(join(dir, ATTEMPT_FILE.checkExits)) ?? "").split("\n").slice(0, -1);
  return lines.map(Number).filter(Number.isSafeInteger);
}

/** The status that a shell gives to a command that SIGKILL ended: 128 and the signal's number. */
const KILLED_EXIT = 137;
/** The text that shells print about such a command: dash and busybox one word, bash a line. */
const KILLED_WORDS = /^Killed$|: line \d+: +\d+ Killed\b/m;
/** How much of the end of the output is searched for it. */
const KILLED_BYTES_MAX = 4 * 1024;

/**
 * True when SIGKILL ended the work, or its last command. A script may choose this status itself,
 * but only the shell that waited for a killed command prints that it was killed.
 */
export function wasKilled(dir: string, { exit }: ExitStatus): boolean {
  if (exit !== KILLED_EXIT) return false;
  return [ATTEMPT_FILE.stderr, ATTEMPT_FILE.output].some((name) =>
    KILLED_WORDS.test(lastText(join(dir, name), KILLED_BYTES_MAX)),
  );
}

/** The loss of work that was killed. */
export const KILLED: Cause = { how: "lost", started: true, message: "it was killed (SIGKILL)" };

/** The claim of this folder. */
export function readClaim(dir: string): Claim {
  const text = textOf(join(dir, ATTEMPT_FILE.pid));
  if (text === undefined) return { by: "nobody" };
  const from = hasReserve(text) ? RESERVED_BYTES : 0;
  const end = text.indexOf("\n", from);
  if (end < 0) return { by: "unknown" };
  const line = text.slice(from, end);
  if (line === FENCE) return { by: "fence" };
  const identity = parseIdentity(line);
  return identity === undefined ? { by: "unknown" } : { by: "process", identity };
}

/** Earlier versions reserved nothing: there `pid` begins with the identity. */
function hasReserve(text: string): boolean {
  return text[RESERVED_BYTES - 1] === "\n";
}

/** Ensures that no process can start on this folder any more; false when one has. */
export function fence(dir: string): boolean {
  // A removed folder is made again, because a late process must find the fence in it.
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  try {
    writeFileSync(join(dir, ATTEMPT_FILE.pid), `${FENCE}\n`, { flag: "wx", mode: 0o600 });
    return true;
  } catch (error) {
    if (errorCode(error) === "EEXIST") return false;
    throw error;
  }
}

/**
 * Removes the files that are needed only while the attempt runs: the claim, once the exit status is
 * recorded and no other process can start, and an empty output file.
 */
export function clearAttempt(dir: string): void {
  removeIfThere(join(dir, ATTEMPT_FILE.pid));
  const output = join(dir, ATTEMPT_FILE.output);
  if (statSync(output, { throwIfNoEntry: false })?.size === 0) removeIfThere(output);
}

function removeIfThere(file: string): void {
  try {
    unlinkSync(file);
  } catch (error) {
    if (!["ENOENT", "ENOTDIR"].includes(errorCode(error))) throw error;
  }
}

/** Records why the process is about to be ended. */
export function recordCause(dir: string, cause: Cause): void {
  const line = `${cause.how} ${"limit" in cause ? cause.limit : "-"} ${cause.message}\n`;
  try {
    writeFileSync(join(dir, ATTEMPT_FILE.ending), line, { mode: 0o600 });
  } catch (error) {
    // The process must end even if the disk is full or the folder was removed.
    if (errorCode(error) === "") throw error;
  }
}

/**
 * Why an earlier runner was ending the process, if it was. A stop that the runner did not complete
 * counts as a loss, because the run is being resumed.
 */
export function readCause(dir: string): Cause | undefined {
  const text = textOf(join(dir, ATTEMPT_FILE.ending)) ?? "";
  const found = /^(timed-out|stopped) (\S+) (.*)\n$/.exec(text);
  if (found === null) return undefined;
  const [, how, word, message = ""] = found;
  const limit = LIMITS.find((known) => known === word);
  if (how === "timed-out" && limit !== undefined) return { how, limit, message };
  return { how: "lost", started: true, message: "it was being stopped when its runner died" };
}

/** How many rounds an attempt may have, the first one with the work included. */
const CHECK_ROUNDS_MAX = 5;

function roundFolder(dir: string, round: number): string {
  return join(dir, `checks-${round}`);
}

/** The folder of the last round of checks alone; undefined when there was none. */
export function lastRound(dir: string): string | undefined {
  let last: string | undefined;
  for (let round = 2; round <= CHECK_ROUNDS_MAX; round++) {
    const folder = roundFolder(dir, round);
    if (!existsSync(folder)) return last;
    last = folder;
  }
  return last;
}

/** Makes the folder of a new round; undefined when there were too many. */
export function newRound(dir: string): string | undefined {
  for (let round = 2; round <= CHECK_ROUNDS_MAX; round++) {
    const folder = roundFolder(dir, round);
    if (mkdirSync(folder, { recursive: true, mode: 0o700 }) !== undefined) return folder;
  }
  return undefined;
}

/** True when a round of checks alone has ended. */
export function hasEndedRound(dir: string): boolean {
  const round = lastRound(dir);
  return round !== undefined && readExit(round) !== undefined;
}

/** The limits of a round; idle time is not measured, because its output is in other files. */
export function limitsOfRound(limits: Limits): Limits {
  const { idleTimeoutMs: _, ...others } = limits;
  return others;
}

/**
 * The ending of an attempt whose round ended like this. Only passed checks count: failed ones may
 * have missed a process of the work that was killed with them.
 */
export function endedByRound(ending: ProcessEnding): ProcessEnding {
  if (ending.how !== "exited") return ending;
  if (ending.exit === 0) return { ...ending, checkExit: 0 };
  const message = "its check was killed, and did not pass when it ran again";
  return { how: "lost", started: true, message };
}
