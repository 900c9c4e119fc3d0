/**
 * Retries and rewinds that a person asks for: the step and every step after it reopen, and their
 * visits become history. In a fan-out that completed although items failed (`on_item_failure:
 * continue`), the failed items alone can run again.
 *
 * Owns: what these requests do to a run, when they are refused, and the meaning of `run.rewound`.
 * Does not: restore files (operations.ts).
 * Invariants:
 * - rewind/V1 A step that selects one edge follows the one towards the wanted step, whatever its
 *   conditions say; its other edges are not followed.
 */
import {
  ancestorsOf,
  closureOf,
  edgeAt,
  forwardOrder,
  indexOf,
  stepAt,
} from "../../plan/graph-index.ts";
import type { Graph, Plan } from "../../plan/plan.ts";
import { assert } from "../../util/assert.ts";
import { defined } from "../../util/defined.ts";
import { repeatEffects } from "../attempt/effect.ts";
import { needsTurns } from "../conversation/conversation.ts";
import type { RunEvent, RunRewound } from "../event.ts";
import type { Fact } from "../fact.ts";
import {
  attemptOf,
  childScopes,
  currentVisit,
  findStep,
  findVisit,
  isDone,
  isUncertain,
  outermost,
  type Run,
  type Scope,
  stepOf,
  type Visit,
  visitRef,
  visitsOf,
} from "../run.ts";
import { attemptText, parseVisit, ROOT_SCOPE, stepPath, visitText } from "../step-path.ts";
import { restoreFirst } from "../workspace-files.ts";
import { forwardEdges, leave, locate, reopen, startAgain } from "./edge.ts";
import { abandonInside, enter, recordAt } from "./visit.ts";

/** A request that is refused; the message says why and what is possible instead. */
export class Refusal extends Error {
  override readonly name = "Refusal";
  readonly code: "unknown-step" | "impossible" | "step-running" | "run-changed";

  constructor(message: string, code: Refusal["code"] = "impossible") {
    super(message);
    this.code = code;
  }
}

/** The effect of a rewind to a step: which steps run again, and which are taken as done. */
export function planRewind(plan: Plan, run: Run, step: string): Omit<RunRewound, "type"> {
  const { graph } = plan;
  const start = indexOf(graph).byId.get(step);
  if (start === undefined) throw new Refusal(unknownStep(plan, step), "unknown-step");
  const root = run.scopes.get(ROOT_SCOPE);
  const idOf = (position: number): string => graph.steps[position]?.id ?? "";
  return {
    step,
    reopened: closureOf(graph, start).map(idOf),
    assumed: root === undefined ? [] : unfinishedBefore(root, start).map(idOf),
  };
}

interface PathTo {
  /** The steps before the wanted one, in an order in which they can run. */
  readonly before: readonly number[];
  /** The steps before and the wanted step itself. */
  readonly steps: ReadonlySet<number>;
  /** The edges to follow from a step before it. */
  edgesFrom(position: number): readonly number[];
}

/** The path of a run to a step (rewind/V1). */
function pathTo(graph: Graph, start: number): PathTo {
  const steps = new Set([start, ...ancestorsOf(graph, start, graph.steps.length)]);
  const before = forwardOrder(graph).filter(
    (position) => position !== start && steps.has(position),
  );
  const edgesFrom = (position: number): readonly number[] => {
    const leaving = (indexOf(graph).outgoing[position] ?? []).filter((index) => {
      const { back, restart } = edgeAt(graph, index);
      return !back && restart === undefined;
    });
    if (stepAt(graph, position).split === "all") {
      return leaving.filter((index) => {
        const { on, condition } = edgeAt(graph, index);
        return on === "completed" && condition === undefined;
      });
    }
    const leads = leaving.filter((index) => steps.has(edgeAt(graph, index).to));
    const straight = leads.find((index) => edgeAt(graph, index).to === start);
    const one = straight ?? leads.find((index) => edgeAt(graph, index).on === "completed");
    return one === undefined ? leads.slice(0, 1) : [one];
  };
  return { before, steps, edgesFrom };
}

/** The steps on the path to a step that are not done; they are taken as done. */
function unfinishedBefore(scope: Scope, start: number): readonly number[] {
  const { graph } = scope;
  const { incoming, outgoing } = indexOf(graph);
  const { before, edgesFrom } = pathTo(graph, start);
  const followed = new Set<number>();
  return before.filter((position) => {
    const comes = (incoming[position] ?? []).filter((index) => !edgeAt(graph, index).back);
    const done = isDone(scope.steps[position]);
    const onPath = comes.length === 0 || comes.some((index) => followed.has(index));
    if (!done && !onPath) return false;
    const leaves = outgoing[position] ?? [];
    const taken = leaves.filter((index) => scope.edges[index] === "live");
    const resolved = leaves.some((index) => scope.edges[index] !== "open");
    for (const index of done && resolved ? taken : edgesFrom(position)) followed.add(index);
    return !done;
  });
}

