/**
 * Mends a transcript of Gemini CLI. It writes a tool's result down twice, with the call and as a
 * turn of its own, and replays both when it resumes; the service refuses such a history
 * (google-gemini/gemini-cli issue 29365). A kill may also leave a torn last line.
 *
 * Owns: which of the two goes, and that the file is whole at every instant.
 * Does not: touch a line that needs nothing.
 * Invariant: a mended transcript is a good one, so mending it again changes nothing.
 */
import { renameSync, statSync, writeFileSync } from "node:fs";
import type { Json, JsonObject } from "../../util/json.ts";
import { textOf } from "../file-text.ts";
import { at, listAt, objectIn, textAt } from "./stream-json.ts";

/** Drops the results that are recorded twice, and a torn last line. */
export function repairGemini(transcript: string): void {
  const text = textOf(transcript);
  if (text === undefined) return;
  const lines = text.split("\n");
  // What follows the last newline was never finished.
  lines.pop();
  const recorded = new Set(lines.flatMap((line) => recordedIn(objectIn(line))));
  const mended = lines.map((line) => mendedLine(line, recorded));
  const whole = mended.map((line) => `${line}\n`).join("");
  if (whole === text) return;
  const draft = `${transcript}.perdure`;
  writeFileSync(draft, whole, { mode: statSync(transcript).mode });
  renameSync(draft, transcript);
}

/** The messages of a record: itself, or the list that it sets. */
export function messagesIn(record: JsonObject | undefined): readonly Json[] {
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

function mendedLine(line: string, recorded: ReadonlySet<string>): string {
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
