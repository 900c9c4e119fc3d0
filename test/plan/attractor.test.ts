/** DOT pipelines as plans: what each node and edge becomes, and how their runs proceed. */
import { describe, expect, it } from "vitest";
import { evaluateIn } from "../../src/core/values.ts";
import {
  buildDotPlan,
  continueFrom,
  type DotFile,
  type LoweredDot,
} from "../../src/plan/attractor/build.ts";
import type { Plan, PlanReading, Step } from "../../src/plan/plan.ts";
import { simulated } from "../../src/plan/simulate.ts";
import { HOOK_FORBIDS } from "../../src/util/agent-access.ts";
import { bad, ok, Play } from "../core/play.ts";

function lowered(
  text: string,
  reading: PlanReading = {},
  others: Readonly<Record<string, string>> = {},
): LoweredDot {
  const file = (name: string, content: string): DotFile => ({
    name,
    path: name,
    text: content,
    other: (named) => {
      const found = others[named];
      return found === undefined ? undefined : file(named, found);
    },
  });
  return buildDotPlan(file("flow.dot", text), reading);
}

function planOf(text: string, ...more: [PlanReading?, Readonly<Record<string, string>>?]): Plan {
  const { plan, diagnostics } = lowered(text, ...more);
  if (plan === undefined) throw new Error(diagnostics.map(({ message }) => message).join("; "));
  return plan;
}

/** A pipeline with a start and an exit around what is given. */
function around(body: string): string {
  return `digraph g { start [shape=Mdiamond]; exit [shape=Msquare]; ${body} }`;
}

function stepOf(plan: Plan, id: string): Step {
  const step = plan.graph.steps.find((one) => one.id === id);
  if (step === undefined) throw new Error(`no step ${id}`);
  return step;
}

function said({ diagnostics }: LoweredDot): readonly string[] {
  return diagnostics.map(
    ({ severity, rule, message, line, column }) =>
      `${line}:${column} ${severity}[${rule}] ${message}`,
  );
}

const TOOL = "shape=parallelogram, tool_command=x";

describe("edges", () => {
  it("with a condition belong to both ends of a node, others to success alone (plan/W1)", () => {
    const plan = planOf(
      around(`a [${TOOL}]; start -> a; a -> exit; a -> exit [condition="outcome=fail"]`),
    );
    expect(plan.graph.edges.map(({ on, condition }) => [on, condition])).toEqual([
      ["completed", undefined],
      ["completed", undefined],
      ["completed", 'outcome == "fail"'],
      ["failed", 'outcome == "fail"'],
    ]);
  });

  it("stand in the order of their targets' names, and weight comes first (plan/W2)", () => {
    const body = `a [${TOOL}]; c [${TOOL}]; b [${TOOL}]; d [${TOOL}]
      start -> a; a -> c; a -> b; a -> d [weight=1]; b -> exit; c -> exit; d -> exit`;
    const light = new Play(planOf(around(body.replace("[weight=1]", "")))).open().end("a");
    expect(light.running()).toEqual(["b"]);
    expect(new Play(planOf(around(body))).open().end("a").running()).toEqual(["d"]);
  });

  it("of a failure that no edge asks for are none: the run fails (decision b)", () => {
    const play = new Play(planOf(around(`a [${TOOL}]; start -> a -> exit`))).open().end("a", bad);
    expect(play.status).toBe("failed");
  });

  it("lead to the retry target when nothing else takes a failure up", () => {
    const body = `a [${TOOL}]; b [${TOOL}, retry_target=a]; start -> a -> b -> exit`;
    const play = new Play(planOf(around(body))).open().end("a").end("b", bad);
    expect(play.running()).toEqual(["a"]);
    const both = body.replace(
      "b -> exit",
      'b -> exit; b -> c [condition="outcome=fail"]; c -> exit',
    );
    const asked = new Play(planOf(around(`c [${TOOL}]; ${both}`))).open().end("a").end("b", bad);
    expect(asked.running()).toEqual(["c"]);
  });

  it("that do not match are a failure (decision d)", () => {
    const body = `a [${TOOL}]; start -> a; a -> exit [condition="context.x=1"]`;
    const play = new Play(planOf(around(body))).open().end("a");
    expect(play.status).toBe("failed");
    expect(play.events.find(({ type }) => type === "step.failed")).toMatchObject({
      reason: "no-edge",
    });
    const given = new Play(planOf(around(body))).open().end("a", ok({ x: 1 }));
    expect(given.status).toBe("completed");
  });

  it("out of a diamond ask how the node before it went (decision c)", () => {
    const body = `a [${TOOL}]; gate [shape=diamond]; b [${TOOL}]
      start -> a -> gate
      gate -> exit [condition="outcome=success"]; gate -> b [condition="outcome!=success"]; b -> exit`;
    expect(new Play(planOf(around(body))).open().end("a").status).toBe("completed");
    expect(new Play(planOf(around(body))).open().end("a", bad).running()).toEqual(["b"]);
  });
});

