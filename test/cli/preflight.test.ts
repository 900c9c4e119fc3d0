/** The checks before the first step is paid for. */
import * as fs from "node:fs";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { PlainProject, type Project, type Result } from "../rig/project.ts";
import { suggestions } from "../rig/suggestion.ts";

let project: Project;
beforeEach(() => {
  project = new PlainProject();
  fs.mkdirSync(project.path("bin"));
  fs.mkdirSync(project.path("home"));
});
afterEach(() => project.remove());

/** A program that counts its calls and fails: it must not be reached. */
function install(...names: readonly string[]): void {
  for (const name of names) {
    const script = `#!/bin/sh\n${project.effect(name)}\nexit 1\n`;
    fs.writeFileSync(project.path("bin", name), script, { mode: 0o755 });
  }
}

const BARE = {
  ...{ ANTHROPIC_API_KEY: "", ANTHROPIC_AUTH_TOKEN: "", CLAUDE_CODE_OAUTH_TOKEN: "" },
  ...{ ANTHROPIC_BASE_URL: "", CODEX_API_KEY: "", OPENAI_API_KEY: "", OPENAI_BASE_URL: "" },
};

async function perdure(args: readonly string[], env: Record<string, string> = {}): Promise<Result> {
  const base = {
    ...BARE,
    PATH: `${project.path("bin")}:/usr/bin:/bin`,
    HOME: project.path("home"),
    CLAUDE_CONFIG_DIR: project.path("home", ".claude"),
    CODEX_HOME: project.path("home", ".codex"),
  };
  return project.run(args, { env: { ...base, ...env } });
}

const KEYS = { ANTHROPIC_API_KEY: "sk-ant-x", CODEX_API_KEY: "x" };

function pipeline(...steps: readonly string[]): void {
  project.write("p.yaml", `steps:\n${steps.map((step) => `  - ${step}\n`).join("")}`);
}

const WORK = "{ id: work, agent: claude, prompt: Do it. }";
const JUDGE = "{ id: judge, agent: codex, permissions: plan, prompt: Is it good? }";

describe("the preflight of a run", () => {
  it("stops at a missing agent, before anything is paid for, and says what helps", async () => {
    install("claude");
    pipeline(WORK, JUDGE);
    const { exit, stderr } = await perdure(["run", "p.yaml"], KEYS);

    expect(exit).toBe(2);
    expect(stderr).toContain("nothing was started: codex is not on the PATH (agent of step judge)");
    expect(stderr).toContain("npm install -g @openai/codex, then: perdure run p.yaml");
    expect(project.effects()).toEqual({});
    expect(project.exists(".perdure", "runs")).toBe(false);
    // Doing what it says helps, and so does insisting.
    install("codex");
    const next = await perdure(["run", "p.yaml"], KEYS);
    expect(next.exit, next.stderr).toBe(3);
    expect(project.effects()).toEqual({ claude: 1 });
  });

  it("stops at an agent without a login", async () => {
    install("claude");
    pipeline(WORK);
    const { exit, stderr } = await perdure(["run", "p.yaml"]);

    expect(exit).toBe(2);
    expect(stderr).toContain("claude is not logged in (agent of step work)");
    expect(stderr).toContain("export ANTHROPIC_API_KEY=...");
    // A file of the agent's, a variable, or a service of the user's own will do.
    fs.mkdirSync(project.path("home", ".claude"));
    project.write("home/.claude/.credentials.json", "{}");
    expect((await perdure(["run", "p.yaml"])).exit).toBe(3);
    fs.rmSync(project.path("home", ".claude"), { recursive: true });
    expect((await perdure(["run", "p.yaml"], KEYS)).exit).toBe(3);
    const own = { ANTHROPIC_BASE_URL: "http://127.0.0.1:9" };
    expect((await perdure(["run", "p.yaml"], own)).exit).toBe(3);
  });

  it("stops at a missing program of a later step, and at a missing directory", async () => {
    install("claude");
    pipeline(
      "{ id: work, agent: claude, prompt: Do it., directories: [../beside] }",
      "{ id: ship, run: no-such-shipper --now }",
    );
    const { exit, stderr } = await perdure(["run", "p.yaml"], KEYS);

    expect(exit).toBe(2);
    expect(stderr).toContain("no-such-shipper is not on the PATH (step ship)");
    expect(stderr).toMatch(/there is no directory \S+\/beside \(step work\)/);
  });

  it("only warns if a step may be skipped, or an earlier one may install the program", async () => {
    install("claude");
    pipeline(
      '{ id: work, agent: claude, prompt: "Do it, and install no-such-tool." }',
      "{ id: use, run: no-such-tool }",
      "{ id: judge, agent: codex, permissions: plan, when: false, prompt: Is it good? }",
    );
    const { exit, stderr } = await perdure(["run", "p.yaml"], KEYS);

    expect(exit, stderr).toBe(3);
    expect(project.effects()).toEqual({ claude: 1 });
    expect(stderr).toContain("warning: no-such-tool is not on the PATH (step use)");
    expect(stderr).toContain("warning: codex is not on the PATH (agent of step judge)");
  });

  it("checks nothing if nothing is paid for, or with --no-preflight", async () => {
    pipeline("{ id: work, run: no-such-tool }");
    expect((await perdure(["run", "p.yaml"])).exit).toBe(3);
    pipeline(WORK);
    expect((await perdure(["run", "p.yaml", "--no-preflight"])).exit).toBe(3);
  });
});

