import { describe, expect, it } from "vitest";
import { classOf, DOT_EDGES_MAX } from "../../../src/pipeline/dot/collect.ts";
import { choiceOf, normalizedLabel } from "../../../src/util/choice.ts";
import { FIXTURES, fixture } from "./fixtures.ts";
import { brief, nodeOf, pipelineOf } from "./tree.ts";

function edges(text: string): readonly string[] {
  return pipelineOf(text).edges.map(({ from, to }) => `${from} -> ${to}`);
}

describe("the graph's attributes", () => {
  it("are typed, with the defaults of the language", () => {
    expect(pipelineOf("digraph {}").settings).toEqual({
      goal: "",
      defaultMaxRetries: 0,
      loopRestartPersistKeys: [],
    });
    const text = `digraph g {
      graph [goal="G", label=L, default_max_retries=2, retry_target=a, fallback_retry_target=b]
      default_fidelity = "summary:low"
      stack.child_dotfile="c.dot" stack.child_workdir="w" tool_hooks.pre="p" tool_hooks.post="q"
      loop_restart_persist_keys="x, y" default_thread_id=t
    }`;
    expect(pipelineOf(text)).toMatchObject({
      name: "g",
      settings: {
        goal: "G",
        label: "L",
        defaultMaxRetries: 2,
        retryTarget: "a",
        fallbackRetryTarget: "b",
        defaultFidelity: "summary:low",
        defaultThreadId: "t",
        childDotfile: "c.dot",
        childWorkdir: "w",
        toolHookPre: "p",
        toolHookPost: "q",
        loopRestartPersistKeys: ["x", "y"],
      },
    });
  });

  it("have an older name for retries", () => {
    const text = "digraph { default_max_retry=50 }";
    expect(pipelineOf(text).settings.defaultMaxRetries).toBe(50);
    expect(brief(text).join()).not.toContain("default_max_retry");
  });
});

