/** Calls that a hook of the pipeline forbids, as Claude Code tells them. */
import { expect, it } from "vitest";
import { claude } from "../../src/runner/agents/claude/claude.ts";
import { AgentFollower } from "../../src/runner/agents/report.ts";
import { HOOK_FORBIDS } from "../../src/util/agent-access.ts";

const refused = (id: string, content: unknown): string =>
  JSON.stringify({
    type: "user",
    message: { content: [{ type: "tool_result", tool_use_id: id, is_error: true, content }] },
  });

const ended = (...ids: readonly string[]): string =>
  JSON.stringify({
    type: "result",
    subtype: "success",
    is_error: false,
    result: "done",
    permission_denials: ids.map((id) => ({ tool_name: "Bash", tool_use_id: id })),
  });

function read(...lines: readonly string[]): readonly [boolean | undefined, readonly string[]] {
  const follower = new AgentFollower(claude);
  for (const line of lines) follower.line(line);
  const { result, denied } = follower.report;
  return [result?.ok, denied];
}

it("tells calls that our hook skipped from permissions that are missing", () => {
  const words = `PreToolUse:Bash hook error: [x]: no\n${HOOK_FORBIDS}\n`;
  expect(read(refused("a", words), ended("a"))).toEqual([true, []]);
  expect(read(refused("a", [{ type: "text", text: words }]), ended("a"))).toEqual([true, []]);
  expect(read(refused("a", words), ended("a", "b"))).toEqual([true, ["Bash"]]);
  expect(read(refused("a", `${HOOK_FORBIDS}, says another`), ended("a"))).toEqual([true, ["Bash"]]);
});
