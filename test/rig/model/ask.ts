/**
 * What an agent asked, in words that belong to no protocol: the conversation so far and the tools
 * on offer. Also distinguishes the agent's work from its side calls.
 */
import { createHash } from "node:crypto";
import type { Json } from "./json.ts";

export type ProtocolName = "anthropic" | "responses" | "chat" | "gemini";

export interface OfferedTool {
  readonly name: string;
  /** The names of its parameters; empty for a tool that takes free text. */
  readonly parameters: readonly string[];
  readonly freeform: boolean;
  /** A parameter may be a list of words instead of a text: this one is. */
  readonly listParameters: readonly string[];
}

interface CallTurn {
  readonly type: "call";
  readonly id: string;
  readonly name: string;
  /** As the request spells it: JSON, or the text of a tool that takes free text. */
  readonly input: string;
}

export type Turn =
  | { readonly type: "user" | "assistant"; readonly text: string }
  | CallTurn
  | { readonly type: "result"; readonly id: string; readonly text: string };

export interface Ask {
  readonly protocol: ProtocolName;
  readonly model: string;
  readonly stream: boolean;
  /** The agent's own id of the session where it sends one, else a digest of the first prompt. */
  readonly conversation: string;
  readonly system: string;
  readonly tools: readonly OfferedTool[];
  readonly turns: readonly Turn[];
  readonly outputTokensMax: number | undefined;
  /** The shape that the answer must have, where the request names one. */
  readonly answerSchema: Json | undefined;
}

/**
 * How the agents word the result of an interrupted call: a result that they made up, or that a
 * signal ended the command, which is what they see when a step is stopped.
 */
const INTERRUPTED =
  /^\[?(Tool call interrupted|aborted$|Tool execution was interrupted|Request interrupted|Exit code 1(29|30|37|43)\b)/;
/** Probes of the quota ask for next to nothing. */
const PROBE_TOKENS_MAX = 1;

/**
 * A call that is not the agent's work: a title, a classifier, a probe. All of these offer no
 * tools; the work always does.
 */
export function isSideCall(ask: Ask): boolean {
  if (ask.tools.length === 0) return true;
  return ask.outputTokensMax !== undefined && ask.outputTokensMax <= PROBE_TOKENS_MAX;
}

/** How many tool results there are since the user first said something; repeats count once. */
export function resultsSince(
  { turns }: Ask,
  { when = "", interrupted = "repeat" }: { when?: string; interrupted?: "repeat" | "answer" },
): number {
  const from = turns.findIndex((turn) => turn.type === "user" && turn.text.includes(when));
  const ids = new Set<string>();
  for (const turn of turns.slice(Math.max(from, 0))) {
    if (turn.type !== "result") continue;
    if (interrupted === "answer" || !INTERRUPTED.test(turn.text.trim())) ids.add(turn.id);
  }
  return ids.size;
}

/** Whether the user has said something anywhere in the conversation. */
export function userSaid({ turns }: Ask, words: string): boolean {
  return turns.some((turn) => turn.type === "user" && turn.text.includes(words));
}

/**
 * A name for a conversation whose agent sends none: by what a person said first. Agents put words
 * of their own before it, in tags, and those change when the conversation is resumed.
 */
export function digestOf(turns: readonly Turn[]): string {
  const said = turns.flatMap((turn) => (turn.type === "user" ? [turn.text] : []));
  const words = said.find((text) => !/^\s*</.test(text)) ?? said[0] ?? "";
  return createHash("sha256").update(words).digest("hex").slice(0, 16);
}
