/**
 * Events as plain lines, for pipes, logs and CI: one line for each event that matters to a reader.
 *
 * Owns: the sentence for each event.
 * Does not: measure time; AttemptClock knows when an attempt started.
 */

import { PAUSES_MAX } from "../core/attempt/attempt-end.ts";
import { checksFound } from "../core/attempt/check.ts";
import { deniedText } from "../core/conversation/permission.ts";
import type {
  AttemptEnd,
  EventOf,
  Owner,
  Recorded,
  RunEvent,
  StopReason,
  VisitRef,
} from "../core/event.ts";
import { findVisit, type Run, stepOf } from "../core/run.ts";
import { stepPath } from "../core/step-path.ts";
import { formatDuration } from "../util/duration.ts";
import { exposureText, leftoverText, stepReportText } from "./attempt-history.ts";
import { fundsText } from "./cost-text.ts";
import {
  failureText,
  messageText,
  stopText,
  uncertaintyText,
  warningText,
} from "./failure-text.ts";
import { messageLine } from "./message-text.ts";
import { updateText } from "./preview/update-plan.ts";
import {
  answerText,
  choicesText,
  deadlineText,
  materialText,
  questionText,
  wakeText,
} from "./question-text.ts";
import { rejectedText, reusedText } from "./reuse-text.ts";
import { attemptWords, STEP_STYLES } from "./step-status.ts";
import { itemNote } from "./step-tree.ts";
import { commitText, countText, plainText, shortList, type Tone } from "./text.ts";

/** How many items a line names. */
const ITEMS_MAX = 6;

/** Marks lines about the run itself. */
const RUN_GLYPH = "●";

/** What a new owner found out about a running attempt. */
export const ADOPTION_WORDS = {
  alive: "is still running: re-attached",
  ended: "ended in the meantime: its result is used",
  result: "had answered before its process died: its answer is used",
} as const;

const STOPS = {
  "after-turn": "after the running turns",
  "after-step": "after the running steps",
} as const;

/** What a second stop request from the same source does. */
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
    case "step.completed":
      return completedLine(run, event, took);
    case "step.failed": {
      const notes = `${denied(event)}${left(event)}${exposed(event)}`;
      const said = `${placeText(run, event)} failed: ${failureText(event)}${notes}`;
      if (event.retry !== undefined) {
        return `${STEP_STYLES.failed.glyph} ${said}; next attempt ${delay(event.retry.delayMs)}`;
      }
      const continues = event.handled === true || event.edges.length > 0 || isSpared(run, event);
      const handled = continues ? "; the pipeline handles it" : "";
      return `${STEP_STYLES.failed.glyph} ${said}${handled}`;
    }
    case "step.lost":
      return lostLine(event);
    case "step.paused": {
      const which = `pause ${findVisit(run, event)?.pauses ?? 1} of ${PAUSES_MAX}`;
      const next = event.retry === undefined ? "" : `, next attempt ${delay(event.retry.delayMs)}`;
      const said = `${stepPath(event)} paused (${event.reason}): ${messageText(event.message)}`;
      return `${STEP_STYLES.waiting.glyph} ${said}; ${which}${next}`;
    }
    case "step.interrupted": {
      const said = `${stepPath(event)} interrupted: ${messageText(event.message)}`;
      return `${STEP_STYLES.interrupted.glyph} ${said}`;
    }
    case "step.uncertain":
    case "step.probed":
    case "step.settled":
      return `${STEP_STYLES.uncertain.glyph} ${stepPath(event)} ${uncertaintyText(event)}`;
    case "step.asked": {
      const said = `${stepPath(event)} asks: ${questionText(event)}`;
      const more = `${materialText(event)}${deadlineText(event)}`;
      return `${STEP_STYLES.asked.glyph} ${said} ${choicesText(event)}${more}`;
    }
    case "step.answered":
      return `${STEP_STYLES.asked.glyph} ${stepPath(event)}: ${answerText(event)}`;
    case "step.recalled":
      return recalledLine(event);
    case "step.adopted":
      return `${STEP_STYLES.running.glyph} ${stepPath(event)} ${ADOPTION_WORDS[event.found]}`;
    case "step.continued":
      return `${STEP_STYLES.waiting.glyph} ${stepPath(event)} continues: ${messageText(event.ask.why)}`;
    case "step.conflicted": {
      const said = `${stepPath(event)} has conflicts: ${messageText(event.message)}`;
      return `${STEP_STYLES.interrupted.glyph} ${said}`;
    }
    case "step.iterated":
      return `${STEP_STYLES.running.glyph} ${stepPath(event)} iteration ${event.iteration + 1}`;
    case "step.submitted":
      return `${STEP_STYLES.waiting.glyph} ${stepPath(event)} ${submittedText(event, took)}`;
    case "step.relayed":
      return `${STEP_STYLES.waiting.glyph} ${stepPath(event)} ${relayText(event.why)}`;
    case "step.skipped":
      return `${STEP_STYLES.skipped.glyph} ${stepPath(event)} skipped${skippedText(event)}`;
    case "step.granted": {
      const attempts = countText(event.attempts, "more attempt");
      return `${STEP_STYLES.waiting.glyph} ${stepPath(event)} gets ${attempts}`;
    }
    default:
      return runLine(run, recorded);
  }
}