describe("a node", () => {
  it("gets tries, delays and limits as the language has them", () => {
    const body = `a [${TOOL}, max_retries=2, timeout=90s]; b [prompt=p]; c [prompt=p, retry_preset=linear]
      start -> a -> b -> c -> exit; default_max_retries=4`;
    const plan = planOf(around(body));
    const backoff = { initialMs: 200, factor: 2, maxMs: 60_000, jitter: 0.5 };
    const keep = { onResume: "keep" };
    expect(stepOf(plan, "a")).toMatchObject({ timeoutMs: 90_000, visitsMax: 100 });
    expect(stepOf(plan, "a").retry).toEqual({ attempts: 3, on: "any", backoff, ...keep });
    expect(stepOf(plan, "b").retry).toEqual({ attempts: 5, on: "retry", backoff, ...keep });
    expect(stepOf(plan, "c").retry).toMatchObject({
      attempts: 3,
      backoff: { initialMs: 500, factor: 1 },
    });
  });

  it("that fails is tried again only where a tool has retries of its own (decision a)", () => {
    const body = `a [${TOOL}]; start -> a -> exit; default_max_retries=3`;
    expect(new Play(planOf(around(body))).open().end("a", bad).status).toBe("failed");
    const own = new Play(planOf(around(body.replace("=x]", "=x, max_retries=1]")))).open();
    expect(own.end("a", bad).status).toBe("running");
  });

  it("may be visited as often as the file says", () => {
    const plan = planOf(
      around(`max_node_visits=7; a [${TOOL}]; b [${TOOL}, max_visits=2]; start -> a -> b -> exit`),
    );
    expect([stepOf(plan, "a").visitsMax, stepOf(plan, "b").visitsMax]).toEqual([7, 2]);
  });

  it("whose name no file can have gets another", () => {
    const plan = planOf(around(`"a/b c" [${TOOL}]; start -> "a/b c" -> exit`));
    expect(plan.graph.steps.map(({ id }) => id)).toEqual(["start", "_a_b_c", "exit"]);
  });

  it("of a type that the language does not have is run by its command, or as its shape says", () => {
    const text = around(`a [type=deploy, prompt="p", zone=x]; start -> a -> exit`);
    expect(stepOf(planOf(text), "a").work.kind).toBe("agent");
    const plan = planOf(text, { handlers: { deploy: "./deploy.sh" } });
    expect(stepOf(plan, "a").work).toEqual({ kind: "shell", run: "./deploy.sh" });
    expect(JSON.parse(stepOf(plan, "a").env.PERDURE_NODE_ATTRIBUTES ?? "")).toMatchObject({
      zone: "x",
    });
  });
});

