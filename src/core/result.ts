/**
 * What `results.<step>` and `outputs.<step>` are: the state of a step's current visit in plain
 * words, and for a composite step also of what is in it.
 *
 * Owns: these words.
 * Does not: say which step is meant (values.ts).
 * Invariants:
 * - X2 What is in a composite step is only looked at when an expression names it.
 */
import { LazyMap } from "../util/expression-value.ts";
import type { Json, JsonObject } from "../util/json.ts";
import type { Output, Told } from "./event.ts";
import { childScopeId } from "./place.ts";
import type { Visit } from "./run.ts";
import { currentVisit, placeOf, type Run, type Scope, type StepRecord, stepOf } from "./run.ts";
import { statusWord } from "./visit-state.ts";

/** What `results.<step>` is. */
export function resultOf(run: Run, record: StepRecord | undefined): Json | LazyMap | undefined {
  const plain = plainResult(record);
  const visit = currentVisit(record);
  if (plain === undefined || visit?.instances === undefined) return plain;
  return withInside(run, visit, plain);
}

/** A composite visit's own state, with what it tells beyond that. */
export function withInside(run: Run, visit: Visit, plain: JsonObject): LazyMap {
  return new LazyMap((key) => plain[key] ?? inside(run, visit, key));
}

/** What `outputs.<step>` is: paths by name; of a sub-pipeline or a loop, those of its steps. */
export function outputsOf(run: Run, record: StepRecord | undefined): Json | LazyMap | undefined {
  const visit = currentVisit(record);
  if (visit?.instances === undefined) return leafOutputs(visit);
  const scope = stepOf(visit).work.kind === "each" ? undefined : lastScope(run, visit);
  return scope && new LazyMap((id) => outputsOf(run, recordOf(scope, id)));
}

/** The paths of outputs by their names. */
export function pathsOf(outputs: Readonly<Record<string, Output>>): JsonObject {
  return Object.fromEntries(Object.entries(outputs).map(([name, { path }]) => [name, path]));
}

/** The last instance that a composite visit has opened. */
export function lastScope(run: Run, visit: Visit): Scope | undefined {
  return instanceOf(run, visit, (visit.instances?.opened ?? 0) - 1);
}

function instanceOf(run: Run, visit: Visit, index: number): Scope | undefined {
  return run.scopes.get(childScopeId({ ...placeOf(visit), attempt: visit.attempts }, index));
}

function recordOf(scope: Scope, id: string): StepRecord | undefined {
  return scope.steps.find((record) => record !== undefined && stepOf(record).id === id);
}

function leafOutputs(visit: Visit | undefined): JsonObject | undefined {
  return visit?.state.status === "completed" ? pathsOf(visit.state.outputs) : undefined;
}

function plainResult(record: StepRecord | undefined): JsonObject | undefined {
  if (record === undefined) return undefined;
  const visit = currentVisit(record);
  if (visit === undefined)
    return record.unreachable ? { status: "skipped", attempts: 0 } : undefined;
  const { state, attempts } = visit;
  const base = { status: statusWord(state), attempts };
  if (state.status === "completed") {
    return { ...base, exit: state.exit, ...wordsOf(state.told), ...leftBy(state) };
  }
  if (state.status !== "failed") return base;
  const { reason, message, told } = state;
  const failed = { ...base, reason, message, ...wordsOf(told), ...leftBy(state) };
  return state.exit === undefined ? failed : { ...failed, exit: state.exit };
}

/** What a step left as values of its own: what it answered, what it printed, and its identity. */
export function leftBy(end: {
  readonly answer?: Json | undefined;
  readonly output?: string | undefined;
  readonly identity?: string | undefined;
}): JsonObject {
  const { answer, output, identity } = end;
  return {
    ...(answer === undefined ? {} : { answer }),
    ...(output === undefined ? {} : { output }),
    ...(identity === undefined ? {} : { identity }),
  };
}

/** What a step said of itself. */
export function wordsOf({ outcome, label, notes }: Told = {}): JsonObject {
  return {
    ...(outcome === undefined ? {} : { outcome }),
    ...(label === undefined ? {} : { label }),
    ...(notes === undefined ? {} : { notes }),
  };
}

/** What a composite step tells beyond its own state. */
function inside(run: Run, visit: Visit, key: string): Json | LazyMap | undefined {
  const { kind } = stepOf(visit).work;
  if (kind === "each") return key === "items" ? itemResults(run, visit) : undefined;
  if (key === "iterations" && kind === "loop") return visit.instances?.opened ?? 0;
  const scope = key === "steps" ? lastScope(run, visit) : undefined;
  return scope && new LazyMap((id) => resultOf(run, recordOf(scope, id)));
}

function itemResults(run: Run, visit: Visit): readonly Json[] {
  const items = visit.instances?.items ?? [];
  return items.map((item, index) => {
    const instance = instanceOf(run, visit, index);
    const told = { index, item, status: instance === undefined ? "pending" : statusOf(instance) };
    if (instance === undefined) return { ...told, outputs: {}, steps: {} };
    // Written without a list of steps, it is one step, or one sub-pipeline, for each item.
    const own =
      instance.graph.steps.length === 1
        ? currentVisit(recordOf(instance, stepOf(visit).id))
        : undefined;
    const scope = own?.instances === undefined ? instance : (lastScope(run, own) ?? instance);
    const inside = insideInstance(scope);
    if (own === undefined || own.instances !== undefined) return { ...told, ...inside };
    const ended = own.state.status === "completed" || own.state.status === "failed";
    const left = ended ? leftBy(own.state) : {};
    return { ...told, ...inside, outputs: leafOutputs(own) ?? {}, ...left };
  });
}

/** The results and the outputs of the steps in an instance, by step. */
function insideInstance(scope: Scope): { readonly steps: Json; readonly outputs: Json } {
  const records = scope.steps.filter((record) => record !== undefined);
  const steps = Object.fromEntries(
    records.flatMap((record) => {
      const result = plainResult(record);
      return result === undefined ? [] : [[stepOf(record).id, result] as const];
    }),
  );
  const outputs = Object.fromEntries(
    records.map((record) => [stepOf(record).id, leafOutputs(currentVisit(record)) ?? {}]),
  );
  return { steps, outputs };
}

function statusOf(scope: Scope): string {
  if (scope.active > 0) return "running";
  const failed = scope.steps.some((record) => {
    const state = currentVisit(record)?.state;
    return state?.status === "failed" && (!state.handled || state.absorbed === true);
  });
  return failed ? "failed" : "completed";
}
