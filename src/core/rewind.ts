/** Going back: what a person's wish to run a step again, or to go on from it, does to a run. */
import { closureOf, indexOf } from "../plan/graph-index.ts";
import type { Plan } from "../plan/plan.ts";
import { needsTurns } from "./conversation.ts";
import type { RunEvent, RunRewound } from "./event.ts";
import type { Fact } from "./fact.ts";
import { failedInside, hidesFailures, outermost } from "./failed-items.ts";
import { placeText, ROOT_SCOPE, stepPath } from "./place.ts";
import { unfinishedBefore } from "./rewind-way.ts";
import {
  currentVisit,
  findStep,
  isUncertain,
  placeOf,
  type Run,
  stepOf,
  type Visit,
} from "./run.ts";

/** A wish that cannot be granted; the message says why and what can be done. */
export class Refusal extends Error {
  override readonly name = "Refusal";
}

/** What going on from a step would do: which steps run again, which are taken as done. */
export function planRewind(plan: Plan, run: Run, step: string): Omit<RunRewound, "type"> {
  const { graph } = plan;
  const start = indexOf(graph).byId.get(step);
  if (start === undefined) throw new Refusal(unknownStep(plan, step));
  const root = run.scopes.get(ROOT_SCOPE);
  const idOf = (position: number): string => graph.steps[position]?.id ?? "";
  return {
    step,
    reopened: closureOf(graph, start).map(idOf),
    assumed: root === undefined ? [] : unfinishedBefore(root, start).map(idOf),
  };
}

/** The event of going on from a step. */
export function rewindEvent(
  plan: Plan,
  run: Run,
  { step, visit, restore, outputs, repeat }: Extract<Fact, { type: "rewind-requested" }>,
): RunRewound {
  return {
    type: "run.rewound",
    ...planRewind(plan, run, step),
    ...(visit === undefined ? {} : { visit }),
    ...(restore === undefined ? {} : { restore }),
    ...(outputs === undefined ? {} : { outputs }),
    ...(repeat === undefined ? {} : { repeat }),
  };
}

/** What a retry among the wishes grants by itself, and the opening therefore does not. */
export function retriedBy(wishes: readonly Fact[]): { readonly retried?: string } {
  const retry = wishes.find((wish) => wish.type === "retry-requested");
  return retry === undefined ? {} : { retried: retry.step };
}

type RetryWish = Omit<Extract<Fact, { type: "retry-requested" }>, "type">;

/** The events of running a step again: another allowance when it failed, a rewind when it is done. */
export function retryEvents(plan: Plan, run: Run, wish: RetryWish): readonly RunEvent[] {
  const { step: path, restore, keep, failed, turns, repeat } = wish;
  const record = findStep(run, path);
  const visit = currentVisit(record);
  if (visit !== undefined) refuseRepeating(run, visit);
  if (visit?.state.status === "failed" && run.failed.has(visit)) {
    const granted = grants(run, visit, keep === true || restore !== undefined, turns);
    if (restore === undefined) return granted;
    return [{ type: "run.restoring", commit: restore, of: placeText(placeOf(visit)) }, ...granted];
  }
  const items = visit === undefined ? [] : failedItems(run, visit, failed === true);
  if (failed === true && items.length === 0) throw new Refusal(`no item of step ${path} failed`);
  if (items.length > 0) return itemEvents(plan, run, items, turns);
  if (record !== undefined && record.scope.id !== ROOT_SCOPE) {
    throw new Refusal(notAgain(path, visit));
  }
  const rewind = planRetry(plan, run, path);
  const wanted = {
    ...(restore === undefined ? {} : { restore }),
    ...(repeat === undefined ? {} : { repeat }),
  };
  return [{ type: "run.rewound", ...rewind, ...wanted }];
}

/** What running a step of the pipeline again opens; everything before it must be done. */
function planRetry(plan: Plan, run: Run, step: string): Omit<RunRewound, "type"> {
  const rewind = planRewind(plan, run, step);
  const before = rewind.assumed[0];
  if (before === undefined) return rewind;
  throw new Refusal(`step ${step} cannot run yet: step ${before} before it is not done`);
}

/** The failed items that run again alone: those in a fan-out, or the one that is named. */
function failedItems(run: Run, visit: Visit, all: boolean): readonly Visit[] {
  const outer = all ? visit : outermost(visit);
  if (outer.record.scope.id !== ROOT_SCOPE || !hidesFailures(outer)) return [];
  const failed = [...failedInside(run, outer)].filter((one) => !isForPeople(one));
  return all ? failed : failed.filter((one) => one === visit);
}