describe("a goal gate", () => {
  const body = `a [${TOOL}]; b [${TOOL}, goal_gate=true]
    start -> a -> b; b -> exit; b -> exit [condition="outcome=fail"]`;
  it("follows the first rung of its ladder back", () => {
    const target = (own: string, graph = ""): number | undefined => {
      const gate = body.replace("goal_gate=true", `goal_gate=true${own}`);
      return stepOf(planOf(around(`${graph}; ${gate}`)), "b").goal?.retryTarget;
    };
    const [start, a, b] = [0, 1, 2];
    expect(target("")).toBeUndefined();
    expect(target("", "fallback_retry_target=a")).toBe(a);
    expect(target("", "fallback_retry_target=start; retry_target=a")).toBe(a);
    expect(target(", fallback_retry_target=b", "retry_target=a")).toBe(b);
    expect(target(", retry_target=start, fallback_retry_target=b", "retry_target=a")).toBe(start);
    expect(target(", retry_target=nowhere", "retry_target=a")).toBe(a);
  });

  it("that was missed takes the run back; one that nobody came to does not (decision j)", () => {
    const play = new Play(planOf(around(`retry_target=a; ${body}`))).open().end("a").end("b", bad);
    expect(play.running()).toEqual(["a"]);
    const passed = `${body}; start -> exit [weight=9]`;
    expect(new Play(planOf(around(`retry_target=a; ${passed}`))).open().status).toBe("completed");
  });
});

describe("a prompt", () => {
  const agentOf = (body: string, reading?: PlanReading) => {
    const plan = planOf(around(`start -> a -> exit; ${body}`), reading);
    const { work } = stepOf(plan, "a");
    if (work.kind !== "agent") throw new Error("no agent");
    return { ...work, definition: plan.agents[work.agent] };
  };

  it("is the label where there is none, and has the goal in it", () => {
    expect(agentOf(`a [label="Do $goal"]; goal="it"`).prompt).toBe("Do it");
    expect(agentOf(`a [prompt="\${{ x }} costs $HOME"]`).prompt).toBe("$${{ x }} costs $HOME");
  });

  it("names what nothing fills in", () => {
    const found = lowered(around(`start -> a -> exit; a [prompt="do $this with $HOME"]`));
    expect(said(found).join("\n")).toContain(
      "warning[unknown-variable] `this` is filled in from the input",
    );
    expect(said(found).join("\n")).not.toContain("HOME");
  });

  it("is run by the agent of its provider, else by the one that the person names", () => {
    expect(agentOf("a [prompt=p]").definition?.adapter).toBe("claude");
    expect(agentOf("a [prompt=p, llm_provider=openai]").definition?.adapter).toBe("codex");
    expect(
      agentOf("a [prompt=p, llm_provider=google]", { agent: "opencode" }).definition?.adapter,
    ).toBe("gemini");
    expect(agentOf("a [prompt=p]", { agent: "opencode" }).definition?.adapter).toBe("opencode");
    expect(agentOf("a [prompt=p, llm_model=gpt-5]").definition?.adapter).toBe("codex");
    expect(agentOf("a [prompt=p, llm_model=m]").settings).toEqual({ model: "m" });
  });

  it("says how hard to think only where the file does (decision o)", () => {
    expect(agentOf("a [prompt=p]").definition?.args).toEqual([]);
    expect(agentOf("a [prompt=p, reasoning_effort=low]").definition?.args).toEqual([
      "--effort",
      "low",
    ]);
    const found = lowered(
      around("start -> a -> exit; a [prompt=p, llm_provider=gemini, reasoning_effort=low]"),
    );
    expect(said(found).join("\n")).toContain(
      "warning[unsupported] gemini has no setting for how hard to think",
    );
  });

  it("has the hooks around its tool calls", () => {
    const [flag, settings] =
      agentOf(`a [prompt=p, "tool_hooks.pre"="./pre"]`).definition?.args ?? [];
    const command = `( ./pre\n) || { echo '${HOOK_FORBIDS}' >&2; exit 2; }`;
    expect(flag).toBe("--settings");
    expect(JSON.parse(settings ?? "")).toEqual({
      hooks: {
        PreToolUse: [{ matcher: "*", hooks: [{ type: "command", command }] }],
      },
    });
  });

  it("names the status file where the next edge depends on it", () => {
    const asked = `a [prompt=p]; a -> b [condition="outcome=needs_dod"]; b [${TOOL}]; b -> exit`;
    expect(agentOf(asked).prompt).toContain("PERDURE_STATUS_FILE");
    expect(agentOf(asked).prompt).toContain("success, fail, needs_dod");
    expect(agentOf("a [prompt=p]").prompt).toBe("p");
  });
});

