/**
 * Events as plain lines, for pipes, logs and CI: one line for each event worth telling.
 *
 * Owns: the sentence for each event.
 * Does not: keep time; AttemptClock knows when an attempt started.
 */
import { checksFound } from "../core/check.ts";
import type {
  AttemptEnd,
  Place,
  Recorded,
  RunEvent,
  StepCompleted,
  StepSubmitted,
  StopReason,
} from "../core/event.ts";
import { deniedText } from "../core/permission.ts";
import { stepPath } from "../core/place.ts";
import { PAUSES_MAX } from "../core/retry.ts";
import { findVisit, type Run, stepOf } from "../core/run.ts";
import { formatDuration } from "../util/duration.ts";
import { warningText } from "./check-text.ts";
import { commitText, plainText, shortList } from "./display-text.ts";
import { doubtText } from "./doubt-text.ts";
import { exposureText } from "./exposure-text.ts";
import { failureText, messageText } from "./failure-words.ts";
import { leftText } from "./left-text.ts";
import { messageLine } from "./message-text.ts";
import { answerText, choicesText, deadlineText, questionText, wakeText } from "./question-text.ts";
import { fundsText } from "./spent-text.ts";
import { attemptWords, STEP_LOOKS } from "./step-status.ts";
import { stopText } from "./stop-text.ts";
import { toldText } from "./told-text.ts";
import { updateText } from "./update-words.ts";

/** How many items a line names. */
const ITEMS_MAX = 6;

/** Marks lines about the run itself. */
const RUN_GLYPH = "●";

/** What a new owner found of an attempt, in words. */
export const FOUND_WORDS = {
  alive: "is still running: taken over",
  ended: "ended in the meantime: its result is taken",
  result: "had answered before its process died: its answer is taken",
} as const;

const STOPS = {
  "after-turn": "after the running turns",
  "after-step": "after the running steps",
} as const;

/** Who asked by a key may ask again. */
const AGAIN: Readonly<Record<string, string>> = {
  SIGINT: "; Ctrl-C again ends the running steps at once",
};

type StepStarted = Extract<RunEvent, { type: "step.started" }>;

/** The line for an event, if any. `run` is the run after it; `startedAt` is from AttemptClock. */
export function eventLine(run: Run, recorded: Recorded, startedAt?: number): string | undefined {
  const { event, time } = recorded;
  const took = tookText(recorded, startedAt);
  switch (event.type) {
    case "step.started":
      return startedLine(run, event, time);
    case "step.completed": {
      const said = `${stepPath(event)} done${took}${words(toldText(event.told))}`;
      const notes = `${warningText(event)}${denied(event)}${left(event)}${exposed(event)}`;
      return `${STEP_LOOKS.done.glyph} ${said}${notes}`;
    }
    case "step.failed": {
      const said = `${stepPath(event)} failed: ${failureText(event)}${denied(event)}${left(event)}`;
      if (event.retry !== undefined) {
        return `${STEP_LOOKS.failed.glyph} ${said}; next try ${delay(event.retry.delayMs)}`;
      }
      const goesOn = event.handled === true || event.arrows.length > 0 || isSpared(run, event);
      const handled = goesOn ? "; the pipeline handles it" : "";
      return `${STEP_LOOKS.failed.glyph} ${said}${handled}`;
    }
    case "step.lost": {
      const next = event.retry === undefined ? "" : `; next try ${delay(event.retry.delayMs)}`;
      const said = `${stepPath(event)} lost: ${messageText(event.message)}`;
      return `${STEP_LOOKS.failed.glyph} ${said}${next}`;
    }
    case "step.paused": {
      const which = `pause ${findVisit(run, event)?.pauses ?? 1} of ${PAUSES_MAX}`;
      const next = event.retry === undefined ? "" : `, next attempt ${delay(event.retry.delayMs)}`;
      const said = `${stepPath(event)} paused (${event.reason}): ${messageText(event.message)}`;
      return `${STEP_LOOKS.waiting.glyph} ${said}; ${which}${next}`;
    }
    case "step.interrupted": {
      const said = `${stepPath(event)} interrupted: ${messageText(event.message)}`;
      return `${STEP_LOOKS.interrupted.glyph} ${said}`;
    }
    case "step.unsettled":
    case "step.probed":
    case "step.settled":
      return `${STEP_LOOKS.unsettled.glyph} ${stepPath(event)} ${doubtText(event)}`;
    case "step.asked": {
      const said = `${stepPath(event)} asks: ${questionText(event)}`;
      return `${STEP_LOOKS.asked.glyph} ${said} ${choicesText(event)}${deadlineText(event)}`;
    }
    case "step.answered":
      return `${STEP_LOOKS.asked.glyph} ${stepPath(event)} ${answerText(event)}`;
    case "step.adopted":
      return `${STEP_LOOKS.running.glyph} ${stepPath(event)} ${FOUND_WORDS[event.found]}`;
    case "step.continued":
      return `${STEP_LOOKS.waiting.glyph} ${stepPath(event)} goes on: ${messageText(event.ask.why)}`;
    case "step.conflicted": {
      const said = `${stepPath(event)} conflicts: ${messageText(event.message)}`;
      return `${STEP_LOOKS.interrupted.glyph} ${said}`;
    }
    case "step.iterated":
      return `${STEP_LOOKS.running.glyph} ${stepPath(event)} iteration ${event.iteration + 1}`;
    case "step.submitted":
      return `${STEP_LOOKS.waiting.glyph} ${stepPath(event)} ${submittedText(event, took)}`;
    case "step.relayed":
      return `${STEP_LOOKS.waiting.glyph} ${stepPath(event)} ${relayText(event.why)}`;
    case "step.skipped":
      return `${STEP_LOOKS.skipped.glyph} ${stepPath(event)} skipped: its condition is false`;
    case "step.granted": {
      const tries = event.attempts === 1 ? "1 more try" : `${event.attempts} more tries`;
      return `${STEP_LOOKS.waiting.glyph} ${stepPath(event)} gets ${tries}`;
    }
    default:
      return runLine(run, recorded);
  }
}

