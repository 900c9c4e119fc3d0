/** One request of the fake agent to its model, retried as Claude Code does. */
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { text as readText } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { at, type Json, listAt, parseJson, textAt } from "../model/json.ts";
import type { Stream } from "./stream.ts";
import type { Message } from "./transcript.ts";

export interface ModelReply {
  readonly id: string;
  readonly content: readonly Json[];
}

/** The model gave no answer, and there is no further retry. */
export class ModelError extends Error {
  readonly status: number | null;

  constructor(message: string, status: number | null) {
    super(message);
    this.status = status;
  }
}

export const TOOLS: readonly Json[] = [
  tool("Bash", ["command", "description"]),
  tool("Write", ["file_path", "content"]),
];
const RETRIES_DEFAULT = 10;
const RETRY_MS = 50;
const HTTP_REFUSED = 400;
const HTTP_TIMEOUT = 408;
const HTTP_TOO_MANY = 429;
const HTTP_SERVER = 500;

/** Asks until there is an answer; the stream reports each retry. */
export async function askModel(
  session: string,
  messages: readonly Message[],
  stream: Stream,
): Promise<ModelReply> {
  const retries = Number(process.env.CLAUDE_CODE_MAX_RETRIES ?? RETRIES_DEFAULT);
  for (let attempt = 1; ; attempt++) {
    const answer = await post(session, messages);
    if (answer.ok) {
      const usage = (field: string): number => Number(at(answer.body, "usage", field) ?? 0);
      stream.spend(usage("input_tokens"), usage("output_tokens"));
      const id = textAt(answer.body, "id") || `msg_${randomUUID()}`;
      return { id, content: listAt(answer.body, "content") };
    }
    if (!answer.again || attempt > retries) throw new ModelError(answer.message, answer.status);
    const delayMs = answer.retryAfterS === undefined ? RETRY_MS : answer.retryAfterS * 1000;
    stream.retry(attempt, retries, delayMs, answer.status);
    await sleep(delayMs);
  }
}

type Answer =
  | { readonly ok: true; readonly body: Json }
  | {
      readonly ok: false;
      readonly again: boolean;
      readonly status: number | null;
      readonly message: string;
      readonly retryAfterS?: number;
    };

async function post(session: string, messages: readonly Message[]): Promise<Answer> {
  const url = process.env.ANTHROPIC_BASE_URL;
  if (url === undefined) throw new Error("ANTHROPIC_BASE_URL or FAKE_AGENT_SCRIPT must be set");
  try {
    // `fetch` would take a sixth of the agent's time to load.
    const asked = request(`${url}/v1/messages`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-claude-code-session-id": session },
    });
    asked.end(JSON.stringify({ model: "fake-model", max_tokens: 32_000, tools: TOOLS, messages }));
    const [response] = (await once(asked, "response")) as [IncomingMessage];
    const body = parseJson(await readText(response)) ?? null;
    const status = response.statusCode ?? 0;
    if (status < HTTP_REFUSED) return { ok: true, body };
    const again = status >= HTTP_SERVER || status === HTTP_TOO_MANY || status === HTTP_TIMEOUT;
    const message = `API Error: ${status} ${textAt(body, "error", "message")}`;
    const after = response.headers["retry-after"];
    const refused = { ok: false, again, status, message } as const;
    return after === undefined ? refused : { ...refused, retryAfterS: Number(after) };
  } catch (error) {
    // Every problem of the connection has a code.
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    return { ok: false, again: true, status: null, message: `API Error: ${message}` };
  }
}

function tool(name: string, parameters: readonly string[]): Json {
  const properties = Object.fromEntries(parameters.map((key) => [key, { type: "string" }]));
  return { name, input_schema: { type: "object", properties } };
}
