/** The state of a run: context, outcomes, checkpoint and fidelity: chapter 5 of the specification. */
import { describe, expect } from "vitest";
import { evaluateIn } from "../../src/core/values.ts";
import { ok, Play } from "../core/play.ts";
import { answers, decided, graph, planOf, says, statement, tools, walk } from "./statement.ts";

describe("the context", () => {
  statement("11.7", "the next node sees what a node writes", () => {
    const body = `${tools("a b c")} start -> a -> b; b -> c [condition="context.k=v"]; b -> exit
      c -> exit`;
    expect(walk(body, { a: ok({ k: "v" }) }).path).toBe("start a b c exit");
  });
  statement("5.1", "outcome, current_node and preferred_label are set by each node", () => {
    const { context } = walk(`${tools("a")} start -> a`, { a: says({ label: "L" }) });
    expect(context).toMatchObject({ outcome: "success", current_node: "a", preferred_label: "L" });
  });
  statement("5.1", "current_node is the node that is at work", () => {
    const { run } = new Play(planOf(graph(`${tools("a b")} start -> a -> b -> exit`)))
      .open()
      .end("a");
    const [visit] = run.running;
    const seen = visit && evaluateIn(run, visit, 'context["current_node"]', {});
    expect(seen).toEqual({ ok: true, value: "b" });
  });
});

describe("outcomes", () => {
  statement("5.2", "a partial success follows an edge without a condition", () => {
    const partly = says({ outcome: "partial_success" });
    expect(walk(`${tools("a")} start -> a -> exit`, { a: partly })).toMatchObject({
      status: "completed",
      path: "start a exit",
    });
  });
  statement("5.2", "a partial success follows an edge for success, not one for failures", () => {
    const body = `${tools("a undo")} start -> a; a -> exit [condition="outcome=success"]
      a -> undo [condition="outcome=fail"]; undo -> exit`;
    const walked = walk(body, { a: says({ outcome: "partial_success" }) });
    expect(walked).toMatchObject({ path: "start a exit", outcomes: { a: "partial_success" } });
  });
  statement("5.2", "skipped continues the run, and no outcome is recorded", () => {
    const walked = walk(`${tools("a")} start -> a -> exit`, { a: says({ outcome: "skipped" }) });
    expect(walked).toMatchObject({ path: "start a exit" });
    expect(walked.outcomes).not.toHaveProperty("a");
  });
  decided("C", "custom outcomes", "any other word is an outcome of its own", () => {
    const body = `${tools("a b")} start -> a; a -> b [condition="outcome=port"]; a -> exit; b -> exit`;
    const walked = walk(body, { a: says({ outcome: "port" }) });
    expect(walked).toMatchObject({ path: "start a b exit", outcomes: { a: "port" } });
  });
});

describe("the checkpoint", () => {
  const { checkpoint } = walk(`${tools("a b")} start -> a -> b -> exit`, { a: ok({ k: "v" }) });

  statement("5.3", "has time, node, nodes, retries, context and log", () => {
    expect(checkpoint).toMatchObject({
      timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
      completed_nodes: ["start", "a", "b", "exit"],
      node_retries: {},
      context: { k: "v" },
      logs: expect.any(Array),
    });
  });
  decided("5.3", "checkpoint", "there is one at the exit, too", () => {
    expect(checkpoint.current_node).toBe("exit");
  });
  statement("5.3", "the retries of a node are in it and in the context", () => {
    const retry = says({ outcome: "retry" });
    const body = `a [prompt=x, max_retries=2]; ${tools("b")} start -> a -> exit; b -> exit
      a -> b [condition="outcome=fail"]`;
    const walked = walk(body, { a: retry });
    expect(walked.checkpoint).toMatchObject({ node_retries: { a: 2 } });
    expect(walked.context["internal.retry_count.a"]).toBe(2);
  });
});

describe("a checkpoint of another engine", () => {
  const body = `${tools("a b c")} start -> a; a -> b [condition="context.k=v"]; a -> c; b -> exit
    c -> exit; a -> c [condition="outcome=fail"]`;
  const after = (context: Record<string, string>, node = "a") =>
    walk(body, {}, { after: { node, completed: ["start", node], context } });

  statement("5.3", "continues after current_node, with its context", () => {
    const walked = after({ outcome: "success", k: "v" });
    expect(walked).toMatchObject({ path: "start a b exit", context: { k: "v" } });
    expect(walked.attempts("a")).toBe(0);
  });
  statement("5.3", "whose last node has failed continues as after a failure", () => {
    expect(after({ outcome: "fail" }).path).toBe("start a c exit");
  });
  statement("5.3", "whose last node preferred a label or a node continues there", () => {
    const labels = `${tools("a b c")} start -> a; a -> b [label="L"]; a -> c [label="R"]; b -> exit
      c -> exit`;
    const last = { node: "a", completed: ["start", "a"], context: { outcome: "success" } };
    expect(walk(labels, {}, { after: { ...last, label: "R" } }).path).toBe("start a c exit");
    expect(walk(labels, {}, { after: { ...last, next: ["c"] } }).path).toBe("start a c exit");
  });
  decided("5.3", "another engine's checkpoint", "retries begin again", () => {
    const retries =
      "a [prompt=x, max_retries=2]; b [prompt=y, max_retries=2]; start -> a -> b -> exit";
    const context = { outcome: "success", "internal.retry_count.b": "2" };
    const walked = walk(
      retries,
      { b: says({ outcome: "retry" }) },
      { after: { node: "a", completed: ["start", "a"], context } },
    );
    expect(walked.attempts("b")).toBe(3);
  });
});

