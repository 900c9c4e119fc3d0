/**
 * A person's verdict on a step whose effect is uncertain: done, redo or abort.
 *
 * Owns: the short ownership of the run in which the verdict is recorded.
 * Does not: continue the run; `perdure resume` does.
 */

import { uncertainVisit } from "../core/attempt/uncertain.ts";
import type { Verdict } from "../core/event.ts";
import type { Result } from "../core/fact.ts";
import { attemptOf } from "../core/run.ts";
import { collectResult } from "../engine/evidence/evidence.ts";
import { workspaceOf } from "../engine/launch.ts";
import { recordRequest } from "../engine/record.ts";
import { attemptDirOf } from "../engine/state-dir.ts";
import { systemClock } from "../util/clock.ts";
import { defined } from "../util/defined.ts";
import { type LoadedRun, loadRun, reloadRun } from "./loaded-run.ts";
import { thisOwner } from "./owner.ts";
import { asOwner, ownedError } from "./ownership.ts";
import type { Project } from "./project.ts";
import { advice, command, Refusal, RunError, when } from "./refusal.ts";
import { runEnvironment } from "./run-environment.ts";
import { RunFiles } from "./run-files.ts";

const VERDICTS: readonly Verdict[] = ["done", "redo", "abort"];

/** What was recorded, and in whose name. */
export interface Settled {
  readonly shortId: string;
  readonly as: Verdict;
  readonly by: string;
}

/** Records a person's verdict on an uncertain effect. Throws while somebody drives the run. */
export async function settleStep(
  { project, known }: { readonly project: Project; readonly known: LoadedRun },
  step: string,
  { verdict, identity }: { readonly verdict: string; readonly identity?: string | undefined },
): Promise<Settled> {
  const as = VERDICTS.find((one) => one === verdict);
  if (as === undefined) {
    const message = `a step is settled as ${VERDICTS.join(", ")}, not "${verdict}"`;
    throw new Refusal("bad-option", message);
  }
  if (identity !== undefined && as !== "done") {
    throw new Refusal("bad-option", "--identity names what happened: use it with done");
  }
  const { shortId } = known;
  refuse(known);
  const owner = thisOwner();
  const by = `${owner.user}@${owner.host}`;
  await asOwner(project, known, owner, async (epoch) => {
    const now = await reloadRun(project, known);
    const result = as === "done" ? await resultOf(now, step) : undefined;
    const places = { workspaceOf: workspaceOf(now.dir) };
    const { log } = project.journal;
    const site = { ...now, ...places, log, epoch, now: systemClock().now() };
    const fact = { type: "settled", step, as, by, ...defined({ identity, result }) } as const;
    await recordRequest(site, fact);
    await completeFiles(project, known.id);
  }).catch((error: unknown) => {
    throw new RunError(shortId, error);
  });
  return { shortId, as, by };
}

/** Refuses without a lease what could not be done with one. */
function refuse({ liveness, lease, cleanedAt, shortId }: LoadedRun): void {
  if (cleanedAt !== undefined) {
    const message = `run ${shortId} cannot continue: its files were removed`;
    throw new Refusal("files-removed", message, command("why", shortId));
  }
  const owner = lease?.owner;
  if (liveness === "owned" && owner !== undefined) throw ownedError(shortId, owner);
}

/** What the step produced before it was interrupted; no verdict replaces missing files. */
async function resultOf({ plan, run, dir, shortId }: LoadedRun, step: string): Promise<Result> {
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

async function completeFiles(project: Project, runId: string): Promise<void> {
  const known = await loadRun(project, runId);
  RunFiles.open(known.dir, known.run, known, known.events).close(known.run);
}
