/**
 * The events that end an attempt, however it ended: by itself, at a limit, stopped, lost, paused, or
 * with a request that its conversation continues with.
 *
 * Owns: the bounds on losses, pauses, requests and hand-overs.
 * Does not: judge what an attempt that ended by itself has done (attempt-end.ts).
 */
import { unreachable } from "../util/assert.ts";
import { exited, fail, paidBy } from "./attempt-end.ts";
import { ASKS_MAX, RELAYS_MAX } from "./conversation.ts";
import type { RunEvent } from "./event.ts";
import type { Ending } from "./fact.ts";
import { finalFailure } from "./failure.ts";
import { submitAgain } from "./judge.ts";
import { placeText } from "./place.ts";
import { PAUSES_MAX, retryAfterLoss, retryAfterPause } from "./retry.ts";
import { attemptOf, placeOf, type Run, type Visit } from "./run.ts";
import { LOSSES_MAX } from "./visit.ts";

/** The events with which an attempt ends. */
export function endAttempt(
  run: Run,
  visit: Visit,
  ending: Ending,
  now: number,
): readonly RunEvent[] {
  const at = attemptOf(visit);
  const paid = paidBy(ending);
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

/** The conversation goes on with a request, unless that was made often enough. */
function ask(
  run: Run,
  visit: Visit,
  ending: Extract<Ending, { how: "asked" }>,
  now: number,
): RunEvent {
  const paid = paidBy(ending);
  if (visit.submitted !== undefined) {
    const { why } = ending.ask;
    const again = submitAgain(visit, why, paid);
    return again ?? fail(run, visit, "answer", `its judge gave no verdict: ${why}`, now, paid);
  }
  const { kind } = ending.ask;
  if (kind === "message" || kind === "permission" || (visit.talk?.asks ?? 0) < ASKS_MAX) {
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
  const paid = paidBy(ending);
  if ((visit.talk?.relays ?? 0) < RELAYS_MAX) {
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
  const salt = `${run.id}/${placeText(placeOf(visit))}`;
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