describe("fidelity", () => {
  const pair = (node: string, edge = "", settings = ""): string =>
    `${settings} a [prompt=x]; b [prompt=y${node}]; start -> a; a -> b${edge}; b -> exit`;
  const script = { a: { ...answers("The plan."), context: { k: "value" } } } as const;
  const told = (node: string, edge = "", settings = "") =>
    walk(pair(node, edge, settings), script).briefing("b");

  statement("5.4", "the default is compact: stages with their outcomes, and values", () => {
    const { mode, text } = told("");
    expect(mode).toBe("compact");
    expect(text).toContain("- a: completed: The plan.");
    expect(text).toContain("- k = value");
  });
  statement("5.4", "truncate has the goal and the run only", () => {
    const { mode, text } = told(", fidelity=truncate");
    expect(mode).toBe("truncate");
    expect(text).toContain("The goal");
    expect(text).not.toContain("The plan.");
  });
  for (const mode of ["summary:low", "summary:medium", "summary:high"]) {
    statement("5.4", `${mode} is a summary with values, in a new session`, () => {
      const briefing = told(`, fidelity="${mode}"`);
      expect(briefing).toMatchObject({ mode, session: "s2" });
      expect(briefing.text).toContain("The plan.");
      expect(briefing.text).toContain("- k = value");
    });
  }
  statement("5.4", "full continues the session of the node before", () => {
    expect(told(", fidelity=full")).toMatchObject({ mode: "full", session: "s1" });
  });
  statement("5.4", "that of the edge outweighs that of the node", () => {
    expect(told(", fidelity=truncate", " [fidelity=full]").mode).toBe("full");
  });
  statement("5.4", "that of the node outweighs that of the graph", () => {
    expect(told(", fidelity=truncate", "", "default_fidelity=full;").mode).toBe("truncate");
  });
  statement("5.4", "default_fidelity=full counts for all nodes", () => {
    expect(told("", "", "default_fidelity=full;")).toMatchObject({ mode: "full", session: "s1" });
  });
  statement("5.4", "nodes with one thread_id share a session, others do not", () => {
    const node = (id: string, thread: string): string =>
      `${id} [prompt=x, fidelity=full, thread_id=${thread}];`;
    const body = `${node("a", "t")} ${node("b", "u")} ${node("c", "t")} start -> a -> b -> c -> exit`;
    const walked = walk(body, {});
    const [a, b, c] = ["a", "b", "c"].map((id) => walked.briefing(id).session);
    expect(c).toBe(a);
    expect(b).not.toBe(a);
  });
  statement("5.4", "the thread_id of an edge names the thread", () => {
    const body = `node [prompt=x, fidelity=full]; a [thread_id=t]; b; c; start -> a -> b
      b -> c [thread_id=t]; c -> exit; a -> b [thread_id=u, weight=1]`;
    const walked = walk(body, {});
    expect(walked.briefing("c").session).toBe(walked.briefing("a").session);
    expect(walked.briefing("b").session).not.toBe(walked.briefing("a").session);
  });
  statement("5.4", "nodes of one subgraph have one thread", () => {
    const body = `node [prompt=x, fidelity=full]; b; subgraph s { label="Loop"; a; c }
      start -> a -> b -> c -> exit`;
    const walked = walk(body, {});
    expect(walked.briefing("c").session).toBe(walked.briefing("a").session);
  });
  decided("5.4", "fidelity on resume", "a session that is gone gives a summary instead", () => {
    const walked = walk(pair(", fidelity=full"), script, { forgets: true });
    expect(walked.briefing("b").mode).toBe("summary:high");
  });
});

describe("a long pipeline", () => {
  statement("11.12", "60 nodes run in their order", () => {
    const ids = Array.from({ length: 60 }, (_, at) => `n${at}`);
    const walked = walk(`${tools(ids.join(" "))} start -> ${ids.join(" -> ")} -> exit`);
    expect(walked.path).toBe(`start ${ids.join(" ")} exit`);
  });
});
