/**
 * Rounds of checks: if the checks of an attempt are killed after its work, they run again alone, as
 * a process with a folder of its own in that of the attempt.
 *
 * Owns: the folders of rounds, how many there may be, and the ending of an attempt by a round.
 * Does not: start a round (start.ts), or adopt one (adopt.ts).
 */
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { readExit } from "./attempt-folder.ts";
import type { Limits, ProcessEnding } from "./step-process.ts";

/** How many rounds an attempt may have, the first one with the work included. */
const CHECK_ROUNDS_MAX = 5;

function folderOf(dir: string, round: number): string {
  return join(dir, `checks-${round}`);
}

/** The folder of the last round of checks alone; undefined when there was none. */
export function lastRound(dir: string): string | undefined {
  let last: string | undefined;
  for (let round = 2; round <= CHECK_ROUNDS_MAX; round++) {
    const folder = folderOf(dir, round);
    if (!existsSync(folder)) return last;
    last = folder;
  }
  return last;
}

/** Makes the folder of a new round; undefined when there were too many. */
export function newRound(dir: string): string | undefined {
  for (let round = 2; round <= CHECK_ROUNDS_MAX; round++) {
    const folder = folderOf(dir, round);
    if (mkdirSync(folder, { recursive: true, mode: 0o700 }) !== undefined) return folder;
  }
  return undefined;
}

/** True when a round of checks alone has come to its end. */
export function hasEndedRound(dir: string): boolean {
  const round = lastRound(dir);
  return round !== undefined && readExit(round) !== undefined;
}

/** The limits of a round: its output is not where a silence would be noticed. */
export function limitsOfRound(limits: Limits): Limits {
  const { idleTimeoutMs: _, ...others } = limits;
  return others;
}

/**
 * The ending of an attempt whose round ended like this. Only that the checks pass counts: they may
 * miss a process of the work that was killed with them.
 */
export function endedByRound(ending: ProcessEnding): ProcessEnding {
  if (ending.how !== "exited") return ending;
  if (ending.exit === 0) return { ...ending, checkExit: 0 };
  const message = "its check was killed, and did not pass when it ran again";
  return { how: "lost", started: true, message };
}
