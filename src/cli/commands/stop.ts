/**
 * `perdure stop RUN`: asks the owner of a run to stop it; the request is recorded, then signalled.
 * Of a run whose owner is dead it ends what still runs.
 */
import { userInfo } from "node:os";
import { execute, ownedError } from "../../app/execute.ts";
import { openQuestions } from "../../app/give-answer.ts";
import { type KnownRun, loadRun } from "../../app/known-run.ts";
import { ownerText, wake } from "../../app/owner.ts";
import {
  isElsewhere,
  livenessOf,
  openProject,
  type Project,
  resolveRunId,
  shortIdOf,
} from "../../app/project.ts";
import { command, Refusal, when } from "../../app/refusal.ts";
import { NO_DISPLAY } from "../../app/screen.ts";
import type { StopMode } from "../../core/event.ts";
import { waitsForPerson } from "../../core/next-actions.ts";
import { stepPath } from "../../core/place.ts";
import { attemptOf, placeOf } from "../../core/run.ts";
import { attemptDirOf } from "../../engine/state-dir.ts";
import { mayLive } from "../../runner/process/adopt.ts";
import { findMarked, runMarker, sweep } from "../../runner/process/sweep.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { gateName } from "../../view/question-text.ts";
import { print } from "../print.ts";

export interface StopOptions {
  readonly afterStep?: boolean;
  readonly afterTurn?: boolean;
}

const WHEN: Readonly<Record<StopMode, string>> = {
  now: "now",
  "after-turn": "when its agents have finished their turns",
  "after-step": "after the steps that are running",
};

/** Stops a run that is owned by another process, or ends what a dead one left running. */
export async function stopCommand(id: string | undefined, options: StopOptions): Promise<ExitCode> {
  const project = openProject(process.cwd(), "read-write");
  const runId = id === undefined ? onlyLiveRun(project) : resolveRunId(project.journal, id);
  const { journal } = project;
  const lease = journal.leaseOf(runId);
  const shortId = shortIdOf(journal, runId);
  const mode: StopMode =
    options.afterTurn === true ? "after-turn" : options.afterStep === true ? "after-step" : "now";
  const by = `perdure stop (${userInfo().username})`;
  if (lease?.owner === undefined || livenessOf(lease) !== "owned") {
    return endOrphans(project, loadRun(project, runId), { mode, by });
  }
  if (isElsewhere(lease)) {
    // Its pid means another process here, or none.
    const message = `run ${shortId} is owned by ${ownerText(lease.owner)}: stop it there`;
    throw new Refusal("run-owned", message, when(`on ${lease.owner.host}`, "stop", shortId));
  }
  if (lease.owner.opens !== undefined) throw ownedError(shortId, lease.owner);
  journal.request(runId, { type: "stop", mode, by });
  wake(lease.owner);
  print(`Told ${ownerText(lease.owner)} to stop run ${shortId} ${WHEN[mode]}.`);
  if (mode === "now")
    print(`End its steps at once, in the middle of a call: perdure stop ${shortId}`);
  print(`Go on with it later: perdure resume ${shortId}`);
  return EXIT.done;
}

/** Ends what a dead runner left running: this process owns the run for as long as that takes. */
async function endOrphans(
  project: Project,
  known: KnownRun,
  stop: { readonly mode: StopMode; readonly by: string },
): Promise<ExitCode> {
  const { id, run, shortId } = known;
  if (!hasOrphans(known)) throw unownedError(known);
  const steps = Array.from(run.running, (visit) => stepPath(placeOf(visit)));
  await execute(project, known, { display: NO_DISPLAY, stop });
  // What has lost its step, and belongs to no attempt that is open any more.
  await sweep(runMarker(id));
  const what = steps.length === 0 ? "what it left running" : `step ${steps.join(", ")}`;
  print(`Stopped run ${shortId}: its runner was dead, and ${what} has ended.`);
  print(`Resume it later: perdure resume ${shortId}`);
  return EXIT.done;
}

/** True when something of a run that nobody drives may live: steps, or what they started. */
function hasOrphans({ id, run, dir }: KnownRun): boolean {
  if (findMarked(runMarker(id)).length > 0) return true;
  return [...run.running].some((visit) => mayLive(attemptDirOf(dir, attemptOf(visit))));
}

/** Nobody drives it, so there is nothing to stop: says how it stands, and what to type. */
function unownedError(known: KnownRun): Refusal {
  const { run, shortId } = known;
  const still = `nothing of run ${shortId} is running that could be stopped`;
  if (!waitsForPerson(run)) return new Refusal("nothing-to-stop", still, command("why", shortId));
  const open = openQuestions(known).find(({ answer }) => answer === undefined);
  if (open === undefined) {
    const message = `${still}: it has the answer that it waited for, and goes on when it is resumed`;
    return new Refusal("nothing-to-stop", message, command("resume", shortId));
  }
  const name = gateName(open.visit);
  const message = `${still}: it waits for a person to answer ${name}, and stays so until then`;
  return new Refusal("nothing-to-stop", message, command("answer", shortId, name));
}

function onlyLiveRun(project: Project): string {
  const live = project.journal
    .list({ status: ["queued", "running", "waiting"], limit: 100 })
    .filter(
      ({ lease, runId }) => livenessOf(lease) === "owned" || hasOrphans(loadRun(project, runId)),
    );
  const [first, second] = live;
  if (first === undefined)
    throw new Refusal("nothing-to-stop", "no run is going on here", command("list", "runs"));
  if (second === undefined) return first.runId;
  throw new Refusal(
    "ambiguous-run",
    `${live.length} runs are going on: say which`,
    command("list", "runs"),
  );
}
