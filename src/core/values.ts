/**
 * The values that an expression can read from a run: input, context, outputs and results, as seen
 * from the scope of the expression. A step is looked up in its own scope first, then in the outer
 * scopes.
 *
 * Owns: the names that expressions use and what they mean. `results.<step>` is the state of a
 * step's current visit, and for a composite step also of the steps in it.
 * Does not: parse expressions (util/expression.ts) or decide what follows from a value.
 * Invariants:
 * - values/X2 The steps inside a composite step are read only when an expression names them.
 */

import { indexOf } from "../plan/graph-index.ts";
import type { Plan, WorkOf } from "../plan/plan.ts";
import { defined } from "../util/defined.ts";
import { ExpressionError, evaluateSource, type Scope as Values } from "../util/expression.ts";
import { LazyMap } from "../util/expression-value.ts";
import { isObject, type Json, type JsonObject } from "../util/json.ts";
import { renderText, renderValue, TemplateError } from "../util/template.ts";
import { contextValue, contextValueAt } from "./context.ts";
import type { Output, StepReport } from "./event.ts";
import type { Condition, Environment, ItemsFound } from "./fact.ts";
import { statusWord } from "./graph/visit-state.ts";
import {
  currentVisit,
  findRecord,
  passesOn,
  type Run,
  type Scope,
  type StepRecord,
  stepOf,
  type Visit,
  visitRef,
} from "./run.ts";
import { childScopeId } from "./step-path.ts";

/** The result of a visit that is about to end; the conditions on its edges read it. */
export interface Outcome {
  readonly status: "completed" | "failed" | "skipped";
  readonly exit: number;
  readonly context: JsonObject;
  readonly outputs: Readonly<Record<string, Output>>;
  readonly answer?: Json | undefined;
  readonly output?: string | undefined;
  readonly identity?: string | undefined;
  readonly reported?: StepReport | undefined;
}

type Evaluated =
  | { readonly ok: true; readonly value: Json }
  | { readonly ok: false; readonly message: string };

/** The value of an expression at a visit; a mistake in it is a result, not an exception. */
export function evaluateIn(
  run: Run,
  visit: Visit,
  source: string,
  env: Environment,
  outcome?: Outcome,
): Evaluated {
  return tryEvaluate(() => evaluateSource(source, valuesAt(run, visit, env, outcome)));
}

/** The value of an expression over the last iteration of a loop. */
export function evaluateAfterIteration(run: Run, visit: Visit, source: string): Evaluated {
  const scope = lastScope(run, visit) ?? visit.record.scope;
  return tryEvaluate(() => evaluateSource(source, valuesIn(run, scope, visit.number, {})));
}

/** Whether the condition of a visit's step holds; `env` is the owner's environment. */
export function conditionOf(plan: Plan, run: Run, visit: Visit, env: Environment): Condition {
  const { when = "true" } = stepOf(visit);
  const held = evaluateIn(run, visit, when, environmentAt(plan, run, visit, env));
  if (!held.ok) return held;
  if (typeof held.value === "boolean") return { ok: true, value: held.value };
  const message = `\`when\` must be true or false, but \`${when}\` is ${typeText(held.value)}`;
  return { ok: false, message };
}

/** The items of a fan-out that its author selected, in the order that its author wants. */
export function selectItems(
  run: Run,
  visit: Visit,
  { selection, as }: WorkOf<"each">,
  found: ItemsFound,
): ItemsFound {
  if (!found.ok || selection === undefined) return found;
  const { where, sortBy, limit } = selection;
  const values = valuesAt(run, visit, {});
  const valueFor = (source: string, item: Json, index: number): Json => {
    const locals = as === undefined ? values.locals : { ...values.locals, [as]: item };
    return evaluateSource(source, { ...values, ...defined({ locals }), item, index });
  };
  try {
    const all = found.items.map((item, index) => ({ item, index }));
    const chosen = all.filter(
      ({ item, index }) => where === undefined || valueFor(where, item, index) === true,
    );
    const sorted =
      sortBy === undefined
        ? chosen
        : chosen
            .map((one) => ({ ...one, key: valueFor(sortBy, one.item, one.index) }))
            .sort((one, other) => compareValues(one.key, other.key) || one.index - other.index);
    return { ok: true, items: sorted.slice(0, limit).map(({ item }) => item) };
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error;
    return { ok: false, message: error.message };
  }
}

