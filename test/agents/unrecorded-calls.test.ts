/** Finished tool calls that the transcripts of agents lack. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import type { FinishedCall } from "../../src/runner/agents/adapter.ts";
import { claude } from "../../src/runner/agents/claude/claude.ts";
import { codex } from "../../src/runner/agents/codex/codex.ts";
import { gemini } from "../../src/runner/agents/gemini/gemini.ts";
import { holds } from "../../src/runner/agents/transcript.ts";

const scratch = mkdtempSync(join(tmpdir(), "perdure-calls-"));
afterAll(() => rmSync(scratch, { recursive: true }));

function put(...lines: readonly string[]): string {
  const file = join(scratch, "transcript.jsonl");
  writeFileSync(file, lines.map((line) => `${line}\n`).join(""));
  return file;
}

function linesOf(file: string): readonly string[] {
  const text = readFileSync(join(import.meta.dirname, "transcripts", file), "utf8");
  return text.trimEnd().split("\n");
}

const call = (id: string, name: string, input: string): FinishedCall => ({
  ...{ id, name, input, ok: true, result: "done", turn: 1 },
});

describe("Claude Code", () => {
  const result = (id: string, content: unknown): string =>
    JSON.stringify({
      type: "user",
      message: { content: [{ type: "tool_result", tool_use_id: id, content }] },
    });
  const use = (id: string): string =>
    JSON.stringify({ type: "assistant", message: { content: [{ type: "tool_use", id }] } });
  const calls = [call("a", "Bash", "1"), call("b", "Bash", "2")];

  it("lacks calls without a result", () => {
    expect(claude.unrecorded?.(put(use("a"), result("a", "ok")), calls)).toEqual([calls[1]]);
    expect(claude.unrecorded?.(put(use("a"), use("b")), calls)).toEqual(calls);
    expect(claude.unrecorded?.(put(result("b", "ok"), result("a", "ok")), calls)).toEqual([]);
    expect(claude.unrecorded?.(join(scratch, "missing"), calls)).toEqual(calls);
  });

  it("lacks a call whose result it made up when it was resumed", () => {
    const words = "Tool call interrupted: the session ended before this call's result was recorded";
    const text = [{ type: "text", text: words }];
    expect(claude.unrecorded?.(put(result("a", words), result("b", text)), calls)).toEqual(calls);
  });
});

describe("Codex", () => {
  const lines = linesOf("codex.jsonl");
  const command = "touch begun; test -e again || { touch again; exec sleep 20; }";
  const shell = call("item_0", "shell", `/bin/bash -lc '${command}'`);

  it("lacks a call whose output is missing in the last turn", () => {
    const output = lines.findIndex((line) => line.includes('"function_call_output"'));
    expect(codex.unrecorded?.(put(...lines.slice(0, output)), [shell])).toEqual([shell]);
    expect(codex.unrecorded?.(put(...lines.slice(0, output + 1)), [shell])).toEqual([]);
  });

  it("does not take another call for it, and tells calls apart by number", () => {
    const output = lines.findIndex((line) => line.includes('"function_call_output"'));
    const file = put(...lines.slice(0, output));
    expect(codex.unrecorded?.(file, [call("item_0", "shell", "/bin/bash -lc ls")])).toEqual([]);
    expect(codex.unrecorded?.(file, [call("item_0", "file_change", "[]")])).toEqual([]);
    const again = { ...shell, id: "item_1" };
    expect(codex.unrecorded?.(file, [shell, again])).toEqual([again]);
  });

  it("lacks what a script did whose output is missing", () => {
    const script = { type: "custom_tool_call", name: "exec", call_id: "c1", input: "await f()" };
    const file = put(JSON.stringify({ type: "response_item", payload: script }));
    const calls = [shell, { ...shell, id: "item_1" }];
    expect(codex.unrecorded?.(file, calls)).toEqual(calls);
  });
});

describe("Gemini CLI", () => {
  const lines = linesOf("gemini.jsonl");
  const id = "run_shell_command__40fc181688d9451d918c4d59";
  const shell = call(id, "run_shell_command", "echo hi >> x.txt");

  it("lacks a call without a result", () => {
    const result = lines.findIndex((line) => line.includes('"result"'));
    expect(gemini.unrecorded?.(put(...lines), [shell])).toEqual([]);
    expect(gemini.unrecorded?.(put(...lines.slice(0, result + 1)), [shell])).toEqual([]);
    expect(gemini.unrecorded?.(put(...lines.slice(0, result)), [shell])).toEqual([shell]);
  });
});

it("a word is found in a transcript, or not", () => {
  const file = put("one", "two 4f2a91c07b3e");
  expect(holds(file, "4f2a91c07b3e")).toBe(true);
  expect(holds(file, "4f2a91c07b3f")).toBe(false);
});
