/**
 * Adopting an edit: which steps of a run stay what they are under another plan, which begin anew and
 * why, and which are gone.
 *
 * Owns: this choice, by the fingerprints of both plans.
 * Does not: change the run (adopt-plan.ts does), or show anything.
 * Invariants:
 * - P1 A completed step is kept when its definition, its inputs and all that leads to it are the same.
 * - update/U1 An agent whose last attempt failed keeps its conversation when the edit changes only how
 *   it is called or checked: that is how such failures are mended.
 */
import { changedFields, fingerprintsOf } from "../plan/fingerprint.ts";
import { arrowAt, forwardOrder, indexOf, stepAt } from "../plan/graph-index.ts";
import { freeze, type Plan } from "../plan/plan.ts";
import { canonicalJson, isObject, type Json } from "../util/json.ts";
import type { Rerun, RunEvent, RunUpdated } from "./event.ts";
import type { UpdateRequested } from "./fact.ts";
import { ROOT_SCOPE } from "./place.ts";
import { Refusal } from "./rewind.ts";
import { currentVisit, findRecord, type Run, stepOf, type Visit } from "./run.ts";

/** What an edit does to the steps of a run. */
export type PlanUpdate = Pick<RunUpdated, "kept" | "rerun" | "gone">;

/** The fields that say how an agent is called and how its work is checked, not what it is to do. */
const CALL_FIELDS: ReadonlySet<string> = new Set([
  ...["model", "system", "permissions", "args", "env", "relay", "output_schema"],
  ...["check", "outputs"],
]);

/** What adopting the plan `after` does to the steps of a run that goes by the plan `before`. */
export function planUpdate(
  before: Plan,
  after: Plan,
  input: { readonly before: Json; readonly after: Json },
  run: Run,
): PlanUpdate {
  const { graph } = after;
  const { incoming } = indexOf(graph);
  const old = fingerprintsOf(before);
  const now = fingerprintsOf(after);
  const changed = changedInputs(input.before, input.after);
  const rerun = new Map<string, Rerun>();
  const verdict = (position: number): Omit<Rerun, "step"> | undefined => {
    const { id } = stepAt(graph, position);
    const [was, is] = [old.get(id), now.get(id)];
    if (was === undefined || is === undefined) return { because: "new", names: [] };
    const fields = changedFields(was, is);
    const mended = fields.every((field) => CALL_FIELDS.has(field)) && mayContinue(run, id);
    if (fields.length > 0 && !mended) return { because: "definition", names: fields };
    const inputs = is.inputs.filter((name) => changed(name));
    if (inputs.length > 0) return { because: "input", names: inputs };
    const upstream = (incoming[position] ?? [])
      .map((index) => arrowAt(graph, index))
      .filter(({ back }) => !back)
      .map(({ from }) => stepAt(graph, from).id)
      .filter((name) => rerun.has(name));
    return upstream.length > 0 ? { because: "upstream", names: upstream } : undefined;
  };
  for (const position of forwardOrder(graph)) {
    const step = stepAt(graph, position).id;
    const found = verdict(position);
    if (found !== undefined) rerun.set(step, { step, ...found });
  }
  const ids = graph.steps.map(({ id }) => id);
  return {
    kept: ids.filter((id) => !rerun.has(id)),
    rerun: ids.flatMap((id) => rerun.get(id) ?? []),
    gone: before.graph.steps.map(({ id }) => id).filter((id) => !now.has(id)),
  };
}

/** True for a step whose agent has failed in a conversation that the next attempt continues (U1). */
function mayContinue(run: Run, step: string): boolean {
  const scope = run.scopes.get(ROOT_SCOPE);
  const visit = currentVisit(scope && findRecord(scope, step));
  return visit?.talk?.failure !== undefined && visit.state.status !== "completed";
}

/** The events of adopting a plan: none when it is the one that the run has. Throws Refusal. */
export function updateEvents(before: Plan, run: Run, fact: UpdateRequested): readonly RunEvent[] {
  const { plan, fingerprint, fileSha256, envNames, restore } = fact;
  if (freeze(before).fingerprint === fingerprint) return [];
  refuseOtherWorkspace(before, plan, run);
  const input = { before: run.created?.input ?? null, after: fact.input };
  const same = canonicalJson(input.before) === canonicalJson(input.after);
  const updated = { type: "run.updated", fingerprint, fileSha256, envNames } as const;
  return [
    {
      ...updated,
      ...(same ? {} : { input: input.after }),
      ...planUpdate(before, plan, input, run),
      ...(restore === undefined ? {} : { restore }),
    },
  ];
}

/**
 * The snapshot that the first of the steps that begin anew began with; undefined when none of them
 * has worked. Throws Refusal when a step that is kept has worked since then: its files would be lost.
 */
export function filesBefore(run: Run, { kept, rerun }: PlanUpdate): string | undefined {
  const scope = run.scopes.get(ROOT_SCOPE);
  const worked = (id: string): readonly Visit[] => {
    const record = scope && findRecord(scope, id);
    return record?.visits.slice(record.past).filter(({ attempts }) => attempts > 0) ?? [];
  };
  const begun = rerun
    .flatMap(({ step }) => worked(step))
    .toSorted((one, other) => (one.startedAt ?? 0) - (other.startedAt ?? 0));
  const [first] = begun;
  if (first === undefined) return undefined;
  const since = kept.find((id) =>
    worked(id).some((visit) => lastAt(visit) > (first.startedAt ?? 0)),
  );
  if (since !== undefined) {
    throw new Refusal(`the files cannot be put back: ${since} is kept, and has worked since then`);
  }
  if (first.base !== undefined) return first.base;
  throw new Refusal("the files cannot be put back: no snapshot of them was taken");
}

/** When a visit was last at work; one that is not over still is. */
function lastAt({ state }: Visit): number {
  return "at" in state ? state.at : Number.POSITIVE_INFINITY;
}

/** True when an update touches a step that has a process now; it has to be ended first. */
export function touchesProcess(run: Run, { kept }: PlanUpdate): boolean {
  const rootStepOf = (visit: Visit): string => {
    const { parent } = visit.record.scope;
    return parent === undefined ? stepOf(visit).id : rootStepOf(parent);
  };
  return [...run.running].some((visit) => !kept.includes(rootStepOf(visit)));
}

/** Where a run works is settled once it has worked there. Throws Refusal. */
export function refuseOtherWorkspace(before: Plan, after: Plan, run: Run): void {
  if (run.files.size === 0 && run.workspace === undefined) return;
  const [was, is] = [before.workspace, after.workspace];
  const same = (was?.kind ?? "here") === (is?.kind ?? "here") && was?.base === is?.base;
  if (same) return;
  throw new Refusal(
    "the edit moves the run to another workspace, and it has worked in this one; start a new run for that",
  );
}

/** Tells whether the value behind a name of an expression (`input.version`) is another one now. */
function changedInputs(before: Json, after: Json): (name: string) => boolean {
  const differ = (one: unknown, other: unknown): boolean =>
    canonicalJson(one ?? null) !== canonicalJson(other ?? null);
  const whole = differ(before, after);
  return (name) => {
    const [variable, key] = name.split(".");
    if (variable !== "input" || !whole) return false;
    if (key === undefined || !isObject(before) || !isObject(after)) return true;
    return differ(before[key], after[key]);
  };
}
