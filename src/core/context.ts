/**
 * The context of a run, as it is seen from a place: a branch has key-values of its own, which hide
 * those around it and are left behind with it.
 *
 * Owns: where a key is looked for, and where one is written.
 * Does not: say which keys there are (built-in-keys.ts has those of the DOT language).
 */
import type { Plan } from "../plan/plan.ts";
import { canonicalJson, type Json, type JsonObject } from "../util/json.ts";
import { draft } from "./flow.ts";
import { ROOT_SCOPE } from "./place.ts";
import type { Run, Scope } from "./run.ts";

/** The value of a key in a scope: its own, or that of the nearest scope around it that has one. */
export function contextValue(run: Run, scope: Scope, key: string): Json | undefined {
  for (let at: Scope | undefined = scope; at !== undefined; at = at.parent?.record.scope) {
    const own = at.context?.get(key);
    if (own !== undefined) return own;
  }
  return run.context.get(key);
}

/**
 * The id of the scope whose key-values are changed by steps in this one: a branch, or the root. Of a
 * scope that an update took out of the run that is known no more, so it is its own.
 */
export function contextOwner(run: Run, scope: string): string {
  for (let at = run.scopes.get(scope); at !== undefined; at = at.parent?.record.scope) {
    if (at.context !== undefined) return at.id;
  }
  return run.scopes.has(scope) ? ROOT_SCOPE : scope;
}

/** Gives a run the context that its plan begins with; a later plan changes what differs in it. */
export function begin(run: Run, { context = {}, keys }: Plan): void {
  for (const [key, value] of Object.entries(context)) {
    const known = run.given[key];
    const same = known !== undefined && canonicalJson(known) === canonicalJson(value);
    if (!same) draft(run).context.set(key, value);
  }
  draft(run).given = context;
  if (keys === undefined) delete draft(run).keys;
  else draft(run).keys = keys;
}

/** Takes what a step handed on into the context that its scope writes to; for evolve.ts alone (C2). */
export function handOn(run: Run, scope: Scope, context: JsonObject): void {
  const values = ownContext(run, scope);
  for (const [key, value] of Object.entries(context)) values.set(key, value);
}

function ownContext(run: Run, scope: Scope): Map<string, Json> {
  for (let at: Scope | undefined = scope; at !== undefined; at = at.parent?.record.scope) {
    const own = draft(at).context;
    if (own !== undefined) return own;
  }
  return draft(run).context;
}