/** Numbers by size, everything else by its text. */
function compareValues(one: Json, other: Json): number {
  if (typeof one === "number" && typeof other === "number") return one - other;
  const [text, otherText] = [one, other].map((value) =>
    typeof value === "string" ? value : JSON.stringify(value),
  );
  return (text ?? "") < (otherText ?? "") ? -1 : text === otherText ? 0 : 1;
}

/** The type of a value, for messages. */
export function typeText(value: Json): string {
  return value === null ? "null" : Array.isArray(value) ? "a list" : `a ${typeof value}`;
}

/**
 * The input of a sub-pipeline: texts are templates, and a text that is one expression becomes its
 * value. The journal keeps it, so it cannot read the environment, which may hold secrets.
 */
export function renderInput(
  run: Run,
  visit: Visit,
  input: JsonObject,
): { readonly ok: true; readonly value: JsonObject } | Extract<Evaluated, { ok: false }> {
  const values = valuesAt(run, visit, {});
  const render = (value: Json): Json => {
    if (typeof value === "string") {
      return renderValue(value, (source) => evaluateSource(source, values));
    }
    if (Array.isArray(value)) return value.map(render);
    return isObject(value) ? renderAll(value) : value;
  };
  const renderAll = (object: JsonObject): JsonObject =>
    Object.fromEntries(Object.entries(object).map(([key, value]) => [key, render(value)]));
  const rendered = tryEvaluate(() => renderAll(input));
  return rendered.ok ? { ok: true, value: rendered.value as JsonObject } : rendered;
}

/** A rendered text of a gate or a wait; the journal keeps it like the input. */
export function renderIn(
  run: Run,
  visit: Visit,
  text: string,
): { readonly ok: true; readonly text: string } | Extract<Evaluated, { ok: false }> {
  const values = valuesAt(run, visit, {});
  const rendered = tryEvaluate(() => renderText(text, (source) => evaluateSource(source, values)));
  return rendered.ok ? { ok: true, text: String(rendered.value) } : rendered;
}

function tryEvaluate(evaluate: () => Json): Evaluated {
  try {
    return { ok: true, value: evaluate() };
  } catch (error) {
    if (error instanceof ExpressionError || error instanceof TemplateError) {
      return { ok: false, message: error.message };
    }
    throw error;
  }
}

/**
 * The environment for the values of a step's own `env`: the owner's, with the pipeline's variables
 * on top.
 */
export function environmentAround(
  plan: Plan,
  run: Run,
  visit: Visit,
  env: Environment,
): Environment {
  return layered(run, visit, plan.env, env);
}

/** The environment that a step's expressions see: `env.X` is what `$X` is in its command. */
export function environmentAt(plan: Plan, run: Run, visit: Visit, env: Environment): Environment {
  return layered(run, visit, stepOf(visit).env, environmentAround(plan, run, visit, env));
}

/** Variables on top of others; each is rendered on demand, and sees only the others. */
function layered(
  run: Run,
  visit: Visit,
  written: Readonly<Record<string, string>>,
  below: Environment,
): Environment {
  const evaluate = (source: string): Json => evaluateSource(source, valuesAt(run, visit, below));
  const getters = Object.entries(written).map(([name, text]) => [
    name,
    { get: () => renderText(text, evaluate) },
  ]);
  return getters.length === 0 ? below : Object.create(below, Object.fromEntries(getters));
}

