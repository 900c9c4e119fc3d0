/**
 * What an agent may use: the flags of each adapter, word for word, as the documentation has them,
 * and that an adapter does not do what the rules call impossible.
 */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { ACCESS_KEYS, type AccessKey, inabilityOf } from "../../src/pipeline/agent-keys.ts";
import type { AgentAdapter, AgentCall, AgentCommand } from "../../src/runner/agents/adapter.ts";
import { claude } from "../../src/runner/agents/claude/claude.ts";
import { codex } from "../../src/runner/agents/codex/codex.ts";
import { gemini } from "../../src/runner/agents/gemini/gemini.ts";
import { opencode } from "../../src/runner/agents/opencode/opencode.ts";
import { agentAdapter } from "../../src/runner/agents/registry.ts";
import {
  ADAPTER_NAMES,
  covers,
  matchesPattern,
  PERMISSION_LEVELS,
  ruleFor,
  toolRule,
} from "../../src/util/agent-access.ts";

const DOCS = readFileSync(new URL("../../docs/PERMISSIONS.md", import.meta.url), "utf8");
const AT = { kind: "start", promptFile: "/a/prompt", dir: "/a", cwd: "/w" } as const;
const PLAIN: AgentCall = { ...AT, env: { HOME: "/no" }, permissions: "default", args: [] };
const PROGRAMS: readonly AgentAdapter[] = [claude, codex, gemini, opencode];

const MCP = {
  docs: { command: "docs", args: ["--stdio"], env: { TOKEN: "t" } },
  web: { url: "https://x.test/mcp", type: "http", headers: { A: "b" } },
} as const;

/** Each key of a pipeline as a part of a call. */
const CALLS: Readonly<Record<AccessKey, Partial<AgentCall>>> = {
  tools: { allow: ["Edit", "bash(npm test:*)"], deny: ["bash(rm *)"] },
  // What follows from a denial is no affair of the call.
  on_denied: {},
  effort: { effort: "high" },
  mcp: { mcp: MCP },
  directories: { directories: ["/shared"] },
};

function command(adapter: AgentAdapter, call: Partial<AgentCall>): AgentCommand {
  return adapter.command({ ...PLAIN, ...call });
}

/** The words of a command line that are not there without these parts of the call. */
function added(adapter: AgentAdapter, call: Partial<AgentCall>): readonly string[] {
  const before = command(adapter, {}).argv;
  const { argv } = command(adapter, call);
  const from = argv.findIndex((word, index) => word !== before[index]);
  return from < 0 ? [] : argv.slice(from, from + argv.length - before.length);
}

describe("the levels in the documentation", () => {
  const lines = DOCS.split("\n");
  const cellsOf = (line = ""): readonly string[] => line.split("|").map((cell) => cell.trim());
  const head = lines.find((line) => line.startsWith("| `permissions` |"));
  const rows = PERMISSION_LEVELS.map((level) => ({
    level,
    cells: cellsOf(lines.find((line) => line.startsWith(`| \`${level}\` |`))),
  }));

  it.each(PROGRAMS)("are those of $name", (adapter) => {
    const column = cellsOf(head).indexOf(adapter.name);
    for (const { level, cells } of rows) {
      const { OPENCODE_PERMISSION: set } = command(adapter, { permissions: level }).env;
      const flags = [
        ...added(adapter, { permissions: level }),
        ...(set === undefined ? [] : [`OPENCODE_PERMISSION=${set}`]),
      ].join(" ");
      const cell = cells[column] ?? "";
      if (flags === "") expect(cell, level).toMatch(/^no flag: /);
      else expect(cell, level).toBe(`\`${flags}\``);
    }
  });

  it("name the guards that are switched off", () => {
    expect(DOCS).toContain("`IS_SANDBOX=1`");
    expect(command(codex, {}).argv).toContain("--skip-git-repo-check");
    expect(DOCS).toContain("`--skip-git-repo-check`");
  });
});

