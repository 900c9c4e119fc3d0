/** The checks of a step in a plan. */
import type { Json } from "../util/json.ts";

/** What decides whether the work of a step is good, after it exited with 0. */
export type Check = (
  | { readonly kind: "command"; readonly run: string }
  /** `file` is a template, relative to the step's directory. */
  | { readonly kind: "schema"; readonly file: string; readonly schema: Json }
  /** An agent that looks at the work and says whether it satisfies the rubric, a template. */
  | {
      readonly kind: "judge";
      readonly rubric: string;
      /** By the plan's name. */
      readonly agent: string;
      readonly model?: string;
    }
) & {
  /**
   * What it means when it does not pass: a warning, or a failure for good. Absent: a failure of the
   * attempt, after which the step may be retried.
   */
  readonly onFail?: "warn" | "fail";
};

/** An agent that looks at the work and says whether it is good. */
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
