/**
 * The conversation of an agent as lines that a person reads: its words, its tool calls and their
 * results, its delays and its problems.
 *
 * Owns: these lines, and how much of a call and of its result is shown.
 * Does not: read a stream (the adapters do) or choose colours; a line names its tone.
 */
import type { AgentEvent } from "../../runner/agents/adapter.ts";
import { formatDuration } from "../../util/duration.ts";
import { firstLine, plainText, type Tone } from "../../view/text.ts";

/** A line of output. */
export interface OutputLine {
  readonly text: string;
  readonly tone?: Tone;
}

type EventOf<T extends AgentEvent["type"]> = Extract<AgentEvent, { type: T }>;

const INPUT_SHOWN_MAX = 120;
const RESULT_LINES_MAX = 3;
const RESULT_WIDTH_MAX = 200;
/** Results name their tool while several calls are open; more calls than this are not remembered. */
const OPEN_CALLS_MAX = 64;

/** The lines of one stream, event by event. */
export class AgentLines {
  readonly #open = new Map<string, string>();

  /** What a person sees of an event. */
  of(event: AgentEvent): readonly OutputLine[] {
    switch (event.type) {
      case "text":
        return event.text.split("\n").map((text) => ({ text }));
      case "tool-started":
        return [this.#started(event)];
      case "tool-ended":
        return this.#ended(event);
      case "retrying":
        return [{ text: retryText(event), tone: "wait" }];
      case "denied":
        return [{ text: `✗ not permitted: ${event.tool}`, tone: "bad" }];
      case "result":
        if (event.ok) return [];
        return [{ text: `✗ ${event.trouble?.message ?? "it did not succeed"}`, tone: "bad" }];
      default:
        return [];
    }
  }

  #started({ id, name, input }: EventOf<"tool-started">): OutputLine {
    const [oldest] = this.#open.keys();
    if (this.#open.size >= OPEN_CALLS_MAX && oldest !== undefined) this.#open.delete(oldest);
    this.#open.set(id, name);
    return { text: callText(name, input), tone: "busy" };
  }

  #ended({ id, ok, result }: EventOf<"tool-ended">): readonly OutputLine[] {
    const name = this.#open.get(id);
    const isOneOfSeveral = this.#open.size > 1;
    this.#open.delete(id);
    const named = isOneOfSeveral && name !== undefined ? `${name}: ` : "";
    const all = (result ?? "").split("\n").map(plainText);
    const lines = all.filter((line) => line.trim() !== "");
    const [first, ...rest] = lines
      .slice(0, RESULT_LINES_MAX)
      .map((line) => line.slice(0, RESULT_WIDTH_MAX));
    const left = lines.length - RESULT_LINES_MAX;
    const more = left > 0 ? [`  … ${left} more lines`] : [];
    if (ok && first === undefined) return [];
    const lead = ok ? `← ${named}${first}` : `✗ ${name ?? "the call"} failed: ${first ?? ""}`;
    const tone: Tone = ok ? "dim" : "bad";
    return [lead, ...rest.map((line) => `  ${line}`), ...more].map((text) => ({ text, tone }));
  }
}

/** "→ Bash: npm test". */
export function callText(name: string, input: string): string {
  const shown = firstLine(input).slice(0, INPUT_SHOWN_MAX);
  return shown === "" ? `→ ${name}` : `→ ${name}: ${shown}`;
}

/** "… overloaded (529): asks its model again in 0.6s (retry 2 of 10)". */
function retryText({ trouble, delayMs, attempt, attemptsMax }: EventOf<"retrying">): string {
  const when = delayMs === undefined ? "" : ` in ${formatDuration(delayMs)}`;
  const total = attemptsMax === undefined ? "" : ` of ${attemptsMax}`;
  const which = attempt === undefined ? "" : ` (retry ${attempt}${total})`;
  const again = when === "" && which === "" ? "" : `: asks its model again${when}${which}`;
  return `… ${trouble.message}${again}`;
}
