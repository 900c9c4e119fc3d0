/**
 * Effects that must happen once: what is said when nobody knows whether one has happened.
 *
 * Owns: which endings leave that in doubt, and what follows from the answer of a probe or a person.
 * Does not: know how attempts end otherwise; decide.ts says that (`Ends`).
 * Invariants:
 * - O1 An exit status other than 0 proves nothing, unless the author says so (`not_done`): what failed
 *   by itself may have happened. So may what was cut off, unless it is proven that nothing of it ran.
 *   With a probe, that is asked at once. Without one a person is asked, unless an edge for failures
 *   leads on: then the effect stays uncertain until something brings the step back.
 * - O2 A visit in doubt is not started again before its probe says "not done" or a person "redo".
 *   So does a visit whose effect an earlier one had, whatever brought the step back (O3).
 */
import { unreachable } from "../util/assert.ts";
import type { Json } from "../util/json.ts";
import { effectOf } from "./effect.ts";
import type {
  AttemptRef,
  Doubt,
  Exposure,
  FailureReason,
  LeftRunning,
  RunEvent,
  Saved,
  Spent,
} from "./event.ts";
import type { Ending, Fact, Result } from "./fact.ts";
import { Refusal } from "./rewind.ts";
import {
  attemptOf,
  currentVisit,
  type Effect,
  findStep,
  findVisit,
  isInDoubt,
  type Run,
  stepOf,
  type Visit,
} from "./run.ts";
import { statusWord, waitsFor } from "./visit-state.ts";

/** How much of another run's id is told. */
const RUN_ID_SHOWN = 8;

/** How the attempt of a step can be cut off. */
type CutOff = Extract<Ending, { how: "lost" | "stopped" | "timed-out" | "reined" }>;

/** How an attempt was cut off, if that leaves its effect in doubt (O1). */
export function doubtfulEnd(visit: Visit, ending: Ending): CutOff | undefined {
  // The effect of work that is being judged has happened.
  if (!stepOf(visit).once || visit.submitted !== undefined) return undefined;
  switch (ending.how) {
    case "lost":
      return ending.started ? ending : undefined;
    case "stopped":
    case "timed-out":
    case "reined":
      return ending;
    default:
      return undefined;
  }
}

/** The event that says so. */
export function unsettled(visit: Visit, ending: CutOff): RunEvent {
  const { message, spent, snapshot } = ending;
  return {
    type: "step.unsettled",
    ...attemptOf(visit),
    cause: causeOf(ending),
    message,
    asks: stepOf(visit).probe === undefined ? "person" : "probe",
    ...("tool" in ending && ending.tool !== undefined && { tool: ending.tool }),
    ...(snapshot && { snapshot }),
    ...(spent && { spent }),
  };
}

function causeOf(ending: CutOff): Doubt["cause"] {
  if (ending.how === "timed-out") return ending.limit;
  return ending.how === "reined" ? ending.reason : ending.how;
}

