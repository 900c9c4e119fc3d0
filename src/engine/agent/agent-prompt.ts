/**
 * The prompt of an attempt: the task, a request of Perdure, or the continuation of a conversation that
 * was interrupted or whose last attempt failed. An agent may have done things that its own transcript
 * does not hold, so a continuation lists the tool calls that the stream shows.
 *
 * Owns: the texts of a handover, a correction, a continuation, the report on a failed attempt, and the
 *   words around a person's message; their limits.
 * Does not: choose which of them an attempt gets (core/conversation/conversation.ts), send it, or judge a
 *   check.
 */
import { checksFound, fails, warns } from "../../core/attempt/check.ts";
import { withPreamble } from "../../core/conversation/briefing.ts";
import { withReport } from "../../core/conversation/failure-report.ts";
import type { AttemptFailure, CheckEvidence, Conversation, Message } from "../../core/event.ts";
import type { FinishedCall, ToolCall } from "../../runner/agents/adapter.ts";
import { headOf } from "../../runner/agents/stream-json.ts";
import type { Json } from "../../util/json.ts";

/** The headings of a handover file. */
export const RELAY_SECTIONS = ["Done", "Remaining", "Decisions", "Files touched"] as const;

interface PromptInput {
  readonly says: Conversation["says"];
  /** The briefing on the run, at the start of a conversation. */
  readonly preamble?: string;
  /** The report on the failure that led to the step. */
  readonly report?: string;
  readonly task: string;
  /** Described in words, for an agent that does not accept a schema. */
  readonly schema?: Json;
  /** The tool calls of earlier attempts whose results the conversation lacks. */
  readonly calls: UnknownCalls;
  /** Messages of people and managers for the agent. */
  readonly messages: readonly Message[];
  /** The path of the handover file, relative to the working directory. */
  readonly relayFile: string;
  /** The handover of the previous conversation. */
  readonly checkpoint?: string;
  /** The reason for the request. */
  readonly why: string;
  /** The report on a failure that the agent may not know. */
  readonly failure?: string;
}

const CHECK_OUTPUT_LINES_MAX = 100;

const FIX =
  "Continue the task in this same conversation. What you did so far is kept, and the files are as " +
  "you left them: fix what failed, and do not redo what is done.";

const FIX_INSTEAD =
  "What was done before is in the files: check them first, fix what failed, and do not redo what is " +
  "done.";

/** The text of a prompt. */
export function promptText(input: PromptInput): string {
  return [requestText(input), ...input.messages.map(messageText)].join("\n\n");
}

/** A message in the prompt; its id in the transcript proves that it was delivered. */
function messageText({ id, by, text }: Message): string {
  return `This message is for you (${id}, from ${by}). Take it into account now:\n\n${text}`;
}

function requestText(input: PromptInput): string {
  switch (input.says) {
    case "task":
      return withPreamble(input.preamble, reportedFirst(input, taskPrompt(input)));
    case "relayed":
      return withPreamble(input.preamble, reportedFirst(input, relayedPrompt(input)));
    case "interrupted":
      return continuePrompt(withSchema(input), input.calls, withFailure(input, INTERRUPTED));
    case "failed":
      return continuePrompt(withSchema(input), input.calls, `${input.failure ?? ""}\n\n${FIX}`);
    case "relay":
      return relayPrompt(input);
    case "correct":
      return correctPrompt(input);
    case "permitted":
      return permittedPrompt(input);
  }
}

/** A text with the report on a failure after it, if there is one. */
function withFailure({ failure }: PromptInput, text: string): string {
  return failure === undefined ? text : [text, failure, FIX_INSTEAD].join("\n\n");
}

/** The task with the reports on failures before it: those of other steps, then those of this one. */
function reportedFirst(input: PromptInput, task: string): string {
  return withReport(input.report, withFailure(input, task));
}

function withSchema({ task, schema }: PromptInput): string {
  if (schema === undefined) return task;
  return [
    task,
    "When you are done, answer with nothing but one JSON value that satisfies this JSON Schema:",
    JSON.stringify(schema),
  ].join("\n\n");
}

/** The task at the start of a conversation, with the calls of the one that it replaces. */
function taskPrompt(input: PromptInput): string {
  const { open, finished } = input.calls;
  const task = withSchema(input);
  return open.length + finished.length === 0 ? task : continuePrompt(task, input.calls, LOST);
}

function relayPrompt({ relayFile, why, calls }: PromptInput): string {
  return [
    `Stop working on the task now: ${why}. Another agent will continue it in a new conversation, ` +
      "and will know only the files in the working tree and what you write down now.",
    ...callParagraphs(calls),
    `Write the file ${relayFile} with these headings, each with its content (or "none") below it:`,
    RELAY_SECTIONS.map((section) => `## ${section}`).join("\n"),
    "Done: what is finished, and how that was verified. Remaining: what is left to do, in order, " +
      "with all that is needed to do it. Decisions: what was decided and why, and what did not work. " +
      "Files touched: each file that you created or changed, with a word on it.",
    "If you cannot write that file, answer with its content instead. Do nothing else.",
  ].join("\n\n");
}

function relayedPrompt(input: PromptInput): string {
  return [
    withSchema(input),
    "Another agent has worked on this task before you and handed it over with these notes. Go on " +
      "from there: check the working tree first, and do not do again what is done.",
    input.checkpoint ?? "",
    ...callParagraphs(input.calls),
  ].join("\n\n");
}

