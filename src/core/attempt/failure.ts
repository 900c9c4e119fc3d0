/**
 * Failures for good: what follows from them.
 *
 * Owns: the event that ends a visit badly: handled, unhandled, or the end of a loop.
 * Does not: decide whether there is another try (decide.ts).
 */

import { type JsonObject, sha256 } from "../../util/json.ts";
import { keysAtEnd } from "../built-in-keys.ts";
import { afterFailure } from "../conversation/conversation.ts";
import type { AttemptRef, FailureReason, StepFailed } from "../event.ts";
import { edgesAfterFailure } from "../graph/edge-choice.ts";
import { restartProblem } from "../graph/restart.ts";
import { isPrompt, type Run, type Scope, stepOf, type Visit, visitRef } from "../run.ts";
import { childScopeId } from "../step-path.ts";

/** How much of the last line that a step printed is told. */
const LAST_WORDS_MAX = 200;

/** What is known of a failure beside its reason. */
export type FailureEvidence = Pick<
  StepFailed,
  | "exit"
  | "reported"
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

/** A failure for good: the author's edges lead on from it, unless the loop gets nowhere. */
export function finalFailure(
  run: Run,
  visit: Visit,
  at: AttemptRef,
  reason: FailureReason,
  message: string,
  evidence: FailureEvidence = {},
): StepFailed {
  const { said, signature: reported, ...handed } = evidence;
  const context = contextAfter(run, visit, handed);
  const known = { ...handed, ...(Object.keys(context).length === 0 ? {} : { context }) };
  const failed = { type: "step.failed", ...at, reason, message, ...known } as const;
  const base = { ...failed, ...afterFailure(visit) };
  // Where a bound on loops was reached, an edge could only lead into the same loop again.
  if (reason === "visits" || reason === "restart") return { ...base, edges: [] };
  const way = edgesAfterFailure(run, visit, known);
  const problem = restartProblem(visit, way.edges);
  if (problem !== undefined) {
    return { ...base, reason: "restart", message: `${message}; ${problem}`, edges: [] };
  }
  if (!mayRepeat(visit)) return { ...base, ...way };
  const signature = reported ?? signatureOf(reason, `${message}\n${said ?? ""}`);
  const times = timesInARow(run, visit, signature);
  const stalled = times >= (stepOf(visit).stallAfter ?? STALL_AFTER);
  if (!stalled || !(way.handled === true || way.edges.length > 0)) {
    return { ...base, signature, ...way };
  }
  const text = `the same failure came ${times} times in a row: ${message}${lastWords(said)}`;
  return { ...base, reason: "stall", message: text, signature, edges: [] };
}

function contextAfter(run: Run, visit: Visit, known: FailureEvidence): JsonObject {
  const { exit = 1, reported, context = {} } = known;
  const outcome = { status: "failed", exit, context, outputs: {}, reported } as const;
  return { ...context, ...keysAtEnd(run, visit, outcome) };
}

/** The last line that a step printed, for people. */
function lastWords(said = ""): string {
  const line = said.split(/[\r\n]+/).findLast((one) => one.trim() !== "");
  return line === undefined ? "" : `: ${line.trim().slice(0, LAST_WORDS_MAX)}`;
}

/** How often in a row a step may fail in the same way, unless the author says otherwise. */
export const STALL_AFTER = 3;
const SIGNATURE_LENGTH = 16;

/** True for a step that a run may come to more than once. A person who says no again has a reason. */
export function mayRepeat(visit: Visit): boolean {
  if (isPrompt(stepOf(visit))) return false;
  return stepOf(visit).visitsMax > 1 || loopOf(visit.record.scope) !== undefined;
}

/** What tells a failure from others: its reason and its text, without what differs by chance. */
export function signatureOf(reason: FailureReason, text: string): string {
  return sha256(`${reason}\n${normalised(text)}`).slice(0, SIGNATURE_LENGTH);
}

/** Without colours, numbers, hashes, and the directories of absolute paths. */
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

/** How often this failure has come in a row, this time included. */
export function timesInARow(run: Run, visit: Visit, signature: string): number {
  let times = 1;
  for (const { state } of visitsBefore(run, visit)) {
    if (state.status !== "failed" || state.signature !== signature) break;
    times++;
  }
  return times;
}

/** The visits of the same step before this one, latest first, also in earlier iterations. */
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
