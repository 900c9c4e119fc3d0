/** A conversation reads the same in every protocol. */
import { afterEach, beforeEach, expect, it } from "vitest";
import { conversationOf } from "./conversation.ts";
import type { Json } from "./json.ts";
import { queue, text, times } from "./reply.ts";
import { type FakeModel, startModel } from "./server.ts";

let model: FakeModel;
beforeEach(async () => {
  model = await startModel({ scripts: [queue(times("always", text("Yes.")))] });
});
afterEach(() => model.close());

const OWN = "<system-reminder>Today is a day.</system-reminder>";
const INPUT = { command: "ls" };
const SPELLED = '{"command":"ls"}';

/** What each agent sends: own words, a prompt, an answer with a call, its result, a prompt. */
const REQUESTS: readonly { readonly path: string; readonly body: Json }[] = [
  {
    path: "/v1/messages",
    body: {
      system: "Be good.",
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: OWN },
            { type: "text", text: "Look." },
          ],
        },
        {
          role: "assistant",
          content: [
            { type: "text", text: "I look." },
            { type: "tool_use", id: "c1", name: "shell", input: INPUT },
          ],
        },
        {
          role: "user",
          content: [
            { type: "tool_result", tool_use_id: "c1", content: [{ type: "text", text: "a b" }] },
            { type: "text", text: "Go on." },
          ],
        },
      ],
    },
  },
  {
    path: "/v1/responses",
    body: {
      input: [
        { type: "message", role: "developer", content: "Be good." },
        { type: "message", role: "user", content: [{ type: "input_text", text: OWN }] },
        { type: "message", role: "user", content: [{ type: "input_text", text: "Look." }] },
        { type: "message", role: "assistant", content: [{ type: "output_text", text: "I look." }] },
        { type: "function_call", call_id: "c1", name: "shell", arguments: SPELLED },
        { type: "function_call_output", call_id: "c1", output: "a b" },
        { type: "message", role: "user", content: "Go on." },
      ],
    },
  },
  {
    path: "/v1/chat/completions",
    body: {
      messages: [
        { role: "system", content: "Be good." },
        { role: "user", content: OWN },
        { role: "user", content: "Look." },
        {
          role: "assistant",
          content: "I look.",
          tool_calls: [{ id: "c1", function: { name: "shell", arguments: SPELLED } }],
        },
        { role: "tool", tool_call_id: "c1", content: "a b" },
        { role: "assistant", content: "" },
        { role: "user", content: "Go on." },
      ],
    },
  },
  {
    path: "/v1beta/models/m:generateContent",
    body: {
      contents: [
        { role: "user", parts: [{ text: OWN }] },
        { role: "user", parts: [{ text: "Look." }] },
        {
          role: "model",
          parts: [
            { text: "I look." },
            { functionCall: { id: "c1", name: "shell", args: INPUT } },
            { text: "" },
          ],
        },
        {
          role: "user",
          parts: [{ functionResponse: { id: "c1", name: "shell", response: { output: "a b" } } }],
        },
        { role: "user", parts: [{ text: "Go on." }] },
      ],
    },
  },
];

it.each(REQUESTS)("in $path", async ({ path, body }) => {
  await fetch(model.url + path, { method: "POST", body: JSON.stringify(body) });
  expect(model.requests().map(conversationOf)).toEqual([
    [
      { type: "user", text: "Look." },
      { type: "assistant", text: "I look." },
      { type: "call", id: "c1", name: "shell", input: SPELLED },
      { type: "result", id: "c1", text: "a b" },
      { type: "user", text: "Go on." },
    ],
  ]);
});
