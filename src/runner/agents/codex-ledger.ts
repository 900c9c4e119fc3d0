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
import { linesFromEnd } from "./lines-from-end.ts";
import { at, numberAt, objectIn, textAt } from "./stream-json.ts";

/** A rollout that is longer has its turns counted from here on only; its tokens are sums. */
const ROLLOUT_BYTES_MAX = 256 * 1024 * 1024;

/** The sums of a rollout, or undefined if no answer of the model is in it. */
export function codexLedger(rollout: string): Ledger | undefined {
  let window: number | undefined;
  let exact: Omit<Ledger, "window"> | undefined;
  let rough: Omit<Ledger, "window"> | undefined;
  let total: number | undefined;
  for (const line of linesFromEnd(rollout, ROLLOUT_BYTES_MAX)) {
    const record = recordIn(line);
    if (record === undefined) continue;
    if (record.type === "token_usage_record") {
      exact = counted(
        exact,
        at(record, "payload", "thread_token_usage"),
        at(record, "payload", "usage"),
      );
      continue;
    }
    const info = at(record, "payload", "info");
    window ??= numberAt(info, "model_context_window");
    // It is repeated when only the limits of the plan have changed.
    const sum = numberAt(info, "total_token_usage", "total_tokens");
    if (sum === undefined || sum === total) continue;
    total = sum;
    rough = counted(rough, at(info, "total_token_usage"), at(info, "last_token_usage"));
  }
  const ledger = exact ?? rough;
  if (ledger === undefined) return undefined;
  return window === undefined ? ledger : { ...ledger, window };
}

/** The record of tokens in a line. Lines can be long, so most are not even parsed. */
function recordIn(line: string): JsonObject | undefined {
  if (!line.includes('"token_usage_record"') && !line.includes('"token_count"')) return undefined;
  const record = objectIn(line);
  if (record?.type === "token_usage_record") return record;
  return textAt(record, "payload", "type") === "token_count" ? record : undefined;
}

/** With one more answer; read backwards, so the sums and the context are those of the first. */
function counted(
  ledger: Omit<Ledger, "window"> | undefined,
  sums: Json | undefined,
  last: Json | undefined,
): Omit<Ledger, "window"> {
  if (ledger !== undefined) return { ...ledger, turns: ledger.turns + 1 };
  const { inputTokens, outputTokens } = usageOf(last);
  return { usage: usageOf(sums), turns: 1, context: inputTokens + outputTokens };
}

function usageOf(told: Json | undefined): Usage {
  return {
    inputTokens: numberAt(told, "input_tokens") ?? 0,
    cachedTokens: numberAt(told, "cached_input_tokens") ?? 0,
    outputTokens: numberAt(told, "output_tokens") ?? 0,
  };
}
