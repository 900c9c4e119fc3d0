/**
 * Retries: a failed step gets more attempts, and a completed one runs again with every step after
 * it. Single items of a fan-out can run again alone; the other items stay as they are.
 *
 * Owns: which events a retry leads to, when it is refused, and which attempts are granted.
 * Does not: apply them to the run (rewind.ts, scope.ts).
 * Invariants:
 * - retry/I1 A retry of items starts no other item of the fan-out, and discards no other result.
 */
import type { Plan } from "../../plan/plan.ts";
import { defined } from "../../util/defined.ts";
import { needsTurns } from "../conversation/conversation.ts";
import type { EventOf, RunEvent } from "../event.ts";
import type { Fact, FactOf } from "../fact.ts";
import {
  attemptOf,
  childScopes,
  currentVisit,
  enclosingVisits,
  findStep,
  isUncertain,
  outermost,
  type Run,
  type Scope,
  stepOf,
  type Visit,
  visitRef,
  visitsOf,
} from "../run.ts";
import {
  attemptText,
  childScopeId,
  itemName,
  ROOT_SCOPE,
  stepPath,
  visitText,
} from "../step-path.ts";
import { planRewind, Refusal, refuseWhileFinishing } from "./rewind.ts";
import { isOver, waitsFor } from "./visit-state.ts";

/** The steps that requests want to retry: the requests grant their attempts, not the opening. */
export function retriedBy(
  run: Run,
  facts: readonly Fact[],
): { readonly retried?: readonly string[] } {
  const retried = facts.flatMap((fact) => {
    const asked = fact.type === "requested" ? fact.fact : fact;
    if (asked.type !== "retry-requested") return [];
    const isLate = fact.type === "requested" && !isLastAttempt(run, asked, fact.attempt);
    return isLate ? [] : [asked.step];
  });
  return retried.length === 0 ? {} : { retried };
}

/** A step, or items of a fan-out by their positions. */
type Retried = Pick<RetryRequest, "step" | "items">;

/** True when the last attempt is the one that an asker saw, if it saw one. */
export function isLastAttempt(run: Run, retried: Retried, seen: string | undefined): boolean {
  return seen === undefined || lastAttemptText(run, retried) === seen;
}

/** The last attempt of a step (`pay@1.2`), or the last ones of items, separated by spaces. */
export function lastAttemptText(run: Run, { step, items }: Retried): string | undefined {
  const visit = currentVisit(findStep(run, step));
  if (visit === undefined || items === undefined) return visit && attemptText(attemptOf(visit));
  return items.map((index) => lastInItem(run, visit, index)).join(" ");
}

/** The attempt that ended last in an item. */
function lastInItem(run: Run, fanOut: Visit, index: number): string {
  const scope = run.scopes.get(childScopeId(attemptOf(fanOut), index));
  const ended = scope === undefined ? [] : [...visitsWithin(run, scope)];
  const last = ended.toSorted((a, b) => (a.endSeq ?? 0) - (b.endSeq ?? 0)).at(-1);
  return last === undefined ? "" : attemptText(attemptOf(last));
}

function* visitsWithin(run: Run, scope: Scope): Generator<Visit> {
  for (const visit of visitsOf(scope)) {
    yield visit;
    for (const inner of childScopes(run, visit)) yield* visitsWithin(run, inner);
  }
}

type RetryRequest = Omit<FactOf<"retry-requested">, "type">;

/** The events of a retry: more attempts for a failed step, a rewind for a completed one. */
export function retryEvents(plan: Plan, run: Run, request: RetryRequest): readonly RunEvent[] {
  refuseWhileFinishing(run);
  const { step: path, restore, keep, failed, turns, repeat } = request;
  if (request.items !== undefined) return itemRetry(plan, run, path, request.items, turns);
  const record = findStep(run, path);
  const visit = currentVisit(record);
  refuseFinally(run, path, visit);
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
  if (visit !== undefined && items.length > 0) {
    return itemEvents(plan, run, outermost(visit), items, turns);
  }
  if (record !== undefined && record.scope.id !== ROOT_SCOPE) {
    throw new Refusal(cannotRetryText(path, visit));
  }
  const rewind = planRetry(plan, run, path);
  return [{ type: "run.rewound", ...rewind, ...defined({ restore, repeat }) }];
}

