/**
 * A person's verdict on a step whose effect is uncertain: done, redo or abort.
 *
 * Owns: the verdict as a fact or a request, and the short ownership of the run in which it is
 *   recorded when no other process owns the run.
 * Does not: continue the run; its living owner does, or `perdure resume`.
 */

import { uncertainVisit } from "../../core/attempt/uncertain.ts";
import type { Verdict } from "../../core/event.ts";
import type { FactOf, Result } from "../../core/fact.ts";
import { attemptOf, currentVisit, findStep, type Visit } from "../../core/run.ts";
import { attemptText, parseVisit, stepPath } from "../../core/step-path.ts";
import { collectResult } from "../../engine/evidence/evidence.ts";
import { workspaceOf } from "../../engine/launch.ts";
import { recordRequest } from "../../engine/record.ts";
import { attemptDirOf } from "../../engine/state-dir.ts";
import { systemClock } from "../../util/clock.ts";
import { defined } from "../../util/defined.ts";
import { thisOwner, thisPerson } from "../drive/owner.ts";
import { asOwner, ownedError } from "../drive/ownership.ts";
import { runEnvironment } from "../drive/run-environment.ts";
import { RunFiles } from "../drive/run-files.ts";
import { type LoadedRun, loadRun, reloadRun } from "../loaded-run.ts";
import { stepNamed } from "../project/names.ts";
import type { Project } from "../project/project.ts";
import { advice, command, Refusal, RunError, when } from "../refusal.ts";
import { type AskResult, askOwner, newKey, takesRequests } from "./ask-owner.ts";

const VERDICTS: readonly Verdict[] = ["done", "redo", "abort"];

type SettledFact = FactOf<"settled">;
type GivenVerdict = Pick<SettledFact, "step" | "as" | "by" | "identity">;

/** A verdict, its author, and the result of the request. */
export interface Settled extends AskResult {
  readonly as: Verdict;
  readonly by: string;
}

/** Records a person's verdict on an uncertain effect, or asks the living owner of the run to. */
export async function settleStep(
  { project, known }: { readonly project: Project; readonly known: LoadedRun },
  name: string,
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
  const { shortId, cleanedAt } = known;
  if (cleanedAt !== undefined) {
    const message = `run ${shortId} cannot continue: its files were removed`;
    throw new Refusal("files-removed", message, command("why", shortId));
  }
  const by = thisPerson();
  const step = stepPath(parseVisit(stepNamed(known, name)));
  const given = { step, as, by, ...defined({ identity }) };
  if (takesRequests(project, known)) {
    const attempt = attemptText(attemptOf(uncertainIn(known, step)));
    const request = { type: "settle", key: newKey(), ...given, attempt } as const;
    const typed = ["settle", shortId, step, as];
    const asked = await askOwner(project, known, request, { typed });
    // The owner may have been another person's command: then that verdict counts.
    if (asked.outcome === "owner-ended") uncertainIn(asked.known, step);
    return { ...asked, as, by };
  }
  return { ...(await recordAlone(project, known, (now) => settledFact(now, given))), as, by };
}

/** The visit that the living owner of a run is asked to settle. */
function uncertainIn({ run, shortId }: LoadedRun, step: string): Visit {
  const isRunning = currentVisit(findStep(run, step))?.state.status === "running";
  try {
    return uncertainVisit(run, step);
  } catch (error) {
    if (!isRunning) throw new RunError(shortId, error);
    const message = `there is nothing to settle yet: step ${step} is running`;
    throw new Refusal("step-running", message, command("attach", shortId));
  }
}

/** Records a fact as the owner of the run, for a moment. Throws while somebody else owns it. */
export async function recordAlone(
  project: Project,
  known: LoadedRun,
  factOf: (now: LoadedRun) => Promise<FactOf<"settled" | "skip-requested">>,
): Promise<AskResult> {
  const { liveness, lease, shortId } = known;
  const owner = lease?.owner;
  if (liveness === "owned" && owner !== undefined) throw ownedError(shortId, owner);
  await asOwner(project, known, thisOwner(), async (epoch) => {
    const now = await reloadRun(project, known);
    const fact = await factOf(now);
    const places = { workspaceOf: workspaceOf(now.dir) };
    const { log } = project.journal;
    const site = { ...now, ...places, log, epoch, now: systemClock().now() };
    await recordRequest(site, fact);
    await completeFiles(project, known.id);
  }).catch((error: unknown) => {
    throw new RunError(shortId, error);
  });
  return { outcome: "handled", known: await loadRun(project, known.id) };
}

/** The fact of a verdict, with the result of the step for the steps after it. */
export async function settledFact(
  known: LoadedRun,
  { step, as, by, identity }: GivenVerdict,
): Promise<SettledFact> {
  const result = as === "done" ? await resultOf(known, step) : undefined;
  return { type: "settled", step, as, by, ...defined({ identity, result }) };
}

/**
 * The result of the interrupted step. Throws when outputs are missing: no verdict replaces them.
 */
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