function lostLine(event: Extract<RunEvent, { type: "step.lost" }>): string {
  const next = event.retry === undefined ? "" : `; next attempt ${delay(event.retry.delayMs)}`;
  const said = `${stepPath(event)} lost: ${messageText(event.message)}`;
  return `${STEP_STYLES.failed.glyph} ${said}${next}`;
}

/** Only results that cannot be used need a line. */
function recalledLine(event: Extract<RunEvent, { type: "step.recalled" }>): string | undefined {
  const said = rejectedText(event);
  return said && `${STEP_STYLES.running.glyph} ${stepPath(event)} ${said}`;
}

/** Why a step was skipped: " by ada@laptop", or because of its condition. */
function skippedText({ by }: EventOf<"step.skipped">): string {
  return by === undefined ? ": its condition is false" : ` by ${plainText(by)}`;
}

/** The tone of the line of an event. */
export function eventTone({ type }: RunEvent): Tone | undefined {
  switch (type) {
    case "step.completed":
    case "scope.merged":
      return "good";
    case "step.failed":
    case "step.lost":
      return "bad";
    case "step.skipped":
      return "dim";
    case "step.paused":
    case "step.interrupted":
    case "step.uncertain":
    case "step.asked":
    case "step.conflicted":
    case "scope.conflicted":
    case "run.stopping":
    case "run.stopped":
      return "wait";
    default:
      return undefined;
  }
}

function completedLine(run: Run, event: EventOf<"step.completed">, took: string): string {
  const reported = words(stepReportText(event.reported));
  const reused = event.from === undefined ? "" : `: ${reusedText(event.from)}`;
  const said = `${placeText(run, event)} completed${took}${noItems(run, event)}${reused}${reported}`;
  const notes = `${warningText(event)}${denied(event)}${left(event)}${exposed(event)}`;
  return `${STEP_STYLES.completed.glyph} ${said}${notes}`;
}

/** A fan-out that had nothing to do says so: its list or its pattern may be wrong. */
function noItems(run: Run, event: EventOf<"step.completed">): string {
  const visit = findVisit(run, event);
  const isEmpty = visit !== undefined && stepOf(visit).work.kind === "each";
  return isEmpty && visit.instances?.total === 0 ? ": it had no items" : "";
}

function startedLine(run: Run, event: StepStarted, time: number): string | undefined {
  const { wake, judge } = event;
  if (wake !== undefined) {
    return `${STEP_STYLES.sleeping.glyph} ${stepPath(event)} waits ${wakeText(wake.at, time)}`;
  }
  if (isShownLater(run, event)) return undefined;
  const what = judge === undefined ? startText(run, event) : judgedText(run, event, judge);
  return `${STEP_STYLES.running.glyph} ${placeText(run, event)} ${what}`;
}

/** The path of a step, and in a fan-out the item that it works on. */
function placeText(run: Run, place: VisitRef): string {
  const scope = findVisit(run, place)?.record.scope;
  return stepPath(place) + (scope === undefined ? "" : itemNote(scope));
}

