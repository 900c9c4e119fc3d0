/**
 * The fake model: every protocol returns what the script says, and fails where the script says so.
 */
import { describe, expect, it, onTestFinished } from "vitest";
import type { ProtocolName } from "./ask.ts";
import { type Json, textAt } from "./json.ts";
import {
  cut,
  queue,
  quota,
  refuse,
  type Script,
  type StreamPoint,
  shell,
  stall,
  stateless,
  text,
  times,
  together,
  write,
} from "./reply.ts";
import { type FakeModel, startModel } from "./server.ts";
import { framesOf, post } from "./wire.ts";

const PROTOCOLS: readonly ProtocolName[] = ["anthropic", "responses", "chat", "gemini"];
const POINTS: readonly StreamPoint[] = ["accept", "start", "middle", "end"];

async function modelWith(...scripts: readonly Script[]): Promise<FakeModel> {
  const model = await startModel({ scripts });
  onTestFinished(() => model.close());
  return model;
}

interface Heard {
  readonly text: string;
  readonly tools: readonly string[];
  /** What the tools are given, in pieces or whole. */
  readonly input: string;
}

/** All that an answer says, whole or streamed. */
function saidIn(answer: string): Heard {
  const values = answer.startsWith("{") ? [JSON.parse(answer) as Json] : framesOf(answer);
  const tools = new Set<string>();
  let said = "";
  let input = "";
  const walk = (value: Json): void => {
    if (typeof value !== "object" || value === null) return;
    const { type } = value as { readonly type?: Json };
    if (type === "response.completed" || type === "response.output_item.added") return;
    for (const [key, inner] of Object.entries(value)) {
      const spoken = key === "text" || key === "content";
      if (spoken && typeof inner === "string" && type !== "output_text") said += inner;
      if (type === "output_text" && key === "text" && answer.startsWith("{")) said += String(inner);
      if (key === "delta" && typeof inner === "string") said += inner;
      if (/^(partial_json|arguments|command)$/.test(key)) input += String(inner);
      if (key === "name" && typeof inner === "string") tools.add(inner);
      walk(inner);
    }
  };
  values.forEach(walk);
  return { text: said, tools: [...tools], input };
}