describe("nodes", () => {
  it("get the defaults of the language", () => {
    expect(nodeOf("digraph { a }", "a")).toMatchObject({
      id: "a",
      label: "a",
      shape: "box",
      handler: "codergen",
      declared: true,
      goalGate: false,
      autoStatus: false,
      allowPartial: false,
      joinPolicy: "wait_all",
      maxParallel: 4,
      managerPollIntervalMs: 45_000,
      managerMaxCycles: 1_000,
      childAutostart: true,
      classes: [],
    });
    expect(nodeOf("digraph { a }", "a")).not.toHaveProperty("reasoningEffort");
  });

  it("have typed attributes", () => {
    const text = `digraph { a [label=L, prompt="Do $goal for $user, $goal", max_retries="3",
      goal_gate="true", retry_target=b, fallback_retry_target=c, fidelity=full, thread_id=t,
      class="x, y", timeout="1h30m", llm_model=m, llm_provider=p, reasoning_effort=low,
      auto_status=true, allow_partial=yes, tool_command="ls", join_policy=first_success,
      max_parallel=9, human.default_choice=z, manager.poll_interval=250ms, manager.max_cycles=7,
      manager.stop_condition="outcome=success", manager.actions="observe,steer",
      stack.child_autostart=false, stack.child_dotfile="c.dot", tool_hooks.pre=h] }`;
    expect(brief(text).filter((line) => line.includes("attribute"))).toEqual([]);
    expect(nodeOf(text, "a")).toMatchObject({
      label: "L",
      maxRetries: 3,
      goalGate: true,
      retryTarget: "b",
      fallbackRetryTarget: "c",
      fidelity: "full",
      threadId: "t",
      classes: ["x", "y"],
      timeoutMs: 5_400_000,
      llmModel: "m",
      llmProvider: "p",
      reasoningEffort: "low",
      autoStatus: true,
      allowPartial: true,
      toolCommand: "ls",
      joinPolicy: "first_success",
      maxParallel: 9,
      humanDefaultChoice: "z",
      managerPollIntervalMs: 250,
      managerMaxCycles: 7,
      managerStopCondition: { ok: true },
      childAutostart: false,
      childDotfile: "c.dot",
      toolHookPre: "h",
    });
  });

  it.each([
    ["shape=Mdiamond", "start", undefined],
    ["shape=Msquare", "exit", undefined],
    ["shape=box", "codergen", undefined],
    ["shape=hexagon", "wait.human", undefined],
    ["shape=diamond", "conditional", undefined],
    ["shape=component", "parallel", undefined],
    ["shape=tripleoctagon", "parallel.fan_in", undefined],
    ["shape=parallelogram", "tool", undefined],
    ["shape=house", "stack.manager_loop", undefined],
    ["shape=box, type=tool", "tool", undefined],
    ["shape=circle, type=start", "start", undefined],
    ["shape=hexagon, type=mine", "wait.human", "mine"],
    ["handler=human", "wait.human", undefined],
    ["shape=tab", "codergen", "prompt"],
    ["shape=folder", "stack.manager_loop", undefined],
    ["shape=star", "codergen", undefined],
  ])("[%s] are %s nodes", (attributes, handler, customType) => {
    const node = nodeOf(`digraph { a [${attributes}] }`, "a");
    expect([node.handler, node.customType]).toEqual([handler, customType]);
  });

  it.each([
    ["start; exit", "start", "exit"],
    ["Start; end", "start", "exit"],
    ["start; exit; s [shape=Mdiamond]; e [shape=Msquare]", "codergen", "codergen"],
  ])("of %j are the ends by their ids, if nothing else says it", (text, first, second) => {
    const [a, b] = [...pipelineOf(`digraph { ${text} }`).nodes.values()];
    expect([a?.handler, b?.handler]).toEqual([first, second]);
  });

  it("take defaults from where they are declared, not from where edges name them first", () => {
    const text = `digraph {
      a -> b
      node [timeout=1s]
      a
      subgraph { node [timeout=2s, max_retries=5] b; c -> d }
      e
      e [timeout=3s]
      node [timeout=4s]
      e [label=E]
    }`;
    const { nodes } = pipelineOf(text);
    const found = [...nodes.values()].map(({ id, timeoutMs, maxRetries, declared }) => [
      ...[id, timeoutMs, maxRetries, declared],
    ]);
    expect(found).toEqual([
      ["a", 1_000, undefined, true],
      ["b", 2_000, 5, true],
      ["c", 2_000, 5, false],
      ["d", 2_000, 5, false],
      ["e", 3_000, undefined, true],
    ]);
    expect(nodes.get("e")?.label).toBe("E");
  });

  it("get classes from the labels of subgraphs, and models from the stylesheet", () => {
    const text = fixture("subgraphs");
    expect(nodeOf(text, "write")).toMatchObject({
      classes: ["code-review"],
      subgraphClass: "code-review",
      threadId: "loop",
    });
    expect(nodeOf(text, "look")).toMatchObject({
      classes: ["sharp", "code-review", "deep-look"],
      subgraphClass: "deep-look",
    });
    expect(nodeOf(text, "after").classes).toEqual([]);
    expect(classOf("  QA & Tests (2) ")).toBe("qa--tests-2");
    const raw = fixture("raw lines");
    const models = ["Port", "Look", "final"].map((id) => {
      const { llmModel, llmProvider, reasoningEffort } = nodeOf(raw, id);
      return [llmModel, llmProvider, reasoningEffort];
    });
    expect(models).toEqual([
      ["small-1", "acme", "medium"],
      ["large-2", "acme", "medium"],
      ["large-3", "acme", "high"],
    ]);
  });

  it("set before the stylesheet does", () => {
    const text = `digraph {
      model_stylesheet="* { llm_model: s; provider: t }"
      node [llm_model=d] a; b [model=own, llm_provider=""]
    }`;
    expect(nodeOf(text, "a")).toMatchObject({ llmModel: "d", llmProvider: "t" });
    expect(nodeOf(text, "b")).toMatchObject({ llmModel: "own" });
  });
});

describe("edges", () => {
  it("have typed attributes, the same for every pair of a chain", () => {
    const text = `digraph { edge [weight=2] a -> b -> c [label="[Y] Yes", condition="outcome=x",
      fidelity=compact, thread_id=t, loop_restart=true] c -> a }`;
    const [first, second, third] = pipelineOf(text).edges;
    expect(first).toMatchObject({
      label: "[Y] Yes",
      condition: { ok: true },
      weight: 2,
      fidelity: "compact",
      threadId: "t",
      loopRestart: true,
    });
    expect(second).toMatchObject({ from: "b", to: "c", label: "[Y] Yes", weight: 2 });
    expect(third).toMatchObject({ from: "c", to: "a", weight: 2, loopRestart: false });
  });

  it("lead from and to everything in a subgraph", () => {
    expect(edges("digraph { a -> { b; c -> d } -> e }")).toEqual([
      ...["c -> d", "a -> b", "a -> c", "a -> d", "b -> e", "c -> e", "d -> e"],
    ]);
  });

  it("are bounded in number", () => {
    const nodes = (letter: string) =>
      Array.from({ length: 1_100 }, (_, index) => letter + index).join(" ");
    const text = `digraph { { ${nodes("a")} } -> { ${nodes("b")} } }`;
    expect(brief(text).join("\n")).toContain(
      `error[too-many-edges] the graph has more than ${DOT_EDGES_MAX} edges`,
    );
  });
});

