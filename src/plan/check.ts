/** The checks of a step in a plan. */
import type { Check } from "../pipeline/key-values.ts";

export type { Check };

/** An agent that decides whether the work is good. */
export type Judge = Extract<Check, { kind: "judge" }>;

/** One check, or several in their order. */
interface CheckedStep {
  readonly check?: Check | readonly Check[];
}

/** The checks of a step, in their order. */
export function checksOf({ check }: CheckedStep): readonly Check[] {
  if (check === undefined) return [];
  return "kind" in check ? [check] : check;
}