/** The event of a rewind to a step. */
export function rewindEvent(
  plan: Plan,
  run: Run,
  { step, visit, restore, outputs, repeat }: Extract<Fact, { type: "rewind-requested" }>,
): RunRewound {
  return {
    type: "run.rewound",
    ...planRewind(plan, run, step),
    ...defined({ visit, restore, outputs, repeat }),
  };
}

/** The steps that requests want to retry: the requests grant their attempts, not the opening. */
export function retriedBy(
  run: Run,
  facts: readonly Fact[],
): { readonly retried?: readonly string[] } {
  const retried = facts.flatMap((fact) => {
    const asked = fact.type === "requested" ? fact.fact : fact;
    if (asked.type !== "retry-requested") return [];
    const isLate = fact.type === "requested" && !isLastAttempt(run, asked.step, fact.attempt);
    return isLate ? [] : [asked.step];
  });
  return retried.length === 0 ? {} : { retried };
}

/** True when the last attempt of a step is the one that an asker saw, if it saw one. */
export function isLastAttempt(run: Run, step: string, seen: string | undefined): boolean {
  const visit = currentVisit(findStep(run, step));
  return seen === undefined || (visit && attemptText(attemptOf(visit))) === seen;
}

type RetryRequest = Omit<Extract<Fact, { type: "retry-requested" }>, "type">;

/** The events of a retry: more attempts for a failed step, a rewind for a completed one. */
export function retryEvents(plan: Plan, run: Run, request: RetryRequest): readonly RunEvent[] {
  const { step: path, restore, keep, failed, turns, repeat } = request;
  const record = findStep(run, path);
  const visit = currentVisit(record);
  if (visit !== undefined) refuseRepeating(run, visit);
  const isFailed = visit?.state.status === "failed" && run.failed.has(visit);
  const chosen = keep === true || restore !== undefined;
  const granted = isFailed ? grants(run, visit, chosen, turns) : [];
  // A composite step may fail although nothing inside it did: then all of it runs again.
  if (visit !== undefined && granted.length > 0) {
    if (restore === undefined) return granted;
    return [{ type: "run.restoring", commit: restore, of: visitText(visitRef(visit)) }, ...granted];
  }
  const items = visit === undefined ? [] : failedItems(run, visit, failed === true);
  if (failed === true && items.length === 0) throw new Refusal(`no item of step ${path} failed`);
  if (items.length > 0) return itemEvents(plan, run, items, turns);
  if (record !== undefined && record.scope.id !== ROOT_SCOPE) {
    throw new Refusal(notAgain(path, visit));
  }
  const rewind = planRetry(plan, run, path);
  const wanted = {
    ...defined({ restore, repeat }),
  };
  return [{ type: "run.rewound", ...rewind, ...wanted }];
}

/** The rewind for a retry of a step of the pipeline; every step before it must be done. */
function planRetry(plan: Plan, run: Run, step: string): Omit<RunRewound, "type"> {
  const rewind = planRewind(plan, run, step);
  const before = rewind.assumed[0];
  if (before === undefined) return rewind;
  throw new Refusal(`step ${step} cannot run yet: step ${before} before it is not done`);
}

/** True for a fan-out that completed although items of it failed. */
export function hidesFailures(visit: Visit): boolean {
  const { work } = stepOf(visit);
  const tolerant = work.kind === "each" && work.onItemFailure === "continue";
  return tolerant && visit.state.status === "completed" && (visit.instances?.failed ?? 0) > 0;
}

/** The failures in a fan-out that made its items fail. */
export function* failedInside(run: Run, visit: Visit): Generator<Visit> {
  for (const scope of childScopes(run, visit)) {
    for (const inner of visitsOf(scope)) {
      const { state } = inner;
      if (state.status !== "failed" || state.absorbed !== true) continue;
      if (state.reason === "items") yield* failedInside(run, inner);
      else yield inner;
    }
  }
}

/** The failed items that run again alone: all of a fan-out, or the one that is named. */
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
  const later = reopened.filter((id) => id !== step);
  const places = items.map((item) => visitText(visitRef(item)));
  return [
    { type: "run.rewound", step, reopened: later, assumed, items: places },
    ...items.map((item) => ({ ...grantFor(run, item, turns), files: "keep" }) as const),
  ];
}

/** Why a step inside a composite step cannot be retried alone, and which step can. */
function notAgain(path: string, visit: Visit | undefined): string {
  const said =
    visit?.state.status === "failed"
      ? `step ${path} failed, and the pipeline has gone on`
      : `step ${path} has not failed`;
  const outer = path.slice(0, path.indexOf("@"));
  return `${said}; only a step of the pipeline itself can be run again, such as ${outer}`;
}

/**
 * Grants more attempts to a failed visit; for a composite, to the failures inside that made it
 * fail.
 */
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

/** The failures that made a visit fail: its own, or those inside it. */
function causesOf(run: Run, visit: Visit): readonly Visit[] {
  return [...run.failed].filter((failed) => isWithin(failed, visit) && !isCausedInside(failed));
}

/**
 * The grants of another attempt of a fan-out: for its failed items; completed ones stay completed.
 */
export function itemGrants(run: Run, visit: Visit): readonly RunEvent[] {
  if (stepOf(visit).work.kind !== "each") return [];
  return causesOf(run, visit)
    .filter((failed) => !isForPeople(failed))
    .map((failed) => grantFor(run, failed));
}