describe("branches that do not meet", () => {
  const fork = `f [shape=component]; j [shape=tripleoctagon]; start -> f; f -> a; f -> b; a -> j; b -> j; j -> exit`;
  const leaving = (body: string): readonly string[] =>
    said(lowered(around(`${fork}; ${body}`))).filter((one) => one.includes("branch-leaves"));

  it("are named where an edge leads back, past their end, or before their beginning", () => {
    expect(leaving("")).toEqual([]);
    expect(leaving(`a -> a [condition="outcome=fail"]; a -> c; c -> j`)).toEqual([]);
    expect(leaving(`a -> f [condition="outcome=fail"]`)).toEqual([
      expect.stringContaining(
        "leads out of a branch of `f`, back to it: the branch ends there, and nothing is started again",
      ),
    ]);
    expect(leaving(`b -> exit [condition="outcome=fail"]`)).toEqual([
      expect.stringContaining(
        "to `exit`: the nodes after it run in the branch, which then does not reach `j`",
      ),
    ]);
    const early = `start -> p; p -> f; p [${TOOL}]; b -> p [condition="outcome=fail"]`;
    expect(leaving(early)).toEqual([expect.stringContaining("out of a branch of `f`, to `p`")]);
  });

  it("go as the warning says", () => {
    const text = around(`${fork}; a [${TOOL}]; b [${TOOL}]; a -> f [condition="outcome=fail"]`);
    const play = new Play(planOf(text)).open();
    play.end("f@1.1[0]/a", bad).end("f@1.1[1]/b");
    expect(play.status).toBe("completed");
    expect(play.launched).toEqual(["f@1.1[0]/a@1.1", "f@1.1[1]/b@1.1"]);
  });
});

describe("a manager", () => {
  const child = `digraph c { goal="small"; start [shape=Mdiamond]; exit [shape=Msquare]
    w [${TOOL}]; start -> w; w -> exit [condition="context.graph.goal=small"] }`;
  const manager = (more: string): string =>
    `digraph g { goal="large"; start [shape=Mdiamond]; exit [shape=Msquare]
    m [shape=house, stack.child_dotfile="c.dot"${more}]; start -> m -> exit }`;

  it("runs its child, which sees the goal of its own file", () => {
    const play = new Play(planOf(manager(""), {}, { "c.dot": child })).open();
    const [visit] = play.run.running;
    const seen = (key: string) => visit && evaluateIn(play.run, visit, `context["${key}"]`, {});
    expect(seen("graph.goal")).toEqual({ ok: true, value: "small" });
    expect(seen("current_node")).toEqual({ ok: true, value: "w" });
    expect(play.end("m@1.1[0]/w").status).toBe("completed");
    expect(play.run.context.get("graph.goal")).toBe("large");
  });

  it("names what it does not do", () => {
    const words = [
      "poll_interval=5s",
      "max_cycles=3",
      "stop_condition=x",
      'actions="observe,steer"',
    ];
    const all = words.map((word) => `, manager.${word}`).join("");
    expect(said(lowered(manager(all), {}, { "c.dot": child }))).toEqual([
      expect.stringContaining("[manager-child] the manager `m` steers, but says nothing"),
    ]);
    const waiting = lowered(manager(", stack.child_autostart=false"), {}, { "c.dot": child });
    expect(said(waiting)).toEqual([expect.stringContaining("nothing else starts the pipeline of")]);
    expect(waiting.plan && stepOf(waiting.plan, "m").work).toEqual({ kind: "pass" });
  });
});

