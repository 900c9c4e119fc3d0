/**
 * Loops that get nowhere: the same step fails in the same way, time after time.
 *
 * Owns: what makes two failures the same, and how often one has come in a row.
 * Does not: decide what follows (decide.ts).
 */
import { sha256 } from "../util/json.ts";
import type { FailureReason } from "./event.ts";
import { childScopeId } from "./place.ts";
import { isPrompt, placeOf, type Run, type Scope, stepOf, type Visit } from "./run.ts";

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
  const at = { ...placeOf(loop), attempt: loop.attempts };
  for (let index = scope.index - 1; index >= 0; index--) {
    const record = run.scopes.get(childScopeId(at, index))?.steps[position];
    yield* (record?.visits ?? []).toReversed();
  }
}

/** The loop of which a scope is an iteration. */
function loopOf({ parent }: Scope): Visit | undefined {
  return parent !== undefined && stepOf(parent).work.kind === "loop" ? parent : undefined;
}
