/** Why an attempt failed, in words that a person who has not read our code understands. */
import type { FailureReason } from "../core/event.ts";
import { cutText, firstLine } from "./display-text.ts";

const REASONS: Readonly<Record<FailureReason, string>> = {
  exit: "it exited with an error",
  told: "it says that it failed",
  retry: "it asks for another try",
  "no-arrow": "nothing follows from it",
  restart: "the run cannot begin anew",
  pick: "there is nothing to pick",
  status: "its status file could not be read",
  check: "its check did not pass",
  output: "a file that it should have written is missing or broken",
  context: "the values that it handed on could not be read",
  timeout: "it ran longer than its timeout",
  idle: "it wrote nothing for too long",
  "output-limit": "it wrote more output than is allowed",
  spawn: "it could not be started",
  expression: "an expression in the pipeline could not be evaluated",
  unanswered: "nobody answered",
  agent: "its agent did not succeed",
  denied: "its agent did not succeed",
  answer: "its agent's answer does not fit",
  stall: "it makes no progress",
  turns: "its agent used up its turns",
  relay: "its conversation could not be handed over",
  paused: "its agent could not go on, again and again",
  items: "a part of it failed",
  lost: "its process vanished without an exit status, again and again",
  once: "it must not happen twice",
  aborted: "it will not be done",
  rejected: "it was rejected",
  visits: "the run came to it too often",
  iterations: "its iterations are used up",
  goal: "a goal in it was missed",
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

/** A message may be an essay; one line of it is enough to recognise the trouble. */
const MESSAGE_WIDTH_MAX = 200;

export interface Failure {
  readonly reason: FailureReason;
  readonly message: string;
  readonly exit?: number | undefined;
}

/** The whole of a failure in one phrase: "it ran longer than its timeout: 10m 00s". */
export function failureText(failure: Failure): string {
  const { reason, exit } = failure;
  if (reason === "exit" && exit !== undefined) return exitText(exit);
  const words = REASONS[reason];
  const message = messageText(failure.message);
  if (message === "") return words;
  return WHOLE_MESSAGE.has(reason) ? message : `${words}: ${message}`;
}

/** Reasons whose message says all, with a number: "it ran longer than its timeout of 2.0s". */
const WHOLE_MESSAGE: ReadonlySet<FailureReason> = new Set<FailureReason>([
  "timeout",
  "idle",
  "output-limit",
  "unanswered",
]);

/** "it exited with 2"; codes that mean more than a number say so. */
export function exitText(exit: number): string {
  const signal = SIGNALS[exit - SIGNAL_BASE];
  const meaning =
    exit === 126 ? "not executable" : exit === 127 ? "command not found" : signal && `by ${signal}`;
  return meaning === undefined ? `it exited with ${exit}` : `it exited with ${exit}, ${meaning}`;
}

/** The first line of a message, cut to a readable length. */
export function messageText(message: string): string {
  return cutText(firstLine(message), MESSAGE_WIDTH_MAX);
}
