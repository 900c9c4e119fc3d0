/**
 * Ends all processes of an attempt or a run, including those with another session, group or parent,
 * and those that an attempt left running after its work ended: background jobs, servers, test runs.
 *
 * Owns: the markers; the order of SIGTERM, grace and SIGKILL; the rounds until nothing is left; the
 * list of leftovers for the attempt's receipt.
 * Does not: decide when processes must end, or whether a step may leave some running
 * (supervision.ts).
 * Invariants:
 * - runner/S1 every living process gets the whole grace period, not only the wrapper: a shell dies
 *   of SIGTERM at once while the agent under it still saves its conversation.
 * - runner/S2 the number of rounds is limited; surviving processes are named.
 * - runner/L6 when `endLeftovers` resolves, no process of the attempt lives, or its result names
 *   it.
 * - runner/L7 without leftovers, which is the usual case, /proc is not searched.
 * - Containers end last: their client has had its grace period, and passed SIGTERM on to them.
 */
import { spawnSync } from "node:child_process";
import { textOf } from "../file-text.ts";
import { HAS_PROC, type ProcessStat, statOf } from "./identity.ts";
import { findLive, mayBeAlive, type ProcessTree, signal } from "./process-tree.ts";
import { endContainers } from "./sandbox.ts";
import { pause } from "./waiting.ts";

/** After so many rounds of SIGKILL (about ten seconds) a process is left to the system. */
const SWEEP_ROUNDS_MAX = 100;

const PAUSE_MIN_MS = 2;
const PAUSE_MAX_MS = 100;

/** The variables with the run and the attempt of a process. */
export const RUN_VARIABLE = "PERDURE_RUN_ID";
export const ATTEMPT_VARIABLE = "PERDURE_ATTEMPT_ID";

/** The environment entry that all processes of one attempt carry. */
export function attemptMarker(attemptId: string): string {
  return `${ATTEMPT_VARIABLE}=${attemptId}`;
}

/** The environment entry that all processes of a run carry. */
export function runMarker(runId: string): string {
  return `${RUN_VARIABLE}=${runId}`;
}

/** The variable that marks the processes of a program that a person opened on a run. */
export const OPEN_VARIABLE = "PERDURE_OPEN";

/** The environment entry of all processes of such a program. */
export function openMarker(runId: string): string {
  return `${OPEN_VARIABLE}=${runId}`;
}

/** The pids of the living processes that carry the marker, without this one and its ancestors. */
export function findMarked(marker: string): readonly number[] {
  return findLive({ marker }).processes.map(({ pid }) => pid);
}

/** Kills every process that carries the marker, until none is left; returns their number. */
export async function sweep(marker: string): Promise<number> {
  const known = new Map<number, ProcessStat>();
  await killAll({ marker }, known);
  return known.size;
}

/** How to end a process tree. */
interface EndOptions {
  readonly graceMs: number;
  /** Ends the grace period at once when it is aborted. */
  readonly skipGrace: AbortSignal;
  /** The processes found just now; they are signalled before anything is awaited. */
  readonly first: ReturnType<typeof findLive>;
}

/** Ends a process tree; returns the pids that survived. */
export async function endAll(
  tree: ProcessTree,
  { graceMs, skipGrace, first }: EndOptions,
): Promise<readonly number[]> {
  const known = new Map<number, ProcessStat>();
  remember(known, first);
  signal(first, skipGrace.aborted ? "SIGKILL" : "SIGTERM");
  await waitForExit(tree, known, graceMs, skipGrace);
  const left = await killAll(tree, known);
  if (tree.runtime !== undefined) await endContainers(tree.runtime, tree.marker);
  return left;
}

/** Waits for the processes that got SIGTERM. A process that is found later gets it then. */
async function waitForExit(
  tree: ProcessTree,
  known: Map<number, ProcessStat>,
  graceMs: number,
  skipGrace: AbortSignal,
): Promise<void> {
  const deadline = performance.now() + graceMs;
  let pauseMs = PAUSE_MIN_MS;
  while (!skipGrace.aborted) {
    if (stillAlive(known).length === 0) {
      const found = findLive(tree);
      if (found.processes.length === 0) return;
      remember(known, found);
      signal(found, "SIGTERM");
    }
    const leftMs = deadline - performance.now();
    if (leftMs <= 0) return;
    await pause(Math.min(pauseMs, leftMs), skipGrace);
    pauseMs = Math.min(pauseMs * 2, PAUSE_MAX_MS);
  }
}

