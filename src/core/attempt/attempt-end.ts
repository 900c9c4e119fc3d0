/**
 * How an attempt ends: it completed, it failed, it gets another attempt, it was lost, paused or stopped,
 * or its conversation continues with a request.
 *
 * Owns: what an exit status and the step's own report mean together, what uses up the retries, and the
 * bounds on losses, pauses, requests and hand-overs.
 * Does not: know effects that must happen once (uncertain.ts), or what follows from a final failure
 * (failure.ts).
 * Invariants:
 * - W1 A step that reports `retry` or `fail` has failed, whatever its exit status; with an exit status
 *   other than 0 it has failed, whatever it reports.
 */

import type { RetryPolicy } from "../../plan/plan.ts";
import { unreachable } from "../../util/assert.ts";
import type { Json } from "../../util/json.ts";
import { keysAtEnd, keysAtRetry } from "../built-in-keys.ts";
import { ASKS_MAX, afterFailure, RELAYS_MAX } from "../conversation/conversation.ts";
import { missingJudge, submit, submitAgain } from "../conversation/judge.ts";
import type {
  AttemptRef,
  Exposure,
  FailureReason,
  LeftRunning,
  RunEvent,
  Saved,
  Spent,
} from "../event.ts";
import type { Ending, Result } from "../fact.ts";
import { chooseEdges } from "../graph/edge-choice.ts";
import { restartProblem } from "../graph/restart.ts";
import { LOSSES_MAX } from "../graph/visit.ts";
import { attemptOf, type Run, stepOf, type Visit, visitRef } from "../run.ts";
import { visitText } from "../step-path.ts";
import type { Outcome } from "../values.ts";
import { failsForGood, findingsIn } from "./check.ts";
import { type FailureEvidence, finalFailure } from "./failure.ts";
import { PAUSES_MAX, retryAfterFailure, retryAfterLoss, retryAfterPause } from "./retry.ts";

type Exited = Extract<Ending, { how: "exited" }>;

/** The event that ends an attempt whose process ended by itself. */
export function exited(run: Run, visit: Visit, ending: Exited, now: number): RunEvent {
  const { exit, problem, said, signature, reported, context, output } = ending;
  const evidence = {
    exit,
    ...(said === undefined ? {} : { said }),
    ...(signature === undefined ? {} : { signature }),
    ...findingsIn(ending),
    ...(reported === undefined ? {} : { reported }),
    ...(output === undefined ? {} : { output }),
    ...(Object.keys(context).length === 0 ? {} : { context }),
    ...traceOf(ending),
  };
  if (problem?.reason === "check" && failsForGood(ending)) {
    return finalFailure(run, visit, attemptOf(visit), "check", problem.message, evidence);
  }
  if (problem !== undefined) {
    const { reason, message, trouble } = problem;
    const known = trouble === undefined ? evidence : { ...evidence, trouble };
    return fail(run, visit, reason, message, now, known);
  }
  if (exit !== 0) return fail(run, visit, "exit", `it exited with ${exit}`, now, evidence);
  if (reported?.outcome === "fail") {
    return fail(run, visit, "reported", reported.notes ?? "it gave no reason", now, evidence);
  }
  if (reported?.outcome !== "retry") return completeOrSubmit(run, visit, ending);
  if (isPartialSuccess(visit)) {
    const partly = { ...reported, outcome: "partial_success" };
    return completeOrSubmit(run, visit, { ...ending, reported: partly });
  }
  return fail(run, visit, "retry", reported.notes ?? "it gave no reason", now, evidence);
}

/** Work that nothing is wrong with is done, unless a judge is still to look at it. */
function completeOrSubmit(run: Run, visit: Visit, ending: Exited): RunEvent {
  if (missingJudge(stepOf(visit), ending) === undefined) {
    return complete(run, visit, ending.exit, ending);
  }
  return submit(visit, ending, traceOf(ending));
}

/** True when an attempt that ended like this completes its step, as far as its edges allow. */
export function succeeds(visit: Visit, ending: Ending): boolean {
  if (!endsWell(visit, ending) || ending.how !== "exited") return false;
  return missingJudge(stepOf(visit), ending) === undefined;
}

/** True when nothing is wrong with an attempt, whether or not a judge is still to look at it. */
export function endsWell(visit: Visit, ending: Ending): boolean {
  if (ending.how !== "exited" || ending.exit !== 0 || ending.problem !== undefined) return false;
  if (ending.reported?.outcome === "retry") return isPartialSuccess(visit);
  return ending.reported?.outcome !== "fail";
}