describe("the preflight of a resume", () => {
  it("checks what is left to do", async () => {
    install("claude", "codex");
    pipeline(WORK, JUDGE);
    expect((await perdure(["run", "p.yaml"], KEYS)).exit).toBe(3);
    fs.rmSync(project.path("bin", "codex"));
    const { exit, stderr } = await perdure(["resume", await project.newestId()], KEYS);

    expect(exit).toBe(2);
    expect(stderr).toContain("codex is not on the PATH");
    expect(project.effects()).toEqual({ claude: 1 });
  });
});

describe("the preflight of other commands", () => {
  const GOOD = "#!/bin/sh\nexit 0\n";

  /** A run of two plain agents, the second of which has failed; the program of one is gone then. */
  async function failedWithout(name: string): Promise<string> {
    for (const [program, exit] of [
      ["one", 0],
      ["two", 1],
    ] as const) {
      const script = `#!/bin/sh\ncat > /dev/null\n${project.effect(program)}\nexit ${exit}\n`;
      fs.writeFileSync(project.path("bin", program), script, { mode: 0o755 });
    }
    const agents = "agents: { a: { command: one }, b: { command: two } }";
    const steps = "[{ id: a, agent: a, prompt: Go. }, { id: b, agent: b, prompt: Go. }]";
    project.write("p.yaml", `${agents}\nsteps: ${steps}\n`);
    expect((await perdure(["run", "p.yaml"])).exit).toBe(3);
    fs.rmSync(project.path("bin", name));
    return (await project.newestId()).slice(0, 8);
  }

  /** What is refused works once the program is there, as it was typed. */
  async function refusedThenDone(words: readonly string[], name: string): Promise<void> {
    const { exit, stderr, stdout } = await perdure(words);
    expect(exit, stdout + stderr).toBe(2);
    expect(stderr).toContain(`${name} is not on the PATH`);
    fs.writeFileSync(project.path("bin", name), GOOD, { mode: 0o755 });
    const [again = []] = suggestions({ exit, stderr, stdout, signal: null });
    const done = await perdure(again);
    expect(done.exit, done.stdout + done.stderr).toBe(0);
  }

  it("of retry checks the step and those after it, but not what is done", async () => {
    const id = await failedWithout("two");
    await refusedThenDone(["retry", id, "b"], "two");
    fs.rmSync(project.path("bin", "one"));
    expect((await perdure(["retry", id, "b"])).exit).toBe(0);
    await refusedThenDone(["retry", id, "a"], "one");
  });

  it("of retry is skipped with --no-preflight", async () => {
    const id = await failedWithout("two");
    expect((await perdure(["retry", id, "b", "--no-preflight"])).exit).toBe(3);
  });

  it("of resume --from-step checks everything that runs again", async () => {
    const id = await failedWithout("one");
    fs.writeFileSync(project.path("bin", "two"), GOOD, { mode: 0o755 });
    await refusedThenDone(["resume", id, "--from-step", "a"], "one");
  });

  it("of fork --start checks what the fork will do", async () => {
    const id = await failedWithout("two");
    await refusedThenDone(["fork", id, "--start"], "two");
    expect(project.effects()).toEqual({ one: 1, two: 1 });
  });

  it("of resume --logs checks what another engine left to do", async () => {
    fs.mkdirSync(project.path("out"));
    const stopped = { current_node: "start", completed_nodes: ["start"], context: {} };
    project.write("out/checkpoint.json", JSON.stringify(stopped));
    project.write(
      "p.dot",
      `digraph p { start [shape=Mdiamond]; exit [shape=Msquare]
  a [shape=box, prompt="Go."]; start -> a -> exit }`,
    );
    const { exit, stderr } = await perdure(["resume", "--logs", "out", "p.dot"], KEYS);
    expect([exit, stderr]).toEqual([2, expect.stringContaining("claude is not on the PATH")]);
    install("claude");
    const [again = []] = suggestions({ exit, stderr, stdout: "", signal: null });
    expect((await perdure(again, KEYS)).exit).toBe(3);
    expect(project.effects()).toEqual({ claude: 1 });
  });
});

describe("doctor FILE", () => {
  it("shows the same list, and the permissions of the agents", async () => {
    install("claude");
    project.write(
      "p.yaml",
      `steps:
  - { id: work, agent: claude, model: claude-sonnet-4-5, permissions: edit, prompt: Do it., tools: { allow: ["Bash(npm test:*)"] } }
  - { id: judge, agent: codex, output_schema: { type: object }, prompt: Is it good? }
`,
    );
    const { exit, stdout } = await perdure(["doctor", "p.yaml"], KEYS);

    expect(exit).toBe(2);
    expect(stdout.split("\n").slice(1)).toEqual([
      "✓ claude is installed (agent of step work)",
      "✓ claude: ANTHROPIC_API_KEY is set",
      "✓ the price of claude-sonnet-4-5 is known",
      "✗ codex is not on the PATH (agent of step judge): npm install -g @openai/codex",
      "· step work asks claude with `permissions: edit` (allowed: Bash(npm test:*))",
      "· step judge asks codex with `permissions: default` " +
        "(its sandbox is read-only: it can change no file)",
      "p.yaml cannot run here: 1 requirement missing",
      "",
    ]);
    install("codex");
    expect((await perdure(["doctor", "p.yaml"], KEYS)).exit).toBe(0);
  });
});
