/**
 * Calls that an agent is not permitted to make: no failure by themselves, named everywhere, and
 * asked about on request.
 */
import * as fs from "node:fs";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { PlainProject, type Program, type Project, type Result } from "../rig/project.ts";

const FAKE = resolve(import.meta.dirname, "../rig/fake-agent.ts");

let project: Project;
beforeEach(() => {
  project = new PlainProject();
});
afterEach(() => project.remove());

/** A program that takes Claude's flags, and tells the fake agent which tools are allowed. */
function shim(): string {
  const path = project.path("claude");
  const script = `#!/bin/sh
printf '%s ' "$@" >> "${project.path("flags")}"; echo >> "${project.path("flags")}"
while [ $# -gt 0 ]; do
  case "$1" in
    --session-id|--resume) flag=$1; id=$2; shift 2;;
    --allowedTools) shift
      while [ $# -gt 0 ] && [ "\${1#--}" = "$1" ]; do allowed="$allowed$1
"; shift; done;;
    *) shift;;
  esac
done
FAKE_AGENT_ALLOWED="$allowed" exec "${process.execPath}" "${FAKE}" "$flag" "$id"
`;
  fs.writeFileSync(path, script, { mode: 0o755 });
  return path;
}

function pipeline(keys: string, head = ""): void {
  project.write(
    "p.yaml",
    `${head}agents: { worker: { adapter: claude, command: ${shim()} } }
steps:
  - { id: work, agent: worker, prompt: Publish it., ${keys} }
  - { id: next, run: "${project.effect("next")}" }
`,
  );
}

function start(args: readonly string[], actions: readonly object[]): Program {
  const config = project.path("config");
  fs.mkdirSync(join(config, "projects", "here"), { recursive: true });
  return project.start(args, {
    env: {
      CLAUDE_CONFIG_DIR: config,
      FAKE_AGENT_HOME: join(config, "projects", "here"),
      FAKE_AGENT_SCRIPT: JSON.stringify(actions),
    },
  });
}

async function run(args: readonly string[], ...actions: readonly object[]): Promise<Result> {
  return start(args, actions).ended;
}

interface Event {
  readonly type: string;
  readonly data: {
    readonly attempt?: number;
    readonly denied?: readonly string[];
    readonly conversation?: { readonly kind: string; readonly says: string };
    readonly choice?: string;
  };
}

async function events(type: string): Promise<readonly Event["data"][]> {
  const [id = ""] = await project.runIds();
  return project
    .read(".perdure", "runs", id, "events.jsonl")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Event)
    .flatMap((event) => (event.type === type ? [event.data] : []));
}

function transcripts(): readonly string[] {
  const names = fs.readdirSync(project.path("config", "projects", "here"));
  return names.filter((name) => name.endsWith(".jsonl"));
}

const CALL = "Bash(touch published)";
const DENIED = { do: "denied", command: "touch published" };
const SAID = { do: "text", text: "I did what I could." };

describe("a denied call", () => {
  it("is not a failure: the agent's own result counts, and the call is named", async () => {
    pipeline("");
    const { exit, stdout, stderr } = await run(["run", "p.yaml"], DENIED, SAID);

    expect(exit, stdout + stderr).toBe(0);
    expect(project.effects()).toEqual({ next: 1 });
    expect(stdout).toMatch(
      /work completed .*; it was not permitted to use Bash\(touch published\)/,
    );
    const [id = ""] = await project.runIds();
    expect(project.receipt(id, "work@1.1")?.denied).toEqual([CALL]);
    expect(await project.must(["why"])).toContain(
      "work was not permitted to use Bash(touch published)",
    );
    expect(await project.must(["explain", id, "work"])).toContain(`not permitted to use ${CALL}`);
  });

  it("leaves the decision to the check", async () => {
    pipeline('check: "test -e made"');
    const made = { do: "shell", command: "touch made" };
    const { exit, stdout } = await run(["run", "p.yaml"], DENIED, made, SAID);
    expect(exit, stdout).toBe(0);
  });

  it("is named with the key to change when the step fails", async () => {
    pipeline('check: "test -e made"');
    const failed = await run(["run", "p.yaml"], DENIED, SAID);
    const [id = ""] = await project.runIds();
    const short = id.slice(0, 8);

    expect(failed.exit).toBe(3);
    expect(failed.stdout).toContain(`it was not permitted to use ${CALL}`);
    const key = `tools: {allow: ["${CALL}"]}`;
    expect(failed.stdout).toContain(
      `(\`${key}\`, or \`permissions: all\`), then: perdure resume ${short} --update`,
    );
    // Doing what it says helps.
    project.write("p.yaml", project.read("p.yaml").replace("check:", `${key}, check:`));
    const made = { do: "shell", command: "touch made" };
    const again = await run(
      ["resume", short, "--update", "--yes"],
      ...[DENIED, SAID, DENIED, made, SAID],
    );
    expect(again.exit, again.stdout + again.stderr).toBe(0);
    expect(project.read("flags")).toContain(`--allowedTools ${CALL}`);
  });

  it("fails the step where the author wants that", async () => {
    pipeline('on_denied: fail, check: "true"');
    const { exit, stdout } = await run(["run", "p.yaml"], DENIED, SAID);

    expect(exit).toBe(3);
    expect(stdout).toContain(`failed: it was not permitted to use ${CALL}`);
    expect(project.effects()).toEqual({});
  });
});