/** The last attempt that asks for another one counts in part, where the author allows that. */
function isPartialSuccess(visit: Visit): boolean {
  return stepOf(visit).allowPartial === true && visit.failures + 1 >= visit.failuresMax;
}

/** What completes a visit, whoever vouches for it. */
export interface Completion extends Result {
  readonly answer?: Json;
  readonly output?: string;
  readonly spent?: Spent;
  readonly snapshot?: Saved | undefined;
  readonly left?: readonly LeftRunning[];
  readonly exposes?: readonly Exposure[];
  readonly identity?: string | undefined;
  readonly settledBy?: string | undefined;
}

/** The event that ends a visit well, unless no edge leads on from it. */
export function complete(
  run: Run,
  visit: Visit,
  exit: number,
  result: Completion,
  at: AttemptRef = attemptOf(visit),
): RunEvent {
  const { outputs, answer, output, identity, settledBy, reported, exposes } = result;
  const plain = { ...result, status: "completed", exit } as const;
  const context = { ...result.context, ...keysAtEnd(run, visit, plain) };
  const chosen = chooseWay(run, visit, { ...plain, context });
  const paid = traceOf(result);
  const words = {
    ...(reported === undefined ? {} : { reported }),
    ...(output === undefined ? {} : { output }),
  };
  if (!chosen.ok) {
    const handed = Object.keys(context).length === 0 ? {} : { context };
    const evidence = { exit, ...words, ...handed, ...findingsIn(result), ...paid };
    return finalFailure(run, visit, at, chosen.reason, chosen.message, evidence);
  }
  const completed = { type: "step.completed", ...at, exit, outputs, context } as const;
  const evidence = {
    ...(answer === undefined ? {} : { answer }),
    ...(identity && { identity }),
    ...(settledBy && { settledBy }),
    ...words,
    ...(exposes && { exposes }),
    ...findingsIn(result),
  };
  return { ...completed, ...evidence, ...paid, edges: chosen.edges };
}

/** The edges that lead on, unless they would lead where they must not. */
function chooseWay(run: Run, visit: Visit, outcome: Outcome): ReturnType<typeof chooseEdges> {
  const chosen = chooseEdges(run, visit, outcome);
  const problem = chosen.ok ? restartProblem(visit, chosen.edges) : undefined;
  return problem === undefined ? chosen : { ok: false, reason: "restart", message: problem };
}

/** A failure: another try, while the allowance lasts and the author wants one for it. */
export function fail(
  run: Run,
  visit: Visit,
  reason: FailureReason,
  message: string,
  now: number,
  evidence: FailureEvidence = {},
): RunEvent {
  const failures = visit.failures + 1;
  const at = attemptOf(visit);
  const { retry: policy } = stepOf(visit);
  const conversation = afterFailure(visit);
  // Who continues with no turns left would fail at once: a person grants more.
  const spentTurns = reason === "turns" && conversation.conversation !== undefined;
  if (failures < visit.failuresMax && !spentTurns && isTriedAgain(policy, reason)) {
    // What it handed on counts only when nothing comes after it.
    const { said: _, signature: __, context: ___, output: ____, ...reported } = evidence;
    const keys = keysAtRetry(run, visit);
    const known = Object.keys(keys).length === 0 ? reported : { ...reported, context: keys };
    const salt = `${run.id}/${visitText(visitRef(visit))}`;
    const sinceGrant = failures - (visit.failuresBefore ?? 0);
    const retry = retryAfterFailure(policy.backoff, sinceGrant, now, salt);
    const failed = { type: "step.failed", ...at, reason, message, ...known } as const;
    return { ...failed, ...conversation, retry, edges: [] };
  }
  return finalFailure(run, visit, at, reason, message, evidence);
}

/** Whether the author wants another try after such a failure. */
function isTriedAgain({ on }: RetryPolicy, reason: FailureReason): boolean {
  if (on === "retry") return reason === "retry" || reason === "spawn";
  return on === "any" || reason !== "reported";
}

/** What an attempt used and left, for the event that ends it. */
export function traceOf(end: {
  readonly spent?: Spent;
  readonly snapshot?: Saved | undefined;
  readonly left?: readonly LeftRunning[];
  readonly denied?: readonly string[];
}): Pick<Ending, "spent" | "snapshot" | "left" | "denied"> {
  const { spent, snapshot, left, denied } = end;
  return {
    ...(denied === undefined ? {} : { denied }),
    ...(left === undefined ? {} : { left }),
    ...(snapshot === undefined ? {} : { snapshot }),
    ...(spent === undefined ? {} : { spent }),
  };
}