describe("a plan that continues another engine's work", () => {
  const text =
    around(`start -> a -> b; a [${TOOL}]; b [${TOOL}]; b -> exit; b -> a [condition="outcome=fail"]
    f [shape=component]; a -> f [condition="context.wide"]; f -> c; f -> d; c -> j; d -> j
    j [shape=tripleoctagon]; j -> exit; c [${TOOL}]; d [${TOOL}]`);
  const after = (node: string, context: Record<string, string>): Plan | string =>
    continueFrom(planOf(text), { node, completed: [], context });
  const begun = (node: string, context: Record<string, string>): Play => {
    const plan = after(node, context);
    if (typeof plan === "string") throw new Error(plan);
    return new Play(plan).open();
  };

  it("begins behind the node that was last, by the edge that its outcome and context ask for (plan/W4)", () => {
    expect(begun("a", { outcome: "success" }).running()).toEqual(["b"]);
    expect(begun("a", { wide: "yes" }).running()).toEqual(["f@1.1[0]/c", "f@1.1[1]/d"]);
    expect(begun("b", { outcome: "fail" }).running()).toEqual(["a"]);
    expect(begun("exit", { outcome: "success" }).status).toBe("completed");
  });

  it("goes back to what was done before where an edge leads there, and to its end", () => {
    const play = begun("a", { outcome: "success" }).end("b", bad).end("a").end("b");
    expect(play.status).toBe("completed");
    expect(play.launched).toEqual(["b@1.1", "a@1.1", "b@2.1"]);
  });

  it("is none where nothing follows", () => {
    expect(after("c", {})).toBe("there is no node `c` outside of branches");
    expect(after("exit", { outcome: "fail" })).toBe("`exit` has failed, and nothing follows");
  });
});

