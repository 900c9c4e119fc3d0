/** Steps with an agent, here a fake one that behaves like Claude Code. */
import * as fs from "node:fs";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import {
  eventually,
  PlainProject,
  type Program,
  type Project,
  type Result,
} from "../rig/project.ts";

const FAKE = resolve(import.meta.dirname, "../rig/fake-agent.ts");

let project: Project;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(() => project.remove());

/** A program that takes Claude's flags and hands those that matter to the fake agent. */
function shim(): string {
  const path = project.path("claude");
  const script = `#!/bin/sh
while [ $# -gt 0 ]; do
  case "$1" in --session-id|--resume) set -- "$@" ; flag=$1; id=$2; shift 2;; *) shift;; esac
done
exec "${process.execPath}" "${FAKE}" "$flag" "$id"
`;
  fs.writeFileSync(path, script, { mode: 0o755 });
  return path;
}

function environment(actions: readonly object[]): Record<string, string> {
  const config = project.path("config");
  fs.mkdirSync(join(config, "projects", "here"), { recursive: true });
  return {
    CLAUDE_CONFIG_DIR: config,
    FAKE_AGENT_HOME: join(config, "projects", "here"),
    FAKE_AGENT_SCRIPT: JSON.stringify(actions),
  };
}

function pipeline(): void {
  project.write(
    "p.yaml",
    `agents: { worker: { adapter: claude, command: ${shim()} } }
steps:
  - { id: work, agent: worker, prompt: Do it. }
  - { id: next, run: "${project.effect("next")}" }
`,
  );
}

function start(args: readonly string[], actions: readonly object[]): Program {
  return project.start(args, { env: environment(actions) });
}

async function run(args: readonly string[], actions: readonly object[]): Promise<Result> {
  return start(args, actions).ended;
}

async function conversations(): Promise<readonly unknown[]> {
  const [id = ""] = await project.runIds();
  return project
    .read(".perdure", "runs", id, "events.jsonl")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as { type: string; data: { conversation?: { kind: string } } })
    .flatMap(({ type, data }) => (type === "step.started" ? [data.conversation?.kind] : []));
}

it("shows the agent's answers and tool calls, and counts what it used", async () => {
  pipeline();
  const shell = { do: "shell", command: project.effect("tool") };
  const result = await run(["run", "p.yaml"], [shell, { do: "text", text: "All done." }]);

  expect(result.exit, result.stdout + result.stderr).toBe(0);
  expect(project.effects()).toEqual({ tool: 1, next: 1 });
  expect(result.stdout).toContain("work │ → Bash: echo tool");
  expect(result.stdout).toContain("work │ All done.");
  expect(result.stdout).not.toContain('{"type"');
  expect(await project.must(["show"])).toMatch(/^spent +\d+ tokens in, \d+ out, \d+ turns/m);
});

it("continues the conversation after runner and agent were killed", async () => {
  pipeline();
  const actions = [
    { do: "shell", command: project.effect("tool") },
    { do: "wait-for-file", path: project.path("go") },
    { do: "text", text: "All done." },
  ];
  const runner = start(["run", "p.yaml"], actions);
  await runner.printed("work │ → Bash");
  await eventually("the tool has run", () => project.effects().tool === 1);
  await eventually("it waits", () => project.read(...transcript()).includes("tool_result"));
  await runner.kill("SIGKILL");
  await project.killSteps();
  project.write("go", "");
  const resumed = await run(["resume"], actions);

  expect(resumed.exit, resumed.stdout + resumed.stderr).toBe(0);
  expect(project.effects()).toEqual({ tool: 1, next: 1 });
  expect(await conversations()).toEqual(["start", "continue", undefined]);
  expect(project.read(...transcript())).toContain("You were interrupted");
});

it("waits for a busy service without using up its retries", async () => {
  pipeline();
  const busy = start(["run", "p.yaml"], [{ do: "api-error", status: 529, message: "Overloaded" }]);
  await busy.printed(/work paused \(overloaded\): .*; pause 1 of 50, next attempt in 5/);
  await busy.kill("SIGINT");
  const resumed = await run(["resume"], [{ do: "text", text: "Hello." }]);

  expect(resumed.exit, resumed.stdout + resumed.stderr).toBe(0);
  expect(project.effects()).toEqual({ next: 1 });
});

it("stops when the budget is used up, and continues when it is raised", async () => {
  pipeline();
  project.write("p.yaml", `budget: { turns: 1 }\n${project.read("p.yaml")}`);
  const actions = [{ do: "text", text: "Hello." }];
  const stopped = await run(["run", "p.yaml"], actions);

  expect(stopped.exit, stopped.stdout + stopped.stderr).toBe(3);
  expect(stopped.stdout).toContain("was stopped by the budget: 1 of 1 turns are used.");
  expect(stopped.stdout).toMatch(
    /Raise the budget and continue: perdure resume \w+ --budget \+1turns/,
  );
  expect(project.effects()).toEqual({});
  expect((await run(["resume"], actions)).exit).toBe(3);
  expect((await run(["resume", "--budget", "lots"], actions)).exit).toBe(2);
  expect((await run(["resume", "--budget", "+1turns"], actions)).exit).toBe(0);
  expect(project.effects()).toEqual({ next: 1 });
});

it("doctor finds the agent and its version", async () => {
  fs.mkdirSync(project.path("bin"));
  const program = project.path("bin", "codex");
  fs.writeFileSync(program, "#!/bin/sh\necho codex-cli 1.2.3\n", { mode: 0o755 });
  const env = { PATH: `${project.path("bin")}:/usr/bin:/bin` };

  const reported = await project.must(["doctor"], { env });

  expect(reported).toContain("✓ codex 1.2.3: its conversations can be continued");
  expect(reported).toContain("· not on PATH: claude, gemini, opencode");
});

/** The path of the one transcript. */
function transcript(): readonly string[] {
  const folder = ["config", "projects", "here"];
  const [name = ""] = fs.readdirSync(project.path(...folder));
  return [...folder, name];
}

it.each(["codex", "gemini"])(
  "fails at once when its program ends without a word, in a conversation that it began: %s",
  async (adapter) => {
    const silent = project.write("silent", `#!/bin/sh\n${project.effect("call")}\nexit 1\n`);
    fs.chmodSync(project.path(silent), 0o755);
    project.write(
      "p.yaml",
      `agents: { worker: { adapter: ${adapter}, command: ./${silent} } }
steps: [{ id: work, agent: worker, prompt: Do it. }]
`,
    );
    const { exit, stdout } = await project.run(["run", "p.yaml", "--no-preflight"]);
    expect([exit, project.effects()]).toEqual([3, { call: 1 }]);
    expect(stdout).toContain("the agent ended with exit status 1 and printed nothing");
    // A conversation of Codex may also be gone then; nothing else is known of the others.
    if (adapter !== "codex") expect(stdout).toContain("Start worker by hand");
  },
);
