/** The lines of our client of the Agent Client Protocol: what makes them, and what they mean. */
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type AcpLine, acp } from "../../src/runner/agents/acp/acp.ts";
import { AcpUpdates, answerPermission } from "../../src/runner/agents/acp/updates.ts";
import { AgentFollower, type AgentReport } from "../../src/runner/agents/report.ts";
import type { Json } from "../../src/util/json.ts";
import { ACP_CASES } from "./acp-record.ts";
import { normalise } from "./normalise.ts";

const STREAMS = join(import.meta.dirname, "streams", "acp");

function report(lines: readonly AcpLine[], exit: number | undefined, stderr?: string): AgentReport {
  const follower = new AgentFollower(acp);
  for (const line of lines) follower.line(JSON.stringify(line));
  return follower.end(exit, stderr);
}

const SESSION: AcpLine = { type: "session", id: "s1" };
const call = (id: string): AcpLine => ({ type: "tool-started", id, name: "execute", input: "ls" });
const back = (id: string): AcpLine => ({ type: "tool-ended", id, ok: true });
const text = (said: string): AcpLine => ({ type: "text", text: said });
const END: AcpLine = { type: "result", stop: "end_turn" };

describe("the recordings", () => {
  it("are all there, normalised", () => {
    const found = globSync("*.jsonl", { cwd: STREAMS }).map((name) => name.replace(".jsonl", ""));
    expect(found.sort()).toEqual([...ACP_CASES].sort());
    for (const name of found) {
      const recorded = readFileSync(join(STREAMS, `${name}.jsonl`), "utf8");
      expect(normalise(recorded, []), name).toBe(recorded);
      expect(recorded, name).not.toMatch(/\/(tmp|var|root|home|work)\//);
    }
  });
});

describe("the reader", () => {
  it("counts an answer for whatever comes after the tools", () => {
    const lines = [SESSION, text("I look.\n"), call("a"), call("b"), back("a"), back("b")];
    const ended = report([...lines, { type: "thought", text: "Hm" }, text("All.\nDone."), END], 0);
    expect(ended.turns).toBe(2);
    expect(ended.result).toEqual({ ok: true, text: "All.\nDone." });
    expect(ended.session).toBe("s1");
    expect(ended.openTools).toEqual([]);
  });

  it("adds up what prompts used, and takes the conversation's cost as it is", () => {
    const used = { inputTokens: 10, cachedTokens: 4, outputTokens: 2 };
    const cost = (totalUsd: number): AcpLine => ({ type: "cost", totalUsd });
    const ended = report([SESSION, cost(0.1), cost(0.3), { type: "usage", ...used }, END], 0);
    expect(ended.usage).toEqual({ counting: "delta", ...used });
    expect(ended.conversationUsd).toBe(0.3);
  });

  it.each([
    ["max_tokens", "other"],
    ["max_turn_requests", "max-turns"],
    ["refusal", "other"],
    ["cancelled", "interrupted"],
    ["something_new", "other"],
  ])("knows the stop reason %s as %s", (stop, kind) => {
    const ended = report([SESSION, { type: "result", stop }], 1);
    expect(ended.result).toMatchObject({ ok: false, trouble: { kind } });
  });

  it("takes a failure as it was reported, and an unknown kind as another one", () => {
    const trouble = { kind: "rate-limit", message: "slowly", retryAfterMs: 5 } as const;
    const reported = report([{ type: "result", stop: "error", trouble }], 1);
    expect(reported.result).toEqual({ ok: false, trouble });
    const strange = { ...trouble, kind: "constructor" } as unknown as typeof trouble;
    const unknown = report([{ type: "result", stop: "error", trouble: strange }], 1);
    expect(unknown.result?.trouble?.kind).toBe("other");
  });

  it.each([
    [[SESSION], undefined, "interrupted", "was killed"],
    [[SESSION], 143, "interrupted", "exit status 143"],
    [[SESSION], 7, "other", "exit status 7 without a result: out of luck"],
    [[], 127, "missing", "out of luck"],
    [[], 1, "other", "out of luck"],
  ] as const)("without a result: %j, exit %s", (lines, exit, kind, words) => {
    const why = report(lines, exit, "out of luck").result?.trouble;
    expect(why?.kind).toBe(kind);
    expect(why?.message).toContain(words);
  });
});

describe("the notes", () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  function notes(): { notes: AcpUpdates; lines: AcpLine[] } {
    const lines: AcpLine[] = [];
    const made = new AcpUpdates((line) => lines.push(line));
    made.begin();
    return { notes: made, lines };
  }

  const said = (piece: string): Json => {
    const content = { type: "text", text: piece };
    return { sessionUpdate: "agent_message_chunk", content };
  };
  const pending = { sessionUpdate: "tool_call", toolCallId: "t", title: "bash", kind: "execute" };
  const running = {
    ...{ ...pending, sessionUpdate: "tool_call_update", status: "in_progress" },
    ...{ title: "ls -l", rawInput: { command: "ls -l" } },
  };

  it("makes lines of pieces, and holds back no longer than a moment", () => {
    const { notes: made, lines } = notes();
    for (const piece of ["All ", "done", ".\nRe", "ally"]) made.update(said(piece));
    expect(lines).toEqual([text("All done.\n")]);
    vi.advanceTimersByTime(1_000);
    expect(lines).toEqual([text("All done.\n"), text("Really")]);
  });

  it("waits for the input of a call, and tells it once", () => {
    const { notes: made, lines } = notes();
    for (const update of [pending, running, running]) made.update(update);
    made.update({ ...running, status: "completed" });
    made.update({ ...running, status: "completed" });
    const begun = { type: "tool-started", id: "t", name: "execute", input: "ls -l" };
    expect(lines).toEqual([begun, { type: "tool-ended", id: "t", ok: true }]);
  });

  it("does not wait for it in vain", () => {
    const { notes: made, lines } = notes();
    made.update(pending);
    expect(lines).toEqual([]);
    vi.advanceTimersByTime(1_000);
    expect(lines).toEqual([{ type: "tool-started", id: "t", name: "execute", input: "bash" }]);
  });

  it("ignores what came before the prompt, and what it does not know", () => {
    const lines: AcpLine[] = [];
    const made = new AcpUpdates((line) => lines.push(line));
    made.update(running);
    made.begin();
    for (const strange of [undefined, null, [], {}, { sessionUpdate: "new" }, said("")]) {
      made.update(strange);
    }
    made.flush();
    expect(lines).toEqual([]);
  });

  it.each([
    ["beside", { totalTokens: 100, inputTokens: 40, cachedReadTokens: 50, outputTokens: 10 }],
    ["inside", { totalTokens: 100, inputTokens: 90, cachedReadTokens: 50, outputTokens: 10 }],
  ])("counts a cache that is reported %s the input", (_where, usage) => {
    const { notes: made, lines } = notes();
    made.usage({ stopReason: "end_turn", usage });
    expect(lines).toEqual([{ type: "usage", inputTokens: 90, cachedTokens: 50, outputTokens: 10 }]);
  });
});

