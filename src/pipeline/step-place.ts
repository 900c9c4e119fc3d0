/**
 * Where in its file a step stands, for what is found out about its plan.
 *
 * Owns: the way from the names of steps to a place in YAML or in DOT.
 * Does not: read plans.
 */
import { isObject } from "../util/json.ts";
import type { Diagnostic } from "./diagnostic.ts";
import { loadDot } from "./dot/load-dot.ts";
import { dotDiagnostic, dotSource } from "./dot/source.ts";
import { diagnosticAt, type Finding, type Path } from "./source.ts";
import { parseYaml } from "./yaml-source.ts";

/** What is to be said about a step; `steps` are the names that lead to it, from the outside in. */
export interface StepFinding extends Finding {
  readonly steps: readonly string[];
}

/** Diagnostics at the steps of a YAML file. */
export function placeInYaml(
  file: string,
  text: string,
  findings: readonly StepFinding[],
): readonly Diagnostic[] {
  const { source, value } = parseYaml(file, text);
  return findings.map(({ steps, ...finding }) => {
    const path = pathOf(value, steps);
    return diagnosticAt(source, source.spanOf(path, "value"), finding);
  });
}

/** The path of a step; that of the last one around it that is there. */
function pathOf(value: unknown, steps: readonly string[]): Path {
  const [id, ...inner] = steps;
  if (id === undefined) return [];
  for (const [path, list] of listsIn(value)) {
    const index = list.findIndex((step) => isObject(step) && step.id === id);
    if (index < 0) continue;
    const at = [...path, index];
    return inner.length === 0 ? [...at, "id"] : [...at, ...pathOf(list[index], inner)];
  }
  return [];
}

/** The lists of steps that a file or a step holds. */
function listsIn(value: unknown): readonly (readonly [Path, readonly unknown[]])[] {
  if (!isObject(value)) return [];
  const { steps, for_each: each, branches } = value;
  const lists: (readonly [Path, unknown])[] = [
    [["steps"], steps],
    [["for_each", "steps"], isObject(each) ? each.steps : undefined],
    ...(Array.isArray(branches) ? branches : []).map(
      (branch: unknown, index) =>
        [["branches", index, "steps"], isObject(branch) ? branch.steps : undefined] as const,
    ),
  ];
  return lists.flatMap(([path, list]) => (Array.isArray(list) ? [[path, list] as const] : []));
}

/** Diagnostics at the nodes of a DOT file. */
export function placeInDot(
  file: string,
  text: string,
  findings: readonly StepFinding[],
): readonly Diagnostic[] {
  const { pipeline } = loadDot(file, text);
  const source = dotSource(file, text);
  const start = { start: 0, end: 1, line: 1, column: 1 };
  return findings.map(({ steps, ...finding }) => {
    const id = steps.findLast((step) => pipeline?.nodes.has(step) === true);
    const span = (id === undefined ? undefined : pipeline?.nodes.get(id)?.span) ?? pipeline?.span;
    return dotDiagnostic(source, span ?? start, finding);
  });
}
