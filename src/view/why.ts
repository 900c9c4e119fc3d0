/**
 * The words for where a run stands: what happened, what is done, and the exact command that goes
 * on. `why`, `show`, every interruption and the dashboard say the same, because all ask here.
 *
 * Owns: the sentences for every situation that a run can be in.
 * Does not: find out who is alive (the caller has the evidence) or run anything.
 * Invariants:
 * - Y1 Three lines, always, and the last one holds a command that works as it stands (P10).
 */
import type { Answer, Owner, StopReason, Verdict } from "../core/event.ts";
import { waitsForPerson } from "../core/next-actions.ts";
import { deniedText } from "../core/permission.ts";
import { attemptText, placeText, stepPath } from "../core/place.ts";
import { resumeGrants } from "../core/rewind.ts";
import {
  attemptOf,
  currentVisit,
  placeOf,
  type Run,
  type RunState,
  stepOf,
  type Visit,
} from "../core/run.ts";
import { waitsFor } from "../core/visit-state.ts";
import { formatDuration } from "../util/duration.ts";
import { failedCheckLines, warningMessages } from "./check-text.ts";
import { perdure } from "./command-text.ts";
import { plainText, shortList } from "./display-text.ts";
import { doneText, fanOutsWithFailures, NAMES_MAX, pathsOf } from "./done-text.ts";
import { type Advice, failureAdvice, suggestedBudget } from "./failure-advice.ts";
import { failureText, messageText } from "./failure-words.ts";
import { waitingMessages } from "./message-text.ts";
import {
  answerCommand,
  answerText,
  deadlineText,
  gateName,
  labelled,
  questionText,
  wakeText,
} from "./question-text.ts";
import { priceRemedy } from "./spent-text.ts";
import { attemptWords, type Liveness, runStatusOf } from "./step-status.ts";
import { stopText } from "./stop-text.ts";
import { utcText } from "./time-text.ts";

/** How many choices of a question stand in one line. */
const CHOICES_SHOWN_MAX = 3;

export interface WhyInput {
  readonly runId: string;
  /** A unique prefix of the id, 8 characters or more; it is what the commands use. */
  readonly shortId: string;
  readonly pipeline: string;
  readonly run: Run;
  readonly liveness: Liveness;
  /** The owner cannot be seen from here, and is not proven dead. */
  readonly elsewhere?: boolean;
  /** Who has, or had, the lease. */
  readonly owner?: Owner | undefined;
  readonly cleanedAt?: number | undefined;
  /** Answers that no owner has taken up yet, by attempt (`approve@1.1`). */
  readonly answers?: ReadonlyMap<string, Answer>;
  readonly now: number;
}

export interface Why {
  readonly happened: string;
  readonly done: string;
  readonly next: string;
  /** The commands in `next`, the recommended one first. */
  readonly commands: readonly string[];
  /** The last lines of the checks that the failed step did not pass; absent when there are none. */
  readonly output?: readonly string[];
}

/** Where a run stands, in words. */
export function why(input: WhyInput): Why {
  const { happened, advice } = situation(input);
  const [first, ...others] = advice;
  const ended = input.cleanedAt !== undefined || input.run.state.status === "failed";
  const aside = others.map(adviceText).join("; ");
  const waiting = waitingMessages(input.run);
  const done = doneText(input.run, ended ? "not-done" : "next");
  return {
    happened: `Run ${input.shortId} (${input.pipeline}) ${happened}.`,
    done: waiting === undefined ? done : `${done} ${waiting}`,
    next: adviceText(first) + (aside === "" ? "" : `   (${aside})`),
    commands: advice.map(({ command }) => command),
    ...checkOutput(input.run),
  };
}

/** What the checks of the step that a failed run is about printed last. */
function checkOutput(run: Run): Pick<Why, "output"> {
  const state = run.state.status === "failed" ? principalFailure(run)?.state : undefined;
  const output = state?.status === "failed" ? failedCheckLines(state.checks ?? []) : [];
  return output.length === 0 ? {} : { output };
}

/** The three lines. */
export function whyLines(input: WhyInput): readonly [string, string, string] {
  const { happened, done, next } = why(input);
  return [happened, done, next];
}

interface Situation {
  /** Goes on after "Run a1b2c3d4 (release) ". */
  readonly happened: string;
  readonly advice: readonly [Advice, ...Advice[]];
}

function adviceText({ say, command }: Advice): string {
  return `${say}: ${command}`;
}

function situation(input: WhyInput): Situation {
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
      return failed(input, run.state);
    case "stopped":
      return stopped(input, run.state.reason);
    default:
      if (waitsForPerson(run)) return waiting(input);
      return liveness === "owned" ? owned(input) : interrupted(input);
  }
}

