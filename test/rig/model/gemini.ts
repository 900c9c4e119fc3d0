/** The Gemini protocol: what Gemini CLI speaks. */
import { type Ask, digestOf, type Turn } from "./ask.ts";
import { at, type Json, listAt, textAt } from "./json.ts";
import {
  type Call,
  type Frames,
  frame,
  offered,
  type Protocol,
  pieces,
  type Refusal,
  type RefusingFault,
} from "./protocol.ts";
import type { Usage } from "./reply.ts";
import type { Said } from "./tool-call.ts";

const STATUSES: Readonly<Record<number, string>> = {
  400: "INVALID_ARGUMENT",
  401: "UNAUTHENTICATED",
  403: "PERMISSION_DENIED",
  404: "NOT_FOUND",
  429: "RESOURCE_EXHAUSTED",
  500: "INTERNAL",
  503: "UNAVAILABLE",
};
const HTTP_BAD = 400;
const HTTP_TOO_MANY = 429;
const RPC = "type.googleapis.com/google.rpc";

export const gemini: Protocol = {
  read,
  whole: (ask, said, usage) => ({
    ...chunk(ask, said.map(partOf), "STOP"),
    usageMetadata: usageOf(usage),
  }),
  frames,
  refusal,
  complaint: (message) => wrong(HTTP_BAD, message, []),
};

function read({ path, body }: Call): Ask {
  const [, model = "", verb = ""] = /\/models\/([^:]+):(\w+)$/.exec(path) ?? [];
  const turns = listAt(body, "contents").flatMap(turnsOf);
  const limit = at(body, "generationConfig", "maxOutputTokens");
  return {
    protocol: "gemini",
    model: decodeURIComponent(model),
    stream: verb === "streamGenerateContent",
    conversation: digestOf(turns),
    system: listAt(body, "systemInstruction", "parts")
      .map((part) => textAt(part, "text"))
      .join("\n"),
    tools: listAt(body, "tools")
      .flatMap((tool) => listAt(tool, "functionDeclarations"))
      .map((tool) =>
        offered(textAt(tool, "name"), at(tool, "parametersJsonSchema") ?? at(tool, "parameters")),
      ),
    turns,
    outputTokensMax: typeof limit === "number" ? limit : undefined,
    answerSchema:
      at(body, "generationConfig", "responseJsonSchema") ??
      at(body, "generationConfig", "responseSchema"),
  };
}

function turnsOf(content: Json, index: number): readonly Turn[] {
  const type = textAt(content, "role") === "model" ? "assistant" : "user";
  return listAt(content, "parts").flatMap((part, place): readonly Turn[] => {
    const call = at(part, "functionCall");
    const result = at(part, "functionResponse");
    // Without an id from the agent, the position distinguishes two results.
    const id = textAt(call ?? result, "id") || `${index}.${place}`;
    if (call !== undefined) {
      const input = JSON.stringify(at(call, "args") ?? null);
      return [{ type: "call", id, name: textAt(call, "name"), input }];
    }
    if (result === undefined) return [{ type, text: textAt(part, "text") }];
    const text = textAt(result, "response", "output") || textAt(result, "response", "error");
    return [{ type: "result", id, text }];
  });
}

function partOf(said: Said): Json {
  if (said.type === "text") return { text: said.text };
  return { functionCall: { id: said.id, name: said.name, args: said.input as Json } };
}

function usageOf(usage: Usage): Json {
  const prompt = usage.input + usage.cacheRead + usage.cacheWrite;
  return {
    promptTokenCount: prompt,
    candidatesTokenCount: usage.output,
    cachedContentTokenCount: usage.cacheRead,
    totalTokenCount: prompt + usage.output,
  };
}

function chunk(
  ask: Ask,
  parts: readonly Json[],
  finishReason?: string,
): { readonly [key: string]: Json } {
  const end = finishReason === undefined ? {} : { finishReason };
  const candidates = [{ content: { role: "model", parts }, index: 0, ...end }];
  return { candidates, modelVersion: ask.model, responseId: "fake" };
}

function frames(ask: Ask, said: readonly Said[], usage: Usage): Frames {
  const parts = said.flatMap((part) =>
    part.type === "text" ? pieces(part.text).map((text) => ({ text })) : [partOf(part)],
  );
  const last = { ...chunk(ask, [{ text: "" }], "STOP"), usageMetadata: usageOf(usage) };
  const allTold = frame(last);
  return {
    // Its client takes no comments: the stream is open when its headers are there.
    head: [],
    body: parts.map((part) => frame(chunk(ask, [part]))),
    tail: [allTold],
    allTold,
  };
}

function refusal(fault: RefusingFault): Refusal {
  if (fault.type === "refuse") {
    const delay = fault.retryAfterS;
    const info = { "@type": `${RPC}.RetryInfo`, retryDelay: `${delay}s` };
    const headers = delay === undefined ? {} : { "retry-after": String(delay) };
    const details = delay === undefined ? [] : [info];
    return { ...wrong(fault.status, `the script says ${fault.status}`, details), headers };
  }
  if (fault.type === "overflow") {
    const message =
      "The input token count (1048600) exceeds the maximum number of tokens allowed (1048576).";
    return wrong(HTTP_BAD, message, []);
  }
  const violation = {
    quotaMetric: "generativelanguage.googleapis.com/generate_content_requests",
    quotaId: "GenerateRequestsPerDayPerProjectPerModel",
    quotaValue: "100",
  };
  const details = [{ "@type": `${RPC}.QuotaFailure`, violations: [violation] }];
  return wrong(HTTP_TOO_MANY, "You exceeded your current quota.", details);
}

function wrong(code: number, message: string, details: readonly Json[]): Refusal {
  const status = STATUSES[code] ?? "UNAVAILABLE";
  return { status: code, headers: {}, body: { error: { code, message, status, details } } };
}
