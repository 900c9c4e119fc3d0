/** Pipelines in DOT with the real program, real tools and counted effects. */
import { copyFileSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { resolve } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { eventually, type Hold, PlainProject, type Program, type Project } from "../rig/project.ts";

const FIXTURES = resolve(import.meta.dirname, "../fixtures/dot");

let project: Project;
beforeEach(() => {
  project = new PlainProject();
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
  await project.killSteps();
}

describe("a simulated pipeline", () => {
  it("stays simulated when it is resumed, and runs its tool nodes", async () => {
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
  it("names rules and severities, runs nothing, and exits with 4", async () => {
    const text = `digraph g { start [shape=Mdiamond]; a [${'shape=parallelogram, tool_command="touch ran"'}]
      start -> a; lost [prompt=x]; exit [shape=Msquare]; a -> exit }`;
    project.write("bad.gv", text);
    const { exit, stderr } = await project.run(["validate", "bad.gv"]);
    expect(exit).toBe(4);
    expect(stderr).toContain("error[reachability]: no path leads from the start to `lost`");
    expect((await project.run(["run", "bad.gv"])).exit).toBe(4);
    expect(project.exists("ran")).toBe(false);
    expect(await project.must(["validate", fixture("smoke.dot")])).toBe(
      "smoke.dot: valid, 5 steps\n",
    );
  });

  it("refuses options that only DOT has, and unknown agents", async () => {
    project.write("p.yaml", "steps: [{id: a, run: 'true'}]");
    expect(await project.run(["run", "p.yaml", "--agent", "codex"])).toMatchObject({ exit: 2 });
    const { exit, stderr } = await project.run(["run", fixture("smoke.dot"), "--agent", "bob"]);
    expect([exit, stderr]).toEqual([
      2,
      "error: --agent bob: there is no such agent\n  next: one of claude, codex, gemini, opencode, stand-in\n",
    ]);
  });
});

describe("a killed attractor run", () => {
  it("continues from its logs directory without doing anything twice, through a restart and a missed goal", async () => {
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

describe("the logs directory of a run", () => {
  it("of another engine continues where that one stopped, also after a kill", async () => {
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

  it("is refused if it is empty, or if its run is gone or unfinished", async () => {
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

describe("the files of a logs directory", () => {
  const flow = (...nodes: readonly string[]): string =>
    `digraph flow { goal=win; start [shape=Mdiamond]; exit [shape=Msquare]; ${nodes.join("; ")} }`;
  const jsonIn = (...path: readonly string[]): Record<string, unknown> =>
    JSON.parse(project.read(...path)) as Record<string, unknown>;

  it("are those of other engines, with the same keys", async () => {
    const branches = `f [shape=component]; j [shape=tripleoctagon]; ${tool("bad", "exit 1")}`;
    project.write(
      "flow.dot",
      flow(
        `${tool("say", "echo hello")}; ask [prompt="Greet $tool.output"]; ${branches}`,
        `${tool("good", "true")}; start -> say -> ask -> f; f -> good -> j; f -> bad -> j; j -> exit`,
      ),
    );
    await project.must(["run", "flow.dot", "--simulate", "--logs", "out"]);
    expect(project.read("out", "say", "tool_output.txt")).toBe("hello");
    expect(project.read("out", "ask", "prompt.txt")).toBe("Greet hello");
    expect(jsonIn("out", "context.json")).toMatchObject({
      "tool.output": "hello",
      "parallel.fail_count": 1,
      "parallel.branch.good.status": "success",
      "parallel.branch.bad.status": "fail",
    });
    expect(checkpoint("out")).toMatchObject({
      node_outcomes: { say: "success", f: "partial_success" },
    });
    expect(jsonIn("out", "final.json")).toMatchObject({ status: "success", last_node: "exit" });
    const lines = project.read("out", "progress.ndjson").trim().split("\n");
    const names = lines.map((line) => (JSON.parse(line) as { event: string }).event);
    for (const [name, count] of Object.entries({
      PipelineStarted: 1,
      ParallelStarted: 1,
      ParallelBranchStarted: 2,
      ParallelBranchCompleted: 2,
      ParallelCompleted: 1,
      StageFailed: 1,
      CheckpointSaved: 6,
      PipelineCompleted: 1,
    })) {
      expect([name, names.filter((one) => one === name).length]).toEqual([name, count]);
    }
  });

  it("lead to their run by the manifest alone, also after a move", async () => {
    const hold = project.hold("a");
    project.write("bad.dot", flow(tool("a", "exit 1"), "start -> a -> exit"));
    const failed = await project.run(["run", "bad.dot", "--logs", "bad", "--compat"]);
    expect([failed.exit, jsonIn("bad", "final.json")]).toMatchObject([1, { status: "fail" }]);
    project.write("wrong.dot", flow("a [shape=parallelogram]", "start -> a -> exit"));
    expect((await project.run(["validate", "wrong.dot", "--compat"])).exit).toBe(1);
    project.write("flow.dot", flow(tool("a", hold.command), "start -> a -> exit"));
    await cutPower(project.start(["run", "flow.dot", "--logs", "out"]), hold);
    renameSync(project.path("out"), project.path("moved"));
    rmSync(project.path("moved", "checkpoint.json"));
    const resumed = project.start(["resume", "--logs", "moved"]);
    await hold.release();
    expect((await resumed.ended).exit).toBe(0);
    expect(project.exists("out")).toBe(false);
    expect(checkpoint("moved")).toMatchObject({ current_node: "exit" });
    expect(jsonIn("moved", "final.json")).toMatchObject({ status: "success" });
    const progress = project.read("moved", "progress.ndjson");
    expect(progress.match(/PipelineStarted/g)).toHaveLength(1);
    // A new run in the same directory keeps the files of this one.
    project.write("short.dot", flow("start -> exit"));
    const again = await project.run(["run", "short.dot", "--logs", "moved"]);
    expect([again.exit, again.stderr]).toEqual([
      0,
      expect.stringMatching(/files of an earlier run are now in moved\.[0-9a-f]{8}/),
    ]);
    const aside = `moved.${(await project.newestId()).slice(0, 8)}`;
    mkdirSync(project.path(aside));
    const third = await project.run(["run", "short.dot", "--logs", "moved"]);
    expect([third.exit, third.stderr]).toEqual([0, expect.stringContaining(`${aside}.2`)]);
  });

  it("of an engine that writes camel case are read as `run` would read them", async () => {
    project.write(
      "flow.dot",
      flow('a [prompt="Do $goal"]; b [prompt="Then $context.size"]', "start -> a -> b -> exit"),
    );
    mkdirSync(project.path("other"));
    const theirs = {
      currentNode: "a",
      completedNodes: ["start", "a"],
      contextValues: { size: "3" },
    };
    project.write("other/checkpoint.json", JSON.stringify(theirs));
    const args = ["resume", "--logs", "other", "flow.dot", "--simulate", "--goal", "lose"];
    await project.must(args);
    expect(project.read("other", "b", "prompt.md")).toContain("Then 3");
    expect(checkpoint("other")).toMatchObject({ context: { "graph.goal": "lose" } });
    const late = await project.run(["resume", "--logs", "other", "--handler", "x=y"]);
    const refusal = expect.stringMatching(/^error: --handler: run .* keeps how its file/m);
    expect([late.exit, late.stderr]).toEqual([2, refusal]);
  });
});

describe("nodes", () => {
  it("run side by side and pass their results to the fan-in", async () => {
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

  it("ask people, whose answer chooses the edge", async () => {
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

  it("report their outcome in a file, and are retried when they ask for it", async () => {
    await project.must(["run", fixture("custom-outcomes.dot"), "--simulate", "--logs", "out"]);
    expect(checkpoint("out")).toMatchObject({
      completed_nodes: ["start", "check", "route", "work", "exit"],
      context: { size: 3 },
      perdure: { outcomes: { check: "needs_work" } },
    });
    await project.must(["run", fixture("retries.dot"), "--logs", "again"]);
    expect(project.effects()).toEqual({ flaky: 3, half: 2 });
    // A success resets the counter.
    expect(checkpoint("again")).toHaveProperty("node_retries", {});
    expect(checkpoint("again")).toMatchObject({
      perdure: { outcomes: { flaky: "success", half: "partial_success" } },
    });
  });

  it("are drawn, explained and updated like any other steps", async () => {
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

it("follows the edge of a success at a diamond without an earlier outcome; runs a command for a node type", async () => {
  project.write(
    "p.dot",
    `digraph p { start [shape=Mdiamond]; exit [shape=Msquare]; d [shape=diamond]
    ${tool("good", project.effect("good"))}; ${tool("bad", project.effect("bad"))}
    a [type=deploy, zone="eu 1"]; start -> d; good -> a; a -> exit; bad -> exit
    d -> bad [condition="outcome!=success"]; d -> good [condition="outcome=success"] }`,
  );
  const command = `deploy=echo "$PERDURE_NODE_ATTRIBUTES $KILROY_NODE_ID" > reported`;
  await project.must(["run", "p.dot", "--handler", command]);
  expect(project.effects()).toEqual({ good: 1 });
  expect(project.read("reported")).toBe('{"type":"deploy","zone":"eu 1"} a\n');
});
