/**
 * Words of other engines: each is run as what it means, or named in a diagnostic. Nothing that costs
 * money is run as something else.
 */
import { execFileSync } from "node:child_process";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { PlanReading } from "../../src/plan/plan.ts";
import { DotProject, tool } from "./rig.ts";
import { found, graph, lowered, planOf, stepIn, tools } from "./statement.ts";

const CHILD = { "c.dot": graph(`${tools("w")} start -> w -> exit`) };
const around = (node: string): string => graph(`${node}; start -> a -> exit`);

/** The agent of the node `a`: its adapter, its model, its arguments and its settings. */
function agentOf(node: string, reading: PlanReading = {}) {
  const plan = planOf(around(node), reading);
  const { work } = stepIn(plan, "a");
  if (work.kind !== "agent") throw new Error(`a is ${work.kind}`);
  const { adapter, args } = plan.agents[work.agent] ?? {};
  return { adapter, args, ...work.settings };
}

describe("a node that names another file", () => {
  it.each([
    ['a [shape=folder, dot_file="c.dot"]'],
    ['a [graph_ref="c.dot", label="Sub"]'],
    ['a [type=sub_pipeline, sub_pipeline="c.dot"]'],
    ['a [type=pipeline, "stack.child_workflow"="c.dot"]'],
  ])("runs that file: %s", (node) => {
    expect(stepIn(planOf(around(node), {}, CHILD), "a").work.kind).toBe("pipeline");
  });

  it("is an error without one", () => {
    expect(found(around('a [shape=folder, label="Sub"]'))).toContain("error[manager-child]");
  });

  it("keeps its prompt where it has one", () => {
    expect(agentOf('a [prompt=x, graph_ref="c.dot"]').adapter).toBe("claude");
  });
});

describe("a node that calls a model once", () => {
  it.each(["shape=tab", "codergen_mode=one_shot", "type=prompt"])("has no tools: %s", (how) => {
    const node = `a [${how}, prompt="One sentence."]`;
    expect(found(around(node))).toEqual([]);
    expect(agentOf(node).args).toEqual(["--tools", "", "--strict-mcp-config"]);
  });

  it("reports with its answer, because it can write no file", () => {
    const text = graph(`a [shape=tab, prompt="Is it? See status.json"]; ${tools("b")} start -> a
      a -> exit [condition="outcome=success"]; a -> b [condition="outcome=fail"]; b -> exit`);
    const { work } = stepIn(planOf(text), "a");
    const prompt = work.kind === "agent" ? work.prompt : "";
    expect(prompt).toContain("end your answer with one JSON object");
    expect(prompt).not.toContain("PERDURE_STATUS_FILE");
  });

  it("may only read where its agent always has tools, which is said", () => {
    const node = "a [shape=tab, prompt=x, llm_provider=openai]";
    expect(agentOf(node).permissions).toBe("plan");
    expect(found(around(node))).toEqual(["warning[unsupported]"]);
  });
});

describe("a provider", () => {
  it.each([
    ["openai-codex", "gpt-5", "codex", "gpt-5"],
    ["kimi", "kimi-k2", "opencode", "moonshotai/kimi-k2"],
    ["ZAI", "glm-4.6", "opencode", "zai/glm-4.6"],
    ["minimax", "minimax/m2", "opencode", "minimax/m2"],
  ])("%s has the agent that calls its models", (provider, model, adapter, named) => {
    const node = `a [prompt=x, llm_provider="${provider}", llm_model="${model}"]`;
    expect(agentOf(node)).toMatchObject({ adapter, model: named });
  });

  it("that no agent is known for is an error, unless somebody chooses one", () => {
    const node = "a [prompt=x, llm_provider=elsewhere, llm_model=m]";
    expect(found(around(node))).toEqual(["error[unknown-provider]"]);
    expect(found(around(node), { simulate: "agents" })).toEqual(["warning[unknown-provider]"]);
    expect(agentOf(node, { agent: "gemini" }).adapter).toBe("gemini");
    expect(found(around("a [prompt=x, llm_provider=zai]"))).toEqual(["error[unknown-provider]"]);
  });
});

describe("limits of other engines", () => {
  it("on money count", () => {
    const plan = planOf(graph("max_budget_usd=2.5; start -> exit"));
    expect(plan.budget).toEqual({ usd: 2.5 });
    const node = "a [prompt=x, max_budget_usd=1]";
    expect(agentOf(node).args).toEqual(["--max-budget-usd", "1"]);
    const codex = "a [prompt=x, max_budget_usd=1, llm_provider=openai]";
    expect(found(around(codex))).toEqual(["warning[unsupported]"]);
    expect(found(around("a [prompt=x, max_budget_usd=none]"))).toEqual([
      "warning[attribute-value]",
    ]);
  });

  it("on tools count", () => {
    const node = 'a [prompt=x, allowed_tools="Read, Grep"]';
    expect(agentOf(node).tools).toEqual({ allow: ["Read", "Grep"], deny: [] });
    const codex = 'a [prompt=x, allowed_tools="Read", llm_provider=openai]';
    expect(found(around(codex))).toEqual(["warning[unsupported]"]);
  });
});

describe("a command in another language", () => {
  it("is run by that language", () => {
    const text = around(`a [shape=parallelogram, language=Python, script="print('it is')"]`);
    expect(stepIn(planOf(text), "a").work).toMatchObject({
      run: String.raw`python3 -c 'print('\''it is'\'')'`,
    });
    const unknown = around("a [shape=parallelogram, language=cobol, tool_command=x]");
    expect(found(unknown)).toEqual(["error[tool-command]"]);
  });
});

