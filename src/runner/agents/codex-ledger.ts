/**
 * What a conversation with Codex has used, from its rollout.
 *
 * Measured with 0.166.0, against a model that says what it served:
 * - A `token_usage_record` is written for every answer as soon as it has ended, before its tools
 *   run. Its `thread_token_usage` is of all answers that the rollout has, over every process, and
 *   equals what was served completely. After a kill -9 at random moments that was so in 18 of 20
 *   conversations; the others lacked the one answer that had just ended and was not written yet.
 * - `event_msg`/`token_count` comes only once the tools of the answer have ended. After a kill in a
 *   tool it lacks that answer, and a resumed process goes on from there: its `total_token_usage`,
 *   and with it the `turn.completed` of the stream, lack the answer for ever. Older versions have
 *   nothing else; this one tells the context window in it.
 * - An answer that broke off is in neither, nor is it told by the service.
 * - The answer itself is written a moment before its record: after a kill in between, the rollout
 *   has an answer of which nobody says what it used.
 * - `turn_context` names the model at the start of each turn.
 *
 * Owns: what these records mean.
 * Does not: write to the rollout.
 */
import { defined } from "../../util/defined.ts";
import type { Json, JsonObject } from "../../util/json.ts";
import type { Ledger } from "./adapter.ts";
import { LineFold } from "./growing-file.ts";
import type { Tokens } from "./prices.ts";
import { at, numberAt, objectIn, textAt } from "./stream-json.ts";
import { addUsage, NOTHING_USED, usageOfCall } from "./usage.ts";

type Sums = Pick<Ledger, "usage" | "turns" | "context">;

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

/** What kind of record a line is stands at its beginning; the rest can be megabytes long. */
const HEAD_BYTES = 400;
const RECORD = /"token_usage_record"|"token_count"|"turn_context"/;
/** An answer of the model: what it said, or a tool that it called. */
const ANSWER =
  /"payload":\{"type":"(?:(?:custom_tool|function|local_shell)_call"|message",.*"role":"assistant")/;

function isRecord(line: Buffer): boolean {
  const head = line.toString("latin1", 0, HEAD_BYTES);
  return RECORD.test(head) || ANSWER.test(head);
}

// A rollout is asked for after each tool call: only what is new in it is read.
const rollouts = new LineFold<Reading>(() => ({}), read, isRecord);

/** The sums of a rollout, or undefined if no answer of the model is in it. */
export function codexLedger(rollout: string): Ledger | undefined {
  const { exact, rough, window, model, unrecorded } = rollouts.of(rollout);
  const ledger = exact ?? rough;
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

function tokensIn(told: Json | undefined): Tokens {
  return {
    inputTokens: numberAt(told, "input_tokens") ?? 0,
    cachedTokens: numberAt(told, "cached_input_tokens") ?? 0,
    outputTokens: numberAt(told, "output_tokens") ?? 0,
  };
}
