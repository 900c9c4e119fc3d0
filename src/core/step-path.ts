/**
 * Step paths: `fix@2` is the second visit of the step `fix`, and `fix@2.3` its third attempt. The
 * path of a nested scope is that of its instance: `each@1.1[3]/test@1`.
 */
import type { AttemptRef, VisitRef } from "./event.ts";

/** The scope that holds the plan's own graph. */
export const ROOT_SCOPE = "";

/** The id of the scope of the `finally` steps, the n-th time that the run reaches an end. */
export function finallyScopeId(number: number): string {
  return `finally@${number}/`;
}

/** The id of the n-th instance that an attempt of a composite step opened. */
export function childScopeId(at: AttemptRef, index: number): string {
  return `${attemptText(at)}[${index}]/`;
}

/** The path of a step without a visit: `fix` at the root, `each@1.1[3]/test` in a nested scope. */
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

/** An item of a fan-out as people write it: `map[3]`. */
export function itemName(step: string, index: number): string {
  return `${step}[${index}]`;
}

/** Parses `map[3]`; undefined when the text names no item. */
export function parseItem(
  text: string,
): { readonly step: string; readonly index: number } | undefined {
  const [, step, index] = /^(.*)\[(\d{1,9})\]$/s.exec(text) ?? [];
  return step === undefined ? undefined : { step, index: Number(index) };
}

/** Splits the path of a step into its scope and its id. */
export function parseStepPath(path: string): { readonly scope: string; readonly step: string } {
  const cut = path.lastIndexOf("/") + 1;
  return { scope: path.slice(0, cut), step: path.slice(cut) };
}

/** A step path as people write it: a step, a visit, or an attempt. */
export interface NamedVisit {
  readonly scope: string;
  readonly step: string;
  readonly visit?: number;
  readonly attempt?: number;
}

/** Parses `fix`, `fix@2` or `fix@2.3`, in nested scopes as well. */
export function parseVisit(text: string): NamedVisit {
  const { scope, step: last } = parseStepPath(text);
  const [, step = last, visit, attempt] = /^(.*)@(\d+)(?:\.(\d+))?$/.exec(last) ?? [];
  return {
    scope,
    step,
    ...(visit === undefined ? {} : { visit: Number(visit) }),
    ...(attempt === undefined ? {} : { attempt: Number(attempt) }),
  };
}