/** Everything that an expression at a visit may name. */
export function valuesAt(run: Run, visit: Visit, env: Environment, outcome?: Outcome): Values {
  const { scope } = visit.record;
  const values = valuesIn(run, scope, visit.number, env);
  if (outcome === undefined) {
    return { ...values, context: new LazyMap((key) => contextValueAt(run, visit, key)) };
  }
  const own = stepOf(visit).id;
  const { status, exit, context } = outcome;
  const known = { status, exit, attempts: visit.attempts };
  const plain = { ...known, ...reportValues(outcome.reported), ...resultValues(outcome) };
  const result = visit.instances === undefined ? plain : withInside(run, visit, plain);
  return {
    ...values,
    context: new LazyMap((key) => context[key] ?? contextValue(run, scope, key)),
    outputs: new LazyMap((id) =>
      id === own && visit.instances === undefined
        ? pathsOf(outcome.outputs)
        : outputsOf(run, lookUp(scope, id)),
    ),
    results: new LazyMap((id) => (id === own ? result : resultIn(run, scope, id))),
    ...lastOutcome(run, visit, outcome),
  };
}

/** The outcome that edges read; a step that only passes on has that of the step before it. */
function lastOutcome(
  run: Run,
  visit: Visit,
  outcome: Outcome,
): Required<Pick<Values, "outcome" | "preferred_label">> {
  if (!passesOn(stepOf(visit))) {
    return { outcome: outcomeWord(outcome), preferred_label: outcome.reported?.label ?? "" };
  }
  const word = (key: string): string | undefined => {
    const value = outcome.context[key] ?? contextValue(run, visit.record.scope, key);
    return typeof value === "string" ? value : undefined;
  };
  return {
    outcome: word("outcome") ?? outcomeWord(outcome),
    preferred_label: word("preferred_label") ?? "",
  };
}

/** The outcome in one word: the step's own, unless it failed. */
export function outcomeWord({ status, reported }: Pick<Outcome, "status" | "reported">): string {
  if (status === "failed") return "fail";
  return reported?.outcome ?? (status === "skipped" ? "skipped" : "success");
}

/** Everything that an expression in a scope may name. */
function valuesIn(run: Run, scope: Scope, visit: number, env: Environment): Values {
  const end = scope.outer === undefined ? {} : { status: run.finishing?.status ?? "" };
  return {
    input: inputOf(run, scope),
    context: new LazyMap((key) => contextValue(run, scope, key)),
    outputs: new LazyMap((id) => outputsOf(run, lookUp(scope, id))),
    results: new LazyMap((id) => resultIn(run, scope, id)),
    env: new LazyMap((name) => env[name]),
    run: { id: run.id, pipeline: run.created?.pipeline ?? "", visit, ...end },
    ...repetitionOf(scope),
  };
}

/** The nearest step with this name, from the scope outwards. */
function lookUp(scope: Scope, id: string): StepRecord | undefined {
  for (const at of outwards(scope)) {
    const record = findRecord(at, id);
    if (record !== undefined) return record;
  }
  return undefined;
}

function inputOf(run: Run, scope: Scope): Json {
  for (const { input } of outwards(scope)) if (input !== undefined) return input;
  return run.created?.input ?? null;
}

/** The item of the nearest fan-out, and the numbers of the nearest repetition and of the loop. */
export function repetitionOf(
  scope: Scope,
): Pick<Values, "item" | "index" | "loop_index" | "locals"> {
  const found: { item?: Json; index?: number; loop_index?: number } = {};
  const locals: Record<string, Json> = {};
  for (const { parent, item, index } of outwards(scope)) {
    const work = parent && stepOf(parent).work;
    if (work?.kind === "each" && item !== undefined) {
      found.index ??= index;
      if (found.item === undefined) found.item = item;
      if (work.as !== undefined) locals[work.as] ??= item;
    } else if (work?.kind === "loop") {
      found.index ??= index;
      found.loop_index ??= index;
    }
  }
  return Object.keys(locals).length === 0 ? found : { ...found, locals };
}

