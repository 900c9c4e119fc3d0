/** What the tests of the fake model send to it: the smallest requests that are an agent's work. */
import type { ProtocolName } from "./ask.ts";
import type { Json } from "./json.ts";

interface Exchange {
  readonly call: string;
  readonly output: string;
}

interface Request {
  readonly path: string;
  readonly body: Json;
}

export interface RequestOptions {
  readonly prompt?: string;
  /** Tool calls that are done. */
  readonly done?: readonly Exchange[];
  readonly stream?: boolean;
  readonly tools?: boolean;
}

const SHELL = { type: "object", properties: { command: { type: "string" } } };

/** A request of a protocol, as an agent would send it. */
function requestOf(protocol: ProtocolName, options: RequestOptions = {}): Request {
  const { prompt = "Do it.", done = [], stream = false, tools = true } = options;
  switch (protocol) {
    case "anthropic":
      return anthropicRequest(prompt, done, stream, tools);
    case "responses": {
      const items = done.flatMap(({ call, output }) => [
        { type: "function_call", call_id: call, name: "exec_command", arguments: "{}" },
        { type: "function_call_output", call_id: call, output },
      ]);
      const input = [{ type: "message", role: "user", content: prompt }, ...items];
      const parameters = { type: "object", properties: { cmd: { type: "string" } } };
      const offered = tools ? [{ type: "function", name: "exec_command", parameters }] : [];
      return { path: "/v1/responses", body: { model: "m", stream, input, tools: offered } };
    }
    case "chat": {
      const messages = done.flatMap(({ call, output }) => [
        { role: "assistant", tool_calls: [{ id: call, function: { name: "bash" } }] },
        { role: "tool", tool_call_id: call, content: output },
      ]);
      const all = [{ role: "user", content: prompt }, ...messages];
      const offered = tools
        ? [{ type: "function", function: { name: "bash", parameters: SHELL } }]
        : [];
      const body = { model: "m", stream, messages: all, tools: offered };
      return { path: "/v1/chat/completions", body };
    }
    case "gemini":
      return geminiRequest(prompt, done, stream, tools);
  }
}

function anthropicRequest(
  prompt: string,
  done: readonly Exchange[],
  stream: boolean,
  tools: boolean,
): Request {
  const turns = done.flatMap(({ call, output }) => [
    { role: "assistant", content: [{ type: "tool_use", id: call, name: "Bash", input: {} }] },
    { role: "user", content: [{ type: "tool_result", tool_use_id: call, content: output }] },
  ]);
  const messages = [{ role: "user", content: prompt }, ...turns];
  const offered = tools ? [{ name: "Bash", input_schema: SHELL }] : [];
  const body = { model: "m", max_tokens: 100, stream, messages, tools: offered };
  return { path: "/v1/messages", body };
}

function geminiRequest(
  prompt: string,
  done: readonly Exchange[],
  stream: boolean,
  tools: boolean,
): Request {
  const turns = done.flatMap(({ call, output }) => {
    const name = "run_shell_command";
    const response = { id: call, name, response: { output } };
    return [
      { role: "model", parts: [{ functionCall: { id: call, name, args: {} } }] },
      { role: "user", parts: [{ functionResponse: response }] },
    ];
  });
  const contents = [{ role: "user", parts: [{ text: prompt }] }, ...turns];
  const functionDeclarations = [{ name: "run_shell_command", parametersJsonSchema: SHELL }];
  const body = { contents, tools: tools ? [{ functionDeclarations }] : [] };
  const verb = stream ? "streamGenerateContent?alt=sse" : "generateContent";
  return { path: `/v1beta/models/m:${verb}`, body };
}

/** Sends a request; the response as it comes. */
export async function post(
  url: string,
  protocol: ProtocolName,
  options: RequestOptions = {},
): Promise<Response> {
  const { path, body } = requestOf(protocol, options);
  return fetch(url + path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
}

/** The JSON in the frames of a stream. */
export function framesOf(stream: string): readonly Json[] {
  return stream
    .split("\n")
    .filter((line) => line.startsWith("data: {"))
    .map((line) => JSON.parse(line.slice("data: ".length)) as Json);
}
