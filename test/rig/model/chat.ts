/** The OpenAI Chat Completions protocol: what opencode speaks to a provider that we configure. */
import { randomUUID } from "node:crypto";
import { type Ask, digestOf, type Turn } from "./ask.ts";
import { at, type Json, listAt, plainText, textAt } from "./json.ts";
import { openAiComplaint, openAiRefusal } from "./openai-refusal.ts";
import { type Call, type Frames, frame, offered, type Protocol, pieces } from "./protocol.ts";
import type { Usage } from "./reply.ts";
import type { Said } from "./tool-call.ts";

export const chat: Protocol = {
  read,
  whole,
  frames,
  refusal: openAiRefusal,
  complaint: openAiComplaint,
};

function read({ body, headers }: Call): Ask {
  const messages = listAt(body, "messages");
  const turns = messages.flatMap(turnsOf);
  const session = headers["x-session-affinity"] ?? headers["x-opencode-session"];
  const limit = at(body, "max_tokens") ?? at(body, "max_completion_tokens");
  return {
    protocol: "chat",
    model: textAt(body, "model"),
    stream: at(body, "stream") === true,
    conversation: typeof session === "string" ? session : digestOf(turns),
    system: messages
      .filter((message) => textAt(message, "role") === "system")
      .map((message) => plainText(at(message, "content")))
      .join("\n"),
    tools: listAt(body, "tools").map((tool) =>
      offered(textAt(tool, "function", "name"), at(tool, "function", "parameters")),
    ),
    turns,
    outputTokensMax: typeof limit === "number" ? limit : undefined,
    answerSchema: at(body, "response_format", "json_schema", "schema"),
  };
}

function turnsOf(message: Json): readonly Turn[] {
  const text = plainText(at(message, "content"));
  switch (textAt(message, "role")) {
    case "user":
      return [{ type: "user", text }];
    case "assistant":
      return [
        { type: "assistant", text },
        ...listAt(message, "tool_calls").map(
          (call): Turn => ({
            type: "call",
            id: textAt(call, "id"),
            name: textAt(call, "function", "name"),
            input: textAt(call, "function", "arguments"),
          }),
        ),
      ];
    case "tool":
      return [{ type: "result", id: textAt(message, "tool_call_id"), text }];
    default:
      return [];
  }
}

function callOf(said: Extract<Said, { type: "call" }>): { readonly [key: string]: Json } {
  const spelled = JSON.stringify(said.input);
  return {
    id: `call_${said.id}`,
    type: "function",
    function: { name: said.name, arguments: spelled },
  };
}

function callsIn(said: readonly Said[]): readonly Extract<Said, { type: "call" }>[] {
  return said.filter((part) => part.type === "call");
}

function usageOf(usage: Usage): Json {
  const prompt = usage.input + usage.cacheRead + usage.cacheWrite;
  return {
    prompt_tokens: prompt,
    completion_tokens: usage.output,
    total_tokens: prompt + usage.output,
    prompt_tokens_details: { cached_tokens: usage.cacheRead },
  };
}

function opening(ask: Ask, object: string): { readonly [key: string]: Json } {
  const id = `chatcmpl-${randomUUID()}`;
  return { id, object, created: Math.floor(Date.now() / 1000), model: ask.model };
}

function finishReason(said: readonly Said[]): string {
  return callsIn(said).length > 0 ? "tool_calls" : "stop";
}

function whole(ask: Ask, said: readonly Said[], usage: Usage): Json {
  const content = said.map((part) => (part.type === "text" ? part.text : "")).join("");
  const calls = callsIn(said).map(callOf);
  const message = {
    role: "assistant",
    content: content === "" ? null : content,
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  };
  return {
    ...opening(ask, "chat.completion"),
    choices: [{ index: 0, message, finish_reason: finishReason(said) }],
    usage: usageOf(usage),
  };
}

function frames(ask: Ask, said: readonly Said[], usage: Usage): Frames {
  const base = opening(ask, "chat.completion.chunk");
  const chunk = (delta: Json, finish_reason: string | null = null): string =>
    frame({ ...base, choices: [{ index: 0, delta, finish_reason }] });
  const allTold = frame({ ...base, choices: [], usage: usageOf(usage) });
  let index = 0;
  return {
    head: [chunk({ role: "assistant", content: "" })],
    body: said.flatMap((part) => {
      if (part.type === "text") return pieces(part.text).map((content) => chunk({ content }));
      const at = index++;
      const { function: _, ...call } = callOf(part);
      const name = { name: part.name, arguments: "" };
      return [
        chunk({ tool_calls: [{ index: at, ...call, function: name }] }),
        ...pieces(JSON.stringify(part.input)).map((spelled) =>
          chunk({ tool_calls: [{ index: at, function: { arguments: spelled } }] }),
        ),
      ];
    }),
    tail: [chunk({}, finishReason(said)), allTold, "data: [DONE]\n\n"],
    allTold,
  };
}
