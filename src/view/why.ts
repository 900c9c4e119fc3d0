/**
 * Where a run stands, in three sentences: what happened, what has completed, and the exact command
 * to type next. `why`, `show`, the end of a run and the report all print these sentences.
 *
 * Owns: the sentence for every situation that a run can be in.
 * Does not: find out whether the owner lives (the caller knows) or run anything.
 * Invariants:
 * - view/Y1 There are always three lines, and the last one holds a command that works as printed
 *   (P10).
 */

import { deniedText } from "../core/conversation/permission.ts";
import type { Answer, Owner, StopReason } from "../core/event.ts";
import { waitsFor } from "../core/graph/visit-state.ts";
import { waitsForPerson } from "../core/next-actions.ts";
import { attemptOf, currentVisit, type Run, stepOf, type Visit, visitRef } from "../core/run.ts";
import { attemptText, stepPath, visitText } from "../core/step-path.ts";
import { formatDuration } from "../util/duration.ts";
import { priceRemedy } from "./cost-text.ts";
import {
  type Advice,
  failedCheckOutput,
  failedSituation,
  newRun,
  type Situation,
  suggestedBudget,
} from "./failure-advice.ts";
import { messageText, stopText, warningMessages } from "./failure-text.ts";
import { waitingMessages } from "./message-text.ts";
import {
  answerCommand,
  answerText,
  deadlineText,
  gateName,
  labelled,
  materialText,
  questionText,
  wakeText,
} from "./question-text.ts";
import { attemptWords, type Liveness, RUN_STYLES, runStatusOf } from "./step-status.ts";
import { doneText, fanOutsWithFailures, NAMES_MAX, pathsOf } from "./step-tree.ts";
import {
  commandText,
  countText,
  plainStyle,
  plainText,
  type Style,
  shortList,
  utcText,
} from "./text.ts";

/** How many choices of a question one line shows. */
const CHOICES_SHOWN_MAX = 3;

export interface WhyInput {
  readonly runId: string;
  /** A unique prefix of the run's id, 8 characters or more; the suggested commands use it. */
  readonly shortId: string;
  readonly pipeline: string;
  readonly run: Run;
  readonly liveness: Liveness;
  /** The owner is on another machine or in another namespace, and is not proven dead. */
  readonly elsewhere?: boolean;
  /** The owner that has, or had, the lease. */
  readonly owner?: Owner | undefined;
  readonly cleanedAt?: number | undefined;
  /** Answers that no owner has read yet, by attempt (`approve@1.1`). */
  readonly answers?: ReadonlyMap<string, Answer>;
  readonly now: number;
  /** The command that prints these sentences; it does not suggest itself. */
  readonly printedBy?: "show";
}

export interface Why {
  readonly happened: string;
  readonly done: string;
  readonly next: string;
  /** The commands in `next`, the recommended one first. */
  readonly commands: readonly string[];
  /** The last lines that the failed checks printed; absent when there are none. */
  readonly output?: readonly string[];
}

/** Where a run stands, in words. */
export function why(input: WhyInput): Why {
  const { happened, advice } = situation(input);
  const ended = input.cleanedAt !== undefined || input.run.state.status === "failed";
  const waiting = waitingMessages(input.run);
  const done = doneText(input.run, ended ? "not-done" : "next");
  return {
    happened: `Run ${input.shortId} (${input.pipeline}) ${happened}.`,
    done: waiting === undefined ? done : `${done} ${waiting}`,
    next: nextText(advice, plainStyle),
    commands: advice.map(({ command }) => command),
    ...failedCheckOutput(input.run),
  };
}

/** What to do next, the recommended command first. */
export function whyAdvice(input: WhyInput): readonly Advice[] {
  return situation(input).advice;
}

/** The three lines. */
export function whyLines(
  input: WhyInput,
  style: Style = plainStyle,
): readonly [string, string, string] {
  const { happened, done } = why(input);
  const { tone } = RUN_STYLES[runStatusOf(input.run, input.liveness)];
  return [style(tone, happened), done, nextText(situation(input).advice, style)];
}

/** "Continue: perdure resume a1b2c3d4   (output: perdure logs a1b2c3d4 test)". */
function nextText([first, ...others]: Situation["advice"], style: Style): string {
  const text = ({ say, command }: Advice): string => `${say}: ${style("strong", command)}`;
  const aside = others.map(text).join("; ");
  return text(first) + (aside === "" ? "" : `   (${aside})`);
}