/** Grants more attempts to a failed visit, and turns if it has used up its own. */
export function grantFor(
  run: Run,
  failed: Visit,
  turns?: number,
): Extract<RunEvent, { type: "step.granted" }> {
  const { attempts } = stepOf(failed).retry;
  const granted = { type: "step.granted", ...visitRef(failed), attempts } as const;
  return turns === undefined || !needsTurns(run, failed) ? granted : { ...granted, turns };
}

/** True when `resume` of a failed run grants this failure more attempts. */
export function resumeGrants(visit: Visit): boolean {
  const fresh = stepOf(visit).retry.onResume === "fresh";
  return fresh && !isForPeople(visit) && !isCausedInside(visit);
}

/** True for an effect that is uncertain or was given up: only a person can decide. */
function isForPeople({ state }: Visit): boolean {
  return state.status === "failed" && ["once", "aborted"].includes(state.reason);
}

/** True when a visit failed only because something in it did. */
function isCausedInside({ state }: Visit): boolean {
  return state.status === "failed" && state.reason === "items";
}

/** True for a visit and all visits inside it. */
export function isWithin(visit: Visit, outer: Visit): boolean {
  for (let at: Visit | undefined = visit; at !== undefined; at = at.record.scope.parent) {
    if (at === outer) return true;
  }
  return false;
}

/** Refuses to repeat an uncertain effect as part of another request. */
function refuseRepeating(run: Run, visit: Visit): void {
  const path = stepPath(visitRef(visit));
  if (isUncertain(visit)) {
    const remedy = `settle it first: perdure settle ${run.id} ${path} done|redo|abort`;
    throw new Refusal(`step ${path} may have happened, and must not happen twice: ${remedy}`);
  }
  if (visit.state.status === "failed" && visit.state.reason === "aborted") {
    const remedy = `perdure resume ${run.id} --from-step STEP continues from another one`;
    throw new Refusal(`step ${path} was given up; ${remedy}`);
  }
}

function unknownStep(plan: Plan, step: string): string {
  const ids = plan.graph.steps.slice(0, 20).map(({ id }) => id);
  const more = plan.graph.steps.length > ids.length ? ", ..." : "";
  return `there is no step ${step} in this run; its steps are ${ids.join(", ")}${more}`;
}

// The functions below change a run, for evolve.ts alone (run/C2).

/** Applies `run.rewound` to the run. */
export function rewind(run: Run, event: RunRewound, time: number): void {
  const { scope, position: start } = locate(run, { scope: ROOT_SCOPE, step: event.step });
  const region = closureOf(scope.graph, start);
  if (event.items !== undefined) {
    reopen(run, scope, [start]);
    reopen(
      run,
      scope,
      region.filter((position) => position !== start),
      { past: time },
    );
    for (const place of event.items) reopenItem(run, place);
    return;
  }
  reopen(run, scope, region, { past: time });
  if (event.repeat === true) repeatEffects(run, event.step);
  restoreFirst(run, event.restore);
  leadTo(run, scope, start, event, time);
  if (currentVisit(recordAt(scope, start)) === undefined) startAgain(run, scope, start);
}

/**
 * The failure of an item counts again; the `step.granted` right after it lets the item run again.
 */
function reopenItem(run: Run, place: string): void {
  const { visit: number = 1, ...at } = parseVisit(place);
  const visit = findVisit(run, { ...at, visit: number });
  const failed = visit?.state.status === "failed" && visit.state.absorbed === true;
  assert(failed, () => `illegal event: ${place} is no failed item`);
  const { absorbed: _, ...state } = visit.state;
  enter(run, visit, { ...state, handled: false });
}

/**
 * Resolves the edges of every step before the start, on the path to it; the event names those that
 * count as done.
 */
function leadTo(run: Run, scope: Scope, start: number, event: RunRewound, time: number): void {
  const { byId } = indexOf(scope.graph);
  const assumed = new Set(event.assumed.map((id) => byId.get(id)));
  const path = pathTo(scope.graph, start);
  for (const position of path.before) {
    if (assumed.has(position)) assume(run, scope, position, event, time);
    else if (!isLeftOpen(scope, position)) continue;
    leave(run, recordAt(scope, position), path.edgesFrom(position), path.steps);
  }
}

/** Records a step as done without an attempt. */
function assume(run: Run, scope: Scope, position: number, event: RunRewound, time: number): void {
  const record = recordAt(scope, position);
  if (currentVisit(record) === undefined) startAgain(run, scope, position);
  const visit = currentVisit(record);
  assert(visit !== undefined, "a step that was started has a visit");
  abandonInside(run, visit, time);
  const outputs = event.outputs?.[stepOf(visit).id] ?? {};
  enter(run, visit, { status: "completed", at: time, exit: 0, outputs, assumed: true });
}

/** True for a step that is done but that a loop around it was about to visit again. */
function isLeftOpen(scope: Scope, position: number): boolean {
  const isOpen = forwardEdges(scope, position).every((index) => scope.edges[index] === "open");
  return isOpen && isDone(scope.steps[position]);
}