describe("a simulated plan", () => {
  const text = around(`a [prompt="p"]; b [${TOOL}]; start -> a -> b -> exit`);
  it("answers for its agents and runs its tools", () => {
    const play = new Play(simulated(planOf(text), "agents")).open();
    expect(play.running()).toEqual(["b"]);
    expect(play.events.filter(({ type }) => type === "step.completed")[1]).toMatchObject({
      step: "a",
      answer: "[Simulated] Response for stage: a",
    });
  });

  it("of all work needs no process", () => {
    const play = new Play(simulated(planOf(text), "all")).open();
    expect(play.status).toBe("completed");
    expect(play.launched).toEqual([]);
  });

  /** What each stage of a simulated run said, in order, and how the run ended. */
  function walked(body: string): readonly (string | undefined)[] {
    const plan = simulated(planOf(around(body), { simulate: "all" }), "all");
    const play = new Play(plan).open();
    const words = play.events.flatMap((event) => {
      if (event.type !== "step.completed" && event.type !== "step.failed") return [];
      const { step, reported } = event;
      return reported === undefined
        ? []
        : [`${step}: ${reported.outcome ?? reported.label ?? reported.next?.join()}`];
    });
    return [...words, play.status];
  }

  it("says what the first edge waits for where success leads nowhere (core/X1)", () => {
    const custom = `a -> exit [condition="outcome=zero"]; a -> b [condition="outcome=one"]; b -> exit`;
    expect(walked(`start -> a; ${custom}`)).toEqual(["a: one", "completed"]);
    const heavy = `a -> exit [condition="outcome=zero", weight=2]; a -> b [condition="outcome=one"]`;
    expect(walked(`start -> a; ${heavy}; b -> exit`)).toEqual(["a: zero", "completed"]);
    const label = `a -> exit [condition="preferred_label=Done && outcome!=fail"]`;
    expect(walked(`start -> a; ${label}`)).toEqual(["a: Done", "completed"]);
    expect(walked(`start -> a; a -> exit [condition="outcome!=success"]`)).toEqual([
      "a: fail",
      "completed",
    ]);
    expect(walked(`start -> a; a -> exit [condition="outcome=retry"]`)).toEqual(["failed"]);
  });

  it.each([
    ["tool_stdout=ready", { "tool.output": "ready" }],
    ["context.n>=3 && context.flag", { n: "4", flag: "true" }],
    ["context.n<3", { n: "2" }],
    ["context.text contains abc", { text: "abc" }],
    ['!context.text && context.kind!=""', { text: "false", kind: "other" }],
    ["context.last_response contains READY", {}],
  ])("says so through a diamond: %s", (condition, context) => {
    const quoted = JSON.stringify(condition);
    const text = around(`start -> a -> d; d [shape=diamond]; d -> exit [condition=${quoted}]`);
    const play = new Play(simulated(planOf(text, { simulate: "all" }), "all")).open();
    expect(play.status).toBe("completed");
    expect(Object.fromEntries(play.run.context)).toMatchObject(context);
  });

  it("goes where it has been least when it comes again, so that loops end (core/X1)", () => {
    const loop = `start -> a -> b; b -> a [condition="outcome=success"]; b -> exit [condition="outcome=fail"]`;
    expect(walked(loop)).toEqual(["b: fail", "completed"]);
    const plain = `start -> a -> b; b -> a [weight=2]; b -> exit`;
    expect(walked(plain)).toEqual(["b: exit", "completed"]);
    const asked = `start -> a -> b; b -> a [condition="outcome=success"]; b -> exit`;
    expect(walked(asked)).toEqual(["b: partial_success", "completed"]);
  });

  it("reaches its goals where that leads on (core/X1)", () => {
    const body = `start -> a; a [goal_gate=true, retry_target=a]; a -> b [condition="outcome=success"]
      a -> exit [condition="outcome=fail"]; b -> a [condition="outcome=success"]; b -> exit`;
    expect(walked(body)).toEqual(["b: partial_success", "completed"]);
  });

  it("is what it was without that for a plan that is not read for simulation", () => {
    const plan = planOf(around(`start -> a; a -> exit [condition="outcome=zero"]; a -> exit`));
    expect(plan.graph.edges.filter(({ wants }) => wants !== undefined)).toEqual([]);
  });
});

describe("the texts of a prompt", () => {
  /** The prompt of `a`, rendered with this input and context. */
  function prompt(graph: string, text: string): string {
    const plan = planOf(around(`${graph} a [prompt="${text}"]; start -> a -> exit`));
    const { work } = stepOf(plan, "a");
    return work.kind === "agent" ? work.prompt : "";
  }

  it("take attributes of the graph as they are, whatever they contain", () => {
    expect(prompt('graph [goal="G ${{ input }}", x=1];', "Do $goal, {{ goal }}, $graph.x.")).toBe(
      "Do G $${{ input }}, G $${{ input }}, 1.",
    );
    expect(prompt('graph [goal="{{ input }}"];', "Price: $$goal")).toBe("Price: $${{ input }}");
  });

  it("take keys of the context and built-in keys, empty when they are not set", () => {
    const key = (name: string): string => `\${{ "${name}" in context ? context["${name}"] : "" }}`;
    expect(prompt("", "$last_response and {{ tool.output }}.")).toBe(
      `${key("last_response")} and ${key("tool.output")}.`,
    );
    expect(prompt("", "$context.risk.")).toContain('"risk" in context ? context["risk"] : ""');
  });

  it("take the input by its name, or stay as they are and are named", () => {
    const text = 'a [prompt="{{ inputs.x }} $y ${{ z }} {{ other }} $HOME"]; start -> a -> exit';
    expect(said(lowered(around(text))).filter((line) => line.includes("variable"))).toEqual([
      expect.stringContaining("`x` is filled in from the input"),
      expect.stringContaining("`y` is filled in from the input"),
      expect.stringContaining("`other` is filled in from the input"),
    ]);
    expect(prompt("", "{{ inputs.x }} ${{ z }} $HOME")).toBe(
      '${{ type(input) == map && "x" in input ? input["x"] : "{{ inputs.x }}" }} $${{ z }} $HOME',
    );
  });
});

