/**
 * Failures, failed checks, stops of a run, and effects that may or may not have happened, in words.
 *
 * Owns: the phrase for each reason of a failure or a stop, how the output of a check is shown, and what is
 * said of an effect that must happen once: uncertainty, a probe's answer, a person's decision.
 * Does not: say what to do about it (failure-advice.ts).
 */
import { type CheckFindings, checksFound, warns } from "../core/attempt/check.ts";
import { effectsWithin } from "../core/attempt/effect.ts";
import type {
  CheckEvidence,
  FailureReason,
  LimitReached,
  RunEvent,
  StopReason,
} from "../core/event.ts";
import { type Effect, type Run, stepOf } from "../core/run.ts";
import { usdText } from "../core/spending.ts";
import { ROOT_SCOPE } from "../core/step-path.ts";
import { conflictText } from "../core/workspace-files.ts";
import type { Step } from "../plan/plan.ts";
import { formatDuration } from "../util/duration.ts";
import type { Json } from "../util/json.ts";
import { cutText, firstLine, plainText } from "./text.ts";

const REASONS: Readonly<Record<FailureReason, string>> = {
  exit: "it exited with an error",
  reported: "it reported a failure",
  retry: "it asked for a retry",
  "no-edge": "no edge leads on from it",
  restart: "the run cannot restart",
  declared: "the pipeline declares a failure",
  pick: "there is no branch to pick",
  status: "its status file could not be read",
  check: "its check did not pass",
  output: "an output file is missing or broken",
  context: "its context values could not be read",
  timeout: "it ran longer than its timeout",
  idle: "it printed nothing for too long",
  "output-limit": "it printed more output than is allowed",
  spawn: "it could not be started",
  expression: "an expression in the pipeline could not be evaluated",
  unanswered: "nobody answered",
  agent: "its agent failed",
  denied: "its agent was denied a tool call",
  answer: "its agent's answer does not match the schema",
  stall: "it makes no progress",
  turns: "its agent used up its turns",
  relay: "its conversation could not be handed over",
  paused: "its agent had to pause too often",
  items: "a step in it failed",
  lost: "its process disappeared without an exit status too often",
  once: "it must not happen twice",
  aborted: "it was aborted",
  rejected: "it was rejected",
  visits: "the run visited it too often",
  iterations: "it used up its iterations",
  goal: "it did not reach a goal",
};

/** Shells report death by signal n as 128 + n. */
const SIGNAL_BASE = 128;
const SIGNALS: Readonly<Record<number, string>> = {
  1: "SIGHUP",
  2: "SIGINT",
  3: "SIGQUIT",
  6: "SIGABRT",
  9: "SIGKILL",
  11: "SIGSEGV",
  13: "SIGPIPE",
  15: "SIGTERM",
};

/** Messages can be long; this much of the first line is shown. */
const MESSAGE_WIDTH_MAX = 200;

interface Failure {
  readonly reason: FailureReason;
  readonly message: string;
  readonly exit?: number | undefined;
}

/** A failure in one phrase: "it ran longer than its timeout: 10m 00s". */
export function failureText(failure: Failure): string {
  const { reason, exit } = failure;
  if (reason === "exit" && exit !== undefined) return exitText(exit);
  const words = REASONS[reason];
  const message = messageText(failure.message);
  if (message === "") return words;
  if (reason === "once") return `${words}, and ${message}`;
  return WHOLE_MESSAGE.has(reason) ? message : `${words}: ${message}`;
}

/** Reasons whose message needs no introduction: "it ran longer than its timeout of 2s". */
const WHOLE_MESSAGE: ReadonlySet<FailureReason> = new Set<FailureReason>([
  "declared",
  "denied",
  "timeout",
  "idle",
  "items",
  "output-limit",
  "unanswered",
]);

/** "it exited with 2", "it exited with 137 (SIGKILL)". */
export function exitText(exit: number): string {
  const signal = SIGNALS[exit - SIGNAL_BASE];
  const meaning = exit === 126 ? "not executable" : exit === 127 ? "command not found" : signal;
  return meaning === undefined ? `it exited with ${exit}` : `it exited with ${exit} (${meaning})`;
}

/** The first line of a message, cut to a readable length. */
export function messageText(message: string): string {
  return cutText(firstLine(message), MESSAGE_WIDTH_MAX);
}

/** How many of the last lines of a check are shown where it did not pass. */
const LINES_MAX = 20;

/** "; warning: `npm run lint` exited with 1", or nothing when no check warns. */
export function warningText(found: CheckFindings): string {
  return warningMessages(found)
    .map((message) => `; warning: ${message}`)
    .join("");
}

/** The messages of failed checks that only warn. */
export function warningMessages(found: CheckFindings): readonly string[] {
  return checksFound(found).filter(warns).map(messageOf);
}

/** The last lines of each failed check, after a line that names it. */
export function failedCheckLines(checks: readonly CheckEvidence[]): readonly string[] {
  return checks.flatMap((check) => {
    const lines = lastLines(check);
    return lines.length === 0 ? [] : [headingOf(check), ...lines.map((line) => `  ${line}`)];
  });
}