function startedLine(run: Run, event: StepStarted, time: number): string | undefined {
  const { wake, judge } = event;
  if (wake !== undefined) {
    return `${STEP_LOOKS.sleeping.glyph} ${stepPath(event)} waits ${wakeText(wake.at, time)}`;
  }
  if (isToldLater(run, event)) return undefined;
  const what = judge === undefined ? startText(run, event) : judgedText(run, event, judge);
  return `${STEP_LOOKS.running.glyph} ${stepPath(event)} ${what}`;
}

function judgedText(run: Run, event: StepStarted, judge: string): string {
  return `is judged by ${judge}${ordinal(run, event)}`;
}

function submittedText(event: StepSubmitted, took: string): string {
  const { message, held } = event;
  if (message !== undefined) {
    return `has no verdict: ${messageText(message)}; its judge is asked again`;
  }
  if (checksFound(held).some(({ kind }) => kind === "judge")) {
    return `was judged${took}; its next judge is asked`;
  }
  return `worked${took}; its judge is asked${left(event)}`;
}

function relayText(why = ""): string {
  return `goes on in a new conversation${words(why)}`;
}

/** "started (attempt 2 of 3)", and what became of the conversation of the attempt before. */
function startText(run: Run, event: StepStarted): string {
  const { conversation } = event;
  const started = `started${ordinal(run, event)}`;
  if (conversation?.gone === true) return `${started} in a new conversation: ${conversation.why}`;
  return conversation?.says === "failed" ? `${started}; its conversation continues` : started;
}

/** True for what failed in an item of a fan-out that goes on without it. */
export function isSpared(run: Run, place: Place): boolean {
  const parent = findVisit(run, place)?.record.scope.parent;
  const work = parent && stepOf(parent).work;
  return work?.kind === "each" && work.onItemFailure === "continue";
}

/** The question of a gate, and the end of what only passes on, follow at once and say more. */
function isToldLater(run: Run, place: Place): boolean {
  const visit = findVisit(run, place);
  const kind = visit && stepOf(visit).work.kind;
  if (visit?.talk?.ask?.kind === "permission") return true;
  return kind === "gate" || kind === "pass" || kind === "pick";
}

/** What another signal of the same kind does. */
function again(reason: StopReason): string {
  return (reason.code === "requested" && AGAIN[reason.by]) || "";
}

