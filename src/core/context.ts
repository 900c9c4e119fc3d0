/**
 * The context of a run as a scope sees it. A branch has key-values of its own, which hide the outer
 * ones and end with the branch.
 *
 * Owns: which scope a key is read from, and which scope it is written to.
 * Does not: define keys (built-in-keys.ts has those of the DOT language).
 */
import type { Plan } from "../plan/plan.ts";
import { canonicalJson, type Json, type JsonObject } from "../util/json.ts";
import { draft, enclosingScopes, type Run, type Scope, stepOf, type Visit } from "./run.ts";
import { ROOT_SCOPE } from "./step-path.ts";

/** The key of the DOT language that names the current node. */
const CURRENT_NODE = "current_node";

/** The value of a key in a scope, or else in the nearest outer scope that has one. */
export function contextValue(run: Run, scope: Scope, key: string): Json | undefined {
  for (const at of enclosingScopes(scope)) {
    const given = givenIn(at);
    const own = at.context?.get(key) ?? (Object.hasOwn(given, key) ? given[key] : undefined);
    if (own !== undefined) return own;
  }
  return run.context.get(key);
}

/** The value of a key as a visit sees it before it ends: it is the current node from its start. */
export function contextValueAt(run: Run, visit: Visit, key: string): Json | undefined {
  if (key === CURRENT_NODE && run.keys === "attractor") return stepOf(visit).id;
  return contextValue(run, visit.record.scope, key);
}

/** All key-values as a visit sees them before it ends. */
export function contextSeenAt(run: Run, visit: Visit): ReadonlyMap<string, Json> {
  const seen = new Map(run.context);
  for (const scope of [...enclosingScopes(visit.record.scope)].reverse()) {
    for (const [key, value] of Object.entries(givenIn(scope))) seen.set(key, value);
    for (const [key, value] of scope.context ?? []) seen.set(key, value);
  }
  if (run.keys === "attractor") seen.set(CURRENT_NODE, stepOf(visit).id);
  return seen;
}

/** The context that a sub-pipeline starts with. */
function givenIn({ parent }: Scope): JsonObject {
  const work = parent && stepOf(parent).work;
  return work?.kind === "pipeline" ? (work.context ?? {}) : {};
}

/**
 * The id of the scope whose context the steps of this scope change: a branch, or the root. For a
 * scope that an update removed it is unknown; the scope stands for itself.
 */
export function contextOwner(run: Run, scope: string): string {
  const known = run.scopes.get(scope);
  if (known === undefined) return scope;
  return enclosingScopes(known).find(({ context }) => context !== undefined)?.id ?? ROOT_SCOPE;
}

/** Gives a run the context of its plan; a later plan changes the values that differ. */
export function applyPlanContext(run: Run, { context = {}, keys }: Plan): void {
  for (const [key, value] of Object.entries(context)) {
    const known = run.given[key];
    const same = known !== undefined && canonicalJson(known) === canonicalJson(value);
    if (!same) draft(run).context.set(key, value);
  }
  draft(run).given = context;
  if (keys === undefined) delete draft(run).keys;
  else draft(run).keys = keys;
}

/** Writes the context that a step passed on, for evolve.ts alone (run/C2). */
export function writeContext(run: Run, scope: Scope, context: JsonObject): void {
  const branch = enclosingScopes(scope).find((at) => at.context !== undefined);
  const values = (branch && draft(branch).context) ?? draft(run).context;
  for (const [key, value] of Object.entries(context)) values.set(key, value);
}