describe("permissions", () => {
  const kinds = ["allow_always", "allow_once", "reject_always", "reject_once"];
  const options = (...some: readonly string[]): Json => {
    return { options: some.map((kind) => ({ kind, optionId: `the ${kind}`, name: kind })) };
  };

  const call = (kind: string, input = ""): Parameters<typeof answerPermission>[1] => {
    return { kind, name: "bash", title: `\`${input}\``, input };
  };

  it("never allow always, even where nothing else is offered", () => {
    for (const permissions of ["default", "plan", "edit", "all"] as const) {
      const request = options("allow_always", "reject_always");
      expect(answerPermission({ permissions }, call("read"), request)).toEqual({
        allowed: false,
        outcome: { outcome: "cancelled" },
      });
    }
    const all = answerPermission({ permissions: "all" }, call("read"), options(...kinds));
    expect(all.outcome).toEqual({
      outcome: "selected",
      optionId: "the allow_once",
    });
  });

  it("edit: does not delete, execute, fetch, or what has no kind", () => {
    const all = ["read", "search", "think", "edit", "move", "delete", "execute", "fetch", "other"];
    const request = options(...kinds);
    const allowedBy = (permissions: "plan" | "edit"): readonly string[] =>
      all.filter((kind) => answerPermission({ permissions }, call(kind), request).allowed);
    expect(allowedBy("edit")).toEqual(["read", "search", "think", "edit", "move"]);
    expect(allowedBy("plan")).toEqual(["read", "search", "think"]);
  });

  it("allow and deny single tools by name or kind, and by what they are called with", () => {
    const test = call("execute", "npm test -- --all");
    const answers = (allow: readonly string[], deny: readonly string[] = []): boolean =>
      answerPermission({ permissions: "default", allow, deny }, test, options(...kinds)).allowed;
    expect(answers([])).toBe(false);
    expect(answers(["execute"])).toBe(true);
    expect(answers(["bash(npm test*)"])).toBe(true);
    expect(answers(["execute(npm test:*)"])).toBe(true);
    expect(answers(["execute(npm test)"])).toBe(false);
    expect(answers(["edit"])).toBe(false);
    expect(answers(["execute"], ["execute(npm *)"])).toBe(false);
  });
});