describe("keys", () => {
  it.each(ADAPTER_NAMES)("that %s has no flag for are those that change nothing", (name) => {
    const adapter = agentAdapter(name);
    if (adapter === undefined) throw new Error(`no adapter ${name}`);
    const plain = command(adapter, { command: "agent" });
    for (const key of ACCESS_KEYS.filter((one) => one !== "on_denied")) {
      const reported = command(adapter, { command: "agent", ...CALLS[key] });
      const silent = JSON.stringify(reported) === JSON.stringify(plain);
      expect(silent, key).toBe(inabilityOf(name, key) !== undefined);
    }
  });

  it("become flags of Claude Code", () => {
    expect(added(claude, CALLS.tools)).toEqual([
      ...["--allowedTools", "Edit", "bash(npm test:*)", "--disallowedTools", "bash(rm *)"],
    ]);
    expect(added(claude, CALLS.effort)).toEqual(["--effort", "high"]);
    expect(added(claude, CALLS.directories)).toEqual(["--add-dir", "/shared"]);
    expect(added(claude, CALLS.mcp)).toEqual(["--mcp-config", "/a/mcp.json"]);
    const { files } = command(claude, CALLS.mcp);
    expect(JSON.parse(files["mcp.json"] ?? "")).toEqual({ mcpServers: MCP });
  });

  it("become settings of Codex", () => {
    expect(added(codex, CALLS.effort)).toEqual(["-c", 'model_reasoning_effort="high"']);
    expect(added(codex, CALLS.directories)).toEqual([
      ...["-c", 'sandbox_workspace_write.writable_roots=["/shared"]'],
    ]);
    expect(added(codex, CALLS.mcp)).toEqual([
      "-c",
      'mcp_servers.docs={"command"="docs","args"=["--stdio"],"env"={"TOKEN"="t"}}',
      "-c",
      'mcp_servers.web={"url"="https://x.test/mcp","http_headers"={"A"="b"}}',
    ]);
  });

  it("become a policy of Gemini CLI, in which what is denied comes first", () => {
    const { argv, files } = command(gemini, CALLS.tools);
    expect(argv.slice(-2)).toEqual(["--policy", "/a/policy.toml"]);
    const rules = (files["policy.toml"] ?? "").trim().split("\n\n");
    expect(rules.map((rule) => rule.split("\n").slice(1))).toEqual([
      ['toolName = "bash"', 'commandPrefix = "rm "', 'decision = "deny"', "priority = 999"],
      ['toolName = "Edit"', 'decision = "allow"', "priority = 998"],
      ['toolName = "bash"', 'commandPrefix = "npm test"', 'decision = "allow"', "priority = 998"],
    ]);
    expect(added(gemini, CALLS.directories)).toEqual(["--include-directories", "/shared"]);
  });

  it("become permissions and configuration of opencode, over what the author has there", () => {
    const env = { OPENCODE_PERMISSION: '{"edit":"ask","bash":"ask"}' };
    const tools = { allow: ["bash(npm test *)"], deny: ["edit", "bash(rm *)"] };
    const set = command(opencode, { env, permissions: "edit", ...tools }).env.OPENCODE_PERMISSION;
    expect(JSON.parse(set ?? "")).toEqual({
      edit: "deny",
      bash: { "*": "ask", "npm test *": "allow", "rm *": "deny" },
    });
    const outside = command(opencode, CALLS.directories).env.OPENCODE_PERMISSION;
    expect(outside).toBe('{"external_directory":{"/shared/**":"allow"}}');
    expect(added(opencode, CALLS.effort)).toEqual(["--variant", "high"]);
    const config = command(opencode, CALLS.mcp).env.OPENCODE_CONFIG_CONTENT ?? "";
    expect(JSON.parse(config)).toEqual({
      mcp: {
        docs: { type: "local", command: ["docs", "--stdio"], environment: { TOKEN: "t" } },
        web: { type: "remote", url: "https://x.test/mcp", headers: { A: "b" } },
      },
    });
  });
});

describe("tools in the words of a pipeline", () => {
  it("are a name, or a name and a pattern", () => {
    expect(toolRule("Edit")).toEqual({ name: "Edit" });
    expect(toolRule("Bash(echo (a) b)")).toEqual({ name: "Bash", pattern: "echo (a) b" });
  });

  it("name the command of a shell, and other tools as a whole", () => {
    expect(ruleFor("Bash", "npm test")).toBe("Bash(npm test)");
    expect(ruleFor("Write", '{"file_path":"x"}')).toBe("Write");
    expect(ruleFor("execute", "")).toBe("execute");
  });

  it("cover the calls that they stand for", () => {
    expect(covers("Bash", "Bash(rm -rf x)")).toBe(true);
    expect(covers("Bash(rm:*)", "Bash(rm -rf x)")).toBe(true);
    expect(covers("Bash(rm:*)", "Bash(ls)")).toBe(false);
    expect(covers("Bash(rm:*)", "Bash")).toBe(false);
    expect(covers("Write", "Bash(ls)")).toBe(false);
  });

  it("match as they are written, with * for anything", () => {
    expect(matchesPattern("npm test", "npm test")).toBe(true);
    expect(matchesPattern("npm test", "npm test -- x")).toBe(false);
    expect(matchesPattern("npm test:*", "npm test -- x")).toBe(true);
    expect(matchesPattern("a.c", "abc")).toBe(false);
    expect(matchesPattern("git * main", "git push\norigin main")).toBe(true);
  });
});
