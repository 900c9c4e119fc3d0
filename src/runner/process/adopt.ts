/**
 * Adopts the process of an attempt that an earlier runner recorded as started.
 *
 * Owns: finding out by evidence what became of it, and following a living one.
 * Does not: guess. The evidence, in this order: a complete exit status; nobody claimed the folder
 * (then we claim it, and nothing can start any more); the process that claimed it is alive; the
 * process is lost.
 * Invariants:
 * - runner/D1 before a loss is reported, every process of the attempt is dead.
 * - runner/D2 the timeout counts from the process's own start, not from now.
 */
import { join } from "node:path";
import {
  ATTEMPT_FILE,
  type Cause,
  type Claim,
  type ExitStatus,
  fence,
  isUnchecked,
  KILLED,
  readCause,
  readClaim,
  readExit,
  wasKilled,
} from "./attempt-folder.ts";
import { ageMs, bootId, HAS_PROC, type Identity, isAlive, processLiveness } from "./identity.ts";
import { findLive, type ProcessTree } from "./process-tree.ts";
import type { Limits, ProcessEnding, StepProcess } from "./step-process.ts";
import { endedBy, Supervision, withSurvivors } from "./supervision.ts";
import { endAll, findMarked } from "./sweep.ts";
import { pause, watchFile } from "./waiting.ts";

/** How often an adopted process is looked at. */
export const LIVENESS_CHECK_MS = 500;

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

/** What adoption would find in this folder now. Only reads: no fence, no signal. */
export function lookAt(dir: string): "alive" | "exited" | "dead" {
  // A process that an earlier runner was ending is not adopted, whatever its exit status says.
  if (readCause(dir) !== undefined) return "dead";
  const claim = readClaim(dir);
  const alive = claim.by === "process" && isAlive(claim.identity);
  // In this order: it may end between the two looks.
  if (readExit(dir) !== undefined) return "exited";
  if (alive) return "alive";
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
    return conclude({ how: "lost", started: claim.by !== "fence", message }, { marker });
  }
  const { identity } = claim;
  if (status === undefined && isAlive(identity)) return follow(dir, marker, limits, identity);
  const late = readExit(dir);
  if (late !== undefined && cause === undefined) return exited(dir, marker, limits, late);
  const loss: Cause = {
    how: "lost",
    started: true,
    message: "its process is gone and left no exit status",
  };
  return conclude(cause ?? loss, { marker, leader: identity });
}

/** Exit statuses of work that SIGHUP, SIGINT or SIGTERM ended. */
const ENDED_BY_SIGNAL: readonly number[] = [129, 130, 143];

/**
 * The ending of a process that exited while no runner watched; what it left running is ended first.
 * Work that was killed is lost, whatever its status says. A machine that shuts down ends everything
 * with SIGTERM, so that status says nothing about the work either.
 */
async function exited(
  dir: string,
  marker: string,
  limits: Limits,
  status: ExitStatus,
): Promise<ProcessEnding> {
  const claim = readClaim(dir);
  const leader = claim.by === "process" ? claim.identity : undefined;
  const tree = { marker, ...(leader && { leader }) };
  if (wasKilled(dir, status)) return conclude(KILLED, tree);
  if (leader !== undefined && leader.boot !== bootId() && ENDED_BY_SIGNAL.includes(status.exit)) {
    return { how: "lost", started: true, message: "it was ended when the machine went down" };
  }
  const ageMs = Number.POSITIVE_INFINITY;
  return endedBy(status, { tree, limits, ageMs, hurry: new AbortController().signal });
}

/** Who claimed the folder, once that is certain; a folder that nobody claimed gets the fence. */
async function certainClaim(dir: string, marker: string): Promise<Claim> {
  const deadline = performance.now() + CLAIM_WAIT_MAX_MS;
  if (readClaim(dir).by === "nobody") fence(dir);
  let claim = readClaim(dir);
  let mayStillWrite = true;
  while (claim.by === "unknown" && mayStillWrite && performance.now() < deadline) {
    await pause(CLAIM_CHECK_MS);
    // Look for the writer first, then read: a writer that is gone has written all it ever will.
    mayStillWrite = !HAS_PROC || findMarked(marker).length > 0;
    claim = readClaim(dir);
  }
  return claim;
}

function follow(dir: string, marker: string, limits: Limits, identity: Identity): StepProcess {
  const tree = { marker, leader: identity };
  const supervision = new Supervision({ dir, tree, limits, ageMs: ageMs(identity) });
  const look = (): void => {
    supervision.guarded(() => {
      if (readExit(dir) !== undefined || !isAlive(identity)) {
        supervision.wrapperEnded("its process died without an exit status");
      }
    });
  };
  const timer = setInterval(look, LIVENESS_CHECK_MS);
  const unwatch = watchFile(join(dir, ATTEMPT_FILE.pid), look);
  const stopWatching = (): void => {
    clearInterval(timer);
    unwatch?.();
  };
  supervision.ended.then(stopWatching, stopWatching);
  const cause = readCause(dir);
  if (cause !== undefined) supervision.resumeEnding(cause);
  // It may have ended between the first look and the watch.
  look();
  return {
    ended: supervision.ended,
    stop: (how) => supervision.stop(how),
    release: () => {
      stopWatching();
      supervision.release();
    },
  };
}

/** runner/D1: kills what is left, then reports the ending. */
async function conclude(cause: Cause, tree: ProcessTree): Promise<ProcessEnding> {
  const first = findLive(tree);
  const left = await endAll(tree, { graceMs: 0, hurry: AbortSignal.abort(), first });
  return withSurvivors(cause, left);
}
