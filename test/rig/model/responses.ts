/** The OpenAI Responses protocol: what Codex speaks. */
import { randomUUID } from "node:crypto";
import { type Ask, digestOf, type OfferedTool, type Turn } from "./ask.ts";
import { at, type Json, listAt, plainText, textAt } from "./json.ts";
import { openAiComplaint, openAiRefusal } from "./openai-refusal.ts";
import { type Call, type Frames, frame, offered, type Protocol, pieces } from "./protocol.ts";
import type { Usage } from "./reply.ts";
import type { Said } from "./tool-call.ts";

export const responses: Protocol = {
  read,
  whole: (ask, said, usage) => finished(ask, newId("resp"), said.map(itemOf), usage),
  frames,
  refusal: openAiRefusal,
  complaint: openAiComplaint,
};

function read({ body }: Call): Ask {
  const input = at(body, "input");
  const turns: readonly Turn[] =
    typeof input === "string" ? [{ type: "user", text: input }] : listAt(input).flatMap(turnsOf);
  const limit = at(body, "max_output_tokens");
  return {
    protocol: "responses",
    model: textAt(body, "model"),
    stream: at(body, "stream") === true,
    conversation: textAt(body, "prompt_cache_key") || digestOf(turns),
    system: textAt(body, "instructions"),
    tools: [...listAt(body, "tools"), ...additionalTools(input)].map(toolOf),
    turns,
    outputTokensMax: typeof limit === "number" ? limit : undefined,
    answerSchema: at(body, "text", "format", "schema"),
  };
}

/** The newest models of Codex get their tools as an item of the input. */
function additionalTools(input: Json | undefined): readonly Json[] {
  return listAt(input)
    .filter((item) => textAt(item, "type") === "additional_tools")
    .flatMap((item) => listAt(item, "tools"));
}

function toolOf(tool: Json): OfferedTool {
  const name = textAt(tool, "name") || textAt(tool, "type");
  return offered(name, at(tool, "parameters"), textAt(tool, "type") === "custom");
}

function turnsOf(item: Json): readonly Turn[] {
  const id = textAt(item, "call_id");
  switch (textAt(item, "type")) {
    case "":
    case "message": {
      const role = textAt(item, "role");
      // The agent's own instructions are nobody's turn.
      if (role === "developer" || role === "system") return [];
      const type = role === "assistant" ? "assistant" : "user";
      return [{ type, text: plainText(at(item, "content")) }];
    }
    case "function_call":
    case "custom_tool_call":
      return [
        {
          type: "call",
          id,
          name: textAt(item, "name"),
          input: textAt(item, "arguments") || textAt(item, "input"),
        },
      ];
    case "function_call_output":
    case "custom_tool_call_output":
      return [{ type: "result", id, text: plainText(at(item, "output")) }];
    default:
      return [];
  }
}

function newId(prefix: string): string {
  return `${prefix}_${randomUUID().replaceAll("-", "")}`;
}

function itemOf(said: Said): { readonly [key: string]: Json } {
  if (said.type === "text") {
    const content = [{ type: "output_text", text: said.text, annotations: [] }];
    return { type: "message", id: newId("msg"), role: "assistant", status: "completed", content };
  }
  const call = {
    id: newId("fc"),
    call_id: `call_${said.id}`,
    ...calledBy(said.name),
    status: "completed",
  };
  if (said.freeform === undefined) {
    return { type: "function_call", ...call, arguments: JSON.stringify(said.input) };
  }
  return { type: "custom_tool_call", ...call, id: newId("ctc"), input: said.freeform };
}

/** Codex calls a tool of an MCP server by the name of the server's namespace and its own. */
function calledBy(name: string): { readonly name: string; readonly namespace?: string } {
  const [, namespace, own] = /^(mcp__\w+?)__(\w+)$/.exec(name) ?? [];
  return namespace === undefined || own === undefined ? { name } : { namespace, name: own };
}

function finished(ask: Ask, id: string, output: readonly Json[], usage: Usage): Json {
  const input = usage.input + usage.cacheRead + usage.cacheWrite;
  return {
    ...started(ask, id),
    status: "completed",
    output,
    usage: {
      input_tokens: input,
      input_tokens_details: { cached_tokens: usage.cacheRead },
      output_tokens: usage.output,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: input + usage.output,
    },
  };
}

function started(ask: Ask, id: string): { readonly [key: string]: Json } {
  const created_at = Math.floor(Date.now() / 1000);
  return {
    id,
    object: "response",
    created_at,
    model: ask.model,
    status: "in_progress",
    output: [],
  };
}

function frames(ask: Ask, said: readonly Said[], usage: Usage): Frames {
  let sequence = 0;
  const event = (type: string, more: object): string =>
    frame({ type, sequence_number: sequence++, ...more }, type);
  const id = newId("resp");
  const items = said.map(itemOf);
  const head = [event("response.created", { response: started(ask, id) })];
  const body = items.flatMap((item, output_index) => {
    const part = said[output_index];
    const deltas =
      part?.type === "text"
        ? pieces(part.text).map((delta) =>
            event("response.output_text.delta", {
              item_id: item.id,
              output_index,
              content_index: 0,
              delta,
            }),
          )
        : [];
    const opened = {
      ...item,
      status: "in_progress",
      ...(deltas.length > 0 ? { content: [] } : {}),
    };
    return [
      event("response.output_item.added", { output_index, item: opened }),
      ...deltas,
      event("response.output_item.done", { output_index, item }),
    ];
  });
  const response = finished(ask, id, items, usage);
  const allTold = event("response.completed", { response });
  return { head, body, tail: [allTold], allTold };
}
