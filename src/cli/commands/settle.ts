/**
 * `perdure settle RUN STEP done|redo|abort`: a person's word on a step that may have happened.
 *
 * Owns: the short ownership of the run in which that word is recorded.
 * Does not: go on with the run; `perdure resume` does.
 */

import { ownedError } from "../../app/execute.ts";
import { type KnownRun, loadRun, reloadRun } from "../../app/known-run.ts";
import { isOwnerAlive, thisOwner } from "../../app/owner.ts";
import { openProject, type Project, resolveRunId } from "../../app/project.ts";
import { advice, command, Refusal, RunError, when } from "../../app/refusal.ts";
import { runEnvironment } from "../../app/run-environment.ts";
import { RunFiles } from "../../app/run-files.ts";
import type { Verdict } from "../../core/event.ts";
import type { Result } from "../../core/fact.ts";
import { Refusal as CoreRefusal } from "../../core/rewind.ts";
import { attemptOf } from "../../core/run.ts";
import { uncertainVisit } from "../../core/uncertain.ts";
import { collectResult } from "../../engine/evidence.ts";
import { workspaceOf } from "../../engine/launch.ts";
import { settle } from "../../engine/settle.ts";
import { attemptDirOf } from "../../engine/state-dir.ts";
import { systemClock } from "../../util/clock.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { print } from "../print.ts";

export interface SettleOptions {
  readonly identity?: string;
}

const VERDICTS: readonly Verdict[] = ["done", "redo", "abort"];

const SAID: Readonly<Record<Verdict, string>> = {
  done: "it happened",
  redo: "it runs again when the run goes on",
  abort: "it is given up",
};

/** Records the word, if there is something to settle and nobody drives the run. */
export async function settleCommand(
  id: string,
  step: string,
  word: string,
  options: SettleOptions,
): Promise<ExitCode> {
  const as = VERDICTS.find((verdict) => verdict === word);
  if (as === undefined) {
    throw new Refusal("bad-option", `a step is settled as ${VERDICTS.join(", ")}, not "${word}"`);
  }
  if (options.identity !== undefined && as !== "done") {
    throw new Refusal("bad-option", "--identity names what happened: it goes with done");
  }
  const project = openProject(process.cwd(), "read-write");
  const known = loadRun(project, resolveRunId(project.journal, id));
  const { shortId } = known;
  refuse(known);
  const owner = thisOwner();
  const by = `${owner.user}@${owner.host}`;
  // As an owner it may be asked to stop; it is done before it could.
  process.on("SIGUSR2", () => undefined);
  const acquired = project.journal.acquire(known.id, owner, isOwnerAlive);
  if (!acquired.ok) throw ownedError(shortId, acquired.owner);
  const { epoch } = acquired;
  try {
    const now = reloadRun(project, known);
    const result = as === "done" ? await resultOf(now, step) : undefined;
    const fact = { type: "settled", step, as, by } as const;
    const { identity } = options;
    const named = identity === undefined ? {} : { identity };
    const places = { workspaceOf: workspaceOf(now.dir) };
    const site = { ...now, ...places, journal: project.journal, epoch, now: systemClock().now() };
    settle(site, { ...fact, ...named, ...(result && { result }) });
  } catch (error) {
    if (error instanceof CoreRefusal || error instanceof Refusal) {
      project.journal.release(known.id, epoch);
    }
    throw new RunError(shortId, error);
  }
  completeFiles(project, known.id);
  project.journal.release(known.id, epoch);
  print(`Step ${step} of run ${shortId} is settled by ${by}: ${SAID[as]}.`);
  print(`Go on: perdure resume ${shortId}`);
  return EXIT.done;
}

/** Refuses without a lease what could not be done with one. */
function refuse({ liveness, lease, cleanedAt, shortId }: KnownRun): void {
  if (cleanedAt !== undefined) {
    const message = `run ${shortId} cannot go on: its files were removed`;
    throw new Refusal("files-removed", message, command("why", shortId));
  }
  const owner = lease?.owner;
  if (liveness === "owned" && owner !== undefined) throw ownedError(shortId, owner);
}

/** What the step handed on before it was cut off; a person cannot vouch for missing files. */
async function resultOf({ plan, run, dir, shortId }: KnownRun, step: string): Promise<Result> {
  const visit = uncertainVisit(run, step);
  const env = runEnvironment(run);
  const attemptDir = attemptDirOf(dir, attemptOf(visit));
  const found = await collectResult({ plan, run, dir, env }, visit, attemptDir);
  if (!("problem" in found)) return found;
  const { message } = found.problem;
  throw new Refusal("output-missing", `step ${step} cannot be settled as done: ${message}`, [
    advice("write the file"),
    when("or", "settle", shortId, step, "redo"),
  ]);
}

function completeFiles(project: Project, runId: string): void {
  const known = loadRun(project, runId);
  RunFiles.open(known.dir, known.run, known, known.events).close(known.run);
}