function stopped(input: WhyInput, reason: StopReason): Situation {
  if (reason.code === "budget") return outOfFunds(input, reason);
  if (reason.code === "conflict") return inConflict(input, reason);
  if (reason.code === "forked") return forked(input);
  const resume = { say: "Go on", command: perdure("resume", input.shortId) };
  return {
    happened: `was stopped by ${stopperText(reason)}${stoppedWaiting(input.run)}`,
    advice: [resume, ...answerAdvice(input)],
  };
}

function completedText(run: Run): string {
  const took = formatDuration(run.updatedAt - (run.created?.time ?? 0));
  return `completed in ${took}${warningsOf(run)}${deniedNote(run)}`;
}

/** ", with a warning of lint (...)" for the steps whose checks warn, as many as are named. */
function warningsOf(run: Run): string {
  const warnings: string[] = [];
  for (const { steps } of run.scopes.values()) {
    for (const record of steps) {
      const visit = currentVisit(record);
      if (visit?.state.status !== "completed" || visit.state.checks === undefined) continue;
      warnings.push(`${stepPath(placeOf(visit))} (${warningMessages(visit.state).join("; ")})`);
    }
  }
  if (warnings.length === 0) return "";
  return `, with a warning of ${shortList(warnings, NAMES_MAX)}`;
}

function completedAdvice(run: Run, shortId: string): Situation["advice"] {
  const [first] = fanOutsWithFailures(run);
  const show = perdure("show", shortId);
  const others = { say: "a new run", command: newRun(run) };
  if (first === undefined) return [{ say: "Nothing is left to do. Look", command: show }, others];
  const command = perdure("retry", shortId, stepOf(first).id, "--failed");
  return [{ say: "Run the failed items again", command }, { say: "look", command: show }, others];
}

/** A person has a conversation of it open (`perdure open`), and nothing else happens to it. */
function opened({ owner, shortId }: WhyInput): Situation {
  const { opens = "" } = owner ?? {};
  const happened = `has step ${opens} open in its agent's own program, ${ownerText(owner)}`;
  const say = "When that program has ended, resume it";
  return { happened, advice: [{ say, command: perdure("resume", shortId) }] };
}

/** Only a person can move it, or has done so already. */
function waiting(input: WhyInput): Situation {
  const { run, shortId, liveness } = input;
  const resume = perdure("resume", shortId);
  const open = unanswered(input);
  const [visit] = open;
  if (!waitsFor(visit?.state, "person")) {
    const [answered] = run.waiting.person;
    const answer = answered && input.answers?.get(attemptText(attemptOf(answered)));
    const told =
      answered && answer && `${gateName(answered)}: ${answerText(labelled(answered, answer))}`;
    const happened = `waited for a person, and has its answer (${told ?? ""})`;
    const watch = { say: "Watch it", command: perdure("attach", shortId) };
    return { happened, advice: [liveness === "owned" ? watch : { say: "Go on", command: resume }] };
  }
  const { state } = visit;
  const more = open.length === 1 ? "" : `, and ${open.length - 1} more ask`;
  const asks = `${gateName(visit)} asks "${questionText(state)}"${deadlineText(state)}${more}`;
  const by = liveness === "owned" ? `; owned by ${ownerText(input.owner)}` : "";
  const [first, ...others] = answerAdvice(input);
  const then = liveness === "owned" ? [] : [{ say: "then", command: resume }];
  const answers = first === undefined ? [] : [{ ...first, say: "Answer" }, ...others];
  const [lead = { say: "Go on", command: resume }, ...rest] = [...answers, ...then];
  return { happened: `waits for a person: ${asks}${by}`, advice: [lead, ...rest] };
}

/** Questions of the run that nobody has answered yet. */
function unanswered({ run, answers }: WhyInput): readonly Visit[] {
  return [...run.waiting.person].filter(
    (visit) => answers?.has(attemptText(attemptOf(visit))) !== true,
  );
}

/** How the first question that stands is answered; with many choices, where they are listed. */
function answerAdvice(input: WhyInput): readonly Advice[] {
  const open = unanswered(input);
  const [visit] = open;
  if (!waitsFor(visit?.state, "person")) return [];
  const { choices } = visit.state;
  const commands = choices
    .slice(0, CHOICES_SHOWN_MAX)
    .map((choice) => ({ say: "or", command: answerCommand(input.shortId, visit, choice) }));
  const all = { say: "all questions", command: perdure("answer", input.shortId) };
  const left = open.length > 1 || choices.length > CHOICES_SHOWN_MAX;
  return left ? [...commands, all] : commands;
}

function forked({ run, shortId }: WhyInput): Situation {
  return {
    happened: `was forked from run ${run.origin?.run ?? ""} and has not been started since`,
    advice: [{ say: "Start it", command: perdure("resume", shortId) }],
  };
}

