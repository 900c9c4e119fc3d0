/**
 * The chat file of Gemini CLI: what its conversation has used, which results of tools it holds, and
 * its repair after a kill.
 *
 * Measured with 0.61.0, against a model that counts what it served. Gemini CLI writes a message of
 * the model when its answer has ended and before its tools run, with the tokens of that answer. It
 * writes the message again, under the same id, with the results of the tools. A resumed process
 * appends to the same file. So the sum over the ids is what the model served completely. After a
 * kill -9 the sum may lack the one answer that had just ended. An interrupted answer is not in the
 * file. What the agent asks on the side (a summary of a long history) and its subagents were not
 * measured.
 *
 * Gemini CLI writes the result of a tool twice, with the call and as a turn of its own, and replays
 * both when it resumes; the service refuses such a history (google-gemini/gemini-cli issue 29365).
 *
 * Owns: what the records of a chat file mean, and which of two results the repair removes.
 * Does not: touch a line that needs no repair.
 * Invariant: repairing a repaired file changes nothing, and the file is whole at every instant.
 */
import { renameSync, statSync, writeFileSync } from "node:fs";
import { defined } from "../../../util/defined.ts";
import type { Json, JsonObject } from "../../../util/json.ts";
import { textOf } from "../../file-text.ts";
import type { FinishedCall, Ledger } from "../adapter.ts";
import { at, listAt, numberAt, objectIn, textAt } from "../stream-json.ts";
import { callsWithoutResult, LineFold } from "../transcript.ts";
import { addUsage, NOTHING_USED, type Tokens, usageOfCall, windowOf } from "../usage.ts";

/** What the messages of a chat file say so far; the latest version of each counts. */
interface Reading {
  readonly calls: Map<string, Tokens>;
  last?: { readonly context: number; readonly model: string | undefined };
}

// The engine asks after each tool call: only what is new in the chat file is read.
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

/** Adds the messages of a line; adding them twice changes nothing. */
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

/** The tokens of one message. Thinking is only in the total. */
function tokensIn(tokens: Json): Tokens {
  const input = numberAt(tokens, "input") ?? 0;
  const output = numberAt(tokens, "output") ?? 0;
  return {
    inputTokens: input,
    cachedTokens: numberAt(tokens, "cached") ?? 0,
    outputTokens: Math.max(output, (numberAt(tokens, "total") ?? 0) - input),
  };
}

/** Drops the results that are recorded twice, and a torn last line. */
export function repairGemini(transcript: string): void {
  const text = textOf(transcript);
  if (text === undefined) return;
  const lines = text.split("\n");
  // What follows the last newline was never finished.
  lines.pop();
  const recorded = new Set(lines.flatMap((line) => recordedIn(objectIn(line))));
  const repaired = lines.map((line) => repairedLine(line, recorded));
  const whole = repaired.map((line) => `${line}\n`).join("");
  if (whole === text) return;
  const draft = `${transcript}.perdure`;
  writeFileSync(draft, whole, { mode: statSync(transcript).mode });
  renameSync(draft, transcript);
}

/** The messages of a record: itself, or the list that it sets. */
function messagesIn(record: JsonObject | undefined): readonly Json[] {
  if (record === undefined) return [];
  return [record, ...listAt(record, "$set", "messages"), ...listAt(record, "messages")];
}

/** The calls whose results are turns of their own. */
function recordedIn(record: JsonObject | undefined): readonly string[] {
  return messagesIn(record)
    .filter((message) => textAt(message, "type") === "user")
    .flatMap((message) => listAt(message, "content"))
    .flatMap((part) => textAt(part, "functionResponse", "id") ?? []);
}

function repairedLine(line: string, recorded: ReadonlySet<string>): string {
  const record = objectIn(line);
  const calls = messagesIn(record).flatMap((message) => listAt(message, "toolCalls"));
  if (record === undefined || !calls.some((call) => isDoubled(call, recorded))) return line;
  return JSON.stringify(record, (key, value: Json) =>
    key === "toolCalls" && Array.isArray(value)
      ? (value as readonly Json[]).map((call) => withoutDouble(call, recorded))
      : value,
  );
}

function isDoubled(call: Json, recorded: ReadonlySet<string>): boolean {
  return at(call, "result") !== undefined && recorded.has(textAt(call, "id") ?? "");
}

function withoutDouble(call: Json, recorded: ReadonlySet<string>): Json {
  if (!isDoubled(call, recorded)) return call;
  const { result: _, ...rest } = call as JsonObject;
  return rest;
}

/** The calls that a transcript of Gemini CLI lacks. */
export function unrecordedCalls(
  transcript: string,
  calls: readonly FinishedCall[],
): readonly FinishedCall[] {
  return callsWithoutResult(transcript, calls, (record) =>
    messagesIn(record).flatMap((message) => [
      ...listAt(message, "content").flatMap((part) => textAt(part, "functionResponse", "id") ?? []),
      ...listAt(message, "toolCalls")
        .filter((call) => at(call, "result") !== undefined)
        .flatMap((call) => textAt(call, "id") ?? []),
    ]),
  );
}
