/**
 * The prompt that continues a conversation that was interrupted, or whose last attempt failed. An
 * agent may have done things that its own transcript does not hold, so the prompt lists the tool
 * calls that the stream shows.
 *
 * Owns: this text and its limits.
 * Does not: read or write anything.
 */
import type { FinishedCall, ToolCall } from "./adapter.ts";
import { headOf } from "./stream-json.ts";

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

/** The tool calls of earlier attempts whose results the agent does not know. */
export interface UnknownCalls {
  /** Calls that began, with unknown ends. */
  readonly open: readonly ToolCall[];
  /** Calls that ended according to the stream, but whose results are not in the transcript. */
  readonly finished: readonly FinishedCall[];
}

export const NO_CALLS: UnknownCalls = { open: [], finished: [] };

/** The prompt for an agent that continues its task; `opening` says why it has to. */
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
export function callParagraphs({ open, finished }: UnknownCalls): readonly string[] {
  return [...finishedCalls(finished), ...openCalls(open)];
}

function finishedCalls(calls: readonly FinishedCall[]): readonly string[] {
  if (calls.length === 0) return [];
  let left = RESULTS_CHARACTERS_MAX;
  const lines: string[] = [];
  for (const call of calls.toReversed()) {
    const result = headOf(call.result.trim(), Math.min(RESULT_CHARACTERS_MAX, left));
    left = Math.max(1, left - result.length);
    const how = call.ok ? "succeeded" : "failed";
    const shown = result === "" ? `  It ${how} without output.` : `  It ${how}:\n${result}`;
    lines.unshift(`${callLine(call)}\n${indented(shown)}`);
  }
  return [
    "These tool calls finished before the interruption, and your record of this conversation lacks " +
      "them or their results. They took effect. Do not run them again; use these results:\n" +
      lines.join("\n"),
  ];
}

function openCalls(calls: readonly ToolCall[]): readonly string[] {
  if (calls.length === 0) return [];
  return [
    "These tool calls had begun and their results are not recorded; they may have taken effect " +
      `in full, in part or not at all:\n${calls.map(callLine).join("\n")}`,
  ];
}

function callLine({ name, input }: ToolCall): string {
  const shown = indented(headOf(input, INPUT_CHARACTERS_MAX));
  return `- ${name}${shown === "" ? "" : `: ${shown}`}`;
}

function indented(text: string): string {
  return text.replaceAll("\n", "\n  ");
}
