/** A conversation as a person reads it. */
import { expect, test } from "vitest";
import { AgentLines } from "../../src/app/output/output.ts";
import type { AgentEvent } from "../../src/runner/agents/adapter.ts";

function shown(...events: readonly AgentEvent[]): readonly string[] {
  const lines = new AgentLines();
  return events.flatMap((event) => lines.of(event)).map(({ text }) => text);
}

const call = (id: string, name: string, input: string): AgentEvent => ({
  type: "tool-started",
  ...{ id, name, input },
});
const result = (id: string, ok: boolean, text?: string): AgentEvent => ({
  type: "tool-ended",
  ...{ id, ok },
  ...(text === undefined ? {} : { result: text }),
});

test("words, calls and the beginning of their results", () => {
  expect(
    shown(
      { type: "text", text: "I look first.\nThen I fix it." },
      call("1", "Bash", "npm test\nmore"),
      result("1", true, "a\n\nb\nc\nd\ne\n"),
      call("2", "Read", ""),
      result("2", true, ""),
      call("3", "Bash", "false"),
      result("3", false, "exit status 1"),
      { type: "denied", tool: "Write" },
    ),
  ).toEqual([
    "I look first.",
    "Then I fix it.",
    "→ Bash: npm test",
    "← a",
    "  b",
    "  c",
    "  … 2 more lines",
    "→ Read",
    "→ Bash: false",
    "✗ Bash failed: exit status 1",
    "✗ not permitted: Write",
  ]);
});

test("results name their tool while several calls are open", () => {
  expect(
    shown(
      call("1", "Grep", "a"),
      call("2", "Glob", "b"),
      result("2", true, "two"),
      result("1", true, "one"),
    ),
  ).toEqual(["→ Grep: a", "→ Glob: b", "← Glob: two", "← one"]);
});

test("escapes in a result do not reach the line", () => {
  const lines = shown(call("1", "Bash", "x"), result("1", true, "\u001b[2Jred\u001b[31m"));
  expect(lines.at(-1)).toBe("← red");
});