function outOfFunds(
  { run, shortId }: WhyInput,
  reason: Extract<StopReason, { code: "budget" }>,
): Situation {
  const happened = `was stopped: ${stopText(reason)}`;
  if (reason.limit.kind === "price") {
    const say = `${priceRemedy(reason.limit.model)}, then go on`;
    return { happened, advice: [{ say, command: perdure("resume", shortId, "--update") }] };
  }
  const command = perdure("resume", shortId, "--budget", suggestedBudget(run));
  return { happened, advice: [{ say: "Add to it and go on", command }] };
}

/** Where the person finds the files with markers. */
function inConflict({ run, shortId }: WhyInput, reason: StopReason): Situation {
  const held = [...run.waiting.owner].find((visit) => visit.held !== undefined);
  const place = held === undefined ? "*" : placeText(placeOf(held)).replaceAll("/", "~");
  const say = `Resolve the marks (<<<<<<<) in .perdure/runs/${run.id}/own/${place}, then go on`;
  const happened = `was stopped: ${stopText(reason)}`;
  return { happened, advice: [{ say, command: perdure("resume", shortId) }] };
}

function cleaned(input: WhyInput, cleanedAt: number): Situation {
  const status = runStatusOf(input.run, input.liveness);
  const had = status === "interrupted" ? "had been interrupted" : `had ${status}`;
  return {
    happened: `${had}, and its files were removed on ${utcText(cleanedAt)} UTC`,
    advice: [
      { say: "It cannot be resumed: its files are gone. A new run", command: newRun(input.run) },
    ],
  };
}

function newRun(run: Run): string {
  return perdure("run", run.created?.file || "FILE");
}

/** "SIGINT (Ctrl-C)"; a name that is not a signal is shown as it is. */
function stopperText(reason: StopReason): string {
  const by = stopText(reason);
  return by === "SIGINT" ? "SIGINT (Ctrl-C)" : by;
}

function owned(input: WhyInput): Situation {
  const { run, shortId, now } = input;
  const watch = { say: "Watch it", command: perdure("attach", shortId) };
  const stop =
    input.elsewhere === true
      ? { say: "if you know that it is dead", command: perdure("resume", shortId, "--take-over") }
      : { say: "stop it", command: perdure("stop", shortId) };
  const unseen = input.elsewhere === true ? ", which cannot be seen from here" : "";
  const by = `owned by ${ownerText(input.owner)}${unseen}`;
  if (run.state.status === "stopping") {
    const mode = run.state.mode === "now" ? "" : " after the running steps";
    const happened = `is being stopped${mode} by ${stopperText(run.state.reason)}, ${by}`;
    return { happened, advice: [watch] };
  }
  const asks = unanswered(input).map(gateName);
  const asked = asks.length === 0 ? "" : ` and asks ${shortList(asks, NAMES_MAX)}`;
  const answers = answerAdvice(input).map((one) => ({ ...one, say: "answer" }));
  if (run.running.size > 0) {
    const names = Array.from(run.running, (visit) => runningText(visit, now));
    const happened = `is running ${shortList(names, NAMES_MAX)}${asked}, ${by}`;
    return { happened, advice: [watch, stop, ...answers] };
  }
  const [waiting] = run.waiting.retry;
  if (waiting !== undefined)
    return { happened: `is ${waitingText(waiting, now)}; ${by}`, advice: [watch, stop] };
  const [timed] = run.waiting.time;
  if (waitsFor(timed?.state, "time")) {
    const where = `${stepPath(placeOf(timed))} ${wakeText(timed.state.wake.at, now)}`;
    return { happened: `waits at ${where}${asked}; ${by}`, advice: [watch, stop, ...answers] };
  }
  const doing = run.state.status === "created" ? "is starting" : "is running, between two steps";
  return { happened: `${doing}, ${by}`, advice: [watch, stop] };
}

function runningText(visit: Visit, now: number): string {
  const since = visit.state.status === "running" ? visit.state.since : now;
  return `${stepPath(placeOf(visit))} (for ${formatDuration(now - since)})`;
}

function waitingText(visit: Visit, now: number): string {
  const { state } = visit;
  if (!waitsFor(state, "retry")) return "waiting";
  const due = state.until <= now ? "now" : `in ${formatDuration(state.until - now)}`;
  const words = attemptWords(visit);
  const attempt = words === "" ? due : `${due} (${words})`;
  const name = stepPath(placeOf(visit));
  return `waiting to try step ${name} again ${attempt}: ${messageText(state.message)}`;
}

/** What a stopped run was waiting for, such as the end of a rate limit. */
function stoppedWaiting(run: Run): string {
  const [visit] = run.waiting.retry;
  if (!waitsFor(visit?.state, "retry")) return "";
  const name = stepPath(placeOf(visit));
  return ` while ${name} was waiting for its next attempt: ${messageText(visit.state.message)}`;
}