describe.each(PROTOCOLS)("%s", (protocol) => {
  const SHELLS = {
    anthropic: "Bash",
    responses: "exec_command",
    chat: "bash",
    gemini: "run_shell_command",
  };

  it.each([false, true])(
    "returns text and calls the agent's shell (stream: %s)",
    async (stream) => {
      const model = await modelWith(queue(shell("echo hi"), text("All done.")));
      const first = await (await post(model.url, protocol, { stream })).text();
      expect(saidIn(first).tools).toEqual([SHELLS[protocol]]);
      expect(saidIn(first).input).toContain("echo hi");
      const second = await (await post(model.url, protocol, { stream })).text();
      expect(saidIn(second)).toEqual({ text: "All done.", tools: [], input: "" });
    },
  );

  it("chooses the reply by the number of tool results, whoever asks (stateless)", async () => {
    const model = await modelWith(stateless(shell("one"), shell("two"), text("Done.")));
    const done = [
      { call: "a", output: "1" },
      { call: "b", output: "2" },
    ];
    for (const count of [2, 0, 1, 0]) {
      const answer = await post(model.url, protocol, { done: done.slice(0, count) });
      const body = await answer.text();
      expect(saidIn(body).text).toBe(count === 2 ? "Done." : "");
      if (count < 2) expect(body).toContain(count === 0 ? "one" : "two");
    }
  });

  it("counts a repeated result once, and repeats an interrupted call", async () => {
    const model = await modelWith(stateless(shell("one"), shell("two"), text("Done.")));
    const twice = { call: "a", output: "1" };
    const again = await post(model.url, protocol, { done: [twice, twice] });
    expect(await again.text()).toContain("two");
    const aborted = await post(model.url, protocol, { done: [{ call: "a", output: "aborted" }] });
    expect(await aborted.text()).toContain("one");
  });

  it.each(POINTS)("stalls at %s until it is released", async (point) => {
    const model = await modelWith(queue(stall(point, text("A long enough text."))));
    const answer = post(model.url, protocol, { stream: true }).then((response) => response.text());
    expect((await model.stalled()).stalledAt).toBe(point);
    expect(model.release()).toBe(1);
    expect(saidIn(await answer).text).toBe("A long enough text.");
    expect(model.requests("work")[0]?.outcome).toBe("complete");
  });

  it.each(POINTS)("breaks the connection at %s", async (point) => {
    const model = await modelWith(queue(cut(point, text("A long enough text."))));
    const answer = post(model.url, protocol, { stream: true }).then((response) => response.text());
    await expect(answer).rejects.toThrow();
    expect(model.requests("work")[0]?.outcome).toBe("cut");
  });

  it("returns as many errors as the script says, and then the reply", async () => {
    const limited = refuse(429, text("Now."), 7);
    const model = await modelWith(stateless(times(2, limited)));
    const statuses: number[] = [];
    for (let n = 0; n < 3; n++) {
      const response = await post(model.url, protocol);
      statuses.push(response.status);
      if (n === 0) expect(response.headers.get("retry-after")).toBe("7");
      await response.text();
    }
    expect(statuses).toEqual([429, 429, 200]);
    model.play(queue(times("always", refuse(500))));
    expect((await post(model.url, protocol)).status).toBe(500);
    expect((await post(model.url, protocol)).status).toBe(500);
    model.play(queue(quota()));
    expect((await (await post(model.url, protocol)).text()).toLowerCase()).toMatch(
      /quota|credit balance/,
    );
  });

  it("answers a side call without using up the script", async () => {
    const model = await modelWith(queue(text("The work.")));
    const aside = await post(model.url, protocol, { tools: false });
    expect(saidIn(await aside.text()).text).toBe("side call");
    expect(saidIn(await (await post(model.url, protocol)).text()).text).toBe("The work.");
    expect(model.requests().map(({ kind }) => kind)).toEqual(["side", "work"]);
  });

  it("reports a mistake in the script with a status that agents do not retry", async () => {
    const model = await modelWith(queue(text("Only this.")));
    await (await post(model.url, protocol)).text();
    const empty = await post(model.url, protocol);
    expect(empty.status).toBe(400);
    expect(await empty.text()).toContain("the fake model's script has no reply left");
  });
});

describe("tokens", () => {
  it("are summed by conversation: received, and lost in interrupted answers", async () => {
    const usage = { input: 1000, output: 50, cacheRead: 300 };
    const model = await modelWith(
      queue(shell("x", { usage }), cut("middle", text("Lost words.", { usage })), text("End.")),
    );
    await (await post(model.url, "anthropic", { prompt: "A" })).text();
    await expect(
      post(model.url, "anthropic", { prompt: "A" }).then((response) => response.text()),
    ).rejects.toThrow();
    const whole = (await (await post(model.url, "anthropic", { prompt: "B" })).json()) as Json;
    expect(textAt(whole, "stop_reason")).toBe("end_turn");
    const [first, second] = Object.values(model.tokens());
    expect(first).toEqual({
      requests: 2,
      received: { input: 1000, output: 50, cacheRead: 300, cacheWrite: 0 },
      lost: { input: 1000, output: 50, cacheRead: 300, cacheWrite: 0 },
    });
    expect(second?.received).toEqual({ input: 100, output: 20, cacheRead: 0, cacheWrite: 0 });
  });
});

