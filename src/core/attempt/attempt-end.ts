/**
 * The end of an attempt: it completed, failed, was lost, paused or stopped, it gets another
 * attempt, or its conversation continues with a request.
 *
 * Owns: what an exit status and the step's own report mean together, which endings use up retries,
 * the limits on losses, pauses, requests and relays, and the times of the next attempts. The jitter
 * is a function of the attempt, so replay and the simulator get the same delays.
 * Does not: handle effects that must happen once (uncertain.ts), or decide what follows a final
 * failure (failure.ts).
 * Invariants:
 * - core/W1 A step that reports `retry` or `fail` has failed, whatever its exit status. A step with
 *   an exit status other than 0 has failed, whatever it reports.
 */

import type { RetryPolicy } from "../../plan/plan.ts";
import { unreachable } from "../../util/assert.ts";
import { defined } from "../../util/defined.ts";
import { seededRandom, seedOf } from "../../util/random.ts";
import { keysAtEnd, keysAtRetry } from "../built-in-keys.ts";
import { ASKS_MAX, afterFailure, RELAYS_MAX } from "../conversation/conversation.ts";
import type { AttemptRef, EventOf, FailureReason, Retry, RunEvent } from "../event.ts";
import type { Ending, Result } from "../fact.ts";
import { chooseEdges } from "../graph/edge.ts";
import { restartProblem } from "../graph/restart.ts";
import { LOSSES_MAX } from "../graph/visit.ts";
import { attemptOf, type Run, stepOf, type Visit, visitRef } from "../run.ts";
import { visitText } from "../step-path.ts";
import type { Outcome } from "../values.ts";
import { failsForGood, findingsIn, missingJudge, submit, submitAgain } from "./check.ts";
import { type FailureEvidence, finalFailure } from "./failure.ts";
import { reuseOf, unstartedIn } from "./reuse.ts";

type Exited = Extract<Ending, { how: "exited" }>;

/** The event for an attempt whose process exited. */
function exited(run: Run, visit: Visit, ending: Exited, now: number): RunEvent {
  const { exit, problem, said, signature, reported, context, output, exposes } = ending;
  const evidence = {
    exit,
    ...defined({ said, signature }),
    ...findingsIn(ending),
    ...defined({ reported, output }),
    ...(Object.keys(context).length === 0 ? {} : { context }),
    ...(exposes && { exposes }),
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

/** Completes the visit, or submits its work to the next judge. */
function completeOrSubmit(run: Run, visit: Visit, ending: Exited): RunEvent {
  if (missingJudge(stepOf(visit), ending) === undefined) {
    return complete(run, visit, ending.exit, ending);
  }
  return submit(visit, ending, traceOf(ending));
}

/** True when an attempt with this ending completes its step, if an edge can be followed. */
export function succeeds(visit: Visit, ending: Ending): boolean {
  if (!endsWell(visit, ending) || ending.how !== "exited") return false;
  return missingJudge(stepOf(visit), ending) === undefined;
}

/** True when an attempt succeeded, whether or not a judge still has to give a verdict. */
export function endsWell(visit: Visit, ending: Ending): boolean {
  if (ending.how !== "exited" || ending.exit !== 0 || ending.problem !== undefined) return false;
  if (ending.reported?.outcome === "retry") return isPartialSuccess(visit);
  return ending.reported?.outcome !== "fail";
}

/** True when the last attempt reports `retry` and the author accepts that as partial success. */
function isPartialSuccess(visit: Visit): boolean {
  return stepOf(visit).allowPartial === true && visit.failures + 1 >= visit.failuresMax;
}

/** The result that completes a visit: from an exit, a probe or a person. */
type Completion = Result &
  Pick<Ending, "spent" | "snapshot" | "theirs" | "left"> &
  Pick<EventOf<"step.completed">, "answer" | "output" | "exposes" | "identity" | "settledBy">;

/** The event that completes a visit, or fails it when no edge can be followed. */
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
  const chosen = edgesToFollow(run, visit, { ...plain, context });
  const paid = traceOf(result);
  const words = defined({ reported, output });
  if (!chosen.ok) {
    const handed = {
      ...(Object.keys(context).length === 0 ? {} : { context }),
      ...(exposes && { exposes }),
    };
    const evidence = { exit, ...words, ...handed, ...findingsIn(result), ...paid };
    return finalFailure(run, visit, at, chosen.reason, chosen.message, evidence);
  }
  const completed = { type: "step.completed", ...at, exit, outputs, context } as const;
  const evidence = {
    ...defined({ answer, identity, settledBy }),
    ...words,
    ...(exposes && { exposes }),
    ...findingsIn(result),
    ...reuseOf(run, visit, result),
  };
  return { ...completed, ...evidence, ...paid, edges: chosen.edges };
}

/** The edges to follow; a restart that is not allowed is a problem. */
function edgesToFollow(run: Run, visit: Visit, outcome: Outcome): ReturnType<typeof chooseEdges> {
  const chosen = chooseEdges(run, visit, outcome);
  const problem = chosen.ok ? restartProblem(visit, chosen.edges) : undefined;
  return problem === undefined ? chosen : { ok: false, reason: "restart", message: problem };
}

/**
 * The event for a failure: with a retry while attempts are left and the retry policy allows one.
 */
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
  // An attempt without turns left would fail at once: a person must grant more.
  const spentTurns = reason === "turns" && conversation.conversation !== undefined;
  if (failures < visit.failuresMax && !spentTurns && isRetried(policy, reason)) {
    // Context and output count only in the last attempt.
    const { context: _, exposes: __, output: ___, ...known } = evidence;
    const { said: ____, signature: _____, ...reported } = known;
    const keys = keysAtRetry(run, visit);
    const handed = Object.keys(keys).length === 0 ? {} : { context: keys };
    const salt = `${run.id}/${visitText(visitRef(visit))}`;
    const sinceGrant = failures - (visit.failuresBefore ?? 0);
    const retry = retryAfterFailure(policy.backoff, sinceGrant, now, salt);
    const failed = { type: "step.failed", ...at, reason, message, ...reported, ...handed } as const;
    return { ...failed, ...conversation, retry, edges: [] };
  }
  return finalFailure(run, visit, at, reason, message, evidence);
}