function ownerText(owner: Owner | undefined): string {
  return owner === undefined ? "another process" : `pid ${owner.pid} on ${owner.host}`;
}

function interrupted(input: WhyInput): Situation {
  const { run, shortId } = input;
  const runner = runnerEnd(input);
  const resume = perdure("resume", shortId);
  if (!everStarted(run)) {
    const happened = `was created, but ${runner} before its first step started`;
    return { happened, advice: [{ say: "Start it", command: resume }] };
  }
  const happened = `was interrupted: ${runner} ${whileDoing(run)}`;
  const say =
    run.running.size === 0 ? "Go on" : "Go on; what still runs is taken up, not restarted";
  return { happened, advice: [{ say, command: resume }, ...answerAdvice(input)] };
}

function runnerEnd({ owner, liveness }: WhyInput): string {
  const who = owner === undefined ? "" : ` (${ownerText(owner)})`;
  return liveness === "orphaned" ? `its runner${who} died` : `its runner${who} gave it up`;
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
  if (run.waiting.retry.size > 0) return doing(run.waiting.retry, "waiting for another try");
  if (run.waiting.time.size > 0) return doing(run.waiting.time, "waiting for its time");
  return "between two steps";
}

function failed(
  input: WhyInput,
  { message, from }: Extract<RunState, { status: "failed" }>,
): Situation {
  const { run, shortId } = input;
  const visit = principalFailure(run);
  const resume = perdure("resume", shortId);
  const goOnFrom = (step: string): string => perdure("resume", shortId, "--from-step", step);
  if (visit?.state.status !== "failed") {
    return {
      happened:
        from === undefined
          ? `had failed (${messageText(message)}), and that was settled since`
          : `failed: ${messageText(message)}`,
      advice: [{ say: "Go on", command: from === undefined ? resume : goOnFrom(from) }],
    };
  }
  const path = stepPath(placeOf(visit));
  const tries = visit.attempts === 1 ? "1 attempt" : `${visit.attempts} attempts`;
  const leaves = [...run.failed].filter(({ instances }) => instances === undefined).length;
  const more = leaves > 1 ? `, and ${leaves - 1} more failed` : "";
  const happened = `failed: step ${path} (${tries}): ${failureText(visit.state)}${more}`;
  const look = { say: "look first", command: perdure("logs", shortId, path) };
  const retry = perdure("retry", shortId, path);
  if (visit.state.reason === "once") {
    const settle = (say: string, as: Verdict): Advice => ({
      say,
      command: perdure("settle", shortId, path, as),
    });
    const happenedOrNot = settle("If it happened", "done");
    const others = [settle("if it did not", "redo"), settle("to give it up", "abort")];
    return { happened, advice: [happenedOrNot, ...others, look] };
  }
  const grants = [...run.failed].some(resumeGrants);
  if (visit.state.reason === "aborted" && !grants) {
    return { happened, advice: [{ say: "It ends here. A new run", command: newRun(run) }, look] };
  }
  if (!grants) return { happened, advice: [{ say: "Go on", command: retry }, look] };
  const goOn = failureAdvice(run, visit, shortId) ?? { say: "Go on", command: resume };
  const { denied = [] } = visit;
  if (denied.length === 0) return { happened, advice: [goOn, look] };
  const update = perdure("resume", shortId, "--update");
  const say = `Allow it in ${run.created?.file || "the pipeline"} (${allowText(denied)}), then`;
  const told = visit.state.reason === "denied" ? "" : `; ${deniedText(denied)}`;
  return { happened: `${happened}${told}`, advice: [{ say, command: update }, goOn, look] };
}

/** The steps of a completed run whose agents were denied a call. */
function deniedNote(run: Run): string {
  const visits = [...run.scopes.values()]
    .flatMap(({ steps }) => steps)
    .flatMap((record) => record?.visits.at(-1) ?? [])
    .filter(({ denied }) => denied !== undefined);
  const [first] = visits;
  if (first === undefined) return "";
  const more = visits.length === 1 ? "" : `, and ${visits.length - 1} more steps were denied calls`;
  const text = deniedText(first.denied ?? []).replace(/^it/, stepPath(placeOf(first)));
  return `; ${plainText(text)}${more}`;
}

/** The key of a step that allows calls which were denied. */
function allowText(denied: readonly string[]): string {
  const calls = denied.slice(0, NAMES_MAX).map((call) => JSON.stringify(plainText(call)));
  return `\`tools: {allow: [${calls.join(", ")}]}\`, or \`permissions: all\``;
}

/** The failure to talk about: one that only a person can settle, else the innermost. */
function principalFailure(run: Run): Visit | undefined {
  const failures = [...run.failed];
  const once = failures.find(({ state }) => state.status === "failed" && state.reason === "once");
  return once ?? failures.find(({ instances }) => instances === undefined) ?? failures[0];
}