/** A finding for programs. */
export function checkJson(check: CheckEvidence): Json {
  return {
    measured: true,
    kind: check.kind,
    command: check.subject,
    exit: check.exit,
    output_path: check.outputPath ?? null,
    output_sha256: check.outputSha256 ?? null,
    agent: check.agent ?? null,
    message: check.message ?? null,
    output: check.output ?? null,
    on_fail: check.onFail ?? "retry",
  };
}

function messageOf({ message = "it did not pass" }: CheckEvidence): string {
  return messageText(message);
}

function headingOf({ kind, subject, agent = "" }: CheckEvidence): string {
  return kind === "judge"
    ? `The judge (${agent}) gives these reasons:`
    : `The last lines of the check \`${firstLine(subject)}\`:`;
}

function lastLines({ output = "" }: CheckEvidence): readonly string[] {
  const lines = output.split("\n").map(plainText);
  while (lines.at(-1) === "") lines.pop();
  return lines.slice(-LINES_MAX);
}

/** "SIGINT", "the budget: $2.00 of $1.00 are spent". */
export function stopText(reason: StopReason): string {
  switch (reason.code) {
    case "requested":
      return reason.by;
    case "budget":
      return `the budget: ${limitText(reason.limit)}`;
    case "conflict":
      return `a merge conflict: ${conflictText(reason.paths)}`;
    case "forked":
      return "the fork";
  }
}

/** "500 of 400 tokens are used". */
function limitText(reached: LimitReached): string {
  switch (reached.kind) {
    case "usd":
      return `${usdText(reached.used)} of ${usdText(reached.of)} are spent`;
    case "tokens":
    case "turns":
      return `${reached.used} of ${reached.of} ${reached.kind} are used`;
    case "time":
      return `${formatDuration(reached.used)} of ${formatDuration(reached.of)} have run`;
    case "price":
      return `${noPriceText(reached.model)}, so the limit in US dollars cannot be kept`;
  }
}

/** "no price is known for opus". */
export function noPriceText(model: string): string {
  const subject = model === "" ? "a model that its agent does not name" : plainText(model);
  return `no price is known for ${subject}`;
}

type UncertaintyEvent = Extract<
  RunEvent,
  { type: "step.uncertain" | "step.probed" | "step.settled" }
>;

const ANSWERS = {
  done: "happened, according to its probe",
  "not-done": "did not happen, according to its probe",
  unknown: "may or may not have happened: its probe does not know",
} as const;

const VERDICTS = {
  done: "it happened",
  redo: "it did not happen, run it again",
  abort: "give up",
} as const;

/** Who confirmed an effect: "it happened, according to its probe (URL)". */
export function confirmedText(settledBy: string, identity: string | undefined): string {
  const named = identity === undefined ? "" : ` (${messageText(identity)})`;
  return `it happened, according to ${settledBy}${named}`;
}

/** Follows the name of the step: "may or may not have happened (it was stopped): ...". */
export function uncertaintyText(event: UncertaintyEvent): string {
  switch (event.type) {
    case "step.uncertain": {
      const next = event.asks === "probe" ? "the probe is asked" : "a person must settle it";
      if (event.cause === "identity") return "happened; the probe is asked for its identity";
      if (event.cause === "repeated") return `must not happen twice, and ${event.message}: ${next}`;
      return `may or may not have happened (${messageText(event.message)}): ${next}`;
    }
    case "step.probed": {
      const detail = event.identity ?? event.message;
      return ANSWERS[event.answer] + (detail === undefined ? "" : `: ${messageText(detail)}`);
    }
    default: {
      const named = event.identity === undefined ? "" : ` (${messageText(event.identity)})`;
      return `was settled by ${event.by}: ${VERDICTS[event.as]}${named}`;
    }
  }
}

/** The `once` step: the named one, or one inside it that the run has visited. */
export function onceStep(run: Run, id: string, { visit }: Effect): Step | undefined {
  const root = run.scopes.get(ROOT_SCOPE)?.graph.steps.find((step) => step.id === id);
  if (root?.once === true) return root;
  return visit === undefined ? undefined : stepOf(visit);
}

/** Why a step runs again: a person named it (and agreed or not), or it comes after a named step. */
type RepeatedBy = "named" | "agreed" | "after";

/** What to say of a step that runs again although its effect must not happen twice. */
export function repeatText(run: Run, step: string, by: RepeatedBy = "after"): string {
  const effects = effectsWithin(run, step);
  const [first] = effects;
  if (first === undefined) return "";
  const probed = onceStep(run, step, first)?.probe !== undefined;
  const more = effects.length === 1 ? "" : ` and ${effects.length - 1} more`;
  const happened = first.done === true ? "happened" : "may have happened";
  const place = `; ${first.place}${more} ${happened} and must not happen twice`;
  if (first.done === true && by === "named") return `${place}: repeating it needs --yes`;
  if (first.done === true && by === "agreed") return `${place}: you agreed to repeat it`;
  return `${place}: ${probed ? "the probe is asked first" : "you are asked first"}`;
}