describe("what is not understood", () => {
  it("is kept, and named once at its first use (pipeline/D6)", () => {
    const text = `digraph { target_dir=out
      node [max_hops=3]
      a [promt=x, style=filled, fillcolor=red, max_hops=4]
      start -> a [delay_ms=5]
    }`;
    expect(brief(text).filter((line) => line.includes("unknown-attribute"))).toEqual([
      "1:11 warning[unknown-attribute] `target_dir` is not an attribute of a graph; " +
        "it is only kept as `graph.target_dir` in the context",
      "2:13 warning[unknown-attribute] `max_hops` is not an attribute of a node; " +
        "it is ignored (2 times)",
      "3:10 warning[unknown-attribute] `promt` is not an attribute of a node; it is ignored",
      "4:19 warning[unknown-attribute] `delay_ms` is not an attribute of an edge; it is ignored",
    ]);
    expect(nodeOf(text, "a").attributes.get("max_hops")?.value.text).toBe("4");
    expect(pipelineOf(text).attributes.get("target_dir")?.value.text).toBe("out");
  });

  it("is read as what it means where another engine has another word", () => {
    const text = fixture("dialect");
    expect(nodeOf(text, "sort")).toMatchObject({ prompt: "Sort these", llmModel: "small-1" });
    expect(nodeOf(text, "test").toolCommand).toBe("cargo test");
    expect(nodeOf(text, "observe").customType).toBe("stack.observe");
    expect(pipelineOf(text).settings).toMatchObject({
      defaultMaxRetries: 3,
      defaultFidelity: "truncate",
    });
    expect(pipelineOf(text).edges.filter(({ loopRestart }) => loopRestart).length).toBe(1);
  });

  it("among values is named, and not set", () => {
    const text = `digraph {
      start -> exit [weight=heavy, fidelity=most]
      start [max_retries=-1, timeout="soon", auto_status=maybe, join_policy=k_of_n]
      exit [goal_gate="all is well", timeout=300]
    }`;
    expect(brief(text).filter((line) => /value|fidelity/.test(line))).toEqual([
      "2:29 warning[attribute-value] `heavy` is not a whole number; `weight` is not set",
      "2:45 warning[fidelity_valid] there is no fidelity `most`; `fidelity` is not set",
      "3:26 warning[attribute-value] `-1` is not a whole number, 0 or more; `max_retries` is not set",
      "3:38 warning[attribute-value] `soon` is not a duration; `timeout` is not set",
      "3:58 warning[attribute-value] this is neither true nor false; `auto_status` is not set",
      "3:77 warning[attribute-value] there is no join policy `k_of_n`; it is read as `wait_all`",
      "4:23 warning[attribute-value] this text is not checked; it is read as `true`",
      "4:46 warning[attribute-value] `300` has no unit; it is read as seconds",
    ]);
    expect(nodeOf(text, "exit")).toMatchObject({ goalGate: true, timeoutMs: 300_000 });
  });
});

describe("choices", () => {
  it.each([
    ["[Y] Yes", "Y", "Yes"],
    ["[ok] Fine", "OK", "Fine"],
    ["y) Yes", "Y", "Yes"],
    ["Y - Yes, do", "Y", "Yes, do"],
    [" yes ", "Y", "yes"],
    ["A-B test", "A", "A-B test"],
    ["[Y]", "[", "[Y]"],
    ["", "?", ""],
  ])("%j has the key %s", (label, key, text) => {
    expect(choiceOf(label)).toEqual({ key, text });
  });

  it("are the same when only the key or the case differs", () => {
    const labels = ["[Y] Yes", "y) yes", "Y - YES", " Yes "];
    expect(new Set(labels.map(normalizedLabel))).toEqual(new Set(["yes"]));
  });
});

it.each(FIXTURES)("$name is a pipeline without errors", ({ text }) => {
  expect(brief(text).filter((line) => line.includes("error"))).toEqual([]);
});
