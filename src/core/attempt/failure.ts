/**
 * Final failures: failures that get no further attempt.
 *
 * Owns: the event that ends a visit with a failure: handled, unhandled, or the end of a stalled
 * loop.
 * Does not: decide whether there is another attempt (attempt-end.ts).
 */

import { type JsonObject, sha256 } from "../../util/json.ts";
import { keysAtEnd } from "../built-in-keys.ts";
import { afterFailure } from "../conversation/conversation.ts";
import type { AttemptRef, EventOf, FailureReason } from "../event.ts";
import { edgesAfterFailure } from "../graph/edge.ts";
import { restartProblem } from "../graph/restart.ts";
import { isPrompt, type Run, type Scope, stepOf, type Visit, visitRef } from "../run.ts";
import { childScopeId } from "../step-path.ts";

/** How much of the last printed line a message quotes. */
const LAST_LINE_MAX = 200;

/** The evidence of a failure beside its reason. */
export type FailureEvidence = Pick<
  EventOf<"step.failed">,
  | "exit"
  | "reported"
  | "answer"
  | "output"
  | "context"
  | "exposes"
  | "check"
  | "checks"
  | "trouble"
  | "spent"
  | "snapshot"
  | "left"
  | "denied"
> & {
  /** The end of what it printed. */
  readonly said?: string;
  /** The signature of the failure, when it is known already. */
  readonly signature?: string;
};

/**
 * The event of a final failure. The author's edges for failures are followed, unless the loop
 * stalls.
 */
export function finalFailure(
  run: Run,
  visit: Visit,
  at: AttemptRef,
  reason: FailureReason,
  message: string,
  evidence: FailureEvidence = {},
): EventOf<"step.failed"> {
  const { said, signature: reported, ...handed } = evidence;
  const context = reason === "no-edge" ? (handed.context ?? {}) : contextAfter(run, visit, handed);
  const known = { ...handed, ...(Object.keys(context).length === 0 ? {} : { context }) };
  const failed = { type: "step.failed", ...at, reason, message, ...known } as const;
  const base = { ...failed, ...afterFailure(visit) };
  // At a limit on loops, an edge could only lead into the same loop again.
  if (reason === "visits" || reason === "restart") return { ...base, edges: [] };
  // In a DOT pipeline the stage did not fail, so its edges for failures are not followed.
  if (reason === "no-edge" && run.keys === "attractor") return { ...base, edges: [] };
  const followed = edgesAfterFailure(run, visit, known);
  const problem = restartProblem(visit, followed.edges);
  if (problem !== undefined) {
    return { ...base, reason: "restart", message: `${message}; ${problem}`, edges: [] };
  }
  if (!mayRepeat(visit)) return { ...base, ...followed };
  const signature = reported ?? signatureOf(reason, `${message}\n${said ?? ""}`);
  const times = timesInARow(run, visit, signature);
  const stalled = times >= (stepOf(visit).stallAfter ?? STALL_AFTER);
  if (!stalled || !(followed.handled === true || followed.edges.length > 0)) {
    return { ...base, signature, ...followed };
  }
  const text = `the same failure came ${times} times in a row: ${message}${lastLine(said)}`;
  return { ...base, reason: "stall", message: text, signature, edges: [] };
}

function contextAfter(run: Run, visit: Visit, known: FailureEvidence): JsonObject {
  const { exit = 1, reported, context = {} } = known;
  const outcome = { status: "failed", exit, context, outputs: {}, reported } as const;
  return { ...context, ...keysAtEnd(run, visit, outcome) };
}

/** The last line that a step printed. */
function lastLine(said = ""): string {
  const line = said.split(/[\r\n]+/).findLast((one) => one.trim() !== "");
  return line === undefined ? "" : `: ${line.trim().slice(0, LAST_LINE_MAX)}`;
}

/** How many equal failures in a row are a stall, unless the author sets another number. */
export const STALL_AFTER = 3;
const SIGNATURE_LENGTH = 16;

/**
 * True for a step that a run may visit more than once. A gate is none: a person who says no again
 * has a reason.
 */
export function mayRepeat(visit: Visit): boolean {
  if (isPrompt(stepOf(visit))) return false;
  return stepOf(visit).visitsMax > 1 || loopOf(visit.record.scope) !== undefined;
}

/** The signature of a failure: its reason and text, without parts that differ by chance. */
export function signatureOf(reason: FailureReason, text: string): string {
  return sha256(`${reason}\n${normalised(text)}`).slice(0, SIGNATURE_LENGTH);
}

/** The text without colours, numbers, hashes, and the directories of absolute paths. */
function normalised(text: string): string {
  return (
    text
      // biome-ignore lint/suspicious/noControlCharactersInRegex: colours begin with one
      .replaceAll(/\x1b\[[0-9;]*[A-Za-z]/g, "")
      .toLowerCase()
      .replaceAll(/(?<![\w.])\/(?:[^\s/:"']+\/)*([^\s/:"']+)/g, "$1")
      .replaceAll(/\b(?=[a-f]*\d)[0-9a-f]{7,}\b/g, "#")
      .replaceAll(/\d+(?:[.:]\d+)*/g, "#")
      .replaceAll(/\s+/g, " ")
      .trim()
  );
}

/** How often this failure has happened in a row, this one included. */
function timesInARow(run: Run, visit: Visit, signature: string): number {
  let times = 1;
  for (const { state } of visitsBefore(run, visit)) {
    if (state.status !== "failed" || state.signature !== signature) break;
    times++;
  }
  return times;
}

/** The earlier visits of the same step, latest first, earlier iterations included. */
function* visitsBefore(run: Run, visit: Visit): Generator<Visit> {
  const { visits, past, scope, position } = visit.record;
  yield* visits.slice(past, visit.number - 1).reverse();
  const loop = loopOf(scope);
  if (loop === undefined) return;
  const at = { ...visitRef(loop), attempt: loop.attempts };
  for (let index = scope.index - 1; index >= 0; index--) {
    const record = run.scopes.get(childScopeId(at, index))?.steps[position];
    yield* (record?.visits ?? []).toReversed();
  }
}

/** The loop of which a scope is an iteration. */
function loopOf({ parent }: Scope): Visit | undefined {
  return parent !== undefined && stepOf(parent).work.kind === "loop" ? parent : undefined;
}