/** The rewind for a retry of a step of the pipeline; every step before it must be done. */
function planRetry(plan: Plan, run: Run, step: string): Omit<EventOf<"run.rewound">, "type"> {
  const rewind = planRewind(plan, run, step);
  const before = rewind.assumed[0];
  if (before === undefined) return rewind;
  throw new Refusal(`step ${step} cannot run yet: step ${before} before it is not done`);
}

/** True for a fan-out that completed although items of it failed. */
export function hidesFailures(visit: Visit): boolean {
  const { work } = stepOf(visit);
  const { opened = 0, ended = 0, failed = 0 } = visit.instances ?? {};
  const tolerant = work.kind === "each" && work.onItemFailure === "continue";
  // A person may have declared it done while items ran.
  return tolerant && visit.state.status === "completed" && failed > 0 && opened === ended;
}

/** The failures in a fan-out that made its items fail. */
export function* failedInside(run: Run, visit: Visit): Generator<Visit> {
  for (const scope of childScopes(run, visit)) yield* failuresIn(run, scope);
}

/** The failures that made an item fail. */
function* failuresIn(run: Run, scope: Scope): Generator<Visit> {
  for (const inner of visitsOf(scope)) {
    const { state } = inner;
    if (state.status !== "failed" || (state.handled && state.absorbed !== true)) continue;
    if (state.reason === "items") yield* failedInside(run, inner);
    else yield inner;
  }
}

/** True for an item that has ended and failed. */
export function hasFailed(scope: Scope): boolean {
  if (scope.active > 0) return false;
  for (const { state } of visitsOf(scope)) {
    if (state.status === "failed" && (!state.handled || state.absorbed === true)) return true;
  }
  return false;
}

/**
 * Runs items of a fan-out again: a failed one continues at its failed steps, a completed one starts
 * from its beginning (retry/I1).
 */
function itemRetry(
  plan: Plan,
  run: Run,
  path: string,
  indexes: readonly number[],
  turns: number | undefined,
): readonly RunEvent[] {
  const visit = currentVisit(findStep(run, path));
  const failed: Visit[] = [];
  const again: string[] = [];
  for (const index of new Set(indexes)) {
    const scope = endedItem(run, path, visit, index);
    const failures = [...failuresIn(run, scope)];
    for (const one of failures) refuseRepeating(run, one);
    failed.push(...failures);
    if (failures.length === 0) again.push(scope.id);
  }
  const absorbed = failed.filter((one) => !run.failed.has(one));
  if (again.length === 0 && absorbed.length === 0) return grantsFor(run, failed, turns);
  if (visit === undefined || visit.record.scope.id !== ROOT_SCOPE) {
    throw new Refusal(cannotRetryText(path, visit));
  }
  const items = [...again, ...absorbed.map((one) => visitText(visitRef(one)))];
  return [itemsRewound(plan, run, visit, items), ...grantsFor(run, failed, turns)];
}

/** The scope of an item that has ended. */
function endedItem(run: Run, path: string, visit: Visit | undefined, index: number): Scope {
  const name = itemName(path, index);
  const instances = visit?.instances;
  if (visit === undefined || instances === undefined || stepOf(visit).work.kind !== "each") {
    const why = visit === undefined ? "has not started" : "is not a fan-out";
    throw new Refusal(`there is no ${name}: step ${path} ${why}`, "unknown-step");
  }
  if (index >= instances.total) {
    const last = itemName(path, instances.total - 1);
    const known = instances.total === 0 ? "it has no items" : `its last item is ${last}`;
    throw new Refusal(`there is no ${name} in step ${path}: ${known}`, "unknown-step");
  }
  if (isOver(visit.state) && instances.opened !== instances.ended) {
    throw new Refusal(`step ${path} did not wait for its items: only all of it can run again`);
  }
  if (waitsFor(visit.state, "start") || waitsFor(visit.state, "slot")) {
    throw new Refusal(`step ${path} is about to run again, with all its items`, "step-running");
  }
  const scope = run.scopes.get(childScopeId(attemptOf(visit), index));
  if (scope === undefined) throw new Refusal(`${name} has not started yet`);
  if (scope.active > 0 || run.merging.has(scope)) {
    throw new Refusal(`${name} has not ended: it is running, or it waits`, "step-running");
  }
  return scope;
}

