/**
 * What a conversation with Gemini CLI has used, from its chat file.
 *
 * Measured with 0.61.0, against a model that says what it served: a message of the model is written
 * when its answer has ended, before its tools run, with its own tokens; it is written again, under
 * the same id, with the results of its tools. A resumed process appends to the same file. So the
 * sum over the ids is what was served completely; after a kill -9 it may lack the one answer that
 * had just ended and was not written yet. An answer that broke off is not in it. What the agent
 * asks on the side (a summary of a long history) and its subagents were not measured.
 *
 * Owns: what the tokens in a chat file mean.
 * Does not: write to it (gemini-repair does).
 */
import type { Json } from "../../util/json.ts";
import type { Ledger, Usage } from "./adapter.ts";
import { messagesIn } from "./gemini-repair.ts";
import { linesFromEnd } from "./lines-from-end.ts";
import { at, numberAt, objectIn, textAt } from "./stream-json.ts";
import { addUsage, NOTHING_USED } from "./usage.ts";
import { windowOf } from "./windows.ts";

/** The agent itself reads the whole file to resume; one this long it never wrote. */
const CHAT_BYTES_MAX = 256 * 1024 * 1024;

/** The sums of a chat file, or undefined if no answer of the model is in it. */
export function geminiLedger(chat: string): Ledger | undefined {
  const seen = new Set<string>();
  let usage = NOTHING_USED;
  let last: { readonly context: number; readonly model: string | undefined } | undefined;
  for (const line of linesFromEnd(chat, CHAT_BYTES_MAX)) {
    if (!line.includes('"tokens"')) continue;
    for (const message of messagesIn(objectIn(line)).toReversed()) {
      const id = textAt(message, "id");
      const tokens = at(message, "tokens");
      if (id === undefined || tokens === undefined || seen.has(id)) continue;
      seen.add(id);
      const used = usageOf(tokens);
      usage = addUsage(usage, used);
      const context = used.inputTokens + used.outputTokens;
      last ??= { context, model: textAt(message, "model") };
    }
  }
  if (last === undefined) return undefined;
  const window = windowOf(last.model);
  const ledger = { usage, turns: seen.size, context: last.context };
  return window === undefined ? ledger : { ...ledger, window };
}

/** Of one message. What the model thought is in the total only. */
function usageOf(tokens: Json): Usage {
  const input = numberAt(tokens, "input") ?? 0;
  const output = numberAt(tokens, "output") ?? 0;
  return {
    inputTokens: input,
    cachedTokens: numberAt(tokens, "cached") ?? 0,
    outputTokens: Math.max(output, (numberAt(tokens, "total") ?? 0) - input),
  };
}
