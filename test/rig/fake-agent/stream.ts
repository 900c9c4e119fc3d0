/** The fake agent's output: the lines that Claude prints, each written at once. */
import { randomUUID } from "node:crypto";
import { writeSync } from "node:fs";
import type { Json } from "../model/json.ts";
import { type Message, NOTHING_SPENT, type Spent } from "./transcript.ts";

const MODEL = "fake-model";
const USD_PER_INPUT = 3e-6;
const USD_PER_OUTPUT = 15e-6;

export interface Denial {
  readonly tool_name: string;
  readonly tool_use_id: string;
  readonly tool_input: Json;
}

export interface Ending {
  readonly subtype: "success" | "error_during_execution" | "error_max_turns";
  readonly isError: boolean;
  readonly reason?: string;
  readonly result?: string;
  readonly errors?: readonly string[];
  readonly apiErrorStatus?: number;
}

/** Prints the events of one process, and counts what it spends. */
export class Stream {
  readonly #session: string;
  readonly #before: Spent;
  readonly #begun = performance.now();
  readonly #denials: Denial[] = [];
  #spent = NOTHING_SPENT;
  #last = NOTHING_SPENT;
  #turns = 0;

  constructor(session: string, before: Spent) {
    this.#session = session;
    this.#before = before;
  }

  /** The whole session's spending so far. */
  get spent(): Spent {
    return add(this.#before, this.#spent);
  }

  init(tools: readonly string[]): void {
    this.#print({
      type: "system",
      subtype: "init",
      cwd: process.cwd(),
      tools,
      mcp_servers: [],
      model: MODEL,
      permissionMode: "bypassPermissions",
      claude_code_version: "fake",
    });
  }

  /** One line for each block, with the same message, as Claude does. */
  assistant(id: string, content: readonly Json[]): void {
    this.#turns++;
    for (const block of content) {
      const usage = { input_tokens: this.#last.input, output_tokens: this.#last.output };
      const message = { id, type: "message", role: "assistant", model: MODEL, content: [block] };
      this.#print({ type: "assistant", message: { ...message, usage }, parent_tool_use_id: null });
    }
  }

  user(message: Message, output: string): void {
    const seen = { stdout: output, stderr: "", interrupted: false };
    this.#print({ type: "user", message: message as unknown as Json, tool_use_result: seen });
  }

  retry(attempt: number, attemptsMax: number, delayMs: number, status: number | null): void {
    const error = status === 429 ? "rate_limit" : status === 529 ? "overloaded" : "server_error";
    this.#print({
      type: "system",
      subtype: "api_retry",
      attempt,
      max_retries: attemptsMax,
      retry_delay_ms: delayMs,
      error_status: status,
      error,
    });
  }

  denied(denial: Denial): void {
    this.#denials.push(denial);
    const { tool_name, tool_use_id } = denial;
    const message = `${tool_name} needs approval.`;
    this.#print({ type: "system", subtype: "permission_denied", tool_name, tool_use_id, message });
  }

  /** A reply was paid for. */
  spend(input: number, output: number): void {
    const costUsd = input * USD_PER_INPUT + output * USD_PER_OUTPUT;
    this.#last = { input, output, costUsd };
    this.#spent = add(this.#spent, this.#last);
  }

  /** The last event. Its kind comes last too: whoever reads it must not look at the first key. */
  result({ subtype, isError, reason, result, errors, apiErrorStatus }: Ending): void {
    const took = Math.round(performance.now() - this.#begun);
    this.#print({
      duration_api_ms: took,
      total_cost_usd: this.spent.costUsd,
      usage: { input_tokens: this.#spent.input, output_tokens: this.#spent.output },
      modelUsage: modelUsage(this.spent),
      permission_denials: this.#denials as unknown as Json,
      ...(reason === undefined ? {} : { terminal_reason: reason }),
      is_error: isError,
      num_turns: this.#turns,
      subtype,
      ...(result === undefined ? {} : { result }),
      ...(errors === undefined ? {} : { errors }),
      api_error_status: apiErrorStatus ?? null,
      type: "result",
      duration_ms: took,
      model_usage_since_last_result: modelUsage(this.#spent),
    });
  }

  #print(event: { readonly [key: string]: Json }): void {
    say(JSON.stringify({ ...event, session_id: this.#session, uuid: randomUUID() }));
  }
}

/** Writes a line to stdout before it returns: what was printed stays printed. */
export function say(line: string): void {
  const bytes = Buffer.from(`${line}\n`);
  for (let from = 0; from < bytes.length; ) {
    try {
      from += writeSync(1, bytes, from);
    } catch (error) {
      // A pipe that is full for now.
      if ((error as NodeJS.ErrnoException).code !== "EAGAIN") throw error;
    }
  }
}

function add(a: Spent, b: Spent): Spent {
  return {
    input: a.input + b.input,
    output: a.output + b.output,
    costUsd: a.costUsd + b.costUsd,
  };
}

function modelUsage({ input, output, costUsd }: Spent): Json {
  if (input === 0 && output === 0) return {};
  return { [MODEL]: { inputTokens: input, outputTokens: output, costUSD: costUsd } };
}