/** The events of a visit that would repeat an effect: it is uncertain before anything of it runs. */
export function repeated(at: AttemptRef, visit: Visit, effect: Effect): readonly RunEvent[] {
  const { place, run, done } = effect;
  const where = run === undefined ? place : `${place} of run ${run.slice(0, RUN_ID_SHOWN)}`;
  return [
    { type: "step.started", ...at },
    {
      type: "step.unsettled",
      ...at,
      cause: "repeated",
      message: done === true ? `it happened as ${where}` : `it may have happened as ${where}`,
      asks: stepOf(visit).probe === undefined ? "person" : "probe",
    },
  ];
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

/** How decide.ts ends attempts. */
export interface Ends {
  complete(run: Run, visit: Visit, exit: number, result: Completion): RunEvent;
  endAttempt(run: Run, visit: Visit, ending: Ending, now: number): readonly RunEvent[];
  finalFailure(
    run: Run,
    visit: Visit,
    at: AttemptRef,
    reason: FailureReason,
    message: string,
  ): RunEvent;
}

const NO_RESULT: Result = { outputs: {}, context: {} };

/** What follows from a probe's answer; what did not happen ends as any other step would have. */
export function afterProbe(
  run: Run,
  fact: Extract<Fact, { type: "probed" }>,
  now: number,
  ends: Ends,
): readonly RunEvent[] {
  const { answer, identity, message, result = NO_RESULT } = fact;
  const visit = findVisit(run, fact.at);
  if (!waitsFor(visit?.state, "probe") || visit.attempts !== fact.at.attempt) return [];
  const said = { answer, ...(identity && { identity }), ...(message && { message }) };
  const probed = { type: "step.probed", ...attemptOf(visit), ...said } as const;
  const doubt = doubtOf(visit);
  if (answer === "unknown") return [probed];
  if (doubt.cause === "identity") return [...named(run, visit, { doubt, probed, ends })];
  if (answer === "not-done") {
    return [probed, ...ends.endAttempt(run, visit, endingOf(doubt), now)];
  }
  const { snapshot } = doubt;
  const done = { ...earlier(run, visit), ...leftOf(doubt), ...result, snapshot };
  const vouched = { ...done, settledBy: "its probe", ...(identity && { identity }) };
  return [probed, ends.complete(run, visit, 0, vouched)];
}

/** What follows when a step succeeded and its probe was asked for the identity of its effect. */
function named(
  run: Run,
  visit: Visit,
  { doubt, probed, ends }: { doubt: Doubt; probed: Probed; ends: Ends },
): readonly RunEvent[] {
  const { exited, snapshot } = doubt;
  if (probed.answer === "done" && exited !== undefined) {
    const { identity } = probed;
    return [probed, ends.complete(run, visit, exited.exit, { ...exited, snapshot, identity })];
  }
  const message = "it exited with 0, but its probe says that it did not happen";
  return [{ ...probed, answer: "unknown", message }];
}

type Probed = Extract<RunEvent, { type: "step.probed" }>;

/** What an attempt left that exited, and that somebody else vouches for. */
function leftOf({ exited }: Doubt): Pick<Completion, "answer" | "output" | "left"> {
  const { answer, output, left } = exited ?? {};
  return {
    ...(answer === undefined ? {} : { answer }),
    ...(output === undefined ? {} : { output }),
    ...(left === undefined ? {} : { left }),
  };
}

/** What follows from a person's word; refuses what is in no doubt. */
export function afterVerdict(
  run: Run,
  fact: Extract<Fact, { type: "settled" }>,
  now: number,
  ends: Ends,
): readonly RunEvent[] {
  const { as, by, identity, result = NO_RESULT } = fact;
  const visit = visitInDoubt(run, fact.step);
  const at = attemptOf(visit);
  const settled = { type: "step.settled", ...at, as, by, ...(identity && { identity }) } as const;
  const doubt = doubtOf(visit);
  const { message, snapshot } = doubt;
  switch (as) {
    case "done":
      return [
        settled,
        ends.complete(run, visit, 0, {
          ...earlier(run, visit),
          ...leftOf(doubt),
          ...result,
          ...(identity && { identity }),
          ...{ settledBy: by, snapshot },
        }),
      ];
    case "redo":
      // Not as it would have ended: a person's word outweighs what is left of its retries.
      return [settled, { type: "step.lost", ...at, message, retry: { at: now, delayMs: 0 } }];
    case "abort":
      return [
        settled,
        ends.finalFailure(run, visit, at, "aborted", `given up by ${by}: ${message}`),
      ];
    default:
      return unreachable(as);
  }
}

/** What the visit that had the effect before said of it: this one stands for the same. */
function earlier(run: Run, visit: Visit): Pick<Completion, "answer" | "told" | "identity"> {
  const state = effectOf(run, visit)?.visit?.state;
  if (state?.status !== "completed") return {};
  const { answer, told, identity } = state;
  return {
    ...(answer === undefined ? {} : { answer }),
    ...(told === undefined ? {} : { told }),
    ...(identity === undefined ? {} : { identity }),
  };
}

/** The end of the attempt as it would have been told had there been no doubt about it. */
function endingOf({ cause, message, tool, exited }: Doubt): Ending {
  const known = tool === undefined ? {} : { tool };
  if (exited !== undefined) return { how: "exited", ...exited };
  switch (cause) {
    case "lost":
      return { how: "lost", started: true, message, ...known };
    case "stopped":
    // Nothing of the attempt ran: the next one is the first that does.
    case "repeated":
    case "exit":
    case "identity":
      return { how: "stopped", message, ...known };
    case "stall":
    case "turns":
      return { how: "reined", reason: cause, message };
    default:
      return { how: "timed-out", limit: cause, message };
  }
}

/** What was in doubt about a visit; older journals recorded only that it was lost. */
function doubtOf({ doubt, state }: Visit): Doubt {
  const message = "message" in state ? state.message : "";
  return doubt ?? { cause: "lost", message, asks: "person" };
}

/** The visit of a step that a person is to settle. */
export function visitInDoubt(run: Run, path: string): Visit {
  const record = findStep(run, path);
  // Not only the current one: an `any` join may have come to the step again since.
  const doubtful = record?.visits.slice(record.past).find(isInDoubt);
  if (doubtful !== undefined) return doubtful;
  const visit = currentVisit(record);
  if (visit === undefined) {
    throw new Refusal(`there is nothing to settle: step ${path} has not started, or is not there`);
  }
  const status = statusWord(visit.state);
  if (status === "running" && stepOf(visit).once) {
    const remedy = `perdure resume ${run.id} finds out what became of it`;
    throw new Refusal(`there is nothing to settle yet: step ${path} is running; ${remedy}`);
  }
  throw new Refusal(`there is nothing to settle: step ${path} is ${status}`);
}
