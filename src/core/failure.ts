/**
 * Failures for good: what follows from them.
 *
 * Owns: the event that ends a visit badly: handled, unhandled, or the end of a loop.
 * Does not: decide whether there is another try (decide.ts).
 */
import type { JsonObject } from "../util/json.ts";
import { keysAtEnd } from "./built-in-keys.ts";
import { afterFailure } from "./conversation.ts";
import { edgesAfterFailure } from "./edge-choice.ts";
import type { AttemptRef, FailureReason, StepFailed } from "./event.ts";
import { restartProblem } from "./restart.ts";
import { type Run, stepOf, type Visit } from "./run.ts";
import { mayRepeat, STALL_AFTER, signatureOf, timesInARow } from "./stall.ts";

/** How much of the last line that a step printed is told. */
const LAST_WORDS_MAX = 200;

/** What is known of a failure beside its reason. */
export type FailureEvidence = Pick<
  StepFailed,
  | "exit"
  | "told"
  | "answer"
  | "output"
  | "context"
  | "check"
  | "checks"
  | "trouble"
  | "spent"
  | "snapshot"
  | "left"
  | "denied"
> & {
  /** The last of what it printed. */
  readonly said?: string;
  /** What tells it from others, when that is known already. */
  readonly signature?: string;
};

/** A failure for good: the author's arrows lead on from it, unless the loop gets nowhere. */
export function finalFailure(
  run: Run,
  visit: Visit,
  at: AttemptRef,
  reason: FailureReason,
  message: string,
  evidence: FailureEvidence = {},
): StepFailed {
  const { said, signature: told, ...handed } = evidence;
  const context = contextAfter(run, visit, handed);
  const known = { ...handed, ...(Object.keys(context).length === 0 ? {} : { context }) };
  const failed = { type: "step.failed", ...at, reason, message, ...known } as const;
  const base = { ...failed, ...afterFailure(visit) };
  // Where a bound on loops was reached, an arrow could only lead into the same loop again.
  if (reason === "visits" || reason === "restart") return { ...base, arrows: [] };
  const way = edgesAfterFailure(run, visit, known);
  const problem = restartProblem(visit, way.arrows);
  if (problem !== undefined) {
    return { ...base, reason: "restart", message: `${message}; ${problem}`, arrows: [] };
  }
  if (!mayRepeat(visit)) return { ...base, ...way };
  const signature = told ?? signatureOf(reason, `${message}\n${said ?? ""}`);
  const times = timesInARow(run, visit, signature);
  const stalled = times >= (stepOf(visit).stallAfter ?? STALL_AFTER);
  if (!stalled || !(way.handled === true || way.arrows.length > 0)) {
    return { ...base, signature, ...way };
  }
  const text = `the same failure came ${times} times in a row: ${message}${lastWords(said)}`;
  return { ...base, reason: "stall", message: text, signature, arrows: [] };
}

function contextAfter(run: Run, visit: Visit, known: FailureEvidence): JsonObject {
  const { exit = 1, told, context = {} } = known;
  const outcome = { status: "failed", exit, context, outputs: {}, told } as const;
  return { ...context, ...keysAtEnd(run, visit, outcome) };
}

/** The last line that a step printed, for people. */
function lastWords(said = ""): string {
  const line = said.split(/[\r\n]+/).findLast((one) => one.trim() !== "");
  return line === undefined ? "" : `: ${line.trim().slice(0, LAST_WORDS_MAX)}`;
}
