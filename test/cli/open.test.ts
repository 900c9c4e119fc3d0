/** A person continues a conversation in the agent's own program, on a real terminal. */
import { readFileSync } from "node:fs";
import { afterEach, describe, expect, it } from "vitest";
import { FakeClaude } from "../rig/fake-claude.ts";
import { type Reply, type Script, shell, stall, stateless, text } from "../rig/model/reply.ts";
import { eventually, type Result } from "../rig/project.ts";
import { suggestions } from "../rig/suggestion.ts";
import { Terminal } from "../rig/terminal.ts";

let project: FakeClaude;
let terminal: Terminal | undefined;
afterEach(async () => {
  terminal?.close();
  terminal = undefined;
  await project.close();
});

const PIPELINE = `
agents: { worker: { adapter: claude, env: { FAKE_MARK: from-the-agent } } }
steps:
  - { id: work, agent: worker, prompt: Do it. }
  - { id: next, run: echo next >> effects }
`;

const when = (words: string, ...replies: readonly Reply[]): Script => ({
  ...stateless(...replies),
  when: words,
});

function good(result: Result): void {
  expect(result.exit, result.stdout + result.stderr).toBe(0);
}

/** A terminal in which the fake agent is found. */
function openTerminal(): Terminal {
  terminal = new Terminal(project, { columns: 200, rows: 24 });
  for (const [name, value] of Object.entries(project.environment)) {
    terminal.type(`export ${name}='${value}'`);
  }
  return terminal;
}

/** A run whose agent was stopped after its turn, with one effect done. */
async function stopped(yaml = PIPELINE): Promise<string> {
  project = await FakeClaude.open();
  project.write("p.yaml", yaml);
  const hold = project.hold("tool");
  const blocked = shell(`echo one >> effects; ${hold.command}`);
  project.model.play(stateless(blocked, stall("accept", text("Done."))));
  const runner = project.begin(["run", "p.yaml"]);
  await hold.arrived();
  const [id = ""] = await project.runIds();
  const refused = await project.run(["open", id, "work"]);
  expect(refused.exit).toBe(7);
  expect(refused.stderr).toContain("cannot be opened while step work is running");
  const suggested = /perdure (stop \w+ --after-turn)/.exec(refused.stderr)?.[1] ?? "";
  await project.must(suggested.split(" "));
  await runner.printed("stopping after the running turns");
  await hold.release();
  expect((await runner.ended).exit).toBe(143);
  project.model.release();
  return id;
}

describe("an interrupted step", () => {
  it("opens in its conversation, and resume continues with what was said there", async () => {
    const id = await stopped();
    const shortId = id.slice(0, 8);
    const [started] = await project.events("step.started");
    const session = started?.conversation?.session ?? "";
    project.model.play(
      when("You were interrupted", shell("echo three >> effects"), text("All done.")),
      when("What is left?", shell('echo "$FAKE_MARK" >> effects'), text("Only the parser.")),
    );
    const screen = openTerminal();
    screen.perdure(`open ${id} work`);
    await screen.shows(`chat ${session} in ${project.dir}`);
    screen.type("What is left?");
    await screen.shows("agent: Only the parser.");
    screen.key("C-c");
    await screen.shows("(interrupted)");

    const second = await project.finish(["resume", id]);
    expect(second.exit).toBe(7);
    expect(second.stderr).toMatch(/is owned by process \d+ .*, which has step work open/);
    expect((await project.run(["stop", id])).exit).toBe(7);
    expect(await project.must(["why", id])).toContain(
      "is open in the agent's own program at step work",
    );
    screen.type("/exit");
    await screen.shows(`The conversation of step work continues with: perdure resume ${shortId}`);
    await screen.shows("status 0");

    good(await project.finish(["resume", shortId]));
    expect(project.effects()).toEqual({ one: 1, "from-the-agent": 1, three: 1, next: 1 });
    expect(await project.said()).toEqual(["work: task in 1", "work: interrupted in 1"]);
    const last = JSON.stringify(project.model.requests("work").at(-1)?.body);
    for (const words of ["What is left?", "Only the parser.", "What I said there counts."]) {
      expect(last.split(words)).toHaveLength(2);
    }
  });

  it("is not resumed while the program of perdure open still runs", async () => {
    const id = await stopped();
    const screen = openTerminal();
    screen.perdure(`open ${id} work`);
    await screen.shows(/chat \S+ in/);
    const owner = await owningProcess(id);
    process.kill(owner, "SIGKILL");
    await screen.shows("status 137");
    const refused = await project.finish(["resume", id]);
    expect(refused.exit).toBe(7);
    expect(refused.stderr).toContain("the program that perdure open started on run");
    const pid = Number(/\(kill (\d+)\)/.exec(refused.stderr)?.[1]);
    process.kill(pid, "SIGTERM");
    await eventually("the program has ended", () => !isThere(pid));
    project.model.play(stateless(text("Done.")));
    good(await project.finish(suggestions(refused)[0] ?? []));
    expect(project.effects()).toEqual({ one: 1, next: 1 });
  });
});

