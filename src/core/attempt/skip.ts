/**
 * Skips: a step whose condition is false, or that a person does not want to run. The run continues
 * as after a completed step, without the results of the skipped one.
 *
 * Owns: which steps a person can skip, and the events of a skip.
 * Does not: apply them to the run (graph/visit-end.ts).
 * Invariants:
 * - skip/K1 A person skips no running step, and none whose end the run has already followed.
 */
import { indexOf } from "../../plan/graph-index.ts";
import type { EventOf, FailureReason, RunEvent } from "../event.ts";
import { chooseEdges } from "../graph/edge.ts";
import { restartProblem } from "../graph/restart.ts";
import { Refusal, refuseWhileFinishing } from "../graph/rewind.ts";
import { currentVisit, findStep, type Run, type Visit, visitRef } from "../run.ts";
import { parseStepPath } from "../step-path.ts";

type Skip =
  | { readonly ok: true; readonly event: EventOf<"step.skipped"> }
  | {
      readonly ok: false;
      readonly reason: FailureReason;
      readonly message: string;
    };

/** The event that skips a visit, or why no edge can be followed after it. */
export function skipEvent(run: Run, visit: Visit, by?: string): Skip {
  const chosen = chooseEdges(run, visit, { status: "skipped", exit: 0, context: {}, outputs: {} });
  if (!chosen.ok) return chosen;
  const { edges } = chosen;
  const problem = restartProblem(visit, edges);
  if (problem !== undefined) return { ok: false, reason: "restart", message: problem };
  const who = by === undefined ? {} : { by };
  return { ok: true, event: { type: "step.skipped", ...visitRef(visit), edges, ...who } };
}

/** The events of a person's request to skip a step. */
export function skipEvents(run: Run, step: string, by: string): readonly RunEvent[] {
  const place = parseStepPath(step);
  const scope = run.scopes.get(place.scope);
  if (scope === undefined || !indexOf(scope.graph).byId.has(place.step)) {
    throw new Refusal(`there is no step ${step} in this run`, "unknown-step");
  }
  if (scope !== run.finally) refuseWhileFinishing(run);
  else if (run.finishing === undefined) {
    throw new Refusal(`${step} is a step of \`finally\`, and the run has ended`);
  }
  const record = findStep(run, step);
  const visit = currentVisit(record);
  if (visit === undefined) {
    if (record?.unreachable === true) throw new Refusal(`step ${step} will not run in any case`);
    return [{ type: "run.skipping", ...place, by }];
  }
  refuseEnded(run, step, visit);
  const skipped = skipEvent(run, visit, by);
  if (!skipped.ok) throw new Refusal(`step ${step} cannot be skipped: ${skipped.message}`);
  return [skipped.event];
}

/** Refuses a step that runs, or that the run has already left (skip/K1). */
function refuseEnded(run: Run, step: string, visit: Visit): void {
  const { state } = visit;
  switch (state.status) {
    case "waiting":
      if (state.for !== "close") return;
      throw new Refusal(`step ${step} is about to end`, "step-running");
    case "running": {
      const inside = visit.instances === undefined ? "" : "; the steps inside it can be skipped";
      throw new Refusal(`step ${step} is running${inside}`, "step-running");
    }
    case "failed":
      if (run.failed.has(visit)) return;
      throw new Refusal(`step ${step} failed, and the run has continued after it`);
    default:
      throw new Refusal(`step ${step} has ended: it is ${state.status}`);
  }
}
