/** The Anthropic Messages protocol: what Claude Code speaks. */
import { randomUUID } from "node:crypto";
import { type Ask, digestOf, type Turn } from "./ask.ts";
import { at, type Json, listAt, parseJson, plainText, textAt } from "./json.ts";
import {
  type Call,
  type Frames,
  frame,
  offered,
  type Protocol,
  pieces,
  type Refusal,
  type RefusingFault,
  retryHeaders,
} from "./protocol.ts";
import type { Usage } from "./reply.ts";
import type { Said } from "./tool-call.ts";

const KINDS: Readonly<Record<number, string>> = {
  400: "invalid_request_error",
  401: "authentication_error",
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  500: "api_error",
  529: "overloaded_error",
};
const HTTP_REFUSED_QUOTA = 429;

export const anthropic: Protocol = {
  read,
  whole: (ask, said, usage) => ({
    ...opening(ask, usage),
    content: said.map(block),
    stop_reason: stopReason(said),
    usage: usageOf(usage, usage.output),
  }),
  frames,
  refusal,
  complaint: (message) => wrong(400, message),
};

/** The answer to a request that only counts its tokens. */
export function countedTokens(body: Json): Json {
  return { input_tokens: Math.ceil(JSON.stringify(body).length / 4) };
}

function read({ body, headers }: Call): Ask {
  const turns = listAt(body, "messages").flatMap(turnsOf);
  const session = headers["x-claude-code-session-id"];
  const user = parseJson(textAt(body, "metadata", "user_id"));
  const named = typeof session === "string" ? session : textAt(user, "session_id");
  const limit = at(body, "max_tokens");
  return {
    protocol: "anthropic",
    model: textAt(body, "model"),
    stream: at(body, "stream") === true,
    conversation: named === "" ? digestOf(turns) : named,
    system: plainText(at(body, "system")),
    tools: listAt(body, "tools").map((tool) =>
      offered(textAt(tool, "name"), at(tool, "input_schema")),
    ),
    turns,
    outputTokensMax: typeof limit === "number" ? limit : undefined,
    answerSchema: at(body, "output_config", "format", "schema"),
  };
}

function turnsOf(message: Json): readonly Turn[] {
  const content = at(message, "content");
  const type = textAt(message, "role") === "assistant" ? "assistant" : "user";
  if (typeof content === "string") return [{ type, text: content }];
  return listAt(content).flatMap((part): readonly Turn[] => {
    switch (textAt(part, "type")) {
      case "text":
        return [{ type, text: textAt(part, "text") }];
      case "tool_use":
        return [
          {
            type: "call",
            id: textAt(part, "id"),
            name: textAt(part, "name"),
            input: JSON.stringify(at(part, "input") ?? null),
          },
        ];
      case "tool_result": {
        const text = plainText(at(part, "content"));
        return [{ type: "result", id: textAt(part, "tool_use_id"), text }];
      }
      default:
        return [];
    }
  });
}

function opening(ask: Ask, usage: Usage): { readonly [key: string]: Json } {
  return {
    id: `msg_${randomUUID().replaceAll("-", "").slice(0, 24)}`,
    type: "message",
    role: "assistant",
    model: ask.model,
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: usageOf(usage, 1),
  };
}

function usageOf(usage: Usage, output: number): Json {
  return {
    input_tokens: usage.input,
    cache_creation_input_tokens: usage.cacheWrite,
    cache_read_input_tokens: usage.cacheRead,
    output_tokens: output,
  };
}

function block(said: Said): Json {
  if (said.type === "text") return { type: "text", text: said.text };
  return { type: "tool_use", id: `toolu_${said.id}`, name: said.name, input: said.input as Json };
}

function stopReason(said: readonly Said[]): string {
  return said.some(({ type }) => type === "call") ? "tool_use" : "end_turn";
}

function frames(ask: Ask, said: readonly Said[], usage: Usage): Frames {
  const event = (type: string, more: object): string => frame({ type, ...more }, type);
  const stop = { stop_reason: stopReason(said), stop_sequence: null };
  const inputTold = event("message_start", { message: opening(ask, usage) });
  const allTold = event("message_delta", { delta: stop, usage: usageOf(usage, usage.output) });
  return {
    head: [inputTold, event("ping", {})],
    body: said.flatMap((part, index) => [
      event("content_block_start", { index, content_block: emptied(part) }),
      ...deltas(part).map((delta) => event("content_block_delta", { index, delta })),
      event("content_block_stop", { index }),
    ]),
    tail: [allTold, event("message_stop", {})],
    inputTold,
    allTold,
  };
}

function emptied(said: Said): Json {
  const whole = block(said) as { readonly [key: string]: Json };
  return said.type === "text" ? { ...whole, text: "" } : { ...whole, input: {} };
}

function deltas(said: Said): readonly Json[] {
  if (said.type === "text") return pieces(said.text).map((text) => ({ type: "text_delta", text }));
  return pieces(JSON.stringify(said.input)).map((partial_json) => ({
    type: "input_json_delta",
    partial_json,
  }));
}

function refusal(fault: RefusingFault): Refusal {
  if (fault.type === "refuse") {
    return {
      ...wrong(fault.status, `the script says ${fault.status}`),
      headers: retryHeaders(fault),
    };
  }
  if (fault.type === "overflow") {
    return wrong(400, "prompt is too long: 210000 tokens > 200000 maximum");
  }
  if (fault.resetAtS === undefined) {
    return wrong(400, "Your credit balance is too low to access the Anthropic API.");
  }
  const reset = String(fault.resetAtS);
  return {
    ...wrong(HTTP_REFUSED_QUOTA, "This request would exceed your account's rate limit."),
    headers: {
      "anthropic-ratelimit-unified-status": "rejected",
      "anthropic-ratelimit-unified-reset": reset,
      "anthropic-ratelimit-unified-representative-claim": "five_hour",
      "x-should-retry": "false",
    },
  };
}

function wrong(status: number, message: string): Refusal {
  const type = KINDS[status] ?? "api_error";
  return { status, headers: {}, body: { type: "error", error: { type, message } } };
}
