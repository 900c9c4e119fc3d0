/**
 * What an expression sees of a run: its input, context, outputs and results, from the place where
 * the expression stands. A step is looked for in its own scope first, then in those around it.
 *
 * Owns: the names that expressions use and what they mean.
 * Does not: parse expressions (util/expression.ts) or decide what follows from a value.
 */

import type { Plan } from "../plan/plan.ts";
import { ExpressionError, evaluateSource, type Scope as Values } from "../util/expression.ts";
import { LazyMap } from "../util/expression-value.ts";
import { isObject, type Json, type JsonObject } from "../util/json.ts";
import { renderText, renderValue, TemplateError } from "../util/template.ts";
import { contextValue, contextValueAt } from "./context.ts";
import type { Output, Told } from "./event.ts";
import type { Condition, Environment } from "./fact.ts";
import { lastScope, leftBy, outputsOf, pathsOf, resultOf, withInside, wordsOf } from "./result.ts";
import {
  findRecord,
  passesOn,
  type Run,
  type Scope,
  type StepRecord,
  stepOf,
  type Visit,
} from "./run.ts";

/** How a visit is about to end; its own arrows may already ask for it. */
export interface Outcome {
  readonly status: "completed" | "failed" | "skipped";
  readonly exit: number;
  readonly context: JsonObject;
  readonly outputs: Readonly<Record<string, Output>>;
  readonly answer?: Json | undefined;
  readonly output?: string | undefined;
  readonly identity?: string | undefined;
  readonly told?: Told | undefined;
}

export type Evaluated =
  | { readonly ok: true; readonly value: Json }
  | { readonly ok: false; readonly message: string };

/** The value of an expression at a visit; what is wrong with it is an answer, not an exception. */
export function evaluateIn(
  run: Run,
  visit: Visit,
  source: string,
  env: Environment,
  outcome?: Outcome,
): Evaluated {
  return told(() => evaluateSource(source, valuesAt(run, visit, env, outcome)));
}

/** The value of an expression over what the last iteration of a loop has brought about. */
export function evaluateAfterIteration(run: Run, visit: Visit, source: string): Evaluated {
  const scope = lastScope(run, visit) ?? visit.record.scope;
  return told(() => evaluateSource(source, valuesIn(run, scope, visit.number, {})));
}

/** Whether the condition of a visit's step holds; `env` is what is around the run. */
export function conditionOf(plan: Plan, run: Run, visit: Visit, env: Environment): Condition {
  const { when = "true" } = stepOf(visit);
  const held = evaluateIn(run, visit, when, environmentAt(plan, run, visit, env));
  if (!held.ok) return held;
  if (typeof held.value === "boolean") return { ok: true, value: held.value };
  const message = `\`when\` must be true or false, but \`${when}\` is ${typeText(held.value)}`;
  return { ok: false, message };
}

/** The type of a value, for messages. */
export function typeText(value: Json): string {
  return value === null ? "null" : Array.isArray(value) ? "a list" : `a ${typeof value}`;
}

/**
 * The input of a sub-pipeline: texts are templates, and one that is an expression is its value. It is
 * kept in the journal, so the environment, which may hold secrets, is not for it.
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
  const rendered = told(() => renderAll(input));
  return rendered.ok ? { ok: true, value: rendered.value as JsonObject } : rendered;
}

/** A text for people or the clock, rendered; it is kept in the journal like the input. */
export function renderIn(
  run: Run,
  visit: Visit,
  text: string,
): { readonly ok: true; readonly text: string } | Extract<Evaluated, { ok: false }> {
  const values = valuesAt(run, visit, {});
  const rendered = told(() => renderText(text, (source) => evaluateSource(source, values)));
  return rendered.ok ? { ok: true, text: String(rendered.value) } : rendered;
}

function told(evaluate: () => Json): Evaluated {
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
 * The environment that the values of a step's own `env` see: the runner's, and over it what the
 * pipeline sets for all steps.
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

/** Variables over others; each is rendered when it is asked for, and sees only the others. */
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
  const plain = { ...known, ...wordsOf(outcome.told), ...leftBy(outcome) };
  const result = visit.instances === undefined ? plain : withInside(run, visit, plain);
  return {
    ...values,
    context: new LazyMap((key) => context[key] ?? contextValue(run, scope, key)),
    outputs: new LazyMap((id) =>
      id === own && visit.instances === undefined
        ? pathsOf(outcome.outputs)
        : outputsOf(run, lookUp(scope, id)),
    ),
    results: new LazyMap((id) => (id === own ? result : resultOf(run, lookUp(scope, id)))),
    ...lastWords(run, visit, outcome),
  };
}

/** What arrows ask of the step that they leave; a step that only passes on says what was said before. */
function lastWords(
  run: Run,
  visit: Visit,
  outcome: Outcome,
): Required<Pick<Values, "outcome" | "preferred_label">> {
  if (!passesOn(stepOf(visit))) {
    return { outcome: outcomeWord(outcome), preferred_label: outcome.told?.label ?? "" };
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

/** How it went, in one word: the step's own, if it has not failed. */
export function outcomeWord({ status, told }: Pick<Outcome, "status" | "told">): string {
  if (status === "failed") return "fail";
  return told?.outcome ?? (status === "skipped" ? "skipped" : "success");
}

/** Everything that an expression in a scope may name. */
function valuesIn(run: Run, scope: Scope, visit: number, env: Environment): Values {
  return {
    input: inputOf(run, scope),
    context: new LazyMap((key) => contextValue(run, scope, key)),
    outputs: new LazyMap((id) => outputsOf(run, lookUp(scope, id))),
    results: new LazyMap((id) => resultOf(run, lookUp(scope, id))),
    env: new LazyMap((name) => env[name]),
    run: { id: run.id, pipeline: run.created?.pipeline ?? "", visit },
    ...repetitionOf(scope),
  };
}

/** The nearest step of this name, from the scope outwards. */
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

/** The item of the nearest fan-out, and the number of the nearest repetition and of the loop. */
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
  for (let at: Scope | undefined = scope; at !== undefined; at = at.parent?.record.scope) yield at;
}
