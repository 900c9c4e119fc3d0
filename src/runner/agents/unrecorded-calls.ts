/**
 * Which finished tool calls an agent's transcript lacks. Agents print a result before they write it
 * down: Claude Code writes about 100 ms later, and nothing of a reply that is not closed. After a
 * kill in between, the stream is the only record of the call.
 *
 * Owns: how each transcript shows that it holds the result of a call.
 * Does not: change a transcript, or tell the agent (continue-prompt.ts).
 */
import type { Json, JsonObject } from "../../util/json.ts";
import type { FinishedCall } from "./adapter.ts";
import { messagesIn } from "./gemini-repair.ts";
import { linesFromEnd, TRANSCRIPT_BYTES_MAX } from "./lines-from-end.ts";
import { at, listAt, objectIn, textAt } from "./stream-json.ts";

/** The result that Claude Code writes for a call whose result it did not record. */
const INTERRUPTED = "Tool call interrupted: the session ended before";

/** The calls that a transcript of Claude Code lacks. */
export function unrecordedByClaude(
  transcript: string,
  calls: readonly FinishedCall[],
): readonly FinishedCall[] {
  return lacking(transcript, calls, (record) =>
    listAt(record, "message", "content").flatMap((block) => {
      const interrupted = JSON.stringify(at(block, "content") ?? "").includes(INTERRUPTED);
      return interrupted ? [] : (textAt(block, "tool_use_id") ?? []);
    }),
  );
}

/** The calls that a transcript of Gemini CLI lacks. */
export function unrecordedByGemini(
  transcript: string,
  calls: readonly FinishedCall[],
): readonly FinishedCall[] {
  return lacking(transcript, calls, (record) =>
    messagesIn(record).flatMap((message) => [
      ...listAt(message, "content").flatMap((part) => textAt(part, "functionResponse", "id") ?? []),
      ...listAt(message, "toolCalls")
        .filter((call) => at(call, "result") !== undefined)
        .flatMap((call) => textAt(call, "id") ?? []),
    ]),
  );
}

/** The calls without a recorded result; `recorded` gives the ids whose results are in a record. */
function lacking(
  transcript: string,
  calls: readonly FinishedCall[],
  recorded: (record: JsonObject) => readonly string[],
): readonly FinishedCall[] {
  const missing = new Set(calls.map(({ id }) => id));
  for (const line of linesFromEnd(transcript, TRANSCRIPT_BYTES_MAX)) {
    if (missing.size === 0) break;
    // Lines can be long, so most are not even parsed.
    if (![...missing].some((id) => line.includes(id))) continue;
    const record = objectIn(line);
    for (const id of record === undefined ? [] : recorded(record)) missing.delete(id);
  }
  return calls.filter(({ id }) => missing.has(id));
}

/**
 * The calls that a rollout of Codex lacks. Its stream has ids of its own, so a call is found by its
 * command among those that the rollout holds without an output; Codex takes them for aborted.
 */
export function unrecordedByCodex(
  rollout: string,
  calls: readonly FinishedCall[],
): readonly FinishedCall[] {
  if (calls.length === 0) return [];
  const open = [...openInRollout(rollout)];
  const missing = calls.toReversed().filter((call) => {
    const found = open.findLastIndex((other) => isSameCall(call, other));
    // A script may hold many commands; every other call is one.
    if (found >= 0 && open[found]?.name !== SCRIPT) open.splice(found, 1);
    return found >= 0;
  });
  return missing.toReversed();
}

/** The tool with which newer models run a script of several calls. */
const SCRIPT = "exec";

interface RolloutCall {
  readonly name: string;
  readonly command?: string;
}

/** The calls without an output in the last turn of a rollout in which there are calls. */
function openInRollout(rollout: string): readonly RolloutCall[] {
  const answered = new Set<string>();
  const open: RolloutCall[] = [];
  let called = false;
  for (const line of linesFromEnd(rollout, TRANSCRIPT_BYTES_MAX)) {
    const payload = at(objectIn(line), "payload");
    const type = textAt(payload, "type") ?? "";
    const id = textAt(payload, "call_id") ?? "";
    if (type.endsWith("_call_output")) answered.add(id);
    if (type === "task_started" && called) break;
    if (type !== "function_call" && type !== "custom_tool_call") continue;
    called = true;
    if (!answered.has(id)) open.unshift(callIn(payload));
  }
  return open;
}

function callIn(payload: Json | undefined): RolloutCall {
  const name = textAt(payload, "name") ?? "";
  const given = objectIn(textAt(payload, "arguments") ?? "");
  const text = textAt(given, "cmd") ?? textAt(given, "command");
  const words = listAt(given, "command").join(" ");
  const command = text ?? (words === "" ? undefined : words);
  return command === undefined ? { name } : { name, command };
}

/** The stream shows a command as an argument of a shell, in whatever quotes. */
function isSameCall({ name, input }: FinishedCall, other: RolloutCall): boolean {
  if (other.name === SCRIPT) return true;
  if (other.command === undefined) return name !== "shell";
  return name === "shell" && unquoted(input).endsWith(unquoted(other.command));
}

function unquoted(text: string): string {
  return text.replaceAll(/["'\\]/g, "").trim();
}