function situation(input: WhyInput): Situation {
  const { happened, advice } = fullSituation(input);
  const own = input.printedBy && commandText(input.printedBy, input.shortId);
  const [first = advice[0], ...others] = advice.filter(({ command }) => command !== own);
  const say = first.say.slice(0, 1).toUpperCase() + first.say.slice(1);
  return { happened, advice: [{ ...first, say }, ...others] };
}

function fullSituation(input: WhyInput): Situation {
  const { run, shortId, liveness } = input;
  if (input.cleanedAt !== undefined) return cleaned(input, input.cleanedAt);
  if (liveness === "owned" && input.owner?.opens !== undefined) return opened(input);
  switch (run.state.status) {
    case "completed":
      return {
        happened: completedText(run),
        advice: completedAdvice(run, shortId),
      };
    case "failed":
      return failedSituation(input, run.state);
    case "stopped":
      return stopped(input, run.state.reason);
    default:
      if (waitsForPerson(run)) return waiting(input);
      return liveness === "owned" ? owned(input) : interrupted(input);
  }
}

function stopped(input: WhyInput, reason: StopReason): Situation {
  if (reason.code === "budget") return overBudget(input, reason);
  if (reason.code === "conflict") return inConflict(input, reason);
  if (reason.code === "forked") return forked(input);
  const resume = { say: "Continue", command: commandText("resume", input.shortId) };
  return {
    happened: `was stopped by ${stopperText(reason)}${stoppedWaiting(input.run)}`,
    advice: [resume, ...answerAdvice(input)],
  };
}

function completedText(run: Run): string {
  const took = formatDuration(run.updatedAt - (run.created?.time ?? 0));
  return `completed in ${took}${failedItemsNote(run)}${warningsOf(run)}${deniedNote(run)}`;
}

/** " with 2 failed items": the fan-outs continued without them. */
function failedItemsNote(run: Run): string {
  const failed = fanOutsWithFailures(run).reduce(
    (sum, { instances }) => sum + (instances?.failed ?? 0),
    0,
  );
  return failed === 0 ? "" : ` with ${countText(failed, "failed item")}`;
}

/** ", with a warning from lint (...)" for the steps whose checks only warn. */
function warningsOf(run: Run): string {
  const warnings: string[] = [];
  for (const { steps } of run.scopes.values()) {
    for (const record of steps) {
      const visit = currentVisit(record);
      if (visit?.state.status !== "completed" || visit.state.checks === undefined) continue;
      warnings.push(`${stepPath(visitRef(visit))} (${warningMessages(visit.state).join("; ")})`);
    }
  }
  if (warnings.length === 0) return "";
  return `, with ${warnings.length === 1 ? "a warning" : "warnings"} from ${shortList(warnings, NAMES_MAX)}`;
}

function completedAdvice(run: Run, shortId: string): Situation["advice"] {
  const [first] = fanOutsWithFailures(run);
  const show = commandText("show", shortId);
  const others = { say: "a new run", command: newRun(run) };
  if (first === undefined) return [{ say: "Details", command: show }, others];
  const command = commandText("retry", shortId, stepOf(first).id);
  return [
    { say: "Run the failed items again", command },
    { say: "details", command: show },
    others,
  ];
}

/** Somebody has a conversation of the run open in the agent's own program (`perdure open`). */
function opened({ owner, shortId }: WhyInput): Situation {
  const { opens = "" } = owner ?? {};
  const happened = `is open in the agent's own program at step ${opens}, ${ownerText(owner)}`;
  const say = "Close that program, then continue";
  return { happened, advice: [{ say, command: commandText("resume", shortId) }] };
}

/** The run needs an answer, or has one that no owner has read yet. */
function waiting(input: WhyInput): Situation {
  const { run, shortId, liveness } = input;
  const resume = commandText("resume", shortId);
  const open = unanswered(input);
  const [visit] = open;
  if (!waitsFor(visit?.state, "person")) {
    const [answered] = run.waiting.person;
    const answer = answered && input.answers?.get(attemptText(attemptOf(answered)));
    const given =
      answered && answer && `${gateName(answered)}: ${answerText(labelled(answered, answer))}`;
    const happened = `waited for a person and now has the answer (${given ?? ""})`;
    const watch = { say: "Watch it", command: commandText("attach", shortId) };
    return {
      happened,
      advice: [liveness === "owned" ? watch : { say: "Continue", command: resume }],
    };
  }
  const { state } = visit;
  const more = open.length === 1 ? "" : `, and ${countText(open.length - 1, "more question")}`;
  const details = `${materialText(state)}${deadlineText(state)}${more}`;
  const asks = `${gateName(visit)} asks "${questionText(state)}"${details}`;
  const by = liveness === "owned" ? `; its owner is ${ownerText(input.owner)}` : "";
  const [first, ...others] = answerAdvice(input);
  const then = liveness === "owned" ? [] : [{ say: "then", command: resume }];
  const read =
    state.material === undefined
      ? []
      : [{ say: "read what it shows", command: commandText("show", shortId, gateName(visit)) }];
  const answers = first === undefined ? [] : [{ ...first, say: "Answer" }, ...others, ...read];
  const [lead = { say: "Continue", command: resume }, ...rest] = [...answers, ...then];
  return { happened: `waits for a person: ${asks}${by}`, advice: [lead, ...rest] };
}

