/**
 * A list of steps with its path in the file: the pipeline's own, or one in a step.
 *
 * Owns: the nesting of lists, and which of their values were removed as mistakes.
 * Does not: check steps.
 */

import type { Path } from "./diagnostic.ts";
import type { ForEachShape, StepShape } from "./schema.ts";
import type { ReadShape } from "./shape.ts";

export interface StepList {
  readonly steps: readonly StepShape[];
  /** The path of the list. */
  readonly path: Path;
  /** Paths whose values were removed (see ReadShape). */
  readonly cut: ReadonlySet<string>;
  /** Of the pipeline's own list: the steps that run when the run has reached its end. */
  readonly finally?: StepList;
}

/** The pipeline's own list. */
export function rootList({ shape, cut }: ReadShape): StepList {
  const list = { steps: shape.steps, path: ["steps"], cut };
  if (shape.finally === undefined) return list;
  return { ...list, finally: { steps: shape.finally, path: ["finally"], cut } };
}

/** The list in a step, in its `for_each` or beside it. */
export function listIn(list: StepList, index: number): StepList | undefined {
  const step = list.steps[index];
  const each = fanOutOf(step);
  const path = pathIn(list, index);
  const { cut } = list;
  if (each?.steps !== undefined) {
    return { steps: each.steps, path: [...path, "for_each", "steps"], cut };
  }
  return step?.steps && { steps: step.steps, path: [...path, "steps"], cut };
}

/** All lists of a file, outer ones first. */
export function* allLists(list: StepList): Generator<StepList> {
  yield list;
  for (const index of list.steps.keys()) {
    const inner = listIn(list, index);
    if (inner !== undefined) yield* allLists(inner);
  }
  if (list.finally !== undefined) yield* allLists(list.finally);
}

/** The long form of a step's fan-out, if it has one. */
export function fanOutOf(step: StepShape | undefined): ForEachShape | undefined {
  const each = step?.for_each;
  return typeof each === "object" && "in" in each ? each : undefined;
}

/** True when a step contains steps: its own, or those of another file. */
export function hasBody(step: StepShape): boolean {
  const own = step.steps ?? step.pipeline;
  return own !== undefined || fanOutOf(step)?.steps !== undefined;
}

/** The path of a step, or of one of its keys. */
export function pathIn({ path }: StepList, index: number, ...keys: readonly string[]): Path {
  return [...path, index, ...keys];
}

/** True when a step, or one of these keys of it, was removed. */
export function isCut(list: StepList, index: number, ...keys: readonly string[]): boolean {
  if (list.cut.size === 0) return false;
  const path = pathIn(list, index).join(".");
  return list.cut.has(path) || keys.some((key) => list.cut.has(`${path}.${key}`));
}