/** The failed items that run again alone: all of a fan-out, or the one that is named. */
function failedItems(run: Run, visit: Visit, all: boolean): readonly Visit[] {
  const outer = all ? visit : outermost(visit);
  if (outer.record.scope.id !== ROOT_SCOPE || !hidesFailures(outer)) return [];
  const failed = [...failedInside(run, outer)].filter((one) => !needsPerson(one));
  return all ? failed : failed.filter((one) => one === visit);
}

function itemEvents(
  plan: Plan,
  run: Run,
  fanOut: Visit,
  failed: readonly Visit[],
  turns: number | undefined,
): readonly RunEvent[] {
  const items = failed.map((item) => visitText(visitRef(item)));
  return [itemsRewound(plan, run, fanOut, items), ...grantsFor(run, failed, turns)];
}

/** The event that reopens a fan-out for some of its items, and every step after it. */
function itemsRewound(
  plan: Plan,
  run: Run,
  fanOut: Visit,
  items: readonly string[],
): EventOf<"run.rewound"> {
  const { id: step } = stepOf(fanOut);
  const { reopened, assumed } = planRetry(plan, run, step);
  const later = reopened.filter((id) => id !== step);
  return { type: "run.rewound", step, reopened: later, assumed, items };
}

/** More attempts for these failures; the files stay as they are. */
function grantsFor(
  run: Run,
  failed: readonly Visit[],
  turns: number | undefined,
): readonly RunEvent[] {
  return failed.map((one) => ({ ...grantFor(run, one, turns), files: "keep" }) as const);
}

/** Refuses a `finally` step: it runs again whenever the run ends again. */
function refuseFinally(run: Run, path: string, visit: Visit | undefined): void {
  if (visit === undefined || visit.record.scope.outer === undefined) return;
  const remedy = `perdure resume ${run.id} runs it again when it brings the run to its end`;
  throw new Refusal(`${path} is a step of \`finally\`: ${remedy}`);
}

/** Why a step inside a composite step cannot be retried alone, and which step can. */
function cannotRetryText(path: string, visit: Visit | undefined): string {
  const said =
    visit?.state.status === "failed"
      ? `step ${path} failed, and the run has continued after it`
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
    .filter((failed) => !needsPerson(failed))
    .map((failed) => grantFor(run, failed));
}

/** Grants more attempts to a failed visit, and turns if it has used up its own. */
export function grantFor(run: Run, failed: Visit, turns?: number): EventOf<"step.granted"> {
  const { attempts } = stepOf(failed).retry;
  const granted = { type: "step.granted", ...visitRef(failed), attempts } as const;
  return turns === undefined || !needsTurns(run, failed) ? granted : { ...granted, turns };
}

/** True when `resume` of a failed run grants this failure more attempts. */
export function resumeGrants(visit: Visit): boolean {
  const fresh = stepOf(visit).retry.onResume === "fresh";
  return fresh && !needsPerson(visit) && !isCausedInside(visit) && !isDeclared(visit);
}

/** True for the failure of a `fail` step: another attempt would fail in the same way. */
function isDeclared({ state }: Visit): boolean {
  return state.status === "failed" && state.reason === "declared";
}

/** True for an effect that is uncertain or was given up: only a person can decide. */
function needsPerson({ state }: Visit): boolean {
  return state.status === "failed" && ["once", "aborted"].includes(state.reason);
}

/** True when a visit failed only because something in it did. */
function isCausedInside({ state }: Visit): boolean {
  return state.status === "failed" && state.reason === "items";
}

/** True for a visit and all visits inside it. */
export function isWithin(visit: Visit, outer: Visit): boolean {
  return visit === outer || enclosingVisits(visit).some((around) => around === outer);
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
