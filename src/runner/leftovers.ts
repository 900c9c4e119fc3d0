/**
 * What an attempt left running although its work has ended: background jobs, servers, test runs.
 *
 * Owns: ending it, and its names for the attempt's receipt.
 * Does not: decide whether a step may leave something running (supervision.ts).
 * Invariants:
 * - L6 when `endLeftovers` resolves, nothing of the attempt lives, or what does is named as such.
 * - L7 where nothing is left, which is the rule, it costs no walk through /proc.
 */
import { spawnSync } from "node:child_process";
import { type Belongings, findBelongings, mayLive } from "./belongings.ts";
import { textOf } from "./file-text.ts";
import { HAS_PROC, type ProcessStat } from "./identity.ts";
import { pause } from "./long-timer.ts";
import { endAll } from "./sweep.ts";

/** A process that an attempt left running. */
export interface Leftover {
  readonly pid: number;
  readonly command: string;
  /** The system did not let it die. */
  readonly survived?: true;
}

/** What is about to end by itself, such as the reader of a pipe, may do so. */
const PATIENCE_MS = 500;
const LOOK_MIN_MS = 5;
/** From SIGTERM to SIGKILL. */
const GRACE_MS = 2_000;
/** So many are named; all are ended. */
const NAMED_MAX = 20;
const COMMAND_LENGTH_MAX = 200;

/** Ends what a wrapper of this age left running; gives its names, none in the usual case. */
export async function endLeftovers(
  belongings: Belongings,
  ageMs: number,
  hurry: AbortSignal,
): Promise<readonly Leftover[]> {
  if (!mayLive(belongings, ageMs)) return [];
  const left = await stillRunning(belongings, hurry);
  if (left.length === 0) return [];
  const named = left.slice(0, NAMED_MAX).map(({ pid }) => ({ pid, command: commandOf(pid) }));
  const first = findBelongings(belongings);
  const survivors = await endAll(belongings, { graceMs: GRACE_MS, hurry, first });
  return named.map((one) => (survivors.includes(one.pid) ? { ...one, survived: true } : one));
}

/** What is still there after a moment. */
async function stillRunning(
  belongings: Belongings,
  hurry: AbortSignal,
): Promise<readonly ProcessStat[]> {
  const deadline = performance.now() + PATIENCE_MS;
  for (let pauseMs = LOOK_MIN_MS; ; pauseMs *= 2) {
    const left = findBelongings(belongings).processes.filter(({ pid, start }) => {
      // A wrapper that has written its exit status is about to end.
      const { leader } = belongings;
      return pid !== leader?.pid || start !== leader.start;
    });
    const leftMs = deadline - performance.now();
    if (left.length === 0 || leftMs <= 0 || hurry.aborted) return left;
    await pause(Math.min(pauseMs, leftMs), hurry);
  }
}

/** The command line of a process on one line, and no more of it than is worth keeping. */
function commandOf(pid: number): string {
  const text = HAS_PROC
    ? textOf(`/proc/${pid}/cmdline`)
    : spawnSync("ps", ["-o", "command=", "-p", String(pid)], { encoding: "utf8" }).stdout;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they separate the words.
  const words = (text ?? "").replaceAll(/[\u0000-\u0020\u007f]+/g, " ").trim();
  return words.length <= COMMAND_LENGTH_MAX ? words : `${words.slice(0, COMMAND_LENGTH_MAX)}...`;
}
