/**
 * The conformance suite of the adapters' readers: every recorded stream of every real agent comes
 * down to what its case means, whole, torn anywhere, and with strange lines in between.
 */
import { copyFileSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { continuePrompt, NO_CALLS } from "../../src/engine/agent/agent-prompt.ts";
import type {
  AgentAdapter,
  AgentEvent,
  AgentFailureKind,
} from "../../src/runner/agents/adapter.ts";
import { agentFailureOf } from "../../src/runner/agents/agent-failure.ts";
import { gemini } from "../../src/runner/agents/gemini/gemini.ts";
import { agentAdapter } from "../../src/runner/agents/registry.ts";
import { AgentFollower, type AgentReport, STALL_FAILURES } from "../../src/runner/agents/report.ts";
import { LIST_DATE, LIST_PRICES, PriceList, windowOf } from "../../src/runner/agents/usage.ts";
import { KNOWN_AGENTS, PROTOCOL_ADAPTER } from "../../src/util/agent-access.ts";

const STREAMS = join(import.meta.dirname, "streams");
const UUID = "00000000-0000-4000-8000-000000000001";
const TWO_REPLIES = { inputTokens: 200, cachedTokens: 0, outputTokens: 40 };

// A limit that says when it ends is reported as the time until then: two readings must agree on
// now.
beforeAll(() => {
  vi.useFakeTimers({ toFake: ["Date"] });
});
afterAll(() => {
  vi.useRealTimers();
});

interface Expected {
  /** undefined: it succeeded. */
  readonly trouble?: AgentFailureKind;
  readonly denied?: readonly string[];
  /** How many tools are open at the end. */
  readonly open?: number;
  readonly retries?: readonly AgentFailureKind[];
}

/** Those that speak to a model; the stand-in has none. */
const RECORDED = [...KNOWN_AGENTS, PROTOCOL_ADAPTER] as const;
type Agent = (typeof RECORDED)[number];

/** What each case means; where an agent differs, and why, is in the recordings' README. */
const CASES: Readonly<Record<string, Expected & { per?: Partial<Record<Agent, Expected>> }>> = {
  success: {},
  "text-only": {},
  "tool-failed": {},
  killed: { trouble: "interrupted" },
  resumed: {},
  // opencode prints a tool only when it has ended.
  "killed-in-tool": {
    trouble: "interrupted",
    open: 1,
    per: { opencode: { trouble: "interrupted" } },
  },
  "resumed-in-tool": {},
  // Gemini prints the call before the reply has ended, and has not begun it.
  "killed-before-end": {
    trouble: "interrupted",
    per: { gemini: { trouble: "interrupted", open: 1 } },
  },
  "resumed-before-end": {},
  "rate-limited": {
    per: { claude: { retries: ["rate-limit"] }, codex: { retries: ["rate-limit"] } },
  },
  overloaded: { per: { claude: { retries: ["overloaded"] } } },
  "server-error": {
    trouble: "server",
    per: {
      claude: { trouble: "server", retries: ["server"] },
      codex: { trouble: "server", retries: ["server"] },
    },
  },
  quota: { trouble: "quota" },
  "usage-limit": { trouble: "quota", per: { claude: { trouble: "rate-limit" } } },
  "stream-cut": {
    per: {
      claude: { retries: ["cut"] },
      codex: { retries: ["cut"] },
      gemini: { trouble: "cut" },
    },
  },
  // A denied call is no failure, unless the agent stops at it, as opencode does. Codex: the sandbox
  // refuses the write, and the agent does not hear of a permission.
  denied: {
    per: {
      claude: { denied: ["Bash(touch forbidden.txt)"] },
      gemini: { denied: ["run_shell_command(touch forbidden.txt)"] },
      opencode: { trouble: "denied", denied: ["bash(touch forbidden.txt)"] },
      acp: { denied: ["touch forbidden.txt"] },
    },
  },
  interrupted: { trouble: "interrupted" },
  terminated: { trouble: "interrupted" },
  "max-turns": { trouble: "max-turns" },
  "unknown-session": { trouble: "session-gone" },
  streamed: {},
  "streamed-twice": {},
  "streamed-killed": { trouble: "interrupted" },
  "streamed-resumed": {},
  "streamed-interrupted": { trouble: "interrupted" },
  "streamed-subagent": {},
};

const outcomes = JSON.parse(readFileSync(join(STREAMS, "outcomes.json"), "utf8")) as Record<
  string,
  Record<string, { readonly exit: number | null; readonly requests: number }>
>;

interface Recording {
  readonly agent: Agent;
  readonly adapter: AgentAdapter;
  readonly name: string;
  readonly text: string;
  readonly exit: number | undefined;
  readonly requests: number;
}

const recordings: readonly Recording[] = RECORDED.flatMap((agent) =>
  globSync("*.jsonl", { cwd: join(STREAMS, agent) })
    .sort()
    .map((file) => {
      const name = file.replace(".jsonl", "");
      const outcome = outcomes[agent]?.[name];
      return {
        agent,
        adapter: adapterOf(agent),
        name,
        text: readFileSync(join(STREAMS, agent, file), "utf8"),
        exit: outcome?.exit ?? undefined,
        requests: outcome?.requests ?? -1,
      };
    }),
);

function adapterOf(name: string): AgentAdapter {
  const adapter = agentAdapter(name);
  if (adapter === undefined) throw new Error(`no adapter ${name}`);
  return adapter;
}

function expectedOf({ agent, name }: Recording): Expected {
  const expected = CASES[name];
  if (expected === undefined) throw new Error(`a case without a meaning: ${name}`);
  return expected.per?.[agent] ?? expected;
}

/** A fold of a text with the events in it, without waiting. */
function read(
  adapter: AgentAdapter,
  text: string,
  exit: number | undefined,
): { report: AgentReport; events: readonly AgentEvent[] } {
  const follower = new AgentFollower(adapter);
  const events = text.split("\n").flatMap((line) => follower.line(line));
  return { report: follower.end(exit), events };
}

/** Without what depends on the moment of reading. */
function timeless(report: AgentReport): unknown {
  const text = JSON.stringify(report, (key, value: unknown) =>
    key === "retryAfterMs" ? "later" : value,
  );
  return JSON.parse(text);
}

function recorded(agent: Agent, name: string): Recording {
  const found = recordings.find((one) => one.agent === agent && one.name === name);
  if (found === undefined) throw new Error(`no recording ${agent}/${name}`);
  return found;
}

describe("recorded streams", () => {
  it("are all there, of every agent", () => {
    expect(recordings).toHaveLength(93);
    expect(RECORDED).toEqual(["claude", "codex", "gemini", "opencode", "acp"]);
  });

  it.each(recordings)("$agent $name means what it is called", (recording) => {
    const { report, events } = read(recording.adapter, recording.text, recording.exit);
    const expected = expectedOf(recording);
    expect(report.result?.ok).toBe(expected.trouble === undefined);
    expect(report.result?.trouble?.kind).toBe(expected.trouble);
    expect(report.denied).toEqual(expected.denied ?? []);
    expect(report.openTools).toHaveLength(expected.open ?? 0);
    const retries = events.flatMap((one) => (one.type === "retrying" ? [one.trouble.kind] : []));
    expect(retries).toEqual(expected.retries ?? []);
    expect(report.retries).toBe(retries.length);
    const id = recording.agent === "opencode" ? `ses_${"0".repeat(23)}1` : UUID;
    // Our own client tells a conversation only once it is open.
    const none = recording.agent === "acp" && recording.name === "unknown-session";
    expect(report.session).toBe(recording.text === "" || none ? undefined : id);
    expect(report.stall).toBeUndefined();
  });

  it.each(RECORDED)("%s: a success has its answer, its turns and its tokens", (agent) => {
    const { adapter, text, requests } = recorded(agent, "success");
    const { report } = read(adapter, text, 0);
    expect(report.result?.text).toBe("All done.");
    expect(report.turns).toBe(requests);
    expect(report.usage).toMatchObject(TWO_REPLIES);
    expect(report.usage.counting).toBe(agent === "codex" ? "total" : "delta");
    expect(report.lastTool).toMatchObject({ ok: true });
    expect(report.lastTool?.input).toContain("echo hello | tee made.txt");
    if (agent === "claude" || agent === "opencode") {
      expect(report.usage.costUsd).toBeCloseTo(0.0012);
    } else expect(report.usage.costUsd).toBeUndefined();
  });

  it("tell a tool that failed, but for Gemini (acp: too), which calls it a success", () => {
    for (const agent of RECORDED) {
      const { adapter, text } = recorded(agent, "tool-failed");
      expect(read(adapter, text, 0).report.lastTool?.ok, agent).toBe(
        agent === "gemini" || agent === "acp",
      );
    }
  });

  it("tell when to come back", () => {
    const limited = read(adapterOf("claude"), recorded("claude", "rate-limited").text, 0).report;
    expect(limited.lastTrouble).toMatchObject({ kind: "rate-limit", retryAfterMs: 1000 });
    const until = read(adapterOf("codex"), recorded("codex", "usage-limit").text, 1).report;
    const wakeMs = Date.now() + (until.result?.trouble?.retryAfterMs ?? 0);
    const said = new Date(2030, 0, 1).getTime();
    expect(Math.abs(wakeMs - said)).toBeLessThan(60_000);
  });

  it("count what a killed Claude had used, at list prices", () => {
    const { report } = read(adapterOf("claude"), recorded("claude", "killed").text, undefined);
    expect(report.usage).toMatchObject({ inputTokens: 100, outputTokens: 1, counting: "delta" });
    expect(report.usage.costUsd).toBeCloseTo((100 * 3 + 1 * 15) / 1e6, 9);
  });

  it.each(["opencode", "acp"] as const)("%s says when an answer was not counted", (agent) => {
    const { adapter, text } = recorded(agent, "killed-in-tool");
    expect(read(adapter, text, undefined).report).toMatchObject({ uncounted: true });
    expect(read(adapter, recorded(agent, "success").text, 0).report.uncounted).toBe(false);
  });

  it.each(recordings)("$agent $name never takes back what was used", ({ adapter, text }) => {
    const follower = new AgentFollower(adapter);
    let before = follower.report.usage;
    for (const line of text.split("\n")) {
      follower.line(line);
      const { usage } = follower.report;
      expect(usage.inputTokens).toBeGreaterThanOrEqual(before.inputTokens);
      expect(usage.cachedTokens).toBeGreaterThanOrEqual(before.cachedTokens);
      expect(usage.outputTokens).toBeGreaterThanOrEqual(before.outputTokens);
      expect(usage.costUsd ?? 0).toBeGreaterThanOrEqual((before.costUsd ?? 0) - 1e-9);
      before = usage;
    }
    expect(follower.end(undefined).usage).toEqual(before);
  });

  it("are the same report, whole or followed", async () => {
    for (const { adapter, text, exit } of recordings) {
      const lines = text.split("\n");
      const asynchronous = (async function* () {
        yield* lines;
      })();
      const { report } = read(adapter, text, exit);
      expect(timeless(await reportOf(adapter, lines, exit))).toEqual(timeless(report));
      expect(timeless(await reportOf(adapter, asynchronous, exit))).toEqual(timeless(report));
    }
  });
});

/** The report of a whole stream. */
async function reportOf(
  adapter: Pick<AgentAdapter, "reader">,
  lines: Iterable<string> | AsyncIterable<string>,
  exit: number | undefined,
  stderr?: string,
): Promise<AgentReport> {
  const follower = new AgentFollower(adapter);
  for await (const line of lines) follower.line(line);
  return follower.end(exit, stderr);
}

describe("torn streams", () => {
  const EXITS = [undefined, 0, 1] as const;

  it.each(recordings)("$agent $name, cut anywhere, is never a false success", (recording) => {
    const { adapter, text } = recording;
    const good = expectedOf(recording).trouble === undefined;
    for (const cut of cutsOf(text)) {
      const prefix = text.slice(0, cut);
      const complete = prefix.trimEnd() === text.trimEnd();
      for (const exit of EXITS) {
        const { report } = read(adapter, prefix, exit);
        expect(report.result).toBeDefined();
        if (report.result?.ok === true) expect(good && complete, `cut at ${cut}`).toBe(true);
      }
    }
  });

  /** Every line's end, the character before it, and places inside. */
  function cutsOf(text: string): ReadonlySet<number> {
    const cuts = new Set<number>([0]);
    let from = 0;
    for (const line of text.split("\n")) {
      for (const part of [0, 0.1, 0.5, 0.9]) cuts.add(from + Math.floor(line.length * part));
      cuts.add(from + Math.max(0, line.length - 1)).add(from + line.length);
      from += line.length + 1;
    }
    return cuts;
  }

  it("of opencode are no success even if they stop, unless it exits with 0", () => {
    const { adapter, text } = recorded("opencode", "success");
    expect(read(adapter, text, undefined).report.result?.trouble?.kind).toBe("interrupted");
    expect(read(adapter, text, 1).report.result?.ok).toBe(false);
  });

  it("of opencode are a success after an error, if it continued and stopped by itself", () => {
    const { adapter, text } = recorded("opencode", "success");
    const [first = "", ...others] = text.trimEnd().split("\n");
    const error = { name: "ContextOverflowError", data: { message: "the input is too long" } };
    const failed = JSON.stringify({ type: "error", error });
    const ends = (lines: readonly string[], exit: number): boolean | undefined =>
      read(adapter, `${lines.join("\n")}\n`, exit).report.result?.ok;
    expect(ends([first, failed, first, ...others], 1)).toBe(true);
    expect(ends([first, ...others, failed], 1)).toBe(false);
    expect(ends([first, failed, first, ...others], 143)).toBe(false);
  });

  it("of opencode are no success if another step began", () => {
    const { adapter, text } = recorded("opencode", "success");
    const [began = ""] = text.split("\n", 1);
    expect(read(adapter, text + began, 0).report.result?.trouble?.kind).toBe("interrupted");
  });

  it("of the others are a success by their last event, however they end", () => {
    for (const agent of ["claude", "codex", "gemini", "acp"] as const) {
      const { adapter, text } = recorded(agent, "success");
      for (const exit of EXITS) expect(read(adapter, text, exit).report.result?.ok).toBe(true);
    }
  });
});

describe("strange lines", () => {
  const STRANGE = [
    ...["", "Reading additional input from stdin...", "null", "[]", "42", '"text"', "{", "{}"],
    ...['{"type":null}', '{"type":"new.thing","x":1}', '{"type":"system","subtype":"new"}'],
    ...['{"type":"item.completed","item":{"type":"new"}}', '{"type":"message","role":"tool"}'],
  ];

  it.each(recordings)("change nothing in $agent $name", ({ adapter, text, exit }) => {
    if (text === "") return;
    const lines = text.split("\n").flatMap((line) => [...STRANGE, line]);
    const strange = read(adapter, lines.join("\n"), exit).report;
    expect(strange).toEqual(read(adapter, text, exit).report);
  });

  it.each(recordings)("of other shapes are survived: $agent $name", ({ adapter, text }) => {
    for (const line of text.split("\n").filter((one) => one !== "")) {
      const value = JSON.parse(line) as unknown;
      for (const other of [null, 1, "x", [], {}, [null], true]) {
        for (const bent of bends(value, other)) {
          const follower = new AgentFollower(adapter);
          follower.line(JSON.stringify(bent));
          follower.end(1);
        }
      }
    }
  });

  /** The value with one thing in it replaced, for each thing in it, three levels deep. */
  function* bends(value: unknown, other: unknown, depth = 0): Generator<unknown> {
    yield other;
    if (depth > 3 || typeof value !== "object" || value === null) return;
    for (const [key, inner] of Object.entries(value)) {
      for (const bent of bends(inner, other, depth + 1)) {
        yield Array.isArray(value)
          ? value.map((one: unknown, index) => (String(index) === key ? bent : one))
          : { ...value, [key]: bent };
      }
    }
  }
});

describe("a report", () => {
  const call = (id: string, input: string): AgentEvent => ({
    ...{ type: "tool-started", id, name: "shell", input },
  });
  const end = (id: string, ok: boolean): AgentEvent => ({ type: "tool-ended", id, ok });

  /** A follower of an agent that prints our own events. */
  function follower(): { follow: AgentFollower; say: (...events: AgentEvent[]) => void } {
    const line = (text: string): readonly AgentEvent[] => [JSON.parse(text) as AgentEvent];
    const follow = new AgentFollower({ reader: () => ({ line, end: () => [] }) });
    return {
      follow,
      say: (...events) => {
        for (const event of events) follow.line(JSON.stringify(event));
      },
    };
  }

  it("stays small, whatever the stream says (adapter/G3)", () => {
    const { follow, say } = follower();
    for (let index = 0; index < 20_000; index++) {
      say({ type: "text", text: "word ".repeat(20) }, call(`c${index}`, "x".repeat(10_000)));
      say({ type: "denied", tool: `tool ${index}` });
    }
    expect(follow.report.openTools).toHaveLength(64);
    expect(follow.report.openTools.at(-1)?.id).toBe("c19999");
    expect(JSON.stringify(follow.report).length).toBeLessThan(512 * 1024);
  });

  it("sees the same call fail again and again", () => {
    const { follow, say } = follower();
    for (let index = 1; index < STALL_FAILURES; index++) {
      say(call(`c${index}`, "make"), end(`c${index}`, false));
    }
    expect(follow.report.stall).toBeUndefined();
    say(call("last", "make"), end("last", false));
    expect(follow.report.stall).toEqual({ name: "shell", input: "make", failures: 5 });
    say(call("other", "ls"), end("other", true));
    expect(follow.report.stall).toBeUndefined();
  });

  it("counts failures of one call only, and only in a row", () => {
    const { follow, say } = follower();
    for (let index = 0; index < 20; index++) {
      const id = `c${index}`;
      say(call(id, `make ${index % 2}`), end(id, false));
    }
    for (let index = 0; index < 20; index++) {
      const id = `d${index}`;
      say(call(id, "make"), end(id, index % 4 === 0));
    }
    expect(follow.report.stall).toBeUndefined();
  });

  it("forgets a result after which the conversation continued (runner/G5)", () => {
    const { follow, say } = follower();
    say({ type: "turn" }, { type: "result", ok: true });
    expect(follow.report.result).toEqual({ ok: true });
    say({ type: "turn" });
    expect(follow.report.result).toBeUndefined();
  });

  it("adds deltas up and takes totals as they are", () => {
    const { follow, say } = follower();
    const usage = { inputTokens: 10, cachedTokens: 4, outputTokens: 2 };
    say({ type: "usage", counting: "delta", usage });
    say({ type: "usage", counting: "delta", usage: { ...usage, costUsd: 0.5 } });
    expect(follow.report.usage).toEqual({
      ...{ counting: "delta", inputTokens: 20, cachedTokens: 8, outputTokens: 4, costUsd: 0.5 },
      unpriced: true,
    });
    say({ type: "usage", counting: "total", usage });
    expect(follow.report.usage).toEqual({ counting: "total", ...usage });
  });

  it("takes what an invocation used so far in place of what was known of it", () => {
    const { follow, say } = follower();
    const usage = { inputTokens: 10, cachedTokens: 4, outputTokens: 2 };
    say({ type: "usage", counting: "delta", usage });
    say({ type: "usage", counting: "invocation", usage, context: 12, window: 100 });
    expect(follow.report).toMatchObject({ usage: { counting: "delta", ...usage }, context: 12 });
    say({ type: "usage", counting: "invocation", usage: { ...usage, outputTokens: 3 } });
    expect(follow.report).toMatchObject({ context: 12, window: 100 });
    expect(follow.report.usage).toEqual({ counting: "delta", ...usage, outputTokens: 3 });
  });
});

describe("an agent that said nothing", () => {
  const SAID: readonly (readonly [string, number, string, AgentFailureKind])[] = [
    ["codex", 1, "Error: thread/resume failed: no rollout found for thread id 9", "session-gone"],
    ["codex", 1, "Error loading config.toml: invalid type: unit variant", "other"],
    ["claude", 1, "Error: Session ID 9 is already in use.", "other"],
    ["opencode", 1, "Error: Session not found", "session-gone"],
    ["gemini", 42, "Error resuming session: No previous sessions found", "session-gone"],
    ["gemini", 41, "Invalid auth method selected.", "auth"],
    ["gemini", 55, "Gemini CLI is not running in a trusted directory.", "denied"],
  ];

  it.each(SAID)("%s, exit %i, and on standard error: %s", async (name, exit, stderr, kind) => {
    const report = await reportOf(adapterOf(name), [], exit, stderr);
    expect(report.result).toEqual({ ok: false, trouble: { kind, message: stderr } });
  });
});

describe("trouble", () => {
  const NOW = new Date(2026, 5, 1, 12, 0).getTime();
  const HOUR_MS = 3_600_000;
  const WORDS: readonly (readonly [string, AgentFailureKind, number | undefined])[] = [
    ["unexpected status 401 Unauthorized: no", "auth", undefined],
    ["unexpected status 503 Service Unavailable: later", "overloaded", undefined],
    ["exceeded retry limit, last status: 429 Too Many Requests", "rate-limit", undefined],
    ["stream disconnected before completion: Transport error: network error", "cut", undefined],
    ["Missing environment variable: `OPENAI_API_KEY`.", "auth", undefined],
    ["Rate limit reached. Please try again in 1.5s.", "rate-limit", 1500],
    ["You've hit your usage limit. Try again in 2 hours 30 minutes.", "quota", 2.5 * HOUR_MS],
    ["You’ve hit your usage limit or try again at 3:00 PM.", "quota", 3 * HOUR_MS],
    ["You’ve hit your usage limit or try again at 11:00 AM.", "quota", 23 * HOUR_MS],
    ["You’ve hit your usage limit, try again at Jun 2nd, 2026 12:00 PM.", "quota", 24 * HOUR_MS],
    ['[API Error: {"error":{"code":429,"details":[{"retryDelay":"34s"}]}}]', "rate-limit", 34_000],
    ['[API Error: {"error":{"code":503,"message":"overloaded"}}]', "overloaded", undefined],
    ["[API Error: terminated]", "cut", undefined],
    ["something else", "other", undefined],
  ];

  it.each(WORDS)("%s", (message, kind, retryAfterMs) => {
    const found = agentFailureOf({ message }, NOW);
    expect(found).toEqual({
      kind,
      message,
      ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    });
  });
});

describe("Claude's result", () => {
  it.each([
    { is_error: true },
    { is_error: null },
    { subtype: "error_during_execution" },
    { terminal_reason: "api_error" },
  ])("is no success with %o alone", (change) => {
    const { adapter, text } = recorded("claude", "success");
    const lines = text.trimEnd().split("\n");
    const last = JSON.parse(lines.pop() ?? "") as object;
    const bent = [...lines, JSON.stringify({ ...last, ...change })].join("\n");
    expect(read(adapter, bent, 0).report.result?.ok).toBe(false);
  });
});

describe("Claude's limits of a plan", () => {
  it("are a quota with its end", () => {
    const { adapter, text } = recorded("claude", "usage-limit");
    const resetsAt = Math.floor(Date.now() / 1000) + 600;
    const info = { status: "rejected", resetsAt, rateLimitType: "five_hour" };
    const event = JSON.stringify({ type: "rate_limit_event", rate_limit_info: info });
    const why = read(adapter, `${event}\n${text}`, 1).report.result?.trouble;
    expect(why?.kind).toBe("quota");
    expect(why?.retryAfterMs).toBeGreaterThan(590_000);
  });
});

describe("the repair of Gemini's transcript", () => {
  const REAL = join(import.meta.dirname, "transcripts", "gemini.jsonl");

  const scratch = mkdtempSync(join(tmpdir(), "perdure-gemini-"));
  afterAll(() => rmSync(scratch, { recursive: true }));

  function copied(more = ""): string {
    const file = join(scratch, "session.jsonl");
    copyFileSync(REAL, file);
    writeFileSync(file, more, { flag: "a" });
    return file;
  }

  const results = (text: string): number => text.split('"functionResponse"').length - 1;

  it("leaves one result of the two, and every other line as it was", () => {
    const file = copied();
    const before = readFileSync(file, "utf8");
    gemini.repair?.(file);
    const after = readFileSync(file, "utf8");
    expect([results(before), results(after)]).toEqual([2, 1]);
    const changed = after.split("\n").filter((line, at) => line !== before.split("\n")[at]);
    expect(changed).toHaveLength(1);
    expect(changed[0]).toContain('"toolCalls":[{"id":');
  });

  it("drops a torn last line", () => {
    const file = copied('{"id":"torn","type":"user","conte');
    gemini.repair?.(file);
    expect(readFileSync(file, "utf8")).not.toContain("torn");
  });

  it("does nothing to a good one, nor to none", () => {
    const file = copied();
    gemini.repair?.(file);
    const mended = readFileSync(file, "utf8");
    gemini.repair?.(file);
    expect(readFileSync(file, "utf8")).toBe(mended);
    expect(() => gemini.repair?.(join(tmpdir(), "perdure-no-such-file"))).not.toThrow();
  });

  it("keeps a result that is recorded once", () => {
    const file = copied();
    const lines = readFileSync(file, "utf8").split("\n");
    const single = lines.filter((line) => !line.includes('"content":[{"functionResponse"'));
    writeFileSync(file, single.join("\n"));
    gemini.repair?.(file);
    expect(readFileSync(file, "utf8")).toBe(single.join("\n"));
  });
});

describe("prices", () => {
  const usage = { inputTokens: 1_000_000, cachedTokens: 400_000, outputTokens: 100_000 };

  it("count what came from the cache apart", () => {
    expect(LIST_PRICES.costOf("gpt-5", usage)).toBeCloseTo(0.6 * 1.25 + 0.4 * 0.125 + 0.1 * 10);
    expect(LIST_PRICES.costOf("gemini-2.5-flash", usage)).toBeCloseTo(
      0.6 * 0.3 + 0.4 * 0.03 + 0.1 * 2.5,
    );
  });

  it("count what was written to the cache, for minutes or for an hour", () => {
    const plain = LIST_PRICES.costOf("claude-sonnet-4-5", usage) ?? 0;
    expect(plain).toBeCloseTo(0.6 * 3 + 0.4 * 0.3 + 0.1 * 15);
    const written = { ...usage, writtenTokens: 100_000, keptTokens: 200_000 };
    expect(LIST_PRICES.costOf("claude-sonnet-4-5", written)).toBeCloseTo(
      plain + 0.1 * 0.75 + 0.2 * 3,
    );
  });

  it("are of the model, whatever its date and variant", () => {
    for (const name of ["claude-sonnet-4-5-20250929", "claude-sonnet-4-5[1m]"]) {
      expect(LIST_PRICES.costOf(name, usage)).toBe(LIST_PRICES.costOf("claude-sonnet-4-5", usage));
    }
  });

  it("are those of the cloud that sells the model under another name", () => {
    const names = ["us.anthropic.claude-opus-5-20260101-v1:0", "anthropic/claude-opus-5"];
    for (const name of [...names, "claude-opus-5@20260101"]) {
      expect(LIST_PRICES.costOf(name, usage)).toBe(LIST_PRICES.costOf("claude-opus-5", usage));
    }
  });

  it("are others for the calls with a long input", () => {
    const long = { inputTokens: 500_000, cachedTokens: 0, outputTokens: 50_000 };
    expect(LIST_PRICES.costOf("gemini-2.5-pro", { ...usage, long })).toBeCloseTo(
      0.1 * 1.25 + 0.4 * 0.125 + 0.05 * 10 + 0.5 * 2.5 + 0.05 * 15,
    );
  });

  it("of the pipeline come before the user's, and both before the list", () => {
    const pipeline = { "gpt-5": { input: 1, output: 0 } };
    const file = { "gpt-5": { input: 2, output: 0 }, "gpt-99": { input: 3, output: 0 } };
    const own = new PriceList({ pipeline, file });
    expect(["gpt-5", "gpt-99"].map((name) => own.costOf(name, usage))).toEqual([1, 3]);
    expect(["gpt-5", "gpt-99", "o3"].map((name) => own.find(name)?.origin)).toEqual([
      "pipeline",
      "file",
      "list",
    ]);
  });

  it("have a date, and each a source", () => {
    expect(LIST_DATE).toMatch(/^\d{4}-\d{2}-\d{2}$/);
    expect(LIST_PRICES.all().filter(({ source }) => !source.includes(" "))).toEqual([]);
  });

  it("are not guessed", () => {
    expect(LIST_PRICES.costOf("gpt-99", usage)).toBeUndefined();
    expect(LIST_PRICES.costOf("toString", usage)).toBeUndefined();
  });
});

describe("windows", () => {
  it.each([
    ["claude-sonnet-4-5", 200_000],
    ["claude-sonnet-4-5-20250929", 200_000],
    ["claude-sonnet-4-5[1m]", 1_000_000],
    ["claude-opus-4-6", 200_000],
    ["claude-opus-4-8", 1_000_000],
    ["claude-sonnet-5-5", 1_000_000],
    ["claude-something-new", 200_000],
    ["gpt-5.5", 400_000],
    ["gemini-2.5-pro", 1_048_576],
    ["gemini-3-flash-preview", 1_048_576],
    ["o3", 200_000],
    ["o4-mini", 200_000],
    ["mistral-9", undefined],
    [undefined, undefined],
  ] as const)("%s: %s", (model, tokens) => {
    expect(windowOf(model)).toBe(tokens);
  });
});

describe("the prompt that continues", () => {
  it("says what was open, asks to check, and repeats the task", () => {
    const { adapter, text } = recorded("claude", "killed-in-tool");
    const { openTools: open } = read(adapter, text, undefined).report;
    expect(continuePrompt("Do the task.", { open, finished: [] })).toBe(
      [
        "You were interrupted: the process that ran you ended before you were done. Continue the " +
          "task from where it stopped, in this same conversation.",
        "These tool calls had begun and their results are not recorded; they may have taken " +
          "effect in full, in part or not at all:\n" +
          "- Bash: test -e begun && echo again || { touch begun; exec sleep 20; }",
        "Before you do anything again, check the state of the working tree (files, version " +
          "control, running processes). Keep what is already done and do not repeat it.",
        "The task, as it was given:\n\nDo the task.",
      ].join("\n\n"),
    );
  });

  it("lists nothing where nothing was open", () => {
    expect(continuePrompt("Go.", NO_CALLS)).not.toContain("tool calls");
  });

  it("gives the results of calls that had finished, bounded", () => {
    const call = { id: "a", name: "Bash", input: "make\nmake test", ok: true, turn: 1 };
    const long = { ...call, id: "b", input: "cat log", ok: false, result: "x".repeat(100_000) };
    const finished = [{ ...call, result: "built\n" }, { ...call, result: "" }, long];
    const prompt = continuePrompt("Go.", { open: [], finished });
    expect(prompt).toContain("- Bash: make\n  make test\n  It succeeded:\n  built\n");
    expect(prompt).toContain(
      "  It succeeded without output.\n- Bash: cat log\n  It failed:\n  xxx",
    );
    expect(prompt.length).toBeLessThan(4_000);
    const many = Array.from({ length: 200 }, () => long);
    const bounded = continuePrompt("Go.", { open: [], finished: many });
    expect(bounded.length).toBeLessThan(20_000);
    expect(bounded).toContain("(136 earlier ones are left out)");
    const begun = continuePrompt("Go.", { open: many, finished: [] });
    expect(begun.split("- Bash: cat log")).toHaveLength(65);
    expect(begun).toContain("(136 earlier ones are left out)");
  });
});