describe("what a person says at the start", () => {
  const graph = 'graph [goal="old", llm_model="gpt-5"];';
  const nodes =
    'a [prompt="$goal"]; b [prompt=x, llm_model="claude-opus"]; start -> a -> b -> exit';

  it("takes the place of what the graph says, and of nothing that a node says", () => {
    const models = (reading?: PlanReading): readonly unknown[] => {
      const { graph: built } = planOf(around(`${graph} ${nodes}`), reading);
      return built.steps.flatMap(({ work }) =>
        work.kind === "agent" ? [[work.agent, work.settings?.model, work.prompt]] : [],
      );
    };
    expect(models()).toEqual([
      ["codex", "gpt-5", "old"],
      ["claude", "claude-opus", "x"],
    ]);
    expect(models({ goal: "new", model: "gemini-3", provider: "google" })).toEqual([
      ["gemini", "gemini-3", "new"],
      ["claude", "claude-opus", "x"],
    ]);
  });

  it("is part of the context and of the plan", () => {
    const plan = planOf(around(`${graph} ${nodes}`), { goal: "new" });
    expect(plan.context).toMatchObject({ "graph.goal": "new", "graph.llm_model": "gpt-5" });
    expect(plan.reading).toEqual({ goal: "new" });
  });
});

describe("the workspace of a graph", () => {
  it("is what the graph says, with a directory of their own for branches", () => {
    const graph = 'graph [workspace=worktree, commit=end, stall_timeout="5m", stall_after=4];';
    const branches = `f [shape=component, workspace=own]; a [${TOOL}]; b [${TOOL}]; j [shape=tripleoctagon]`;
    const plan = planOf(
      around(`${graph} ${branches}; start -> f; f -> a -> j; f -> b -> j; j -> exit`),
    );
    expect(plan.workspace).toMatchObject({ kind: "worktree", commit: "end", snapshots: true });
    expect(stepOf(plan, "f")).toMatchObject({ own: true, stallAfter: 4 });
    const { work } = stepOf(plan, "f");
    const inner = work.kind === "branches" ? work.branches[0]?.graph.steps : [];
    expect(inner?.[0]).toMatchObject({ id: "a", idleTimeoutMs: 300_000, stallAfter: 4 });
  });

  it("has words of its own, and nodes of other engines for it do nothing, which is said", () => {
    const made = lowered(
      around('graph [workspace=elsewhere]; m [type="workspace.merge"]; start -> m -> exit'),
    );
    expect(made.plan?.workspace?.kind).toBe("here");
    expect(said(made).map((line) => line.replace(/^\S+ /, ""))).toEqual([
      "warning[attribute-value] there is no workspace `elsewhere`; `workspace` is not set",
      expect.stringContaining("warning[type_known]"),
      "warning[unsupported] `m` (workspace.merge) does nothing: a run has its workspace from start to end",
    ]);
  });

  it("is not made by an agent that gets only a label", () => {
    const text = around('x [type="write_file", path=a, content=b]; start -> x -> exit');
    expect(said(lowered(text)).filter((line) => line.includes("error"))).toEqual([
      expect.stringContaining("error[type_known] nothing here runs `x`, a `write_file` node"),
    ]);
    const handled = planOf(text, { handlers: { write_file: "cat" } });
    expect(stepOf(handled, "x").work).toMatchObject({ kind: "shell", run: "cat" });
  });
});
