/**
 * Adopts the process of an attempt that an earlier runner recorded as started.
 *
 * Owns: finding out how it ended, and following a living one. The evidence, in this order: a
 * complete exit status; nobody claimed the folder (then it is fenced here, and no process can start
 * on it any more); the process that claimed it is alive; the process is lost.
 * Does not: guess.
 * Invariants:
 * - runner/D1 before a loss is reported, every process of the attempt is dead.
 * - runner/D2 the timeout counts from the start of the process, not from now.
 */
import { join } from "node:path";
import { defined } from "../../util/defined.ts";
import {
  ATTEMPT_FILE,
  type Cause,
  type ExitStatus,
  endedByRound,
  fence,
  isUnchecked,
  KILLED,
  lastRound,
  limitsOfRound,
  readCause,
  readClaim,
  readExit,
  wasKilled,
} from "./attempt-folder.ts";
import { ageMs, bootId, HAS_PROC, type Identity, isAlive, processLiveness } from "./identity.ts";
import { findLive, type ProcessTree } from "./process-tree.ts";
import { runtimeIn } from "./sandbox.ts";
import type { Limits, ProcessEnding, StepProcess } from "./step-process.ts";
import { endedBy, Supervision, withSurvivors } from "./supervision.ts";
import { endAll, findMarked } from "./sweep.ts";
import { pause, watchFile } from "./waiting.ts";

/** How often an adopted process is checked. */
const LIVENESS_CHECK_MS = 500;

/** How long a process that has created its `pid` file may take to fill it. */
const CLAIM_WAIT_MAX_MS = 2_000;
const CLAIM_CHECK_MS = 10;

type Stop = "gently" | "at-once";

/** The process of an attempt's folder, or how it ended; `marker` is the attempt's. */
export function adoptProcess(dir: string, marker: string, limits: Limits): StepProcess {
  const early: Stop[] = [];
  let adopted: StepProcess | undefined;
  let released = false;
  const ended = processOrEnding(dir, marker, limits).then((found) => {
    if ("how" in found) return found;
    adopted = found;
    if (released) found.release();
    for (const how of early) found.stop(how);
    return found.ended;
  });
  const stop = (how: Stop): void => {
    if (adopted === undefined) early.push(how);
    else adopted.stop(how);
  };
  const release = (): void => {
    released = true;
    adopted?.release();
  };
  return { ended, stop, release };
}

/** What adoption would find in this folder now. It only reads. */
export function lookAt(dir: string): "alive" | "exited" | "dead" {
  // A process that an earlier runner was ending is not adopted, whatever its exit status says.
  if (readCause(dir) !== undefined) return "dead";
  const claim = readClaim(dir);
  const alive = claim.by === "process" && isAlive(claim.identity);
  // In this order, because it may end between the two reads.
  if (readExit(dir) !== undefined) return "exited";
  if (alive) return "alive";
  const round = lastRound(dir);
  if (round !== undefined && lookAt(round) === "alive") return "alive";
  // Only its checks have to run again.
  return isUnchecked(dir) ? "exited" : "dead";
}

/**
 * True when the process of this folder may live where this process cannot see it: in another PID
 * namespace or on another machine. Only a person can say that it is dead; adoption then loses it.
 */
export function mayLiveElsewhere(dir: string): boolean {
  if (readExit(dir) !== undefined) return false;
  const claim = readClaim(dir);
  return claim.by === "process" && processLiveness(claim.identity) === "unknown";
}

/** True unless the process of this folder is proven to have ended, or never to have started. */
export function mayLive(dir: string): boolean {
  return lookAt(dir) === "alive" || mayLiveElsewhere(dir);
}

async function processOrEnding(
  dir: string,
  marker: string,
  limits: Limits,
): Promise<ProcessEnding | StepProcess> {
  const status = readExit(dir);
  const cause = readCause(dir);
  if (status !== undefined && cause === undefined) return exited(dir, marker, limits, status);
  const claim = await certainClaim(dir, marker);
  if (claim.by !== "process") {
    const message = claim.by === "fence" ? "it had not started" : "it died while it was starting";
    const cause = { how: "lost", started: claim.by !== "fence", message } as const;
    return conclude(cause, treeOf(dir, marker));
  }
  const { identity } = claim;
  if (status === undefined && isAlive(identity)) return follow(dir, marker, limits, identity);
  const late = readExit(dir);
  if (late !== undefined && cause === undefined) return exited(dir, marker, limits, late);
  const round = cause === undefined ? lastRound(dir) : undefined;
  if (round !== undefined) return adoptRound(round, marker, limits);
  const loss: Cause = {
    how: "lost",
    started: true,
    message: "its process is gone and left no exit status",
  };
  return conclude(cause ?? loss, treeOf(dir, marker, identity));
}