it("stops a step that outlived its runner before it opens it", async () => {
  project = await FakeClaude.open(
    stateless(shell("echo one >> effects"), stall("accept", text("?"))),
  );
  project.write("p.yaml", PIPELINE);
  const runner = project.begin(["run", "p.yaml"]);
  await project.model.stalled();
  await runner.kill("SIGKILL");
  const id = await project.newestId();
  const refused = await project.finish(["open", id, "work"]);
  expect([refused.exit, refused.stderr]).toEqual([7, expect.stringContaining("work is running")]);
  await project.must(["stop", id]);
  expect(project.stepProcesses()).toEqual([]);
  project.model.release();
  const screen = openTerminal();
  screen.perdure(`open ${id} work`);
  await screen.shows(/chat \S+ in/);
  screen.type("/exit");
  await screen.shows(/continues with: perdure resume \w+/);
});

it("opens a completed step, which stays completed", async () => {
  project = await FakeClaude.open(stateless(text("Done.")));
  project.write("p.yaml", PIPELINE);
  good(await project.finish(["run", "p.yaml"]));
  const id = await project.newestId();
  project.model.play(when("Why?", text("Because.")));
  const screen = openTerminal();
  screen.perdure(`open ${id} work`);
  await screen.shows(/chat \S+ in/);
  screen.type("Why?");
  await screen.shows("agent: Because.");
  screen.type("/exit");
  await screen.shows(`See the result: perdure show ${id.slice(0, 8)}`);
  await screen.shows("status 0");
  expect(await project.must(["why", id])).toContain("completed in");
  expect(await project.events("run.messaged")).toEqual([]);
});

it("keeps the files that were changed meanwhile in a workspace of the run", async () => {
  const id = await stopped(`workspace: copy\n${PIPELINE}`);
  project.model.play(
    when("You were interrupted", shell("cat made-by-hand >> ../seen"), text("All done.")),
    when("Make it.", shell("echo by-hand > made-by-hand"), text("Made.")),
  );
  const screen = openTerminal();
  screen.perdure(`open ${id} work`);
  await screen.shows(/chat \S+ in \S+workspace/);
  screen.type("Make it.");
  await screen.shows("agent: Made.");
  screen.type("/exit");
  await screen.shows(/continues with: perdure resume \w+\n/);
  good(await project.finish(["resume", id]));
  expect(project.read(".perdure", "runs", id, "seen")).toBe("by-hand\n");
});

describe("refuses", () => {
  it("a step without an agent, one without a conversation, and an unknown one", async () => {
    project = await FakeClaude.open();
    project.write(
      "p.yaml",
      `
steps:
  - { id: first, gate: Go on? }
  - { id: work, agent: claude, prompt: Do it. }
`,
    );
    await project.finish(["run", "p.yaml"]);
    const id = await project.newestId();
    const refused = async (step: string): Promise<string> => {
      const { exit, stderr } = await project.finish(["open", id, step]);
      expect(exit).toBeGreaterThan(0);
      return stderr;
    };
    expect(await refused("first")).toContain("has no agent with a conversation");
    expect(await refused("work")).toContain("has no conversation yet");
    expect(await refused("wrok")).toContain("did you mean work?");
  });

  it("a conversation that is not on this machine, and a missing program", async () => {
    const id = await stopped();
    const elsewhere = { CLAUDE_CONFIG_DIR: project.path("empty") };
    const gone = await project.begin(["open", id, "work"], elsewhere).ended;
    expect([gone.exit, gone.stderr]).toEqual([
      1,
      expect.stringContaining("is not on this machine"),
    ]);
    const missing = await project.begin(["open", id, "work"], { PATH: "/nowhere" }).ended;
    expect([missing.exit, missing.stderr]).toEqual([
      1,
      expect.stringContaining("claude cannot be started: it is not found"),
    ]);
    project.model.play(stateless(text("Done.")));
    good(await project.finish(["resume", id]));
  });
});

/** The process that holds the lease of a run. */
async function owningProcess(id: string): Promise<number> {
  const shown = JSON.parse(await project.must(["show", id, "--json"])) as {
    owner: { pid: number };
  };
  return shown.owner.pid;
}

function isThere(pid: number): boolean {
  try {
    return !readFileSync(`/proc/${pid}/stat`, "utf8").includes(") Z ");
  } catch {
    return false;
  }
}
