/**
 * What is said to an agent at the start of an attempt: the task, or a request of ours.
 *
 * Owns: the words of a hand-over and of a correction.
 * Does not: choose what to say (core/talk.ts), or speak to anybody.
 */
import type { Says } from "../core/event.ts";
import { withReport } from "../core/failure-report.ts";
import { withPreamble } from "../core/preamble.ts";
import { continuePrompt } from "../runner/agents/continue-prompt.ts";
import type { AgentReport } from "../runner/agents/report.ts";
import type { Json } from "../util/json.ts";

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
  /** What the attempt before left behind. */
  readonly before: Pick<AgentReport, "openTools">;
  /** Where the hand-over is to be written, relative to the working directory. */
  readonly relayFile: string;
  /** What the conversation before handed over. */
  readonly checkpoint?: string;
  /** Why something is asked for. */
  readonly why: string;
}

/** The text of a prompt. */
export function promptText(input: PromptInput): string {
  switch (input.says) {
    case "task":
      return withPreamble(input.preamble, withReport(input.report, withSchema(input)));
    case "relayed":
      return withPreamble(input.preamble, withReport(input.report, relayedPrompt(input)));
    case "interrupted":
      return continuePrompt(withSchema(input), input.before);
    case "relay":
      return relayPrompt(input);
    case "correct":
      return correctPrompt(input);
  }
}

function withSchema({ task, schema }: PromptInput): string {
  if (schema === undefined) return task;
  return [
    task,
    "When you are done, answer with nothing but one JSON value that satisfies this JSON Schema:",
    JSON.stringify(schema),
  ].join("\n\n");
}

function relayPrompt({ relayFile, why }: PromptInput): string {
  return [
    `Stop working on the task now: ${why}. Another agent will go on with it in a new conversation, ` +
      "and will know only the files in the working tree and what you write down now.",
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

function correctPrompt({ why, schema }: PromptInput): string {
  return [
    `Your last answer cannot be used: ${why}.`,
    "Answer again with nothing but one JSON value that satisfies what was asked for" +
      (schema === undefined ? "." : ` (JSON Schema): ${JSON.stringify(schema)}`),
  ].join("\n\n");
}