/** Questions of the run that have no answer yet. */
function unanswered({ run, answers }: WhyInput): readonly Visit[] {
  return [...run.waiting.person].filter(
    (visit) => answers?.has(attemptText(attemptOf(visit))) !== true,
  );
}

/**
 * The commands that answer the first open question; with many choices, the command that lists them.
 */
function answerAdvice(input: WhyInput): readonly Advice[] {
  const open = unanswered(input);
  const [visit] = open;
  if (!waitsFor(visit?.state, "person")) return [];
  const { choices } = visit.state;
  const commands = choices
    .slice(0, CHOICES_SHOWN_MAX)
    .map((choice) => ({ say: "or", command: answerCommand(input.shortId, visit, choice) }));
  const all = { say: "all questions", command: commandText("answer", input.shortId) };
  const left = open.length > 1 || choices.length > CHOICES_SHOWN_MAX;
  return left ? [...commands, all] : commands;
}

function forked({ run, shortId }: WhyInput): Situation {
  return {
    happened: `was forked from run ${run.origin?.run ?? ""} and has not been started yet`,
    advice: [{ say: "Start it", command: commandText("resume", shortId) }],
  };
}

function overBudget(
  { run, shortId }: WhyInput,
  reason: Extract<StopReason, { code: "budget" }>,
): Situation {
  const happened = `was stopped by ${stopText(reason)}`;
  if (reason.limit.kind === "price") {
    const say = `${priceRemedy(reason.limit.model)}, then continue`;
    return { happened, advice: [{ say, command: commandText("resume", shortId, "--update") }] };
  }
  const command = commandText("resume", shortId, "--budget", suggestedBudget(run));
  return { happened, advice: [{ say: "Raise the budget and continue", command }] };
}

/** Names the directory that holds the files with conflict markers. */
function inConflict({ run, shortId }: WhyInput, reason: StopReason): Situation {
  const held = [...run.waiting.owner].find((visit) => visit.held !== undefined);
  const place = held === undefined ? "*" : visitText(visitRef(held)).replaceAll("/", "~");
  const say = `Resolve the conflict markers (<<<<<<<) in .perdure/runs/${run.id}/own/${place}, then continue`;
  const happened = `was stopped by ${stopText(reason)}`;
  return { happened, advice: [{ say, command: commandText("resume", shortId) }] };
}

function cleaned(input: WhyInput, cleanedAt: number): Situation {
  const status = runStatusOf(input.run, input.liveness);
  const had = status === "interrupted" ? "had been interrupted" : `had ${status}`;
  return {
    happened: `${had}, and its files were removed on ${utcText(cleanedAt)} UTC`,
    advice: [
      {
        say: "It cannot be resumed without its files. Start a new run",
        command: newRun(input.run),
      },
    ],
  };
}

/** "SIGINT (Ctrl-C)"; a name that is not a signal is shown as it is. */
function stopperText(reason: StopReason): string {
  const by = stopText(reason);
  return by === "SIGINT" ? "SIGINT (Ctrl-C)" : by;
}

