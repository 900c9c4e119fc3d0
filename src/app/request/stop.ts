/** Stops a run: asks its owner through the inbox, or ends the processes that a dead owner left. */

import type { Owner, StopMode } from "../../core/event.ts";
import { waitsForPerson } from "../../core/next-actions.ts";
import { attemptOf, visitRef } from "../../core/run.ts";
import { stepPath } from "../../core/step-path.ts";
import { attemptIdOf } from "../../engine/launch.ts";
import { attemptDirOf } from "../../engine/state-dir.ts";
import type { RunSummary } from "../../journal/run-log.ts";
import { mayLive } from "../../runner/process/adopt.ts";
import { hasContainers } from "../../runner/process/sandbox.ts";
import { attemptMarker, findMarked, runMarker, sweep } from "../../runner/process/sweep.ts";
import { gateName } from "../../view/question-text.ts";
import { execute } from "../drive/drive.ts";
import { ownerText, thisStopper } from "../drive/owner.ts";
import { ownedError } from "../drive/ownership.ts";
import { NO_DISPLAY } from "../drive/screen.ts";
import { type LoadedRun, loadRun } from "../loaded-run.ts";
import {
  type FleetWorkers,
  isElsewhere,
  livenessOf,
  type Project,
  resolveRunId,
  shortIdOf,
} from "../project/project.ts";
import { command, Refusal, when } from "../refusal.ts";
import { openQuestions } from "./answer.ts";

interface StoppedRun {
  readonly runId: string;
  readonly shortId: string;
}

/** The result of the request to stop a run. */
type StopResult =
  /**
   * The owner has the request and stops the run as soon as the mode allows. Without an owner, the next
   * worker of the fleet stops the run before it starts a step.
   */
  | ({ readonly kind: "asked"; readonly owner: Owner | undefined } & StoppedRun)
  /** The owner was dead; the steps that it left running have ended. */
  | ({ readonly kind: "ended"; readonly steps: readonly string[] } & StoppedRun);

/** Asks the owner of a run to stop it, or ends the steps that a dead owner left. */
export async function stopRun(
  project: Project,
  id: string | undefined,
  mode: StopMode,
): Promise<StopResult> {
  const { journal } = project;
  const runId = id === undefined ? await onlyLiveRun(project) : await resolveRunId(journal, id);
  const lease = await journal.leases.of(runId);
  const shortId = await shortIdOf(journal, runId);
  const by = thisStopper();
  if (lease?.owner === undefined || livenessOf(lease) !== "owned") {
    const { workers } = project;
    if (workers !== undefined) return stopQueued(project, workers, { runId, mode, by });
    return endOrphans(project, await loadRun(project, runId), { mode, by });
  }
  if (lease.owner.place !== undefined) throw ownedError(shortId, lease.owner);
  if (isElsewhere(lease)) {
    // The pid of an owner elsewhere names another process here, or none.
    const message = `run ${shortId} is owned by ${ownerText(lease.owner)}: stop it there`;
    throw new Refusal("run-owned", message, when(`on ${lease.owner.host}`, "stop", shortId));
  }
  if (lease.owner.opens !== undefined) throw ownedError(shortId, lease.owner);
  await journal.inbox.send(runId, { type: "stop", mode, by });
  return { kind: "asked", runId, shortId, owner: lease.owner };
}

/**
 * Stops a run that no worker has: it is queued, waits for a time, or its worker is gone. Its steps are
 * dead, and the worker that takes it records the stop.
 */
async function stopQueued(
  project: Project,
  workers: FleetWorkers,
  { runId, mode, by }: { readonly runId: string; readonly mode: StopMode; readonly by: string },
): Promise<StopResult> {
  const known = await loadRun(project, runId);
  const { run, shortId } = known;
  if (known.cleanedAt !== undefined || waitsForPerson(run)) throw unownedError(known);
  const hasEnded = ["completed", "failed", "stopped"].includes(run.state.status);
  const outcome = await workers.stop(runId, { seq: run.seq, hasEnded, mode, by });
  if (outcome === "nothing") throw unownedError(known);
  // A worker has just taken it, and reads its requests.
  if (outcome === "owned") return stopRun(project, runId, mode);
  return { kind: "asked", runId, shortId, owner: undefined };
}

/** Ends the steps that a dead owner left; this process owns the run meanwhile. */
async function endOrphans(
  project: Project,
  known: LoadedRun,
  stop: { readonly mode: StopMode; readonly by: string },
): Promise<StopResult> {
  const { id, run, shortId } = known;
  if (!hasOrphans(known)) throw unownedError(known);
  const steps = Array.from(run.running, (visit) => stepPath(visitRef(visit)));
  await execute(project, known, { display: NO_DISPLAY, stop });
  // Processes may also remain of attempts that have ended.
  await sweep(runMarker(id));
  return { kind: "ended", runId: id, shortId, steps };
}

/** True when steps of a run without an owner, or processes that they started, may live. */
function hasOrphans({ id, run, dir }: LoadedRun): boolean {
  if (findMarked(runMarker(id)).length > 0) return true;
  return [...run.running].some((visit) => {
    const at = attemptOf(visit);
    const folder = attemptDirOf(dir, at);
    return mayLive(folder) || hasContainers(folder, attemptMarker(attemptIdOf(id, at)));
  });
}

/**
 * The refusal to stop a run that has no owner and no process, with its state and the next command.
 */
function unownedError(known: LoadedRun): Refusal {
  const { run, shortId } = known;
  const still = `run ${shortId} has nothing running to stop`;
  if (!waitsForPerson(run)) return new Refusal("nothing-to-stop", still, command("why", shortId));
  const open = openQuestions(known).find(({ answer }) => answer === undefined);
  if (open === undefined) {
    const message = `${still}: it has the answer that it waited for, and continues when it is resumed`;
    return new Refusal("nothing-to-stop", message, command("resume", shortId));
  }
  const name = gateName(open.visit);
  const message = `${still}: it is waiting for a person to answer ${name}`;
  return new Refusal("nothing-to-stop", message, command("answer", shortId, name));
}

async function onlyLiveRun(project: Project): Promise<string> {
  const open = { status: ["queued", "running", "waiting"], limit: 100 } as const;
  const live: RunSummary[] = [];
  for (const run of await project.journal.log.list(open)) {
    const isOwned = livenessOf(run.lease) === "owned";
    if (isOwned) live.push(run);
    else if (project.workers === undefined && hasOrphans(await loadRun(project, run.runId))) {
      live.push(run);
    }
  }
  const [first, second] = live;
  if (first === undefined)
    throw new Refusal("nothing-to-stop", "no run is running here", command("list", "runs"));
  if (second === undefined) return first.runId;
  throw new Refusal(
    "ambiguous-run",
    `${live.length} runs are running: name one`,
    command("list", "runs"),
  );
}
