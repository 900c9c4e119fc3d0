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
 *
 * Owns: what these records mean.
 * Does not: write to the rollout.
 */
import type { Json, JsonObject } from "../../util/json.ts";
import type { Ledger, Usage } from "./adapter.ts";
import { LineFold } from "./growing-file.ts";
import { at, numberAt, objectIn, textAt } from "./stream-json.ts";

type Sums = Omit<Ledger, "window">;

/** What the records of a rollout say so far. */
interface Reading {
  readonly window?: number;
  readonly exact?: Sums;
  readonly rough?: Sums;
  /** The sum of the last `token_count`. */
  readonly total?: number;
}

// A rollout is asked for after each tool call: only what is new in it is read.
const rollouts = new LineFold<Reading>({}, read);

/** The sums of a rollout, or undefined if no answer of the model is in it. */
export function codexLedger(rollout: string): Ledger | undefined {
  const { exact, rough, window } = rollouts.of(rollout);
  const ledger = exact ?? rough;
  if (ledger === undefined) return undefined;
  return window === undefined ? ledger : { ...ledger, window };
}

function read(before: Reading, line: string): Reading {
  const record = recordIn(line);
  if (record === undefined) return before;
  if (record.type === "token_usage_record") {
    const [sums, last] = ["thread_token_usage", "usage"].map((key) => at(record, "payload", key));
    return { ...before, exact: sumsOf(sums, last, (before.exact?.turns ?? 0) + 1) };
  }
  const info = at(record, "payload", "info");
  const window = numberAt(info, "model_context_window") ?? before.window;
  const known = window === undefined ? before : { ...before, window };
  const total = numberAt(info, "total_token_usage", "total_tokens");
  if (total === undefined) return known;
  // It is repeated when only the limits of the plan have changed.
  const turns = (before.rough?.turns ?? 0) + (total === before.total ? 0 : 1);
  const rough = sumsOf(at(info, "total_token_usage"), at(info, "last_token_usage"), turns);
  return { ...known, total, rough };
}

/** The record of tokens in a line. Lines can be long, so most are not even parsed. */
function recordIn(line: string): JsonObject | undefined {
  if (!line.includes('"token_usage_record"') && !line.includes('"token_count"')) return undefined;
  const record = objectIn(line);
  if (record?.type === "token_usage_record") return record;
  return textAt(record, "payload", "type") === "token_count" ? record : undefined;
}

function sumsOf(sums: Json | undefined, last: Json | undefined, turns: number): Sums {
  const { inputTokens, outputTokens } = usageOf(last);
  return { usage: usageOf(sums), turns, context: inputTokens + outputTokens };
}

function usageOf(told: Json | undefined): Usage {
  return {
    inputTokens: numberAt(told, "input_tokens") ?? 0,
    cachedTokens: numberAt(told, "cached_input_tokens") ?? 0,
    outputTokens: numberAt(told, "output_tokens") ?? 0,
  };
}