/** True when the retry policy allows another attempt after this failure. */
function isRetried({ on }: RetryPolicy, reason: FailureReason): boolean {
  if (on === "retry") return reason === "retry" || reason === "spawn" || reason === "unanswered";
  return on === "any" || reason !== "reported";
}

/** The spending, snapshot, processes and denied calls of an attempt, for the event that ends it. */
export function traceOf({ spent, snapshot, left, denied }: Trace): Trace {
  return defined({ denied, left, snapshot, spent });
}

type Trace = Pick<Ending, "spent" | "snapshot" | "left" | "denied">;

/** The events that end an attempt. */
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
      const { message } = ending;
      const proof = unstartedIn(visit, ending);
      return [{ type: "step.interrupted", ...at, message, ...tool, ...proof, ...paid }];
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

/** Continues the conversation with a request, up to the limit on requests. */
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
  const lost = {
    type: "step.lost",
    ...at,
    message,
    ...tool,
    ...unstartedIn(visit, ending),
  } as const;
  const left = visit.lossesMax - (visit.losses + 1);
  if (left <= 0) return lost;
  // A person's grant starts the pauses again from the shortest.
  const losses = LOSSES_MAX - left;
  const salt = `${run.id}/${visitText(visitRef(visit))}`;
  return { ...lost, retry: retryAfterLoss(losses, now, salt) };
}

function pause(visit: Visit, ending: Extract<Ending, { how: "paused" }>, now: number): RunEvent {
  const { reason, message, retryAfterMs } = ending;
  const paused = { type: "step.paused", ...attemptOf(visit), reason, message } as const;
  const pauses = visit.pauses + 1;
  // A new conversation can start at once when the old one is gone.
  const askedMs = reason === "session-gone" ? 0 : retryAfterMs;
  return pauses >= PAUSES_MAX
    ? paused
    : { ...paused, retry: retryAfterPause(pauses, now, askedMs) };
}

/** The next attempt after the n-th failure of a visit. */
function retryAfterFailure(
  backoff: RetryPolicy["backoff"],
  failures: number,
  now: number,
  salt: string,
): Retry {
  const plain = Math.min(backoff.initialMs * backoff.factor ** (failures - 1), backoff.maxMs);
  const spread = 1 + backoff.jitter * (2 * seededRandom(seedOf(`${salt}#${failures}`)).next() - 1);
  const delayMs = Math.round(plain * spread);
  return { at: now + delayMs, delayMs };
}

/** The backoff between attempts of a step that is lost again and again. */
const LOSS_PAUSE = { initialMs: 500, factor: 2, maxMs: 60_000, jitter: 0.2 };

/** The next attempt after the n-th loss of a visit: at once after the first loss. */
function retryAfterLoss(losses: number, now: number, salt: string): Retry {
  if (losses <= 1) return { at: now, delayMs: 0 };
  return retryAfterFailure(LOSS_PAUSE, losses - 1, now, `${salt}/loss`);
}

/** How often the agent of a visit may be paused before the visit fails and needs a person. */
export const PAUSES_MAX = 50;

/** The pauses between attempts of an agent whose service is busy. */
const PAUSE_FIRST_MS = 5_000;
const PAUSE_MAX_MS = 5 * 60_000;

/**
 * The next attempt after the n-th pause of a visit, at the time that the service named if it did.
 */
function retryAfterPause(pauses: number, now: number, askedMs: number | undefined): Retry {
  const delayMs = askedMs ?? Math.min(PAUSE_FIRST_MS * 2 ** (pauses - 1), PAUSE_MAX_MS);
  return { at: now + delayMs, delayMs };
}