function owned(input: WhyInput): Situation {
  const { run, shortId, now } = input;
  const watch = { say: "Watch it", command: commandText("attach", shortId) };
  const stop =
    input.elsewhere === true
      ? {
          say: "if you know that its owner is dead",
          command: commandText("resume", shortId, "--take-over"),
        }
      : { say: "stop it", command: commandText("stop", shortId) };
  const unseen = input.elsewhere === true ? ", which this machine cannot see" : "";
  const by = `its owner is ${ownerText(input.owner)}${unseen}`;
  if (run.state.status === "stopping") {
    const mode = run.state.mode === "now" ? "" : " after the running steps";
    const happened = `is being stopped${mode} by ${stopperText(run.state.reason)}; ${by}`;
    return { happened, advice: [watch] };
  }
  const asks = unanswered(input).map(gateName);
  const asked = asks.length === 0 ? "" : `; open questions: ${shortList(asks, NAMES_MAX)}`;
  const answers = answerAdvice(input).map((one) => ({ ...one, say: "answer" }));
  if (run.running.size > 0) {
    const names = Array.from(run.running, (visit) => runningText(visit, now));
    const happened = `is running ${shortList(names, NAMES_MAX)}${asked}; ${by}`;
    return { happened, advice: [watch, stop, ...answers] };
  }
  const [waiting] = run.waiting.retry;
  if (waiting !== undefined)
    return { happened: `is ${waitingText(waiting, now)}; ${by}`, advice: [watch, stop] };
  const [timed] = run.waiting.time;
  if (waitsFor(timed?.state, "time")) {
    const where = `${stepPath(visitRef(timed))} ${wakeText(timed.state.wake.at, now)}`;
    return { happened: `is waiting at ${where}${asked}; ${by}`, advice: [watch, stop, ...answers] };
  }
  const doing = run.state.status === "created" ? "is starting" : "is between two steps";
  return { happened: `${doing}; ${by}`, advice: [watch, stop] };
}

function runningText(visit: Visit, now: number): string {
  const since = visit.state.status === "running" ? visit.state.since : now;
  return `${stepPath(visitRef(visit))} (for ${formatDuration(now - since)})`;
}

function waitingText(visit: Visit, now: number): string {
  const { state } = visit;
  if (!waitsFor(state, "retry")) return "waiting";
  const due = state.until <= now ? "now" : `in ${formatDuration(state.until - now)}`;
  const words = attemptWords(visit);
  const attempt = words === "" ? due : `${due} (${words})`;
  const name = stepPath(visitRef(visit));
  return `waiting to retry step ${name} ${attempt}: ${messageText(state.message)}`;
}

/** What a stopped run was waiting for, such as the end of a rate limit. */
function stoppedWaiting(run: Run): string {
  const [visit] = run.waiting.retry;
  if (!waitsFor(visit?.state, "retry")) return "";
  const name = stepPath(visitRef(visit));
  return ` while step ${name} was waiting for its next attempt: ${messageText(visit.state.message)}`;
}

function ownerText(owner: Owner | undefined): string {
  return owner === undefined ? "another process" : `pid ${owner.pid} on ${owner.host}`;
}

function interrupted(input: WhyInput): Situation {
  const { run, shortId } = input;
  const runner = runnerEnd(input);
  const resume = commandText("resume", shortId);
  if (!everStarted(run)) {
    const happened = `was created, but ${runner} before the first step started`;
    return { happened, advice: [{ say: "Start it", command: resume }] };
  }
  const happened = `was interrupted: ${runner} ${whileDoing(run)}`;
  const say =
    run.running.size === 0
      ? "Continue"
      : "Continue (steps that still run are re-attached, not restarted)";
  return { happened, advice: [{ say, command: resume }, ...answerAdvice(input)] };
}

function runnerEnd({ owner, liveness }: WhyInput): string {
  const who = owner === undefined ? "" : ` (${ownerText(owner)})`;
  return liveness === "orphaned" ? `its runner${who} died` : `its runner${who} ended`;
}

function everStarted(run: Run): boolean {
  const { start, slot, ...begun } = run.waiting;
  const moved = [run.running, run.composites, run.failed, ...Object.values(begun)];
  if (run.stepsDone > 0 || moved.some(({ size }) => size > 0)) return true;
  return [...start, ...slot].some((visit) => visit.attempts > 0 || visit.number > 1);
}

function whileDoing(run: Run): string {
  const doing = (visits: ReadonlySet<Visit>, what: string): string =>
    `while ${shortList(pathsOf(visits), NAMES_MAX)} ${visits.size === 1 ? "was" : "were"} ${what}`;
  if (run.running.size > 0) return doing(run.running, "running");
  if (run.waiting.retry.size > 0) return doing(run.waiting.retry, "waiting for a retry");
  if (run.waiting.time.size > 0) return doing(run.waiting.time, "waiting");
  return "between two steps";
}

/** The steps of a completed run in which an agent was denied a tool call. */
function deniedNote(run: Run): string {
  const visits = [...run.scopes.values()]
    .flatMap(({ steps }) => steps)
    .flatMap((record) => record?.visits.at(-1) ?? [])
    .filter(({ denied }) => denied !== undefined);
  const [first] = visits;
  if (first === undefined) return "";
  const more =
    visits.length === 1 ? "" : `, and so were ${countText(visits.length - 1, "more step")}`;
  const text = deniedText(first.denied ?? []).replace(/^it/, stepPath(visitRef(first)));
  return `; ${plainText(text)}${more}`;
}