/** The events with which an attempt ends. */
export function endAttempt(
  run: Run,
  visit: Visit,
  ending: Ending,
  now: number,
): readonly RunEvent[] {
  const at = attemptOf(visit);
  const paid = traceOf(ending);
  switch (ending.how) {
    case "exited":
      return ending.fromStream === true
        ? [{ type: "step.adopted", ...at, found: "result" }, exited(run, visit, ending, now)]
        : [exited(run, visit, ending, now)];
    case "timed-out":
      return [
        fail(run, visit, ending.limit, ending.message, now, { ...paid, ...outputOf(ending) }),
      ];
    case "stopped": {
      const tool = ending.tool === undefined ? {} : { tool: ending.tool };
      return [{ type: "step.interrupted", ...at, message: ending.message, ...tool, ...paid }];
    }
    case "conflicted": {
      const { paths, message, base, held } = ending;
      return [{ type: "step.conflicted", ...at, paths, message, base, held, ...paid }];
    }
    case "reined":
      return [
        fail(run, visit, ending.reason, ending.message, now, { ...paid, ...outputOf(ending) }),
      ];
    case "asked":
      return [ask(run, visit, ending, now)];
    case "relayed":
      return [relay(run, visit, ending, now)];
    case "lost":
      return [{ ...lose(run, visit, ending, now), ...paid }];
    case "paused":
      return [{ ...pause(visit, ending, now), ...paid }];
    case "not-started":
      if (ending.reason === "spawn") return [fail(run, visit, "spawn", ending.message, now)];
      return [finalFailure(run, visit, at, "expression", ending.message)];
    default:
      return unreachable(ending);
  }
}

function outputOf({ output }: Ending): { readonly output?: string } {
  return output === undefined ? {} : { output };
}

/** The conversation continues with a request, unless that was made often enough. */
function ask(
  run: Run,
  visit: Visit,
  ending: Extract<Ending, { how: "asked" }>,
  now: number,
): RunEvent {
  const paid = traceOf(ending);
  if (visit.submitted !== undefined) {
    const { why } = ending.ask;
    const again = submitAgain(visit, why, paid);
    return again ?? fail(run, visit, "answer", `its judge gave no verdict: ${why}`, now, paid);
  }
  const { kind } = ending.ask;
  if (kind === "message" || kind === "permission" || (visit.conversation?.asks ?? 0) < ASKS_MAX) {
    return { type: "step.continued", ...attemptOf(visit), ask: ending.ask, ...paid };
  }
  const reason = ending.ask.kind === "relay" ? "relay" : "answer";
  return fail(run, visit, reason, ending.ask.why, now, paid);
}

function relay(
  run: Run,
  visit: Visit,
  ending: Extract<Ending, { how: "relayed" }>,
  now: number,
): RunEvent {
  const paid = traceOf(ending);
  if ((visit.conversation?.relays ?? 0) < RELAYS_MAX) {
    const { checkpoint, why } = ending;
    const relayed = { type: "step.relayed", ...attemptOf(visit), checkpoint, ...paid } as const;
    return why === undefined ? relayed : { ...relayed, why };
  }
  const message = `it was handed over ${RELAYS_MAX} times: raise \`relay.at\` or split the task`;
  return fail(run, visit, "relay", message, now, paid);
}

function lose(
  run: Run,
  visit: Visit,
  ending: Extract<Ending, { how: "lost" }>,
  now: number,
): RunEvent {
  const at = attemptOf(visit);
  const { message } = ending;
  const tool = ending.tool === undefined ? {} : { tool: ending.tool };
  const lost = { type: "step.lost", ...at, message, ...tool } as const;
  const left = visit.lossesMax - (visit.losses + 1);
  if (left <= 0) return lost;
  // A new allowance has fresh pauses.
  const losses = LOSSES_MAX - left;
  const salt = `${run.id}/${visitText(visitRef(visit))}`;
  return { ...lost, retry: retryAfterLoss(losses, now, salt) };
}

function pause(visit: Visit, ending: Extract<Ending, { how: "paused" }>, now: number): RunEvent {
  const { reason, message, retryAfterMs } = ending;
  const paused = { type: "step.paused", ...attemptOf(visit), reason, message } as const;
  const pauses = visit.pauses + 1;
  // A conversation that is gone is begun anew at once: there is nobody to wait for.
  const askedMs = reason === "session-gone" ? 0 : retryAfterMs;
  return pauses >= PAUSES_MAX
    ? paused
    : { ...paused, retry: retryAfterPause(pauses, now, askedMs) };
}
