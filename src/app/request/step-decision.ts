/**
 * What a person decides about a step: a verdict on its uncertain effect (done, redo or abort), or to
 * skip it.
 *
 * Owns: the decision as a request to the living owner of the run; without one, the short ownership of
 *   the run in which this process records it.
 * Does not: continue the run; its living owner does, or `perdure resume`.
 */

import { uncertainVisit } from "../../core/attempt/uncertain.ts";
import type { Verdict } from "../../core/event.ts";
import type { FactOf } from "../../core/fact.ts";
import { lastAttemptText } from "../../core/graph/retry.ts";
import { skipEvents } from "../../core/graph/visit-end.ts";
import { attemptOf, currentVisit, findStep, type Visit, visitRef } from "../../core/run.ts";
import { attemptText, parseVisit, stepPath } from "../../core/step-path.ts";
import { workspaceOf } from "../../engine/launch.ts";
import { recordRequest } from "../../engine/record.ts";
import { systemClock } from "../../util/clock.ts";
import { defined } from "../../util/defined.ts";
import { execute } from "../drive/drive.ts";
import { thisOwner, thisPerson } from "../drive/owner.ts";
import { settledFact } from "../drive/owner-requests.ts";
import { asOwner, ownedError } from "../drive/ownership.ts";
import { completeRunFiles } from "../drive/run-files.ts";
import { NO_DISPLAY } from "../drive/screen.ts";
import { type LoadedRun, loadRun, reloadRun } from "../loaded-run.ts";
import { stepNamed } from "../project/names.ts";
import type { Project } from "../project/project.ts";
import { command, naming, Refusal, RunError } from "../refusal.ts";
import { type AskResult, askOwner, newKey, takesRequests } from "./ask-owner.ts";

const VERDICTS: readonly Verdict[] = ["done", "redo", "abort"];

/** A person's decision, its author, and the result of the request. */
export interface StepDecision extends AskResult {
  readonly step: string;
  readonly by: string;
}

/** Records a person's verdict on an uncertain effect, or asks the living owner of the run to. */
export async function settleStep(
  { project, known }: { readonly project: Project; readonly known: LoadedRun },
  name: string,
  { verdict, identity }: { readonly verdict: string; readonly identity?: string | undefined },
): Promise<StepDecision & { readonly as: Verdict }> {
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
  if (!takesRequests(project, known)) {
    const recorded = await recordAlone(project, known, (now) => settledFact(now, given));
    return { ...recorded, step, as, by };
  }
  const attempt = attemptText(attemptOf(uncertainIn(known, step)));
  const request = { type: "settle", key: newKey(), ...given, attempt } as const;
  const typed = ["settle", shortId, step, as];
  const asked = await askOwner(project, known, request, { typed });
  // The owner may have been another person's command: then that verdict counts.
  if (asked.outcome === "owner-ended") uncertainIn(asked.known, step);
  return { ...asked, step, as, by };
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
async function recordAlone(
  project: Project,
  known: LoadedRun,
  decided: (now: LoadedRun) => Promise<FactOf<"settled" | "skip-requested">>,
): Promise<AskResult> {
  const { liveness, lease, shortId } = known;
  const owner = lease?.owner;
  if (liveness === "owned" && owner !== undefined) throw ownedError(shortId, owner);
  await asOwner(project, known, thisOwner(), async (epoch) => {
    const now = await reloadRun(project, known);
    const fact = await decided(now);
    const { log } = project.journal;
    const owned = { log, epoch, workspaceOf: workspaceOf(now.dir), now: systemClock().now() };
    await recordRequest({ ...now, ...owned }, fact);
    completeRunFiles(await loadRun(project, known.id));
  }).catch((error: unknown) => {
    throw new RunError(shortId, error);
  });
  return { outcome: "handled", known: await loadRun(project, known.id) };
}

/** The step to skip so that an unfinished run can continue. */
export function blockingStep({ run }: LoadedRun): string | undefined {
  const { probe, owner, retry } = run.waiting;
  const visits = [...run.failed, ...probe, ...owner, ...run.running, ...retry];
  const visit = visits.find(({ instances }) => instances === undefined) ?? visits[0];
  return visit && stepPath(visitRef(visit));
}

/** True for a step that was running when its owner ended. */
function isLeftRunning(known: LoadedRun, step: string): boolean {
  const visit = currentVisit(findStep(known.run, step));
  const runs = visit?.state.status === "running" && visit.instances === undefined;
  return runs && known.liveness !== "owned";
}

/** Records that a person skips a step, or asks the living owner of the run to. */
export async function skipStep(
  { project, known }: { readonly project: Project; readonly known: LoadedRun },
  name: string,
): Promise<StepDecision> {
  const { run, shortId, cleanedAt } = known;
  const step = stepPath(parseVisit(stepNamed(known, name)));
  const by = thisPerson();
  if (cleanedAt !== undefined || run.state.status === "completed") {
    const why = cleanedAt === undefined ? "it has completed" : "its files were removed";
    const message = `run ${shortId} does not continue: ${why}`;
    throw new Refusal("impossible", message, command("show", shortId));
  }
  const fact = { type: "skip-requested", step, by } as const;
  if (isLeftRunning(known, step) && !takesRequests(project, known)) {
    // Its process may be alive: it is ended first, as for a rewind.
    const { known: now } = await execute(project, known, {
      display: NO_DISPLAY,
      foreign: "keep",
      stopBy: "perdure skip",
      requested: async () => [fact],
    });
    return { outcome: "handled", known: now, step, by };
  }
  // The refusal of a step that cannot be skipped comes before anything is recorded.
  naming(shortId, () => skipEvents(run, step, by));
  if (!takesRequests(project, known)) {
    return { ...(await recordAlone(project, known, async () => fact)), step, by };
  }
  const attempt = lastAttemptText(run, { step });
  const request = { type: "skip", key: newKey(), by, step, ...defined({ attempt }) } as const;
  const typed = ["skip", shortId, step];
  return { ...(await askOwner(project, known, request, { typed })), step, by };
}