function judgedText(run: Run, event: StepStarted, judge: string): string {
  return `is being judged by ${judge}${ordinal(run, event)}`;
}

function submittedText(event: EventOf<"step.submitted">, took: string): string {
  const { message, held } = event;
  if (message !== undefined) {
    return `has no verdict: ${messageText(message)}; the judge is asked again`;
  }
  if (checksFound(held).some(({ kind }) => kind === "judge")) {
    return `was judged${took}; the next judge is asked`;
  }
  return `finished its work${took}; the judge is asked${left(event)}`;
}

function relayText(why = ""): string {
  return `continues in a new conversation${words(why)}`;
}

/** "started (attempt 2 of 3)", and whether the previous conversation continues. */
function startText(run: Run, event: StepStarted): string {
  const { conversation } = event;
  const started = `started${ordinal(run, event)}`;
  if (conversation?.gone === true) return `${started} in a new conversation: ${conversation.why}`;
  return conversation?.says === "failed" ? `${started}; its conversation continues` : started;
}

/** True for a failure inside an item of a fan-out that continues without the item. */
export function isSpared(run: Run, place: VisitRef): boolean {
  const parent = findVisit(run, place)?.record.scope.parent;
  const work = parent && stepOf(parent).work;
  return work?.kind === "each" && work.onItemFailure === "continue";
}

/**
 * True where the next event follows at once and says more: a gate's question, a step without work.
 */
function isShownLater(run: Run, place: VisitRef): boolean {
  const visit = findVisit(run, place);
  const kind = visit && stepOf(visit).work.kind;
  if (visit?.conversation?.ask?.kind === "permission") return true;
  return kind === "gate" || kind === "pass" || kind === "pick" || kind === "fail";
}

/** What another signal of the same kind does. */
function again(reason: StopReason): string {
  return (reason.code === "requested" && AGAIN[reason.by]) || "";
}

const FINISHING = {
  completed: "all steps have ended",
  failed: "the run cannot continue",
  stopped: "the budget is used up",
} as const;

/** A person at a terminal needs no name there: it is theirs. */
function throughText({ user, host, through }: Owner): string {
  return through === undefined ? "" : ` by ${user}@${host} with ${plainText(through)}`;
}

function forkerText({ by }: EventOf<"run.forked">): string {
  return by === undefined ? "" : ` by ${plainText(by)}`;
}

/** The end of a run has no line: the card after it says more (end-card.ts). */
function runLine(run: Run, { event }: Recorded): string | undefined {
  switch (event.type) {
    case "run.opened":
      return event.epoch > 1 ? `${RUN_GLYPH} resumed${throughText(event.owner)}` : undefined;
    case "run.stopping":
      return event.mode === "now"
        ? `${RUN_GLYPH} stopping: ${stopText(event.reason)}${graceText(run)}${again(event.reason)}`
        : `${RUN_GLYPH} stopping ${STOPS[event.mode]}: ${stopText(event.reason)}`;
    case "run.finishing":
      return `${RUN_GLYPH} ${FINISHING[event.end.status]}; its finally steps run`;
    case "run.stopped":
      return `${RUN_GLYPH} stopped by ${stopText(event.reason)}`;
    case "run.funded":
      return `${RUN_GLYPH} ${fundsText(event)}`;
    case "run.messaged":
      return `${RUN_GLYPH} message for ${stepPath(event)}: ${messageLine(event.message)}`;
    case "run.skipping":
      return `${RUN_GLYPH} ${stepPath(event)} will be skipped: ${plainText(event.by)} asked for it`;
    case "request.handled":
      return `${RUN_GLYPH} ${requestText(event)}`;
    case "run.rewound":
      if (event.items === undefined) return `${RUN_GLYPH} continuing from ${event.step}`;
      return `${RUN_GLYPH} running again: ${shortList(event.items, ITEMS_MAX)}`;
    case "run.restored": {
      const kept =
        event.aside === undefined
          ? ""
          : `; the files before are kept as ${commitText(event.aside)}`;
      return `${RUN_GLYPH} the files were restored to ${commitText(event.commit)}${kept}`;
    }
    case "run.committed": {
      if (event.skipped === undefined) return undefined;
      const said = `the work of ${shortList(event.steps, ITEMS_MAX)} is not committed`;
      return `${RUN_GLYPH} ${said}: ${event.skipped}`;
    }
    case "run.forked":
      return `${RUN_GLYPH} forked from run ${event.from.run}${forkerText(event)}`;
    case "run.moved":
      return `${RUN_GLYPH} moved here from ${event.from}`;
    case "run.updated":
      return `${RUN_GLYPH} the edited pipeline was adopted: ${updateText(event)}`;
    case "run.returned":
      return `${RUN_GLYPH} going back to ${stepPath(event)}: the goal ${event.goal} is not completed`;
    case "run.restarted": {
      const kept = event.keep.length === 0 ? "" : `, keeping ${event.keep.join(", ")}`;
      return `${RUN_GLYPH} restarting at ${stepPath(event)} (restart ${event.number})${kept}`;
    }
    case "scope.merged":
      return `${STEP_STYLES.completed.glyph} ${event.scope.slice(0, -1)} was merged`;
    case "scope.conflicted": {
      const said = `${event.scope.slice(0, -1)} has conflicts: ${messageText(event.message)}`;
      return `${STEP_STYLES.interrupted.glyph} ${said}`;
    }
    default:
      return undefined;
  }
}

