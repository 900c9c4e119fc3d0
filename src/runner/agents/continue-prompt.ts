/**
 * The prompt that continues a conversation which was cut off, or whose last attempt failed. An agent
 * may have done things that its own transcript does not know, so what was seen is told and asked to
 * be checked.
 *
 * Owns: these words.
 * Does not: read or write anything.
 */
import type { AgentReport } from "./report.ts";
import { headOf } from "./stream-json.ts";

const INPUT_CHARACTERS_MAX = 500;

/** How an agent is addressed whose process ended. */
export const INTERRUPTED =
  "You were interrupted: the process that ran you ended before you were done. " +
  "Continue the task from where it stopped, in this same conversation.";

/** What to say to an agent that continues its task; `opening` says why it has to. */
export function continuePrompt(
  task: string,
  report: Pick<AgentReport, "openTools">,
  opening = INTERRUPTED,
): string {
  return [
    opening,
    ...openCalls(report),
    "Before you do anything again, check the state of the working tree (files, version control, " +
      "running processes). Keep what is already done and do not repeat it.",
    `The task, as it was given:\n\n${task}`,
  ].join("\n\n");
}

function openCalls({ openTools }: Pick<AgentReport, "openTools">): readonly string[] {
  if (openTools.length === 0) return [];
  const calls = openTools.map(({ name, input }) => {
    const shown = headOf(input, INPUT_CHARACTERS_MAX).replaceAll("\n", "\n  ");
    return `- ${name}${shown === "" ? "" : `: ${shown}`}`;
  });
  return [
    "These tool calls had begun and their results are not recorded; they may have taken effect " +
      `in full, in part or not at all:\n${calls.join("\n")}`,
  ];
}
