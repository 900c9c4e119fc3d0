/**
 * The arrows that `needs`, `goto`, `edges` and `on_failure` stand for, and what they cannot reach.
 *
 * Owns: the one reading of these keys, for the rules on a file and for the plan alike.
 * Does not: check that names exist; an arrow to nowhere is left out.
 * Invariants:
 * - G2 Linear in the number of steps and arrows.
 */
import type { Exit, Links } from "./pipeline.ts";

/** A step by its name, with its links. */
export interface LinkedStep extends Links {
  readonly id: string;
}

export interface StepArrow extends Omit<Exit, "to"> {
  readonly from: number;
  readonly to: number;
  readonly on: "completed" | "failed";
}

export interface StepArrows {
  readonly arrows: readonly StepArrow[];
  /** Steps that wait for nothing, although a loop may lead back to them. */
  readonly roots: readonly number[];
  /** Steps that no arrow leads to from any root. */
  readonly unreached: readonly number[];
  /** For each of those: the step above, from which the author would have expected it to follow. */
  readonly above: ReadonlyMap<number, number>;
}

/** The arrows between the steps of one list. */
export function arrowsOf(steps: readonly LinkedStep[]): StepArrows {
  const position = new Map<string, number>();
  steps.forEach(({ id }, index) => {
    if (!position.has(id)) position.set(id, index);
  });
  const above = new Map<number, number>();
  const arrows: StepArrow[] = [];
  steps.forEach(({ needs }, to) => {
    for (const need of needs) {
      const from = position.get(need);
      if (from === undefined) continue;
      if (steps[from]?.exits === undefined) arrows.push({ from, to, on: "completed", weight: 0 });
      else above.set(to, from);
    }
  });
  steps.forEach(({ exits = [], onFailure }, from) => {
    for (const { to: name, ...rest } of exits) {
      const to = position.get(name);
      if (to !== undefined) arrows.push({ from, to, on: "completed", ...rest });
    }
    if (typeof onFailure !== "object") return;
    const to = position.get(onFailure.goto);
    if (to !== undefined) arrows.push({ from, to, on: "failed", weight: 0 });
  });
  return { arrows, above, ...reach(steps, arrows) };
}

function reach(
  steps: readonly LinkedStep[],
  arrows: readonly StepArrow[],
): Pick<StepArrows, "roots" | "unreached"> {
  const outgoing: number[][] = steps.map(() => []);
  const entered = new Set<number>();
  for (const { from, to } of arrows) {
    outgoing[from]?.push(to);
    if (from !== to) entered.add(to);
  }
  const seen = new Set<number>();
  const walk = (root: number): void => {
    const open = [root];
    seen.add(root);
    for (let step = open.pop(); step !== undefined; step = open.pop()) {
      for (const next of outgoing[step] ?? []) {
        if (seen.has(next)) continue;
        seen.add(next);
        open.push(next);
      }
    }
  };
  const roots: number[] = [];
  const candidates = steps.flatMap(({ needs }, step) => (needs.length === 0 ? [step] : []));
  const start = (root: number): void => {
    roots.push(root);
    walk(root);
  };
  for (const step of candidates) if (!entered.has(step)) start(step);
  for (const step of candidates) if (!seen.has(step)) start(step);
  const unreached = steps.flatMap((_, step) => (seen.has(step) ? [] : [step]));
  return { roots, unreached };
}
