#!/usr/bin/env node
/**
 * A program that behaves like `codex exec --json` in what a runner sees of it: the events on stdout
 * and the rollout by session, with the model and what each answer used. It asks no model: each answer
 * runs the next command of FAKE_CODEX_COMMANDS (a JSON list), the last one ends it. All answers but
 * the first wait for the file FAKE_CODEX_ANSWERS_AFTER, if one is named. The last answer says
 * FAKE_CODEX_ANSWER.
 *
 *     CODEX_HOME=<dir> FAKE_CODEX_MODEL=gpt-5.5 node test/rig/fake-codex.ts exec [resume] ... [ID] -
 */
import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { appendFileSync, existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

/** What each answer uses. */
const INPUT_TOKENS = 1_000;
const OUTPUT_TOKENS = 10;
const LOOK_MS = 10;

const { CODEX_HOME = "", FAKE_CODEX_MODEL = "gpt-5.5", FAKE_CODEX_COMMANDS = "[]" } = process.env;
const { FAKE_CODEX_ANSWERS_AFTER = "/", FAKE_CODEX_ANSWER = "Done." } = process.env;
const commands = JSON.parse(FAKE_CODEX_COMMANDS) as readonly string[];
const words = process.argv.slice(2);
const session = words[1] === "resume" ? (words.at(-2) ?? "") : randomUUID();
const folder = join(CODEX_HOME, "sessions/2026/01/01");
const rollout = join(folder, `rollout-2026-${session}.jsonl`);

function record(type: string, payload: object): void {
  appendFileSync(rollout, `${JSON.stringify({ timestamp: "", type, payload })}\n`);
}

function say(event: object): void {
  process.stdout.write(`${JSON.stringify(event)}\n`);
}

/** The sums of the rollout so far, whoever made them. */
function used(): { readonly input_tokens: number; readonly output_tokens: number } {
  const last = lines().findLast((line) => line.includes('"token_usage_record"'));
  const sums = { input_tokens: 0, output_tokens: 0 };
  if (last === undefined) return sums;
  return (JSON.parse(last) as { payload: { thread_token_usage: typeof sums } }).payload
    .thread_token_usage;
}

function lines(): readonly string[] {
  return existsSync(rollout) ? readFileSync(rollout, "utf8").split("\n") : [];
}

function answered(): void {
  const before = used();
  record("token_usage_record", {
    usage: { input_tokens: INPUT_TOKENS, output_tokens: OUTPUT_TOKENS },
    thread_token_usage: {
      input_tokens: before.input_tokens + INPUT_TOKENS,
      output_tokens: before.output_tokens + OUTPUT_TOKENS,
    },
  });
}

async function modelAnswers(): Promise<void> {
  while (!existsSync(FAKE_CODEX_ANSWERS_AFTER)) await sleep(LOOK_MS);
}

mkdirSync(folder, { recursive: true });
if (!existsSync(rollout)) record("session_meta", { id: session });
say({ type: "thread.started", thread_id: session });
record("turn_context", { model: FAKE_CODEX_MODEL });
const done = lines().filter((line) => line.includes('"function_call_output"')).length;
for (const [index, command] of commands.slice(done).entries()) {
  const id = `item_${index}`;
  if (index > 0) await modelAnswers();
  record("response_item", { type: "function_call", name: "exec_command" });
  answered();
  say({ type: "item.started", item: { id, type: "command_execution", command } });
  execFileSync("/bin/sh", ["-c", command], { stdio: "ignore" });
  record("response_item", { type: "function_call_output", output: "" });
  const item = { id, type: "command_execution", command, exit_code: 0, status: "completed" };
  say({ type: "item.completed", item });
}
await modelAnswers();
record("response_item", { type: "message", role: "assistant", content: [] });
answered();
const last = { id: "item_last", type: "agent_message", text: FAKE_CODEX_ANSWER };
say({ type: "item.completed", item: last });
say({ type: "turn.completed", usage: { ...used(), cached_input_tokens: 0 } });
