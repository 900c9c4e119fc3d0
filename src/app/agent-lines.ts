/**
 * What an agent's stream says, as lines for people: its words, the tools that it calls, and what
 * keeps it waiting. The output of everything else is shown as it is.
 *
 * Owns: these lines.
 * Does not: judge the stream; the adapters are loaded only for plans that use them.
 */
import type { Plan } from "../plan/plan.ts";
import type { AgentEvent } from "../runner/agents/adapter.ts";
import { formatDuration } from "../util/duration.ts";
import { firstLine } from "../view/display-text.ts";
import type { PrintedAttempt } from "./output-files.ts";

/** Turns a line of an attempt's output into what is shown of it. */
export type LineReader = (line: string) => readonly string[];

/** Gives a reader for the work of one attempt: that of its step's agent, or of its judge. */
export type LineReaders = (attempt: PrintedAttempt) => LineReader;

type Retrying = Extract<AgentEvent, { type: "retrying" }>;

const INPUT_SHOWN_MAX = 120;
const asItIs: LineReader = (line) => [line];

/** The readers for the steps of a plan. */
export async function lineReaders(plan: Plan): Promise<LineReaders> {
  const served = Object.values(plan.agents).some(({ adapter }) => adapter !== "command");
  if (!served) return () => asItIs;
  const { agentAdapter } = await import("../runner/agents/registry.ts");
  return ({ step, judge }) => {
    const agent = judge ?? (step?.work.kind === "agent" ? step.work.agent : "");
    const adapter = agentAdapter(plan.agents[agent]?.adapter ?? "");
    if (adapter === undefined) return asItIs;
    const reader = adapter.reader();
    // What is no part of the stream (an error of the program itself) is shown as it is.
    return (line) => (line.startsWith("{") ? reader.line(line).flatMap(shownLines) : [line]);
  };
}

/** "… overloaded (529): asks its model again in 0.6s (retry 2 of 10)". */
function retryText({ trouble, delayMs, attempt, attemptsMax }: Retrying): string {
  const when = delayMs === undefined ? "" : ` in ${formatDuration(delayMs)}`;
  const total = attemptsMax === undefined ? "" : ` of ${attemptsMax}`;
  const which = attempt === undefined ? "" : ` (retry ${attempt}${total})`;
  const again = when === "" && which === "" ? "" : `: asks its model again${when}${which}`;
  return `… ${trouble.message}${again}`;
}

function shownLines(event: AgentEvent): readonly string[] {
  switch (event.type) {
    case "text":
      return event.text.split("\n");
    case "tool-started":
      return [`→ ${event.name}: ${firstLine(event.input).slice(0, INPUT_SHOWN_MAX)}`];
    case "retrying":
      return [retryText(event)];
    case "denied":
      return [`✗ not permitted: ${event.tool}`];
    case "result":
      return event.ok ? [] : [`✗ ${event.trouble?.message ?? "it did not succeed"}`];
    default:
      return [];
  }
}
