/**
 * Whenever a tool has ended, the runner reads from the rollout of Codex what the conversation has used.
 * This is the time for a rollout of 200 MB that grew by one answer. Floor: the same for one of 2 MB.
 * Reading the whole file again each time would take a hundred times as long.
 */
import { appendFileSync, closeSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { codexLedger } from "../src/runner/agents/codex/rollout.ts";
import { compare, inDirectory, type Line, timed, timeLine } from "./measure.ts";

const SMALL_BYTES = 2 * 1024 * 1024;
const LARGE_BYTES = 200 * 1024 * 1024;
const TOOL_OUTPUT = "x".repeat(2_000);
const ROUNDS = 9;
const ASKS = 20;

export async function bench(): Promise<readonly Line[]> {
  const compared = await inDirectory(async (dir) => {
    const small = rollout(join(dir, "small.jsonl"), SMALL_BYTES);
    const large = rollout(join(dir, "large.jsonl"), LARGE_BYTES);
    return compare(ROUNDS, {
      floor: () => growAndAsk(small),
      subject: () => growAndAsk(large),
    });
  });
  const what = "what a conversation of 200 MB with Codex has used, after one more answer";
  return [timeLine(what, "of 2 MB", compared, 3)];
}

async function growAndAsk(file: string): Promise<number> {
  let sum = 0;
  for (let ask = 0; ask < ASKS; ask++) {
    appendFileSync(file, answer(ask));
    sum += await timed(() => codexLedger(file));
  }
  return sum / ASKS;
}

function rollout(file: string, bytes: number): string {
  const descriptor = openSync(file, "w");
  for (let written = 0; written < bytes; ) written += writeSync(descriptor, answer(0).repeat(100));
  closeSync(descriptor);
  return file;
}

/** The result of a tool, and what the answer after it used. */
function answer(index: number): string {
  const usage = { input_tokens: 100 + index, cached_input_tokens: 50, output_tokens: 10 };
  const payload = { usage, thread_token_usage: usage };
  const output = { type: "function_call_output", output: TOOL_OUTPUT };
  return `${JSON.stringify({ timestamp: "", type: "response_item", payload: output })}
${JSON.stringify({ timestamp: "", type: "token_usage_record", payload })}
`;
}
