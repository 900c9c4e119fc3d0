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
import { defined } from "../../util/defined.ts";
import type { Json } from "../../util/json.ts";
import type { Ledger } from "./adapter.ts";
import { messagesIn } from "./gemini-repair.ts";
import { LineFold } from "./growing-file.ts";
import type { Tokens } from "./prices.ts";
import { at, numberAt, objectIn, textAt } from "./stream-json.ts";
import { addUsage, NOTHING_USED, usageOfCall } from "./usage.ts";
import { windowOf } from "./windows.ts";

/** What the messages of a chat file say so far; the latest version of each counts. */
interface Reading {
  readonly calls: Map<string, Tokens>;
  last?: { readonly context: number; readonly model: string | undefined };
}

// A chat file is asked for after each tool call: only what is new in it is read.
const chats = new LineFold<Reading>(
  () => ({ calls: new Map() }),
  read,
  (line) => line.includes('"tokens"'),
);

/** The sums of a chat file, or undefined if no answer of the model is in it. */
export function geminiLedger(chat: string): Ledger | undefined {
  const { calls, last } = chats.of(chat);
  if (last === undefined) return undefined;
  let usage = NOTHING_USED;
  for (const call of calls.values()) usage = addUsage(usage, usageOfCall(call));
  const { context, model } = last;
  const window = windowOf(model);
  return {
    usage,
    turns: calls.size,
    countsTurns: true,
    context,
    ...defined({ window, model }),
  };
}

/** Takes the messages of a line in; taking them in again changes nothing. */
function read(reading: Reading, line: string): Reading {
  for (const message of messagesIn(objectIn(line))) {
    const id = textAt(message, "id");
    const tokens = at(message, "tokens");
    if (id === undefined || tokens === undefined) continue;
    const used = tokensIn(tokens);
    reading.calls.set(id, used);
    const context = used.inputTokens + used.outputTokens;
    reading.last = { context, model: textAt(message, "model") };
  }
  return reading;
}

/** Of one message. What the model thought is in the total only. */
function tokensIn(tokens: Json): Tokens {
  const input = numberAt(tokens, "input") ?? 0;
  const output = numberAt(tokens, "output") ?? 0;
  return {
    inputTokens: input,
    cachedTokens: numberAt(tokens, "cached") ?? 0,
    outputTokens: Math.max(output, (numberAt(tokens, "total") ?? 0) - input),
  };
}
