/**
 * The rules on `finally`: commands and prompts, one after the other, whose ids no other step has.
 *
 * Owns: which steps and which keys `finally` may contain.
 * Does not: check what every step has to obey (validate.ts).
 */
import type { Report } from "../report.ts";
import type { StepShape } from "../schema.ts";
import { isCut, pathIn, type StepList } from "../step-list.ts";
import { type KnownNames, RUN_STATUS } from "./expression.ts";

/** Keys that would change the order of the steps, or repeat or merge their work. */
const FORBIDDEN = [
  ...["for_each", "loop", "iterations", "steps", "pipeline", "gate", "wait", "pass", "fail"],
  ...["needs", "join", "goto", "edges", "on_failure", "max_visits", "goal", "retry_target"],
  ...["once", "not_done", "workspace", "session"],
] as const;

/** What the expressions of `finally` can name: all steps have ended, or will not run any more. */
export function namesAtEnd(known: KnownNames): Pick<KnownNames, "variables" | "parent"> {
  const parent = { known: { ...known, comesBefore: undefined }, step: -1 };
  return { variables: new Set([RUN_STATUS]), parent };
}

/** Adds a mistake for every key that a step of `finally` cannot have. */
export function checkFinally(
  list: StepList,
  others: ReadonlyMap<string, number>,
  report: Report,
): void {
  list.steps.forEach((step, index) => {
    if (isCut(list, index)) return;
    for (const key of FORBIDDEN) {
      const value = step[key as keyof StepShape];
      if (value === undefined || (key === "on_failure" && value === "continue")) continue;
      const message = `a step of \`finally\` cannot have \`${key}\``;
      const help = "it is a command or a prompt, and starts when the one above it has ended";
      report.add({
        rule: "finally-step",
        message,
        help,
        path: pathIn(list, index, key),
        on: "key",
      });
    }
    if (others.has(step.id)) {
      const message = `\`${step.id}\` is already the id of another step`;
      const help = "choose another id: results and logs use it";
      report.add({ rule: "finally-step", message, help, path: pathIn(list, index, "id") });
    }
  });
}