function permittedPrompt({ why, task }: PromptInput): string {
  return [
    `You were denied the use of a tool, and a person has been asked about it: ${why}.`,
    "Continue the task from where it stopped, in this same conversation: make the call again if it " +
      "was allowed, do without it if it was denied. Do not repeat what is already done.",
    `The task, as it was given:\n\n${task}`,
  ].join("\n\n");
}

function correctPrompt({ why, schema }: PromptInput): string {
  return [
    `Your last answer cannot be used: ${why}.`,
    "Answer again with nothing but one JSON value that satisfies what was asked for" +
      (schema === undefined ? "." : ` (JSON Schema): ${JSON.stringify(schema)}`),
  ].join("\n\n");
}

/**
 * The report on a failed attempt: its reason, its message and the output of its checks, so that the
 * agent can fix it in the same conversation. `turnsLeft` is absent when turns are not limited.
 */
export function failureReport(failure: AttemptFailure, turnsLeft: number | undefined): string {
  const { reason, message } = failure;
  const granted = reason === "turns" && turnsLeft !== undefined;
  const missed = checksFound(failure).filter((check) => fails(check) || warns(check));
  return [
    `The last attempt at this task failed (${reason}): ${message.trim()}`,
    ...missed.flatMap(checkReport),
    ...(granted ? [`That limit was raised: you may answer ${turnsLeft} more times.`] : []),
  ].join("\n\n");
}

function checkReport({ kind, subject, exit, output = "" }: CheckEvidence): readonly string[] {
  const said = indented(endOf(output));
  if (kind === "judge") return [`A judge looked at the work and gives these reasons:\n\n${said}`];
  if (kind === "schema") return [`The check reads the file ${subject}.`];
  return [
    `The check is this command:\n\n${indented(subject)}`,
    said === ""
      ? `It exited with status ${exit} and printed nothing.`
      : `It exited with status ${exit}. The end of its output:\n\n${said}`,
  ];
}

function endOf(text: string): string {
  return text.trimEnd().split("\n").slice(-CHECK_OUTPUT_LINES_MAX).join("\n");
}

function indented(text: string): string {
  return text === "" ? "" : text.trimEnd().replaceAll(/^/gm, "    ");
}

/** The limit of the calls that are listed, the latest ones. */
const CALLS_MAX = 64;
const INPUT_CHARACTERS_MAX = 500;
const RESULT_CHARACTERS_MAX = 2_000;
/**
 * The limit of all results together; the latest calls matter most, because an agent would repeat
 * them.
 */
const RESULTS_CHARACTERS_MAX = 16_000;

/** The opening for an agent whose process ended. */
export const INTERRUPTED =
  "You were interrupted: the process that ran you ended before you were done. " +
  "Continue the task from where it stopped, in this same conversation.";

/** The opening for an agent that begins again, because its conversation is lost. */
const LOST = "This task was begun before, in a conversation that is lost.";

/** The tool calls of earlier attempts whose results the agent does not know. */
export interface UnknownCalls {
  /** Calls that began, with unknown ends. */
  readonly open: readonly ToolCall[];
  /** Calls that ended according to the stream, but whose results are not in the transcript. */
  readonly finished: readonly FinishedCall[];
}

export const NO_CALLS: UnknownCalls = { open: [], finished: [] };

/** The prompt for an agent that continues a task; `opening` says why it has to. */
export function continuePrompt(task: string, calls: UnknownCalls, opening = INTERRUPTED): string {
  return [
    opening,
    ...callParagraphs(calls),
    "Before you do anything again, check the state of the working tree (files, version control, " +
      "running processes). Keep what is already done and do not repeat it.",
    `The task, as it was given:\n\n${task}`,
  ].join("\n\n");
}

/**
 * The paragraphs about tool calls in a prompt that continues a conversation; none when the agent
 * knows all results.
 */
function callParagraphs({ open, finished }: UnknownCalls): readonly string[] {
  return [...finishedCalls(finished), ...openCalls(open)];
}

function finishedCalls(calls: readonly FinishedCall[]): readonly string[] {
  if (calls.length === 0) return [];
  let left = RESULTS_CHARACTERS_MAX;
  const lines: string[] = [];
  for (const call of calls.slice(-CALLS_MAX).toReversed()) {
    const result = headOf(call.result.trim(), Math.min(RESULT_CHARACTERS_MAX, left));
    left = Math.max(1, left - result.length);
    const how = call.ok ? "succeeded" : "failed";
    const shown = result === "" ? `  It ${how} without output.` : `  It ${how}:\n${result}`;
    lines.unshift(`${callLine(call)}\n${hanging(shown)}`);
  }
  return [
    `These tool calls finished before the interruption${leftOut(calls)}, and your record of this ` +
      "conversation lacks them or their results. They took effect. Do not run them again; use these " +
      `results:\n${lines.join("\n")}`,
  ];
}

function openCalls(calls: readonly ToolCall[]): readonly string[] {
  if (calls.length === 0) return [];
  return [
    `These tool calls had begun${leftOut(calls)} and their results are not recorded; they may have ` +
      "taken effect in full, in part or not at all:\n" +
      calls.slice(-CALLS_MAX).map(callLine).join("\n"),
  ];
}

/** How many calls a list does not show. */
function leftOut({ length }: readonly ToolCall[]): string {
  return length <= CALLS_MAX ? "" : ` (${length - CALLS_MAX} earlier ones are left out)`;
}

function callLine({ name, input }: ToolCall): string {
  const shown = hanging(headOf(input, INPUT_CHARACTERS_MAX));
  return `- ${name}${shown === "" ? "" : `: ${shown}`}`;
}

/** Indents the lines after the first. */
function hanging(text: string): string {
  return text.replaceAll("\n", "\n  ");
}