function itemEvents(
  plan: Plan,
  run: Run,
  items: readonly Visit[],
  turns: number | undefined,
): readonly RunEvent[] {
  const [first] = items;
  const step = first === undefined ? "" : stepOf(outermost(first)).id;
  const { reopened, assumed } = planRetry(plan, run, step);
  const behind = reopened.filter((id) => id !== step);
  const places = items.map((item) => placeText(placeOf(item)));
  return [
    { type: "run.rewound", step, reopened: behind, assumed, items: places },
    ...items.map((item) => ({ ...grantFor(run, item, turns), files: "keep" }) as const),
  ];
}

/** Why a step inside of another one is not run again by itself, and what is. */
function notAgain(path: string, visit: Visit | undefined): string {
  const said =
    visit?.state.status === "failed"
      ? `step ${path} failed, and the pipeline has gone on`
      : `step ${path} has not failed`;
  const outer = path.slice(0, path.indexOf("@"));
  return `${said}; only a step of the pipeline itself can be run again, such as ${outer}`;
}

/** Another allowance for a failed visit; of a composite, for the failures in it that made it fail. */
function grants(
  run: Run,
  visit: Visit,
  chosen: boolean,
  turns: number | undefined,
): readonly RunEvent[] {
  const causes = causesOf(run, visit);
  for (const cause of causes) refuseRepeating(run, cause);
  return causes.map((failed) => {
    const granted = grantFor(run, failed, turns);
    return chosen ? { ...granted, files: "keep" } : granted;
  });
}

/** The failures, in it or its own, that made a visit fail. */
function causesOf(run: Run, visit: Visit): readonly Visit[] {
  return [...run.failed].filter((failed) => isWithin(failed, visit) && !isCausedInside(failed));
}

/** Another try of a fan-out: what failed in its items gets one, and what is done stays done. */
export function itemGrants(run: Run, visit: Visit): readonly RunEvent[] {
  if (stepOf(visit).work.kind !== "each") return [];
  return causesOf(run, visit)
    .filter((failed) => !isForPeople(failed))
    .map((failed) => grantFor(run, failed));
}

/** Another allowance for a failed visit; turns are for those that have used up theirs. */
export function grantFor(
  run: Run,
  failed: Visit,
  turns?: number,
): Extract<RunEvent, { type: "step.granted" }> {
  const { attempts } = stepOf(failed).retry;
  const granted = { type: "step.granted", ...placeOf(failed), attempts } as const;
  return turns === undefined || !needsTurns(run, failed) ? granted : { ...granted, turns };
}

/** True when `resume` of a failed run gives this failure another allowance. */
export function resumeGrants(visit: Visit): boolean {
  const fresh = stepOf(visit).retry.onResume === "fresh";
  return fresh && !isForPeople(visit) && !isCausedInside(visit);
}

/** What may have happened, or was given up, is for a person to say. */
function isForPeople({ state }: Visit): boolean {
  return state.status === "failed" && ["once", "aborted"].includes(state.reason);
}

/** True when a visit failed only because something in it did. */
function isCausedInside({ state }: Visit): boolean {
  return state.status === "failed" && state.reason === "items";
}

/** True for a visit and all that lies in it. */
export function isWithin(visit: Visit, outer: Visit): boolean {
  for (let at: Visit | undefined = visit; at !== undefined; at = at.record.scope.parent) {
    if (at === outer) return true;
  }
  return false;
}

/** What may have happened and must not happen twice is not run again in passing. */
function refuseRepeating(run: Run, visit: Visit): void {
  const path = stepPath(placeOf(visit));
  if (isUncertain(visit)) {
    const remedy = `settle it first: perdure settle ${run.id} ${path} done|redo|abort`;
    throw new Refusal(`step ${path} may have happened, and must not happen twice: ${remedy}`);
  }
  if (visit.state.status === "failed" && visit.state.reason === "aborted") {
    const remedy = `perdure resume ${run.id} --from-step STEP goes on from another one`;
    throw new Refusal(`step ${path} was given up for good; ${remedy}`);
  }
}

function unknownStep(plan: Plan, step: string): string {
  const ids = plan.graph.steps.slice(0, 20).map(({ id }) => id);
  const more = plan.graph.steps.length > ids.length ? ", ..." : "";
  return `there is no step ${step} in this run; its steps are ${ids.join(", ")}${more}`;
}
