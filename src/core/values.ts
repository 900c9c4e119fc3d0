/**
 * What an expression sees of a run: its input, context, outputs and results, from the place where
 * the expression stands. A step is looked for in its own scope first, then in those around it.
 *
 * Owns: the names that expressions use and what they mean.
 * Does not: parse expressions (util/expression.ts) or decide what follows from a value.
 */
import { ExpressionError, evaluateSource, type Scope as Values } from "../util/expression.ts";
import { LazyMap } from "../util/expression-value.ts";
import type { Json, JsonObject } from "../util/json.ts";
import type { Output } from "./event.ts";
import type { Environment } from "./fact.ts";
import {
  currentVisit,
  findRecord,
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
  readonly identity?: string | undefined;
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
  try {
    return { ok: true, value: evaluateSource(source, valuesAt(run, visit, env, outcome)) };
  } catch (error) {
    if (error instanceof ExpressionError) return { ok: false, message: error.message };
    throw error;
  }
}

/** Everything that an expression at a visit may name. */
export function valuesAt(run: Run, visit: Visit, env: Environment, outcome?: Outcome): Values {
  const { scope } = visit.record;
  const own = stepOf(visit).id;
  const results = (id: string): Json | undefined => {
    if (outcome !== undefined && id === own) {
      const { status, exit, answer, identity } = outcome;
      const named = identity === undefined ? {} : { identity };
      const known = { status, exit, attempts: visit.attempts, ...named };
      return answer === undefined ? known : { ...known, answer };
    }
    const record = lookUp(scope, id);
    return record === undefined ? undefined : resultOf(record);
  };
  const outputs = (id: string): Json | undefined => {
    if (outcome !== undefined && id === own) return pathsOf(outcome.outputs);
    const record = lookUp(scope, id);
    const state = currentVisit(record)?.state;
    return state?.status === "completed" ? pathsOf(state.outputs) : undefined;
  };
  return {
    input: run.created?.input ?? null,
    context: new LazyMap((key) => outcome?.context[key] ?? run.context.get(key)),
    outputs: new LazyMap(outputs),
    results: new LazyMap(results),
    env: new LazyMap((name) => env[name]),
    run: { id: run.id, pipeline: run.created?.pipeline ?? "", visit: visit.number },
    ...itemOf(scope),
  };
}

/** The nearest step of this name, from the scope outwards. */
function lookUp(scope: Scope, id: string): StepRecord | undefined {
  for (let at: Scope | undefined = scope; at !== undefined; at = at.parent?.record.scope) {
    const record = findRecord(at, id);
    if (record !== undefined) return record;
  }
  return undefined;
}

function itemOf(scope: Scope): { item?: Json; index?: number } {
  for (let at: Scope | undefined = scope; at !== undefined; at = at.parent?.record.scope) {
    if (at.item !== undefined) return { item: at.item, index: at.index };
  }
  return {};
}

/** What `results.<step>` is: the state of its current visit, in plain words. */
function resultOf(record: StepRecord): Json | undefined {
  const visit = currentVisit(record);
  if (visit === undefined)
    return record.unreachable ? { status: "skipped", attempts: 0 } : undefined;
  const { state, attempts } = visit;
  const base = { status: state.status, attempts };
  if (state.status === "completed") {
    const { exit, answer, identity } = state;
    const told = answer === undefined ? { ...base, exit } : { ...base, exit, answer };
    return identity === undefined ? told : { ...told, identity };
  }
  if (state.status !== "failed") return base;
  const failed = { ...base, reason: state.reason, message: state.message };
  return state.exit === undefined ? failed : { ...failed, exit: state.exit };
}

function pathsOf(outputs: Readonly<Record<string, Output>>): Json {
  return Object.fromEntries(Object.entries(outputs).map(([name, { path }]) => [name, path]));
}