describe.each(PROTOCOLS)("the usage that %s reports", (protocol) => {
  const USAGE = { input: 1000, output: 50, cacheRead: 300, cacheWrite: 20 };
  const early = protocol === "anthropic";

  it.each([false, true])("is complete when the answer is sent (stream: %s)", async (stream) => {
    const model = await modelWith(queue(text("All of it.", { usage: USAGE })));
    expect(model.served()).toEqual([]);
    await (await post(model.url, protocol, { stream, prompt: "A" })).text();
    expect(model.served("work")).toMatchObject([{ sequence: 1, usage: USAGE, whole: true }]);
    expect(model.served("side")).toEqual([]);
  });

  it.each(POINTS)("has at most the input while the stream stalls at %s", async (point) => {
    const said = text("A long enough text.", { usage: USAGE });
    const model = await modelWith(queue(stall(point, said)));
    const answer = post(model.url, protocol, { stream: true }).then((response) => response.text());
    await model.stalled();
    const input = { usage: { ...USAGE, output: 0 }, whole: false };
    expect(model.served()).toMatchObject(early && point !== "accept" ? [input] : []);
    model.release();
    await answer;
    expect(model.served()).toMatchObject([{ usage: USAGE, whole: true }]);
  });

  it("is empty for a refused answer, and has no output for an interrupted one", async () => {
    const model = await modelWith(queue(refuse(500), cut("end", text("Lost.", { usage: USAGE }))));
    await (await post(model.url, protocol, { stream: true })).text();
    const answer = post(model.url, protocol, { stream: true }).then((response) => response.text());
    await expect(answer).rejects.toThrow();
    const cutOff = { sequence: 2, usage: { ...USAGE, output: 0 }, whole: false };
    expect(model.served()).toMatchObject(early ? [cutOff] : []);
  });
});

describe("scripts", () => {
  it("apply only to their conversations, from the start of each", async () => {
    const model = await modelWith(
      { ...stateless(text("For two.")), when: "step two" },
      { ...stateless(shell("one"), text("For one.")), when: "step one" },
    );
    const done = [{ call: "a", output: "1" }];
    const one = await post(model.url, "anthropic", { prompt: "This is step one", done });
    expect(saidIn(await one.text()).text).toBe("For one.");
    const two = await post(model.url, "anthropic", { prompt: "This is step two" });
    expect(saidIn(await two.text()).text).toBe("For two.");
    expect((await post(model.url, "anthropic", { prompt: "step three" })).status).toBe(400);
  });

  it("may contain several texts and calls in one reply", async () => {
    const both = together(text("First "), shell("a"), shell("b"));
    const model = await modelWith(stateless(both, text("Done.")));
    const answer = (await (await post(model.url, "anthropic")).json()) as Json;
    expect(JSON.stringify(answer)).toMatch(/First .*"command":"a".*"command":"b"/);
    const one = [{ call: "1", output: "" }];
    expect(await (await post(model.url, "anthropic", { done: one })).text()).toContain("First");
    const two = [...one, { call: "2", output: "" }];
    const last = await post(model.url, "anthropic", { done: two });
    expect(saidIn(await last.text()).text).toBe("Done.");
  });

  it("write a file with the shell if there is no tool for it", async () => {
    const model = await modelWith(queue(write("/x/y", "it's\n")));
    const answer = (await (await post(model.url, "anthropic")).json()) as Json;
    expect(textAt(answer, "content", 0, "input", "command")).toBe(
      "printf %s 'it'\\''s\n' > '/x/y'",
    );
  });
});

it("forgets a stall when the agent disconnects", async () => {
  const model = await modelWith(queue(stall("start", text("x")), text("y")));
  const leaving = new AbortController();
  const { signal } = leaving;
  const body = JSON.stringify({
    model: "m",
    stream: true,
    messages: [],
    tools: [{ name: "Bash" }],
  });
  const asked = fetch(`${model.url}/v1/messages`, { method: "POST", body, signal });
  const stalled = await model.stalled();
  const answer = await asked;
  leaving.abort();
  await expect(answer.text()).rejects.toThrow();
  while (stalled.outcome === "open") await new Promise((done) => setImmediate(done));
  expect(stalled.outcome).toBe("gone");
  expect(model.stalls()).toEqual([]);
});

it("counts tokens and lists models in side calls", async () => {
  const model = await modelWith();
  const counted = await fetch(`${model.url}/v1/messages/count_tokens`, {
    method: "POST",
    body: "{}",
  });
  expect(await counted.json()).toEqual({ input_tokens: 1 });
  expect((await fetch(`${model.url}/v1/models`)).status).toBe(200);
  expect((await fetch(`${model.url}/nothing`)).status).toBe(404);
  expect(model.requests().map(({ kind }) => kind)).toEqual(["count", "other", "other"]);
});