describe("on_denied: ask", () => {
  /** Runs to the question; gives the run's id. */
  async function asked(): Promise<string> {
    const { exit, stdout, stderr } = await run(["run", "p.yaml"], DENIED, SAID);
    expect(exit, stdout + stderr).toBe(6);
    const [id = ""] = await project.runIds();
    const short = id.slice(0, 8);
    expect(stdout).toContain(`work asks: work was not permitted to use ${CALL}. Allow it?`);
    expect(stdout).toContain(`Answer: perdure answer ${short} work allow`);
    expect(stdout).not.toContain("started (attempt 2");
    return short;
  }

  const PUBLISHED = { do: "denied", command: "touch published" };

  it("asks a person, and continues the conversation with the call allowed", async () => {
    pipeline("on_denied: ask");
    const id = await asked();
    await project.must(["answer", id, "work", "allow"]);
    const done = await run(["resume", id], DENIED, SAID, PUBLISHED, SAID);

    expect(done.exit, done.stdout + done.stderr).toBe(0);
    expect(project.effects()).toEqual({ next: 1 });
    expect(transcripts()).toHaveLength(1);
    const said = (await events("step.started")).map(({ conversation }) => conversation?.says);
    expect(said).toEqual(["task", undefined, "permitted", undefined]);
    expect(project.read("flags").trim().split("\n").at(-1)).toContain(`--allowedTools ${CALL}`);
    const [name = ""] = transcripts();
    const transcript = project.read("config", "projects", "here", name);
    expect(transcript).toContain(`a person allowed ${CALL}`);
    expect(project.exists("published")).toBe(true);
    expect((await events("step.completed"))[0]?.denied).toBeUndefined();
    expect(await project.must(["replay", id])).toContain("no difference");
  });

  it("informs the agent when a person denies it, and does not ask again", async () => {
    pipeline("on_denied: ask");
    const id = await asked();
    await project.must(["answer", id, "work", "deny", "--text", "not on a Friday"]);
    const done = await run(["resume", id], DENIED, SAID, PUBLISHED, SAID);

    expect(done.exit, done.stdout + done.stderr).toBe(0);
    const [name = ""] = transcripts();
    const transcript = project.read("config", "projects", "here", name);
    expect(transcript).toContain(`a person denied ${CALL}: not on a Friday`);
    expect((await events("step.completed"))[0]?.denied).toEqual([CALL]);
    expect(project.exists("published")).toBe(false);
  });

  it("does not ask about a call that the author has denied", async () => {
    pipeline('on_denied: ask, tools: { deny: ["Bash(touch:*)"] }');
    expect((await run(["run", "p.yaml"], DENIED, SAID)).exit).toBe(0);
  });

  it("does not ask when the check has passed", async () => {
    pipeline('on_denied: ask, check: "true"');
    expect((await run(["run", "p.yaml"], DENIED, SAID)).exit).toBe(0);
  });

  it("is not answered by --auto-approve", async () => {
    pipeline("on_denied: ask");
    const { exit } = await run(["run", "p.yaml", "--auto-approve"], DENIED, SAID);
    expect(exit).toBe(6);
  });

  it("keeps the question and the answer after kills of the runner", async () => {
    pipeline("on_denied: ask");
    const id = await asked();
    expect((await run(["resume", id])).exit).toBe(6);
    await project.must(["answer", id, "work", "allow"]);
    const wait = { do: "wait-for-file", path: project.path("go") };
    const runner = start(["resume", id], [DENIED, SAID, PUBLISHED, wait, SAID]);
    await runner.printed(/work │ → Bash: touch published[\s\S]*/);
    await runner.kill("SIGKILL");
    await project.killSteps();
    project.write("go", "");
    const done = await run(["resume", id], DENIED, SAID, PUBLISHED, wait, SAID);

    expect(done.exit, done.stdout + done.stderr).toBe(0);
    expect(await events("step.answered")).toHaveLength(1);
    expect(transcripts()).toHaveLength(1);
    expect(project.read("flags").trim().split("\n").at(-1)).toContain(`--allowedTools ${CALL}`);
  });
});