async function killAll(
  tree: ProcessTree,
  known: Map<number, ProcessStat>,
): Promise<readonly number[]> {
  let pauseMs = PAUSE_MIN_MS;
  for (let round = 0; ; round++) {
    const found = findLive(tree);
    remember(known, found);
    // Processes from an earlier search belong to it even if the group can no longer be proven.
    const left = stillAlive(known);
    if (left.length === 0 || round === SWEEP_ROUNDS_MAX) return left.map(({ pid }) => pid);
    signal({ processes: left, group: found.group }, "SIGKILL");
    await pause(pauseMs);
    pauseMs = Math.min(pauseMs * 2, PAUSE_MAX_MS);
  }
}

function remember(known: Map<number, ProcessStat>, found: ReturnType<typeof findLive>): void {
  for (const entry of found.processes) known.set(entry.pid, entry);
}

/** The known processes that live, with their current groups. */
function stillAlive(known: ReadonlyMap<number, ProcessStat>): readonly ProcessStat[] {
  return [...known.values()].flatMap(({ pid, start }) => {
    const now = statOf(pid);
    return now !== undefined && now.start === start && !now.zombie ? [now] : [];
  });
}

/** A process that an attempt left running. */
export interface Leftover {
  readonly pid: number;
  readonly command: string;
  /** It did not die. */
  readonly survived?: true;
}

/** How long a leftover, such as the reader of a pipe, may take to end by itself. */
const SELF_END_MS_MAX = 500;
/** On a busy machine, where each pause takes longer, it gets as many chances to run. */
const SELF_END_CHECKS_MIN = 8;
const CHECK_MIN_MS = 5;
/** From SIGTERM to SIGKILL. */
const GRACE_MS = 2_000;
/** How many are named; all are ended. */
const NAMED_MAX = 20;
const COMMAND_LENGTH_MAX = 200;

/** Ends the leftovers of a wrapper of this age; returns their list, which is usually empty. */
export async function endLeftovers(
  tree: ProcessTree,
  ageMs: number,
  skipGrace: AbortSignal,
): Promise<readonly Leftover[]> {
  // A client that lost its connection exits before its container.
  if (tree.runtime !== undefined) await endContainers(tree.runtime, tree.marker);
  if (!mayBeAlive(tree, ageMs)) return [];
  const left = await stillRunning(tree, skipGrace);
  if (left.length === 0) return [];
  const named = left.slice(0, NAMED_MAX).map(({ pid }) => ({ pid, command: commandOf(pid) }));
  const first = findLive(tree);
  const survivors = await endAll(tree, { graceMs: GRACE_MS, skipGrace, first });
  return named.map((one) => (survivors.includes(one.pid) ? { ...one, survived: true } : one));
}

/** The processes that are still alive after a moment. */
async function stillRunning(
  tree: ProcessTree,
  skipGrace: AbortSignal,
): Promise<readonly ProcessStat[]> {
  const deadline = performance.now() + SELF_END_MS_MAX;
  for (let check = 1, pauseMs = CHECK_MIN_MS; ; check++, pauseMs *= 2) {
    const left = findLive(tree).processes.filter(({ pid, start }) => {
      // A wrapper that has written its exit status is about to end.
      const { leader } = tree;
      return pid !== leader?.pid || start !== leader.start;
    });
    const leftMs = deadline - performance.now();
    const isOver = leftMs <= 0 && check >= SELF_END_CHECKS_MIN;
    if (left.length === 0 || isOver || skipGrace.aborted) return left;
    await pause(leftMs > 0 ? Math.min(pauseMs, leftMs) : CHECK_MIN_MS, skipGrace);
  }
}

/** The command line of a process on one line, cut to a readable length. */
function commandOf(pid: number): string {
  const text = HAS_PROC
    ? textOf(`/proc/${pid}/cmdline`)
    : spawnSync("ps", ["-o", "command=", "-p", String(pid)], { encoding: "utf8" }).stdout;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they separate the words.
  const words = (text ?? "").replaceAll(/[\u0000-\u0020\u007f]+/g, " ").trim();
  return words.length <= COMMAND_LENGTH_MAX ? words : `${words.slice(0, COMMAND_LENGTH_MAX)}...`;
}