/** Everything that belongs to the attempt of a folder. */
function treeOf(dir: string, marker: string, leader?: Identity): ProcessTree {
  return { marker, ...defined({ leader, runtime: runtimeIn(dir) }) };
}

/** The process that only repeats the checks of an attempt, or how it ended. */
async function adoptRound(
  round: string,
  marker: string,
  limits: Limits,
): Promise<ProcessEnding | StepProcess> {
  const found = await processOrEnding(round, marker, limitsOfRound(limits));
  if ("how" in found) return endedByRound(found);
  return { ...found, ended: found.ended.then(endedByRound) };
}

/** Exit statuses of work that SIGHUP, SIGINT or SIGTERM ended. */
const ENDED_BY_SIGNAL: readonly number[] = [129, 130, 143];

/**
 * The ending of a process that exited while no runner watched; its leftovers are ended first.
 * Killed work is lost, whatever its status. A machine that shuts down ends all processes with
 * SIGTERM, so that status proves nothing about the work either.
 */
async function exited(
  dir: string,
  marker: string,
  limits: Limits,
  status: ExitStatus,
): Promise<ProcessEnding> {
  const claim = readClaim(dir);
  const leader = claim.by === "process" ? claim.identity : undefined;
  const tree = treeOf(dir, marker, leader);
  if (wasKilled(dir, status)) return conclude(KILLED, tree);
  if (leader !== undefined && leader.boot !== bootId() && ENDED_BY_SIGNAL.includes(status.exit)) {
    return { how: "lost", started: true, message: "it was ended when the machine went down" };
  }
  const ageMs = Number.POSITIVE_INFINITY;
  return endedBy(status, { tree, limits, ageMs, skipGrace: new AbortController().signal });
}

/** The claim of the folder, once it is certain; an unclaimed folder gets the fence. */
async function certainClaim(dir: string, marker: string): Promise<ReturnType<typeof readClaim>> {
  const deadline = performance.now() + CLAIM_WAIT_MAX_MS;
  if (readClaim(dir).by === "nobody") fence(dir);
  let claim = readClaim(dir);
  let mayStillWrite = true;
  while (claim.by === "unknown" && mayStillWrite && performance.now() < deadline) {
    await pause(CLAIM_CHECK_MS);
    // Look for the writer first, then read: a writer that has ended writes nothing more.
    mayStillWrite = !HAS_PROC || findMarked(marker).length > 0;
    claim = readClaim(dir);
  }
  return claim;
}

function follow(dir: string, marker: string, limits: Limits, identity: Identity): StepProcess {
  const tree = treeOf(dir, marker, identity);
  const supervision = new Supervision({ dir, tree, limits, ageMs: ageMs(identity) });
  const check = (): void => {
    supervision.guarded(() => {
      if (readExit(dir) !== undefined || !isAlive(identity)) {
        supervision.wrapperEnded("its process died without an exit status");
      }
    });
  };
  const timer = setInterval(check, LIVENESS_CHECK_MS);
  const unwatch = watchFile(join(dir, ATTEMPT_FILE.pid), check);
  const stopWatching = (): void => {
    clearInterval(timer);
    unwatch?.();
  };
  supervision.ended.then(stopWatching, stopWatching);
  const cause = readCause(dir);
  if (cause !== undefined) supervision.resumeEnding(cause);
  // It may have ended before the watch began.
  check();
  return {
    ended: supervision.ended,
    stop: (how) => supervision.stop(how),
    release: () => {
      stopWatching();
      supervision.release();
    },
  };
}

/** runner/D1: kills the remaining processes, then reports the ending. */
async function conclude(cause: Cause, tree: ProcessTree): Promise<ProcessEnding> {
  const first = findLive(tree);
  const left = await endAll(tree, { graceMs: 0, skipGrace: AbortSignal.abort(), first });
  return withSurvivors(cause, left);
}
