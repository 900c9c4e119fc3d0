/** Pipelines in DOT as a user runs them: the real program, real tools, counted effects. */
import { copyFileSync, mkdirSync, rmSync } from "node:fs";
import { resolve } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { eventually, type Hold, type Program, Project } from "../rig/project.ts";

const FIXTURES = resolve(import.meta.dirname, "../fixtures/dot");

let project: Project;
beforeEach(() => {
  project = new Project();
});
afterEach(() => project.remove());

function fixture(name: string): string {
  copyFileSync(resolve(FIXTURES, name), project.path(name));
  return name;
}

interface Checkpoint {
  readonly current_node: string;
  readonly completed_nodes: readonly string[];
  readonly context: Readonly<Record<string, unknown>>;
  readonly perdure: { readonly status: string; readonly restarts: number; readonly run_id: string };
}

function checkpoint(...folder: string[]): Checkpoint {
  return JSON.parse(project.read(...folder, "checkpoint.json")) as Checkpoint;
}

/** A quote for a text in DOT. */
function dot(text: string): string {
  return `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
}

/** A tool node. */
function tool(id: string, command: string, more = ""): string {
  return `${id} [shape=parallelogram, tool_command=${dot(command)}${more}]`;
}

/** Kills the runner and the step that waits at a hold, as a power cut would. */
async function cutPower(runner: Program, hold: Hold): Promise<void> {
  await hold.arrived();
  await runner.kill("SIGKILL");
  for (const pid of project.stepProcesses()) process.kill(pid, "SIGKILL");
  await eventually("all steps are dead", () => project.stepProcesses().length === 0);
}

describe("a simulated pipeline", () => {
  it("comes to its exit and leaves what the language describes", async () => {
    await project.must(["run", fixture("smoke.dot"), "--simulate", "--logs", "out"]);
    for (const node of ["plan", "implement", "review"]) {
      expect(project.read("out", node, "response.md")).toBe(
        `[Simulated] Response for stage: ${node}`,
      );
      expect(JSON.parse(project.read("out", node, "status.json"))).toMatchObject({
        outcome: "success",
      });
    }
    expect(project.read("out", "plan", "prompt.md")).toBe("Plan how to achieve: Say hello");
    expect(JSON.parse(project.read("out", "manifest.json"))).toMatchObject({
      name: "smoke",
      goal: "Say hello",
    });
    expect(checkpoint("out")).toMatchObject({
      current_node: "done",
      completed_nodes: ["start", "plan", "implement", "review", "done"],
      node_retries: {},
      context: { outcome: "success", last_stage: "review", "graph.goal": "Say hello" },
      perdure: { status: "completed", goal_gates: { implement: "satisfied" } },
    });
  });

  it("stays simulated when it is resumed, and runs its tools", async () => {
    const hold = project.hold("tool");
    project.write(
      "p.yaml",
      `steps:
  - {id: ask, agent: claude, prompt: "Do it."}
  - id: build
    run: |
      ${hold.command}
      ${project.effect("build")}
  - {id: again, agent: claude, prompt: "Do more."}
`,
    );
    await cutPower(project.start(["run", "p.yaml", "--simulate"]), hold);
    const resumed = project.start(["resume"]);
    await hold.release();
    expect((await resumed.ended).exit).toBe(0);
    expect(project.effects()).toEqual({ build: 1 });
    expect(await project.must(["run", "p.yaml", "--simulate", "all", "-q"])).toBe("");
    expect(project.effects()).toEqual({ build: 1 });
  });
});

describe("validation", () => {
  it("names rules and severities, runs nothing, and ends with 4", async () => {
    const text = `digraph g { start [shape=Mdiamond]; a [${'shape=parallelogram, tool_command="touch ran"'}]
      start -> a; lost [prompt=x]; exit [shape=Msquare]; a -> exit }`;
    project.write("bad.gv", text);
    const { exit, stderr } = await project.run(["run", "bad.gv", "--validate"]);
    expect(exit).toBe(4);
    expect(stderr).toContain("error[reachability]: no path leads from the start to `lost`");
    expect((await project.run(["validate", "bad.gv"])).exit).toBe(4);
    expect((await project.run(["run", "bad.gv"])).exit).toBe(4);
    expect(project.exists("ran")).toBe(false);
    expect(await project.must(["validate", fixture("smoke.dot")])).toBe(
      "smoke.dot: valid, 5 steps\n",
    );
  });

  it("refuses options that are for DOT alone, and agents that there are not", async () => {
    project.write("p.yaml", "steps: [{id: a, run: 'true'}]");
    expect(await project.run(["run", "p.yaml", "--agent", "codex"])).toMatchObject({ exit: 2 });
    const { exit, stderr } = await project.run(["run", fixture("smoke.dot"), "--agent", "bob"]);
    expect([exit, stderr]).toEqual([
      2,
      "error: --agent bob: there is no such agent\n  next: one of claude, codex, gemini, opencode\n",
    ]);
  });
});

describe("a killed attractor run", () => {
  it("continues from its directory: nothing is done twice, through a restart and a missed goal", async () => {
    const holds = { restarted: project.hold("restarted"), returned: project.hold("returned") };
    const counted = `n=$(grep -c ^work effects); echo "round=$n" >> "$PERDURE_CONTEXT"`;
    const gate = `${project.effect("gate")}; m=$(grep -c ^gate effects); [ $m -ge 2 ]`;
    project.write(
      "flow.dot",
      `digraph flow {
        loop_restart_persist_keys="round"; retry_target=last
        start [shape=Mdiamond]; exit [shape=Msquare]; again [shape=diamond]
        ${tool("first", project.effect("first"))}
        ${tool("work", `${project.effect("work")}; ${counted}; [ "$n" = 2 ] && ${holds.restarted.command}; true`)}
        ${tool("last", `${project.effect("last")}; [ "$(grep -c ^last effects)" = 2 ] && ${holds.returned.command}; true`)}
        ${tool("check", gate, ", goal_gate=true")}
        start -> first -> work -> again
        again -> work [condition="context.round=1", loop_restart=true]
        again -> last [condition="context.round!=1"]
        last -> check
        check -> exit; check -> exit [condition="outcome=fail"]
      }`,
    );
    const runner = project.start(["run", "flow.dot", "--logs", "out"]);
    await holds.restarted.arrived();
    // The directory is written beside the step that has begun.
    await eventually("the restart is recorded", () => checkpoint("out").perdure.restarts === 1);
    await cutPower(runner, holds.restarted);
    await cutPower(project.start(["resume", "--logs", "out"]), holds.returned);
    await project.must(["resume", "--logs", "out", "flow.dot"]);
    // What was interrupted is begun again; what was done is not.
    expect(project.effects()).toEqual({ first: 1, work: 3, last: 3, gate: 2 });
    expect(checkpoint("out")).toMatchObject({
      current_node: "exit",
      perdure: { status: "completed", restarts: 1 },
    });
    expect(checkpoint("out", "restart-1")).toEqual(checkpoint("out"));
    expect(project.exists("out", "first", "status.json")).toBe(true);
    expect(project.exists("out", "restart-1", "first")).toBe(false);
    await project.must(["replay"]);
  });
});

describe("the directory of a run", () => {
  it("of another engine continues where that one stopped, and is killed and resumed then", async () => {
    const hold = project.hold("last");
    project.write(
      "flow.dot",
      `digraph flow { goal=win; start [shape=Mdiamond]; exit [shape=Msquare]
        ${tool("plan", project.effect("plan"))}
        ${tool("build", `${project.effect("build")}; [ "$(grep -c ^build effects)" = 2 ]`)}
        check [shape=diamond]; ask [shape=hexagon]
        ${tool("last", `${hold.command}; ${project.effect("last")}`)}
        start -> plan -> ask; ask -> exit [label="No"]; ask -> build [label="Yes"]
        build -> check; check -> last [condition="outcome=success && context.size=3"]
        check -> build [condition="outcome=fail"]; last -> exit }`,
    );
    mkdirSync(project.path("other"));
    const theirs = {
      ...{ timestamp: "2026-01-01T00:00:00Z", current_node: "ask", node_retries: {}, logs: [] },
      completed_nodes: ["start", "plan", "ask"],
      context: { outcome: "success", preferred_label: "Yes", size: "3", "graph.goal": "lose" },
    };
    project.write("other/checkpoint.json", JSON.stringify(theirs));
    const unnamed = await project.run(["resume", "--logs", "other"]);
    expect([unnamed.exit, unnamed.stderr]).toEqual([
      1,
      expect.stringContaining("after `ask`: perdure resume --logs other FILE.dot"),
    ]);
    await cutPower(project.start(["resume", "--logs", "other", "flow.dot"]), hold);
    const resumed = project.start(["resume", "--logs", "other"]);
    await hold.release();
    expect((await resumed.ended).exit).toBe(0);
    expect(project.effects()).toEqual({ build: 2, last: 1 });
    expect(checkpoint("other")).toMatchObject({
      current_node: "exit",
      completed_nodes: ["start", "plan", "ask", "build", "check", "build", "check", "last", "exit"],
      context: { size: "3", "graph.goal": "win" },
    });
    expect(JSON.parse(project.read("other", "checkpoint.before.json"))).toEqual(theirs);
    await project.must(["replay"]);
  });

  it("is not taken from what says nothing, nor from a run that is gone or unfinished", async () => {
    mkdirSync(project.path("other"));
    project.write("other/checkpoint.json", '{"node": "plan"}');
    const foreign = await project.run(["resume", "--logs", "other"]);
    expect(foreign).toMatchObject({ exit: 1 });
    expect(foreign.stderr).toContain("was not written by perdure");
    project.write(
      "flow.dot",
      `digraph f { start [shape=Mdiamond]; exit [shape=Msquare]; ${tool("a", "exit 1")}; start -> a -> exit }`,
    );
    expect((await project.run(["run", "flow.dot", "--logs", "out"])).exit).toBe(3);
    const used = await project.run(["run", "flow.dot", "--logs", "out"]);
    expect([used.exit, used.stderr]).toEqual([
      2,
      expect.stringMatching(/which has failed\n {2}next: perdure why [0-9a-f-]+\n$/),
    ]);
    rmSync(project.path(".perdure"), { recursive: true });
    const gone = await project.run(["resume", "--logs", "out"]);
    expect([gone.exit, gone.stderr]).toEqual([
      1,
      expect.stringContaining("perdure run FILE --logs out"),
    ]);
    const empty = await project.run(["resume", "--logs", "nowhere"]);
    expect([empty.exit, empty.stderr]).toEqual([
      2,
      expect.stringContaining("there is no checkpoint"),
    ]);
  });
});

describe("nodes", () => {
  it("run side by side and leave their results to the fan-in", async () => {
    await project.must(["run", fixture("parallel.dot"), "--logs", "out"]);
    const { context } = checkpoint("out");
    expect(context["parallel.results"]).toMatchObject([
      { id: "a1", outcome: "success" },
      { id: "b1", outcome: "fail" },
      { id: "c1", outcome: "success" },
    ]);
    expect(context["parallel.fan_in.best_id"]).toBe("a1");
    expect(context["tool.output"]).toBe("after");
    const status = (...folder: string[]): unknown =>
      JSON.parse(project.read("out", ...folder, "status.json"));
    expect(status("branches", "fork", "a1", "a2")).toMatchObject({ outcome: "success" });
    expect(status("branches", "fork", "b1", "b1")).toMatchObject({ outcome: "fail" });
    expect(status("branches", "fork", "b1", "b1")).toEqual(status("b1"));
  });

  it("ask people, whose answer leads on", async () => {
    const asked = await project.run(["run", fixture("gate.dot"), "--simulate", "--logs", "out"]);
    expect(asked.exit).toBe(6);
    const { run_id: id } = checkpoint("out").perdure;
    await project.must(["answer", id, "ask", "F"]);
    expect((await project.run(["resume", "--logs", "out"])).exit).toBe(6);
    await project.must(["answer", id, "ask", "Approve"]);
    await project.must(["resume", "--logs", "out"]);
    expect(checkpoint("out")).toMatchObject({
      completed_nodes: ["start", "make", "ask", "fixes", "ask", "ship_it", "exit"],
      context: {
        "human.gate.selected": "A",
        "human.gate.label": "Approve",
        "tool.output": "shipped",
      },
    });
    await project.must(["run", "gate.dot", "--simulate", "--auto-approve"]);
  });

  it("say how they went in a file, and are tried again when they ask for it", async () => {
    await project.must(["run", fixture("custom-outcomes.dot"), "--simulate", "--logs", "out"]);
    expect(checkpoint("out")).toMatchObject({
      completed_nodes: ["start", "check", "route", "work", "exit"],
      context: { size: 3 },
      perdure: { outcomes: { check: "needs_work" } },
    });
    await project.must(["run", fixture("retries.dot"), "--logs", "again"]);
    expect(project.effects()).toEqual({ flaky: 3, half: 2 });
    expect(checkpoint("again")).toMatchObject({
      node_retries: { flaky: 2, half: 1 },
      perdure: { outcomes: { flaky: "success", half: "partial_success" } },
    });
  });

  it("of other types are run by the command that is registered for them", async () => {
    project.write(
      "flow.dot",
      `digraph f { start [shape=Mdiamond]; exit [shape=Msquare]; a [type=deploy, zone="eu 1"]; start -> a -> exit }`,
    );
    const command = `deploy=echo "$PERDURE_NODE_ATTRIBUTES $KILROY_NODE_ID" > reported`;
    await project.must(["run", "flow.dot", "--handler", command]);
    expect(project.read("reported")).toBe('{"type":"deploy","zone":"eu 1"} a\n');
  });

  it("are pictured, explained and updated like any others", async () => {
    const flow = (last: string): string =>
      `digraph f { start [shape=Mdiamond]; exit [shape=Msquare]; ${tool("a", project.effect("a"))}
       ${tool("b", last)}; start -> a -> b -> exit }`;
    project.write("flow.dot", flow("exit 1"));
    expect((await project.run(["run", "flow.dot"])).exit).toBe(3);
    expect(await project.must(["graph", "flow.dot"])).toContain("flowchart");
    project.write("flow.dot", flow(project.effect("b")));
    const [id = ""] = await project.runIds();
    await project.must(["resume", id, "--update", "--yes"]);
    expect(project.effects()).toEqual({ a: 1, b: 1 });
    expect(await project.must(["explain", id, "b"])).toContain("b");
    expect(await project.must(["graph", id])).toContain("flowchart");
  });
});
