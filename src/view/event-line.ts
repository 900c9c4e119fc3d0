/**
 * Events as plain lines, for pipes, logs and CI: one line for each event worth telling.
 *
 * Owns: the sentence for each event, and the prefix of a step's own output.
 * Does not: keep time; AttemptClock knows when an attempt started.
 */
import type { AttemptEnd, Place, Recorded } from "../core/event.ts";
import { deniedText } from "../core/permission.ts";
import { stepPath } from "../core/place.ts";
import { findVisit, type Run, stepOf } from "../core/run.ts";
import { formatDuration } from "../util/duration.ts";
import { commitText, plainText, shortList } from "./display-text.ts";
import { doubtText } from "./doubt-text.ts";
import { failureText, messageText } from "./failure-words.ts";
import { leftText } from "./left-text.ts";
import { answerText, choicesText, deadlineText, questionText, wakeText } from "./question-text.ts";
import { attemptOrdinal, STEP_LOOKS } from "./step-status.ts";
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

/** The line for an event, if any. `run` is the run after it; `startedAt` is from AttemptClock. */
export function eventLine(run: Run, recorded: Recorded, startedAt?: number): string | undefined {
  const { event, time } = recorded;
  const took = tookText(recorded, startedAt);
  switch (event.type) {
    case "step.started":
      if (event.wake !== undefined) {
        const until = wakeText(event.wake.at, time);
        return `${STEP_LOOKS.sleeping.glyph} ${stepPath(event)} waits ${until}`;
      }
      if (isToldLater(run, event)) return undefined;
      return `${STEP_LOOKS.running.glyph} ${stepPath(event)} started${ordinal(run, event)}`;
    case "step.completed": {
      const said = `${stepPath(event)} done${took}${words(toldText(event.told))}`;
      return `${STEP_LOOKS.done.glyph} ${said}${denied(event)}${left(event)}`;
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
      const next = event.retry === undefined ? "" : `; next try ${delay(event.retry.delayMs)}`;
      const said = `${stepPath(event)} paused (${event.reason}): ${messageText(event.message)}`;
      return `${STEP_LOOKS.waiting.glyph} ${said}${next}`;
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
    case "step.relayed":
      return `${STEP_LOOKS.waiting.glyph} ${stepPath(event)} goes on in a new conversation`;
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

function runLine(run: Run, { event, time }: Recorded): string | undefined {
  const took = formatDuration(time - (run.created?.time ?? time));
  switch (event.type) {
    case "run.opened":
      return event.epoch > 1 ? `${RUN_GLYPH} resumed` : undefined;
    case "run.stopping":
      return event.mode === "now"
        ? `${RUN_GLYPH} stopping: ${event.by}${AGAIN[event.by] ?? ""}`
        : `${RUN_GLYPH} stopping ${STOPS[event.mode]}: ${event.by}`;
    case "run.stopped":
      return `${RUN_GLYPH} stopped by ${event.by}`;
    case "run.funded":
      return `${RUN_GLYPH} the budget was raised`;
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
  const known = calls.length === 0 || ("message" in event && event.message.includes(text));
  return known ? "" : `; ${plainText(text)}`;
}

function left(event: AttemptEnd): string {
  const text = leftText(event.left);
  return text === undefined ? "" : `; ${text}`;
}

function delay(ms: number): string {
  return ms === 0 ? "now" : `in ${formatDuration(ms)}`;
}

/** " (attempt 2 of 3)", or nothing when there is only one to have; visits of a loop are named. */
function ordinal(run: Run, place: Place): string {
  const visit = findVisit(run, place);
  const round = place.visit > 1 ? `visit ${place.visit}` : "";
  if (visit === undefined) return round === "" ? "" : ` (${round})`;
  const { number, last } = attemptOrdinal(visit);
  const attempt = last > 1 && visit.instances === undefined ? `attempt ${number} of ${last}` : "";
  const said = [round, attempt].filter((part) => part !== "").join(", ");
  return said === "" ? "" : ` (${said})`;
}

/** A line that a step wrote: `build │ text`. */
export function outputLine(path: string, text: string): string {
  return `${path} │ ${plainText(text)}`.trimEnd();
}
