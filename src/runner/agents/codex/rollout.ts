/**
 * The rollout of Codex: what its conversation has used, and which finished tool calls it lacks.
 *
 * Measured with 0.166.0, against a model that counts what it served:
 * - Codex writes a `token_usage_record` for every answer as soon as it has ended, before its tools
 *   run. Its `thread_token_usage` covers all answers in the rollout, over every process, and equals
 *   what the model served completely. After a kill -9 at random moments that held in 18 of 20
 *   conversations; the others lacked the one answer that had just ended.
 * - `event_msg`/`token_count` comes only after the tools of the answer have ended. After a kill in
 *   a tool it lacks that answer, and a resumed process continues from there: its
 *   `total_token_usage`, and the `turn.completed` of the stream, lack the answer for ever. Older
 *   versions have nothing else; this version reports the context window in it.
 * - An interrupted answer is in neither, and the service does not report it either.
 * - Codex writes the answer a moment before its record: after a kill in between, the rollout has an
 *   answer without any record of what it used.
 * - `turn_context` names the model at the start of each turn.
 *
 * Owns: what these records mean.
 * Does not: write to the rollout.
 */
import { defined } from "../../../util/defined.ts";
import type { Json, JsonObject } from "../../../util/json.ts";
import type { FinishedCall, Ledger } from "../adapter.ts";
import { at, listAt, numberAt, objectIn, textAt } from "../stream-json.ts";
import { LineFold, linesFromEnd, TRANSCRIPT_BYTES_MAX } from "../transcript.ts";
import { addUsage, NOTHING_USED, type Tokens, usageOfCall } from "../usage.ts";

type Sums = Pick<Ledger, "usage" | "turns" | "context">;

const NO_SUMS: Sums = { usage: NOTHING_USED, turns: 0, context: 0 };

/** What the records of a rollout say so far. */
interface Reading {
  readonly window?: number;
  readonly model?: string;
  /** The last answer has no record yet of what it used. */
  readonly unrecorded?: true;
  readonly exact?: Sums;
  readonly rough?: Sums;
  /** The sum of the last `token_count`. */
  readonly total?: number;
}

/** The beginning of a line says what kind of record it is; the rest can be megabytes long. */
const HEAD_BYTES = 400;
const RECORD = /"token_usage_record"|"token_count"|"turn_context"/;
/** An answer of the model: what it said, or a tool that it called. */
const ANSWER =
  /"payload":\{"type":"(?:(?:custom_tool|function|local_shell)_call"|message",.*"role":"assistant")/;

function isRecord(line: Buffer): boolean {
  const head = line.toString("latin1", 0, HEAD_BYTES);
  return RECORD.test(head) || ANSWER.test(head);
}

// The engine asks after each tool call: only what is new in the rollout is read.
const rollouts = new LineFold<Reading>(() => ({}), read, isRecord);

/** The sums of a rollout, or undefined if no answer of the model is in it. */
export function codexLedger(rollout: string): Ledger | undefined {
  const { exact, rough, window, model, unrecorded } = rollouts.of(rollout);
  // A kill can fall between the very first answer and its record.
  const ledger = exact ?? rough ?? (unrecorded ? NO_SUMS : undefined);
  if (ledger === undefined) return undefined;
  return {
    ...ledger,
    ...defined({ window, model }),
    ...(unrecorded === undefined ? {} : { incomplete: true }),
  };
}

function read(before: Reading, line: string): Reading {
  if (ANSWER.test(line.slice(0, HEAD_BYTES))) return { ...before, unrecorded: true };
  const record = recordIn(line);
  if (record === undefined) return before;
  if (record.type === "turn_context") {
    const model = textAt(record, "payload", "model");
    return model === undefined ? before : { ...before, model };
  }
  if (record.type === "token_usage_record") {
    const { unrecorded: _, ...rest } = before;
    const [sums, last] = ["thread_token_usage", "usage"].map((key) => at(record, "payload", key));
    return { ...rest, exact: sumsOf(before.exact, sums, last) };
  }
  const info = at(record, "payload", "info");
  const window = numberAt(info, "model_context_window") ?? before.window;
  const known = window === undefined ? before : { ...before, window };
  const total = numberAt(info, "total_token_usage", "total_tokens");
  if (total === undefined) return known;
  // It is repeated when only the limits of the plan have changed.
  if (total === before.total) return known;
  const sums = at(info, "total_token_usage");
  const rough = sumsOf(before.rough, sums, at(info, "last_token_usage"));
  const { unrecorded: _, ...rest } = known;
  return { ...rest, total, rough };
}

/** The record of tokens or of the model in a line. */
function recordIn(line: string): JsonObject | undefined {
  const record = objectIn(line);
  if (record?.type === "token_usage_record" || record?.type === "turn_context") return record;
  return textAt(record, "payload", "type") === "token_count" ? record : undefined;
}

/** The sums of the whole conversation, and what its latest call used. */
function sumsOf(before: Sums | undefined, sums: Json | undefined, last: Json | undefined): Sums {
  const call = usageOfCall(tokensIn(last));
  const { long } = addUsage(before?.usage ?? NOTHING_USED, call);
  return {
    usage: { ...tokensIn(sums), ...defined({ long }) },
    turns: (before?.turns ?? 0) + 1,
    context: call.inputTokens + call.outputTokens,
  };
}

function tokensIn(reported: Json | undefined): Tokens {
  return {
    inputTokens: numberAt(reported, "input_tokens") ?? 0,
    cachedTokens: numberAt(reported, "cached_input_tokens") ?? 0,
    outputTokens: numberAt(reported, "output_tokens") ?? 0,
  };
}

/**
 * The calls that a rollout of Codex lacks. Its stream has ids of its own, so a call is found by its
 * command among those that the rollout holds without an output; Codex takes them for aborted.
 */
export function unrecordedCalls(
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
