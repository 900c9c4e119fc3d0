/**
 * What real agents may do: the README's first pipeline as it stands there, single tools that are
 * allowed or denied, and a person who is asked about a denied call.
 */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { shell, stateless, text, when, write } from "../rig/model/reply.ts";
import { AgentProject, CHOSEN, expectDone } from "./agent-project.ts";
import type { AgentName } from "./install.ts";

const README = readFileSync(new URL("../../README.md", import.meta.url), "utf8");

/** How an agent's own rule for a command is written. */
const RULES: Readonly<Partial<Record<AgentName, (command: string) => string>>> = {
  claude: (command) => `Bash(${command})`,
  gemini: (command) => `run_shell_command(${command})`,
  opencode: (command) => `bash(${command})`,
};

/** The last message that the model got. */
function lastRequest({ model }: AgentProject): string {
  return JSON.stringify(model.requests("work").at(-1)?.body);
}

describe.runIf(CHOSEN.includes("claude"))("the README's first agent pipeline", () => {
  it("works with Claude Code as it stands there", async () => {
    const [, snippet = ""] = /^```yaml\n(# fix\.yaml\n[\s\S]*?)^```$/m.exec(README) ?? [];
    const project = await AgentProject.forTest(
      "claude",
      when("Summarise", write("CHANGES.md", "Fixed.\n"), text("Summarised.")),
      when(
        "failing tests",
        shell("npm test"),
        write("fixed", "yes\n"),
        shell("npm test"),
        text("All pass."),
      ),
    );
    project.write("fix.yaml", snippet);
    const test = "echo tested >> effects; test -e fixed";
    project.write("package.json", JSON.stringify({ scripts: { test } }));
    expectDone(await project.begin(["run", "fix.yaml"]).ended);

    // Twice by the agent, once by the check.
    expect(project.effects()).toEqual({ tested: 3 });
    expect(project.read("CHANGES.md")).toBe("Fixed.\n");
    expect(project.events("step.completed").map(({ denied }) => denied)).toEqual([
      undefined,
      undefined,
    ]);
  });
});

const WITH_RULES = CHOSEN.filter((agent) => RULES[agent] !== undefined);

describe.each(WITH_RULES)("single tools of %s", (agent) => {
  const rule = (command: string): string => RULES[agent]?.(command) ?? "";
  // Not a command that edits files by itself: some agents allow those with `edit`.
  const first = "sh make.sh first";
  const second = "sh make.sh second";
  const script = stateless(shell(first), shell(second), text("All done."));

  function pipeline(project: AgentProject, keys: string, level = "edit"): void {
    project.write("make.sh", 'touch "$1.txt"\n');
    project.steps(`
  - { id: work, agent: worker, permissions: ${level}, prompt: Do it., ${keys} }
  - { id: next, run: "${project.effect("next")}" }
`);
  }

  // By itself opencode allows every command.
  const asks = it.skipIf(agent === "opencode");

  asks("are allowed by name, and what is not is denied and named", async () => {
    const project = await AgentProject.forTest(agent, script);
    pipeline(project, `tools: { allow: ['${rule(first)}'] }`);
    expectDone(await project.begin(["run", "p.yaml"]).ended);

    expect(project.exists("first.txt")).toBe(true);
    expect(project.exists("second.txt")).toBe(false);
    expect(project.events("step.completed")[0]?.denied).toEqual([rule(second)]);
  });

  it("are denied by name, whatever is allowed", async () => {
    const project = await AgentProject.forTest(agent, script);
    pipeline(project, `tools: { deny: ['${rule(second)}'] }`, "all");
    expectDone(await project.begin(["run", "p.yaml"]).ended);

    expect(project.model.requests("work").length).toBeGreaterThan(2);
    expect(project.exists("first.txt")).toBe(true);
    expect(project.exists("second.txt")).toBe(false);
  });

  asks("are asked for; allowed, the same conversation continues with them", async () => {
    const project = await AgentProject.forTest(
      agent,
      when("a person allowed", shell(second), text("Now it is done.")),
      stateless(shell(second), text("I was not allowed to.")),
    );
    // Gemini CLI has a shell only where some command is allowed.
    pipeline(project, `on_denied: ask, tools: { allow: ['${rule(first)}'] }`);
    const asked = await project.begin(["run", "p.yaml"]).ended;
    expect(asked.exit, asked.stdout + asked.stderr).toBe(6);
    expect(project.exists("second.txt")).toBe(false);
    const [id = ""] = await project.runIds();
    expectDone(await project.begin(["answer", id, "work", "allow"]).ended);
    expectDone(await project.begin(["resume", id]).ended);

    expect(project.exists("second.txt")).toBe(true);
    const conversationsOf = project
      .events("step.started")
      .flatMap(({ conversation }) => conversation ?? []);
    expect(conversationsOf.map(({ says }) => says)).toEqual(["task", "permitted"]);
    expect(new Set(conversationsOf.map(({ session }) => session)).size).toBe(1);
    expect(lastRequest(project)).toContain("I was not allowed to.");
  });
});

describe.each(CHOSEN)("the other keys of %s", (agent) => {
  it("start it: system text, plan, effort, directories and MCP servers, where it takes them", async () => {
    const project = await AgentProject.forTest(agent, stateless(text("Planned.")));
    const keys = {
      claude: "effort: low, directories: [home], mcp: { none: { command: 'true' } }",
      codex: "effort: low, directories: [home], mcp: { none: { command: 'true' } }",
      gemini: "directories: [home]",
      opencode: "directories: [home]",
    }[agent];
    project.steps(`
  - { id: work, agent: worker, permissions: plan, prompt: Plan it., system: Be brief., ${keys} }
`);
    expectDone(await project.begin(["run", "p.yaml"]).ended);
    expect(project.events("step.completed")[0]?.answer).toBe("Planned.");
    expect(lastRequest(project)).toContain("Be brief.");
  });
});
