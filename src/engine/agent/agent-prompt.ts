/**
 * What is said to an agent at the start of an attempt: the task, or a request of ours.
 *
 * Owns: the words of a hand-over, of a correction, after a failure, and around a person's message.
 * Does not: choose what to say (core/conversation/conversation.ts), or speak to anybody.
 */

import { withPreamble } from "../../core/conversation/briefing.ts";
import { withReport } from "../../core/conversation/failure-report.ts";
import type { Message, Says } from "../../core/event.ts";
import {
  callParagraphs,
  continuePrompt,
  INTERRUPTED,
  type UnknownCalls,
} from "../../runner/agents/continue-prompt.ts";
import type { Json } from "../../util/json.ts";

/** What a hand-over must say, as headings of its file. */
export const RELAY_SECTIONS = ["Done", "Remaining", "Decisions", "Files touched"] as const;

export interface PromptInput {
  readonly says: Says;
  /** What is told of the run first, where a conversation begins. */
  readonly preamble?: string;
  /** What failed before the step, and led to it. */
  readonly report?: string;
  readonly task: string;
  /** Asked for in words, for an agent that does not take a schema itself. */
  readonly schema?: Json;
  /** The tool calls of earlier attempts whose results the conversation lacks. */
  readonly calls: UnknownCalls;
  /** What people want the agent to know. */
  readonly messages: readonly Message[];
  /** Where the hand-over is to be written, relative to the working directory. */
  readonly relayFile: string;
  /** What the conversation before handed over. */
  readonly checkpoint?: string;
  /** Why something is asked for. */
  readonly why: string;
  /** The report on a failure that the agent may not know of. */
  readonly failure?: string;
}

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

/** The message itself comes last; its id is how its transcript shows that it was delivered. */
function messageText({ id, by, text }: Message): string {
  return `A person left you this message (${id}, from ${by}). Take it into account now:\n\n${text}`;
}

function requestText(input: PromptInput): string {
  switch (input.says) {
    case "task":
      return withPreamble(input.preamble, toldFirst(input, withSchema(input)));
    case "relayed":
      return withPreamble(input.preamble, toldFirst(input, relayedPrompt(input)));
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

/** A text with the report on a failure after it, where there is one to be told. */
function withFailure({ failure }: PromptInput, text: string): string {
  return failure === undefined ? text : [text, failure, FIX_INSTEAD].join("\n\n");
}

/** What failed before comes in front of the task: in other steps, and in this one. */
function toldFirst(input: PromptInput, task: string): string {
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

function relayPrompt({ relayFile, why, calls }: PromptInput): string {
  return [
    `Stop working on the task now: ${why}. Another agent will go on with it in a new conversation, ` +
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
