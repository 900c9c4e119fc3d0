/**
 * Ends everything that belongs to an attempt or a run, wherever it has gone: other sessions, other
 * groups, other parents.
 *
 * Owns: the order of SIGTERM, grace and SIGKILL; the rounds until nothing is left.
 * Does not: decide that something has to end.
 * Invariants:
 * - S1 everything alive gets the whole grace period, not only the wrapper: a shell dies of SIGTERM
 *   at once while the agent under it still saves its conversation.
 * - S2 the rounds are bounded; what is left after them is named.
 */
import { type Belongings, type Found, findBelongings, signal } from "./belongings.ts";
import { type ProcessStat, statOf } from "./identity.ts";
import { pause } from "./long-timer.ts";

/** After so many rounds of SIGKILL (about ten seconds) a process is left to the system. */
export const SWEEP_ROUNDS_MAX = 100;

const PAUSE_MIN_MS = 2;
const PAUSE_MAX_MS = 100;

/** The variables that tell whose a process is. */
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

/** The variable that tells that a process belongs to a program that a person opened on a run. */
export const OPEN_VARIABLE = "PERDURE_OPEN";

/** The environment entry of all processes that a person's program on a run has started. */
export function openMarker(runId: string): string {
  return `${OPEN_VARIABLE}=${runId}`;
}

/** The pids of the living processes that carry the marker, without us and our ancestors. */
export function findMarked(marker: string): readonly number[] {
  return findBelongings({ marker }).processes.map(({ pid }) => pid);
}

/** Kills all that carry the marker, until none is left; how many there were. */
export async function sweep(marker: string): Promise<number> {
  const known = new Map<number, ProcessStat>();
  await killAll({ marker }, known);
  return known.size;
}

/** How to end what belongs together. */
export interface EndOptions {
  readonly graceMs: number;
  /** Once it is aborted there is no grace, or no more. */
  readonly hurry: AbortSignal;
  /** What was found just now; it is signalled before anything is awaited. */
  readonly first: Found;
}

/** Ends what belongs together; the pids that would not die. */
export async function endAll(
  belongings: Belongings,
  { graceMs, hurry, first }: EndOptions,
): Promise<readonly number[]> {
  const known = new Map<number, ProcessStat>();
  note(known, first);
  signal(first, hurry.aborted ? "SIGKILL" : "SIGTERM");
  await waitOut(belongings, known, graceMs, hurry);
  return killAll(belongings, known);
}

/** Waits for those that got SIGTERM. Who is found only when they are gone gets it then. */
async function waitOut(
  belongings: Belongings,
  known: Map<number, ProcessStat>,
  graceMs: number,
  hurry: AbortSignal,
): Promise<void> {
  const deadline = performance.now() + graceMs;
  let pauseMs = PAUSE_MIN_MS;
  while (!hurry.aborted) {
    if (living(known).length === 0) {
      const found = findBelongings(belongings);
      if (found.processes.length === 0) return;
      note(known, found);
      signal(found, "SIGTERM");
    }
    const leftMs = deadline - performance.now();
    if (leftMs <= 0) return;
    await pause(Math.min(pauseMs, leftMs), hurry);
    pauseMs = Math.min(pauseMs * 2, PAUSE_MAX_MS);
  }
}

async function killAll(
  belongings: Belongings,
  known: Map<number, ProcessStat>,
): Promise<readonly number[]> {
  let pauseMs = PAUSE_MIN_MS;
  for (let round = 0; ; round++) {
    const found = findBelongings(belongings);
    note(known, found);
    // Those known from an earlier look are ours even if the group can no longer be proven.
    const left = living(known);
    if (left.length === 0 || round === SWEEP_ROUNDS_MAX) return left.map(({ pid }) => pid);
    signal({ processes: left, group: found.group }, "SIGKILL");
    await pause(pauseMs);
    pauseMs = Math.min(pauseMs * 2, PAUSE_MAX_MS);
  }
}

function note(known: Map<number, ProcessStat>, found: Found): void {
  for (const entry of found.processes) known.set(entry.pid, entry);
}

/** Those of the known that live, as they are now: a process may have changed its group. */
function living(known: ReadonlyMap<number, ProcessStat>): readonly ProcessStat[] {
  return [...known.values()].flatMap(({ pid, start }) => {
    const now = statOf(pid);
    return now !== undefined && now.start === start && !now.zombie ? [now] : [];
  });
}
