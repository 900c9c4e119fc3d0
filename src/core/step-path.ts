/**
 * Step paths: `fix@2` is the second visit of the step `fix`, `fix@2.3` its third attempt, and a nested
 * scope is the path of the instance that it belongs to: `each@1.1[3]/test@1`.
 */
import type { AttemptRef, VisitRef } from "./event.ts";

/** The scope that holds the plan's own graph. */
export const ROOT_SCOPE = "";

/** The id of the n-th instance that an attempt of a composite step opened. */
export function childScopeId(at: AttemptRef, index: number): string {
  return `${attemptText(at)}[${index}]/`;
}

/** `fix` at the root, `each@1.1[3]/test` below: a step, whatever its visit. */
export function stepPath(at: { readonly scope: string; readonly step: string }): string {
  return at.scope + at.step;
}

/** `fix@2`. */
export function visitText(place: VisitRef): string {
  return `${stepPath(place)}@${place.visit}`;
}

/** `fix@2.3`. */
export function attemptText(at: AttemptRef): string {
  return `${visitText(at)}.${at.attempt}`;
}

/** Splits the path of a step into its scope and its id. */
export function parseStepPath(path: string): { readonly scope: string; readonly step: string } {
  const cut = path.lastIndexOf("/") + 1;
  return { scope: path.slice(0, cut), step: path.slice(cut) };
}

/** A step path as people write it: a step, a visit of it, or an attempt of that. */
export interface NamedPlace {
  readonly scope: string;
  readonly step: string;
  readonly visit?: number;
  readonly attempt?: number;
}

/** Reads `fix`, `fix@2` or `fix@2.3`, also below a scope. */
export function parseVisit(text: string): NamedPlace {
  const { scope, step: last } = parseStepPath(text);
  const [, step = last, visit, attempt] = /^(.*)@(\d+)(?:\.(\d+))?$/.exec(last) ?? [];
  return {
    scope,
    step,
    ...(visit === undefined ? {} : { visit: Number(visit) }),
    ...(attempt === undefined ? {} : { attempt: Number(attempt) }),
  };
}