describe("a loop with a trapezium at each end", () => {
  const loop = (ends: string, body = "w"): string =>
    `b [shape=trapezium, loop_id=main]; e [shape=invtrapezium, loop_id=main, ${ends}]
     start -> b -> ${body} -> e -> exit`;

  it("is an error without anything that ends it", () => {
    expect(found(graph(`${tools("w")} ${loop("loop_max=3")}`))).toContain("error[type_known]");
  });

  it("is named where a node has its attributes without being an end", () => {
    expect(found(around("a [prompt=x, loop_count=3]"))).toEqual(["warning[unsupported]"]);
  });

  it("goes round until its file says so, its count is reached, or its limit makes it fail", async () => {
    const project = new DotProject();
    const work = tool(
      "w",
      `${project.effect("w")}; test $(wc -l < effects) -lt 3 || echo DONE > f`,
    );
    try {
      const until = await project.play(
        `${work} ${loop('loop_until_file_contains="f:DONE", loop_max=9')}`,
      );
      expect(until).toMatchObject({ exit: 0, path: "start b w e b w e b w e exit" });
      const count = await project.play(`${tool("w", "true")} ${loop("loop_count=2")}`);
      expect(count.path).toBe("start b w e b w e exit");
      const most = await project.play(
        `${tool("w", "true")} ${loop("loop_until_file=no, loop_max=2")}`,
      );
      expect(most).toMatchObject({ exit: 3, path: "start b w e b w e" });
      const hold = project.hold("w");
      const held = tool("w", `${hold.command}; ${project.effect("held")}`);
      const runner = project.begin([
        "run",
        project.graph(`${held} ${loop("loop_count=2")}`),
        "--logs",
        "out",
      ]);
      await hold.arrived();
      await hold.release();
      await hold.arrived();
      await runner.kill("SIGKILL");
      const resumed = project.begin(["resume"]);
      await hold.release();
      expect(project.ran("out", await resumed.ended)).toMatchObject({ exit: 0, path: count.path });
      expect(project.effects()).toMatchObject({ held: 2 });
    } finally {
      await project.remove();
    }
  });
});

describe("what nothing here runs", () => {
  it.each([
    ["a [shape=trapezium, label=Begin]", "error[type_known]"],
    ["a [shape=parallelogram, prompt=ls]", "error[tool-command]"],
    [
      'm [shape=house, "stack.child_dot_source"="digraph {}"]; a [prompt=x]; start -> m -> exit',
      "error[manager-child]",
    ],
  ])("is an error: %s", (node, error) => {
    expect(found(around(node))).toContain(error);
  });

  it.each([
    ["prompt=x, escalation_models=y", "unknown-attribute"],
    ["prompt=x, sandbox=docker", "unknown-attribute"],
    ["prompt=x, mark_done=true", "unknown-attribute"],
    ["prompt=x, synopsis=y", "unknown-attribute"],
    ["prompt=x, selection=random", "unknown-attribute"],
    ["prompt=x, auto_status=true", "unsupported"],
    ["shape=component, join_policy=k_of_n", "attribute-value"],
    ["shape=component, error_policy=fail_fast", "unknown-attribute"],
  ])("is named: %s", (attributes, rule) => {
    expect(lowered(around(`a [${attributes}]`)).plan).toBeDefined();
    expect(found(around(`a [${attributes}]`))).toContain(`warning[${rule}]`);
  });
});

describe("a run", () => {
  let project: DotProject;
  beforeAll(() => {
    project = new DotProject();
  });
  afterAll(() => project.remove());

  it("of a folder and a script in JavaScript calls no agent", async () => {
    project.graph(`${tool("w", project.effect("child"))} start -> w -> exit`, "child.dot");
    const script = "require('node:fs').appendFileSync('effects', 'script\\\\n')";
    const ran = await project.play(`f [shape=folder, dot_file="child.dot"]
      s [shape=parallelogram, language=javascript, script="${script}"]
      start -> f -> s -> exit`);
    expect(ran).toMatchObject({ exit: 0, path: "start f s exit" });
    expect(project.effects()).toEqual({ child: 1, script: 1 });
    expect(project.prompts()).toEqual([]);
  });

  it("works where its graph says, whatever the settings of the project say", async () => {
    execFileSync("git", ["init", "-q", project.dir]);
    const identity = ["-c", "user.name=t", "-c", "user.email=t@t"];
    execFileSync("git", [...identity, "commit", "-q", "--allow-empty", "-m", "x"], {
      cwd: project.dir,
    });
    project.write("perdure.yaml", "workspace: { kind: here, snapshots: false }\n");
    const body = `workspace=worktree; ${tool("a", "pwd > where; cat where")} start -> a -> exit`;
    const ran = await project.play(body);
    expect(ran.exit).toBe(0);
    expect(project.exists("where")).toBe(false);
    const own = await project.play(`workspace=worktree; f [shape=component, workspace=own]
      j [shape=tripleoctagon]; ${tool("a", "pwd >> a; cat a")} ${tool("b", "pwd >> a.b; cat a.b")}
      ${tool("z", "cat a a.b | sort -u | wc -l")} start -> f; f -> a -> j; f -> b -> j; j -> z -> exit`);
    expect([own.exit, own.checkpoint.context["tool.output"]]).toEqual([0, "2"]);
  });
});