function runLine(run: Run, { event, time }: Recorded): string | undefined {
  const took = formatDuration(time - (run.created?.time ?? time));
  switch (event.type) {
    case "run.opened":
      return event.epoch > 1 ? `${RUN_GLYPH} resumed` : undefined;
    case "run.stopping":
      return event.mode === "now"
        ? `${RUN_GLYPH} stopping: ${stopText(event.reason)}${graceText(run)}${again(event.reason)}`
        : `${RUN_GLYPH} stopping ${STOPS[event.mode]}: ${stopText(event.reason)}`;
    case "run.stopped":
      return `${RUN_GLYPH} stopped by ${stopText(event.reason)}`;
    case "run.funded":
      return `${RUN_GLYPH} ${fundsText(event)}`;
    case "run.messaged":
      return `${RUN_GLYPH} message for ${stepPath(event)}: ${messageLine(event.message)}`;
    case "run.rewound":
      if (event.items === undefined) return `${RUN_GLYPH} going on from ${event.step}`;
      return `${RUN_GLYPH} running again: ${shortList(event.items, ITEMS_MAX)}`;
    case "run.restored": {
      const kept =
        event.aside === undefined ? "" : `; what was there is kept as ${commitText(event.aside)}`;
      return `${RUN_GLYPH} the files were put back to ${commitText(event.commit)}${kept}`;
    }
    case "run.forked":
      return `${RUN_GLYPH} forked from run ${event.from.run}`;
    case "run.moved":
      return `${RUN_GLYPH} moved here from ${event.from}`;
    case "run.updated":
      return `${RUN_GLYPH} the edited pipeline was adopted: ${updateText(event)}`;
    case "run.returned":
      return `${RUN_GLYPH} going back to ${stepPath(event)}: ${event.goal} is not completed`;
    case "run.restarted": {
      const kept = event.keep.length === 0 ? "" : `, keeping ${event.keep.join(", ")}`;
      return `${RUN_GLYPH} beginning anew at ${stepPath(event)} (restart ${event.number})${kept}`;
    }
    case "scope.merged":
      return `${STEP_LOOKS.done.glyph} ${event.scope.slice(0, -1)} merged`;
    case "scope.conflicted": {
      const said = `${event.scope.slice(0, -1)} conflicts: ${messageText(event.message)}`;
      return `${STEP_LOOKS.interrupted.glyph} ${said}`;
    }
    case "run.completed":
      return `${STEP_LOOKS.done.glyph} completed in ${took}, ${stepCount(run)} steps`;
    case "run.failed":
      return `${STEP_LOOKS.failed.glyph} failed after ${took}: ${messageText(event.message)}`;
    default:
      return undefined;
  }
}

/** Agents do not end at once: what is paid for may still arrive. */
function graceText(run: Run): string {
  const talks = [...run.running].some(({ talk }) => talk !== undefined);
  return talks ? "; agents may finish their current call first" : "";
}

/** From here on the time of a snapshot is worth a word. */
const SNAPSHOT_SHOWN_MS = 100;

/** How long an attempt worked, and apart from that how long its files took to be saved. */
function tookText({ event, time }: Recorded, startedAt: number | undefined): string {
  if (startedAt === undefined || time <= startedAt) return "";
  const savedMs = "snapshot" in event ? (event.snapshot?.tookMs ?? 0) : 0;
  const workedMs = Math.max(0, time - startedAt - savedMs);
  const saved = savedMs < SNAPSHOT_SHOWN_MS ? "" : ` (snapshot ${formatDuration(savedMs)})`;
  return ` in ${formatDuration(workedMs)}${saved}`;
}

function stepCount(run: Run): string {
  return `${run.stepsDone}/${run.stepsTotal}`;
}

function words(text: string): string {
  return text === "" ? "" : `: ${text}`;
}

/** Calls that were denied, unless the message names them already. */
function denied(event: AttemptEnd): string {
  const { denied: calls = [] } = event;
  const text = deniedText(calls);
  const known = calls.length === 0 || ("reason" in event && event.reason === "denied");
  return known ? "" : `; ${plainText(text)}`;
}

function left(event: AttemptEnd): string {
  const text = leftText(event.left);
  return text === undefined ? "" : `; ${text}`;
}

function exposed({ exposes }: StepCompleted): string {
  const text = exposureText(exposes);
  return text === undefined ? "" : `; warning: ${text}`;
}

function delay(ms: number): string {
  return ms === 0 ? "now" : `in ${formatDuration(ms)}`;
}

/** " (attempt 2 of 3)", or nothing when there is only one to have; visits of a loop are named. */
function ordinal(run: Run, place: Place): string {
  const visit = findVisit(run, place);
  const round = place.visit > 1 ? `visit ${place.visit}` : "";
  if (visit === undefined) return round === "" ? "" : ` (${round})`;
  const attempt = visit.instances === undefined ? attemptWords(visit) : "";
  const said = [round, attempt].filter((part) => part !== "").join(", ");
  return said === "" ? "" : ` (${said})`;
}