const ASKED: Readonly<Record<EventOf<"request.handled">["asks"], string>> = {
  skip: "asked to skip",
  retry: "asked to retry",
  rewind: "asked to rewind to",
  settle: "gave a verdict on",
  "add-budget": "asked to add to the budget",
};

/** "ann@laptop asked to retry build", and why that was refused. */
export function requestText({ by, asks, step = "", refused }: EventOf<"request.handled">): string {
  const asked = `${by} ${ASKED[asks]} ${plainText(step)}`.trimEnd();
  return refused === undefined ? asked : `${asked}; refused: ${messageText(refused.message)}`;
}

/** Agents get time to finish a call that is already paid for. */
function graceText(run: Run): string {
  const agents = [...run.running].some(({ conversation }) => conversation !== undefined);
  return agents ? "; agents may finish their current call first" : "";
}

/** A snapshot that took longer than this is mentioned. */
const SNAPSHOT_SHOWN_MS = 100;

/** How long an attempt worked, and how long its snapshot took. */
function tookText({ event, time }: Recorded, startedAt: number | undefined): string {
  if (startedAt === undefined || time <= startedAt) return "";
  const savedMs = "snapshot" in event ? (event.snapshot?.tookMs ?? 0) : 0;
  const workedMs = Math.max(0, time - startedAt - savedMs);
  const saved = savedMs < SNAPSHOT_SHOWN_MS ? "" : ` (snapshot ${formatDuration(savedMs)})`;
  return ` in ${formatDuration(workedMs)}${saved}`;
}

function words(text: string): string {
  return text === "" ? "" : `: ${text}`;
}

/** The denied tool calls, unless the message names them already. */
function denied(event: AttemptEnd): string {
  const { denied: calls = [] } = event;
  const text = deniedText(calls);
  const known = calls.length === 0 || ("reason" in event && event.reason === "denied");
  return known ? "" : `; ${plainText(text)}`;
}

function left(event: AttemptEnd): string {
  const text = leftoverText(event.left);
  return text === undefined ? "" : `; ${text}`;
}

function exposed({ exposes }: Pick<EventOf<"step.completed">, "exposes">): string {
  const text = exposureText(exposes);
  return text === undefined ? "" : `; warning: ${text}`;
}

function delay(ms: number): string {
  return ms === 0 ? "now" : `in ${formatDuration(ms)}`;
}

/** " (attempt 2 of 3)", with the visit of a loop; empty when there is only one attempt. */
function ordinal(run: Run, place: VisitRef): string {
  const visit = findVisit(run, place);
  const round = place.visit > 1 ? `visit ${place.visit}` : "";
  if (visit === undefined) return round === "" ? "" : ` (${round})`;
  const attempt = visit.instances === undefined ? attemptWords(visit) : "";
  const said = [round, attempt].filter((part) => part !== "").join(", ");
  return said === "" ? "" : ` (${said})`;
}