function* outwards(scope: Scope): Generator<Scope> {
  const around = ({ parent, outer }: Scope): Scope | undefined => parent?.record.scope ?? outer;
  for (let at: Scope | undefined = scope; at !== undefined; at = around(at)) yield at;
}

/** `results.<step>` as a scope sees it: a step that the run has not reached is pending. */
function resultIn(run: Run, scope: Scope, id: string): Json | LazyMap | undefined {
  const found = resultOf(run, lookUp(scope, id));
  if (found !== undefined) return found;
  for (const { graph } of outwards(scope)) {
    if (indexOf(graph).byId.has(id)) return { status: "pending", attempts: 0 };
  }
  return undefined;
}

/** The value of `results.<step>`. */
function resultOf(run: Run, record: StepRecord | undefined): Json | LazyMap | undefined {
  const plain = plainResult(record);
  const visit = currentVisit(record);
  if (plain === undefined || visit?.instances === undefined) return plain;
  return withInside(run, visit, plain);
}

/** The state of a composite visit, with the steps in it. */
function withInside(run: Run, visit: Visit, plain: JsonObject): LazyMap {
  return new LazyMap((key) => plain[key] ?? inside(run, visit, key));
}

/**
 * The value of `outputs.<step>`: paths by name; for a sub-pipeline or a loop, those of its steps.
 */
function outputsOf(run: Run, record: StepRecord | undefined): Json | LazyMap | undefined {
  const visit = currentVisit(record);
  if (visit?.instances === undefined) return leafOutputs(visit);
  const scope = stepOf(visit).work.kind === "each" ? undefined : lastScope(run, visit);
  return scope && new LazyMap((id) => outputsOf(run, recordOf(scope, id)));
}

/** The paths of outputs by their names. */
function pathsOf(outputs: Readonly<Record<string, Output>>): JsonObject {
  return Object.fromEntries(Object.entries(outputs).map(([name, { path }]) => [name, path]));
}

/** The last instance that a composite visit opened. */
export function lastScope(run: Run, visit: Visit): Scope | undefined {
  return instanceOf(run, visit, (visit.instances?.opened ?? 0) - 1);
}

function instanceOf(run: Run, visit: Visit, index: number): Scope | undefined {
  return run.scopes.get(childScopeId({ ...visitRef(visit), attempt: visit.attempts }, index));
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
    return { ...base, exit: state.exit, ...reportValues(state.reported), ...resultValues(state) };
  }
  if (state.status !== "failed") return base;
  const { reason, message, reported } = state;
  const failed = { ...base, reason, message, ...reportValues(reported), ...resultValues(state) };
  return state.exit === undefined ? failed : { ...failed, exit: state.exit };
}

/** The answer, the printed output and the identity of a step. */
function resultValues(end: {
  readonly answer?: Json | undefined;
  readonly output?: string | undefined;
  readonly identity?: string | undefined;
}): JsonObject {
  const { answer, output, identity } = end;
  return defined({ answer, output, identity });
}

/** The fields of a step's report. */
function reportValues({ outcome, label, notes }: StepReport = {}): JsonObject {
  return defined({ outcome, label, notes });
}

/** The values of a composite step beyond its own state. */
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
    const reported = {
      index,
      item,
      status: instance === undefined ? "pending" : statusOf(instance),
    };
    if (instance === undefined) return { ...reported, outputs: {}, steps: {} };
    // Without a list of steps it is one step, or one sub-pipeline, for each item.
    const own =
      instance.graph.steps.length === 1
        ? currentVisit(recordOf(instance, stepOf(visit).id))
        : undefined;
    const scope = own?.instances === undefined ? instance : (lastScope(run, own) ?? instance);
    const inside = insideInstance(scope);
    if (own === undefined || own.instances !== undefined) return { ...reported, ...inside };
    const ended = own.state.status === "completed" || own.state.status === "failed";
    const left = ended ? resultValues(own.state) : {};
    return { ...reported, ...inside, outputs: leafOutputs(own) ?? {}, ...left };
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
