/**
 * A person skips a step: one that failed, waits, is uncertain, or has not started.
 *
 * Owns: the skip as a request to the living owner of the run, or as a fact when there is none.
 * Does not: continue the run; its living owner does, or `perdure resume`.
 */

import { seenLast } from "../../core/graph/retry.ts";
import { skipEvents } from "../../core/graph/visit-end.ts";
import { currentVisit, findStep, visitRef } from "../../core/run.ts";
import { parseVisit, stepPath } from "../../core/step-path.ts";
import { defined } from "../../util/defined.ts";
import { execute } from "../drive/drive.ts";
import { thisPerson } from "../drive/owner.ts";
import { NO_DISPLAY } from "../drive/screen.ts";
import type { LoadedRun } from "../loaded-run.ts";
import { stepNamed } from "../project/names.ts";
import type { Project } from "../project/project.ts";
import { command, naming, Refusal } from "../refusal.ts";
import { type AskResult, askOwner, newKey, takesRequests } from "./ask-owner.ts";
import { recordAlone } from "./settle.ts";

/** A skip, its author, and the result of the request. */
export interface SkippedStep extends AskResult {
  readonly step: string;
  readonly by: string;
}

/** The step that keeps an unfinished run from its end, if it can be skipped. */
export function blockingStep({ run }: LoadedRun): string | undefined {
  const { probe, owner, retry } = run.waiting;
  const visits = [...run.failed, ...probe, ...owner, ...run.running, ...retry];
  const visit = visits.find(({ instances }) => instances === undefined) ?? visits[0];
  return visit && stepPath(visitRef(visit));
}

/** True for a step that runs, or ran, without an owner of the run. */
function isLeftRunning(known: LoadedRun, step: string): boolean {
  const visit = currentVisit(findStep(known.run, step));
  const runs = visit?.state.status === "running" && visit.instances === undefined;
  return runs && known.liveness !== "owned";
}

/** Records that a person skips a step, or asks the living owner of the run to. */
export async function skipStep(
  { project, known }: { readonly project: Project; readonly known: LoadedRun },
  name: string,
): Promise<SkippedStep> {
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
  const attempt = seenLast(run, { step });
  const request = { type: "skip", key: newKey(), by, step, ...defined({ attempt }) } as const;
  const typed = ["skip", shortId, step];
  return { ...(await askOwner(project, known, request, { typed })), step, by };
}
