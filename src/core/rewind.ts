/** Going back: what a person's wish to run a step again, or to go on from it, does to a run. */
import { ancestorsOf, closureOf, forwardOrder, indexOf } from "../plan/graph-index.ts";
import type { Plan } from "../plan/plan.ts";
import type { RunEvent, RunRewound } from "./event.ts";
import { ROOT_SCOPE } from "./place.ts";
import { currentVisit, findStep, isDone, placeOf, type Run, stepOf, type Visit } from "./run.ts";

/** A wish that cannot be granted; the message says why and what can be done. */
export class Refusal extends Error {
  override readonly name = "Refusal";
}

/** What going on from a step would do: which steps run again, which are taken as done. */
export function planRewind(plan: Plan, run: Run, step: string): Omit<RunRewound, "type"> {
  const { graph } = plan;
  const start = indexOf(graph).byId.get(step);
  if (start === undefined) throw new Refusal(unknownStep(plan, step));
  const records = run.scopes.get(ROOT_SCOPE)?.steps ?? [];
  const idOf = (position: number): string => graph.steps[position]?.id ?? "";
  const unfinished = (position: number): boolean => !isDone(records[position]);
  const ancestors = new Set(ancestorsOf(graph, start, graph.steps.length));
  return {
    step,
    reopened: closureOf(graph, start).map(idOf),
    assumed: forwardOrder(graph)
      .filter((position) => ancestors.has(position) && unfinished(position))
      .map(idOf),
  };
}

/** The events of running a step again: another allowance when it failed, a rewind when it is done. */
export function retryEvents(plan: Plan, run: Run, path: string): readonly RunEvent[] {
  const record = findStep(run, path);
  const visit = currentVisit(record);
  if (visit?.state.status === "failed" && run.failed.has(visit)) return grants(run, visit);
  if (record !== undefined && record.scope.id !== ROOT_SCOPE) {
    throw new Refusal(
      `step ${path} has not failed; only a step of the pipeline itself is run again`,
    );
  }
  const rewind = planRewind(plan, run, path);
  const before = rewind.assumed[0];
  if (before !== undefined) {
    throw new Refusal(`step ${path} cannot run yet: step ${before} before it is not done`);
  }
  return [{ type: "run.rewound", ...rewind }];
}

/** Another allowance for a failed visit; of a composite, for the failures in it that made it fail. */
function grants(run: Run, visit: Visit): readonly RunEvent[] {
  return [...run.failed]
    .filter((failed) => isWithin(failed, visit) && !isCausedInside(failed))
    .map((failed) => {
      const { attempts } = stepOf(failed).retry;
      return { type: "step.granted", ...placeOf(failed), attempts };
    });
}

/** True when `resume` of a failed run gives this failure another allowance. */
export function resumeGrants(visit: Visit): boolean {
  const { state } = visit;
  // Whether a step happened that must not happen twice is for a person to say.
  const unsettled = state.status === "failed" && state.reason === "once";
  return !unsettled && !isCausedInside(visit) && stepOf(visit).retry.onResume === "fresh";
}

/** True when a visit failed only because something in it did. */
function isCausedInside({ state }: Visit): boolean {
  return state.status === "failed" && state.reason === "items";
}

function isWithin(visit: Visit, outer: Visit): boolean {
  for (let at: Visit | undefined = visit; at !== undefined; at = at.record.scope.parent) {
    if (at === outer) return true;
  }
  return false;
}

function unknownStep(plan: Plan, step: string): string {
  const ids = plan.graph.steps.slice(0, 20).map(({ id }) => id);
  const more = plan.graph.steps.length > ids.length ? ", ..." : "";
  return `there is no step ${step} in this run; its steps are ${ids.join(", ")}${more}`;
}
