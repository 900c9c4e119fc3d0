/** How a run finds its way: chapter 3 of the specification, and 11.5. */
import { describe, expect } from "vitest";
import { bad, ok } from "../core/play.ts";
import { decided, graph, planOf, says, statement, stepIn, tools, Walk, walk } from "./statement.ts";

const retry = says({ outcome: "retry" });
const fail = says({ outcome: "fail" });

describe("the ends of a graph", () => {
  const ends = (start: string, exit: string): string =>
    new Walk(`digraph g { ${start}; ${exit}; ${tools("a")} ${start} -> a -> ${exit} }`).path;

  statement("3.2", "without shapes the ids start and exit decide", () => {
    expect(ends("start", "exit")).toBe("start a exit");
  });
  statement("3.2", "without shapes the ids Start and end decide", () => {
    expect(ends("Start", "end")).toBe("Start a end");
  });
  statement("3.2", "a node without edges ends the run as completed", () => {
    const walked = walk(`${tools("a b")} start -> a -> exit; a -> b [weight=1]`);
    expect(walked).toMatchObject({ path: "start a b", status: "completed" });
  });
  statement("3.1", "the attributes of the graph are keys of the context", () => {
    const { context } = walk('label="L"; retry_target=a; own=1; a [prompt=x]; start -> a -> exit');
    expect(context).toMatchObject({
      "graph.goal": "The goal",
      "graph.label": "L",
      "graph.retry_target": "a",
    });
    expect(String(context["graph.own"])).toBe("1");
  });
});

describe("the next edge", () => {
  const after = (edges: string, report = ok()): string =>
    walk(`${tools("a b c B")} start -> a; ${edges}; b -> exit; c -> exit; B -> exit`, {
      a: report,
    }).path.split(" ")[2] ?? "";
  const all = "a -> B [weight=-9]; ";

  statement("3.3", "1: a true condition outweighs every weight", () => {
    expect(after(`${all}a -> b [weight=9]; a -> c [condition="outcome=success"]`)).toBe("c");
  });
  statement("3.3", "1: of several true conditions the weight decides", () => {
    const edge = (to: string, weight: number): string =>
      `a -> ${to} [condition="outcome=success", weight=${weight}]`;
    expect(after(`${all}${edge("b", 1)}; ${edge("c", 2)}`)).toBe("c");
  });
  statement("3.3", "1: of several true conditions with one weight the id decides", () => {
    const edge = (to: string): string => `a -> ${to} [condition="outcome=success"]`;
    expect(after(`${all}${edge("c")}; ${edge("b")}`)).toBe("b");
  });

  const labels: readonly (readonly [string, string])[] = [
    ["yes go", "[Y] Yes go"],
    ["YES GO ", "Y) Yes go"],
    ["[Z] yes go", "Y - Yes go"],
    ["yes go", "Yes go"],
  ];
  for (const [label, written] of labels) {
    statement("3.3", `2: the preferred label "${label}" is the edge "${written}"`, () => {
      expect(after(`${all}a -> b; a -> c [label="${written}"]`, says({ label }))).toBe("c");
    });
  }
  statement("3.3", "2: an edge with a condition is not chosen by its label", () => {
    const edges = `${all}a -> b; a -> c [label="Go", condition="outcome=fail"]`;
    expect(after(edges, says({ label: "Go" }))).toBe("b");
  });
  statement("3.3", "2: of equal labels the first edge of the file counts, not the heaviest", () => {
    const edges = `${all}a -> c [label="Go"]; a -> b [label="[G] go", weight=5]`;
    expect(after(edges, says({ label: "go" }))).toBe("c");
  });
  statement("3.3", "3: the first suggested node to which an edge leads", () => {
    expect(after(`${all}a -> b; a -> c`, says({ next: ["nowhere", "c", "b"] }))).toBe("c");
  });
  statement("3.3", "3: a label outweighs suggested nodes", () => {
    const report = says({ label: "Go", next: ["b"] });
    expect(after(`${all}a -> b; a -> c [label="Go"]`, report)).toBe("c");
  });
  statement("3.3", "4: the largest weight", () => {
    expect(after(`${all}a -> b; a -> c [weight=1]`)).toBe("c");
  });
  statement("3.3", "4: a weight may be negative", () => {
    expect(after(`${all}a -> b [weight=-1]; a -> c`)).toBe("c");
  });
  statement("3.3", "5: the first id", () => {
    expect(after(`${all}a -> c; a -> b`)).toBe("b");
  });
  statement("3.3", "5: capital letters come first", () => {
    expect(after("a -> b; a -> B; a -> c")).toBe("B");
  });
  statement("3.2", "preferred_label stays in the context, and routes only its own node", () => {
    const body = `${tools("a b c d")} start -> a -> b; b -> c [label="Yes"]; b -> d [weight=1]
      c -> exit; d -> exit`;
    const walked = walk(body, { a: says({ label: "Yes" }) });
    expect(walked.path).toBe("start a b d exit");
    expect(walked.context.preferred_label).toBe("Yes");
  });
});

describe("a success without a matching edge", () => {
  const body = `${tools("a[retry_target=a] b")} start -> a; a -> b [condition="outcome=fail"]
    a -> exit [condition="context.x=1"]; b -> exit`;

  decided("3.2", "no edge matches", "the run fails, because it has not reached its exit", () => {
    expect(walk(body)).toMatchObject({ status: "failed", path: "start a" });
  });
  statement("3.2", "it stays a success: no edge for failures and no retry_target", () => {
    const walked = walk(body);
    expect(walked.outcomes.a).toBe("success");
    expect([walked.attempts("a"), walked.attempts("b")]).toEqual([1, 0]);
  });
});

describe("retries", () => {
  const one = (more: string, settings = ""): string =>
    `${settings} a [prompt=x${more}]; ${tools("b")} start -> a -> exit; b -> exit
     a -> b [condition="outcome=fail"]`;

  statement("3.5", "max_retries=2 gives three attempts, then the node has failed", () => {
    const walked = walk(one(", max_retries=2"), { a: retry });
    expect(walked.attempts("a")).toBe(3);
    expect(walked.outcomes.a).toBe("fail");
  });
  statement("3.5", "the reason of that failure is that its retries are used up", () => {
    const walked = walk(one(", max_retries=1"), { a: retry });
    expect(walked.statusOf("a").failure_reason).toContain("max retries exceeded");
  });
  statement("11.5", "after the last attempt the failure chooses the edge", () => {
    expect(walk(one(", max_retries=1"), { a: retry }).path).toBe("start a b exit");
  });
  statement("3.5", "default_max_retries counts where a node has none", () => {
    expect(walk(one("", "default_max_retries=3;"), { a: retry }).attempts("a")).toBe(4);
  });
  statement("3.5", "default_max_retry is its older name", () => {
    expect(walk(one("", "default_max_retry=3;"), { a: retry }).attempts("a")).toBe(4);
  });
  statement("3.5", "max_retries=0 of a node outweighs the graph", () => {
    const walked = walk(one(", max_retries=0", "default_max_retries=3;"), { a: retry });
    expect(walked.attempts("a")).toBe(1);
  });
  statement("3.5", "with allow_partial the last attempt is a partial success", () => {
    const walked = walk(one(", max_retries=1, allow_partial=true"), { a: retry });
    expect(walked).toMatchObject({ path: "start a exit", outcomes: { a: "partial_success" } });
  });
  statement("3.5", "a retry that succeeds continues, and its counters are reset", () => {
    const walked = walk(one(", max_retries=2"), { a: [retry, ok()] });
    expect(walked).toMatchObject({
      path: "start a exit",
      context: { "internal.retry_count.a": 0 },
    });
    expect(walked.attempts("a")).toBe(2);
    expect(walked.checkpoint.node_retries).toEqual({});
  });
  statement("3.5", "a failure of an agent is not retried", () => {
    expect(walk(one(", max_retries=2"), { a: fail }).attempts("a")).toBe(1);
  });
  statement("3.5", "a failure of a tool is not retried for default_max_retries", () => {
    const body = `default_max_retries=3; ${tools("a")} start -> a -> exit`;
    expect(walk(body, { a: bad }).attempts("a")).toBe(1);
  });
  decided("3.5", "retries", "a tool with max_retries of its own is retried after a failure", () => {
    const body = `${tools("a[max_retries=2]")} start -> a -> exit`;
    expect(walk(body, { a: bad }).attempts("a")).toBe(3);
    expect(walk(body, { a: fail }).attempts("a")).toBe(3);
  });
  statement("3.6", "the delay is 200 ms, doubles, has a limit of 60 s, and varies by half", () => {
    const { retry: policy } = stepIn(planOf(graph(one(", max_retries=2"))), "a");
    expect(policy.backoff).toEqual({ initialMs: 200, factor: 2, maxMs: 60_000, jitter: 0.5 });
  });
  const presets = {
    none: [1, 200, 2],
    standard: [5, 200, 2],
    aggressive: [5, 500, 2],
    linear: [3, 500, 1],
    patient: [3, 2_000, 3],
  } as const;
  for (const [name, [attempts, initialMs, factor]] of Object.entries(presets)) {
    statement("3.6", `the policy ${name}: ${attempts} attempts, from ${initialMs} ms`, () => {
      const { retry: policy } = stepIn(planOf(graph(one(`, retry_policy=${name}`))), "a");
      expect(policy).toMatchObject({ attempts, backoff: { initialMs, factor } });
    });
  }
});

describe("failures", () => {
  statement("3.7", "1: an edge for failures", () => {
    const body = `${tools("a b")} start -> a -> exit; a -> b [condition="outcome=fail"]; b -> exit`;
    expect(walk(body, { a: bad }).path).toBe("start a b exit");
  });
  statement("3.7", "1: an edge for all but success", () => {
    const body = `${tools("a b")} start -> a -> exit; a -> b [condition="outcome!=success"]; b -> exit`;
    expect(walk(body, { a: bad }).path).toBe("start a b exit");
  });
  statement("3.7", "2: the retry_target of the node", () => {
    const body = `${tools("a b[retry_target=a, fallback_retry_target=exit]")} start -> a -> b -> exit`;
    expect(walk(body, { b: [bad, ok()] }).path).toBe("start a b a b exit");
  });
  statement("3.7", "3: the fallback_retry_target of the node", () => {
    const body = `${tools("a b[fallback_retry_target=a]")} start -> a -> b -> exit`;
    expect(walk(body, { b: [bad, ok()] }).path).toBe("start a b a b exit");
  });
  statement("3.7", "3: also where retry_target names no node", () => {
    const body = `${tools("a b[retry_target=no, fallback_retry_target=a]")} start -> a -> b -> exit`;
    expect(walk(body, { b: [bad, ok()] }).path).toBe("start a b a b exit");
  });
  statement("3.7", "4: without a route the run fails with the reason of the stage", () => {
    const walked = walk(`${tools("a b")} start -> a -> b -> exit`, { a: bad });
    expect(walked).toMatchObject({ status: "failed", path: "start a" });
    expect(walked.statusOf("a").failure_reason).toBe("it exited with 1");
  });
  statement("3.7", "the retry_target of the graph is only for goal gates", () => {
    const body = `retry_target=a; ${tools("a b")} start -> a -> b -> exit`;
    expect(walk(body, { b: bad })).toMatchObject({ status: "failed", path: "start a b" });
  });
  decided("3.7", "failure", "a diamond does not hide a failure that it does not ask about", () => {
    const body = `${tools("a skip deploy")} d [shape=diamond]; start -> a -> d; skip -> exit
      d -> skip [condition="context.env=dev"]; d -> deploy -> exit`;
    expect(walk(body, { a: bad })).toMatchObject({ status: "failed" });
    expect(walk(body, { a: bad }).attempts("deploy")).toBe(0);
  });
  decided("3.7", "failure", "a failure reaches its edge through several diamonds", () => {
    const body = `${tools("a fix")} d [shape=diamond]; d2 [shape=diamond]; start -> a -> d -> d2
      d2 -> exit [condition="outcome=success"]; d2 -> fix [condition="outcome=fail"]; fix -> exit`;
    expect(walk(body, { a: bad }).path).toBe("start a d d2 fix exit");
  });
  decided("3.7", "failure", "an edge without a condition is not for failures", () => {
    const tool = walk(`${tools("a b")} start -> a -> b -> exit`, { a: bad });
    expect(tool).toMatchObject({ status: "failed", path: "start a" });
    const gate = walk(`${tools("a")} h [shape=hexagon]; start -> a -> h -> exit`, { a: bad });
    expect(gate).toMatchObject({ status: "failed", path: "start a" });
  });
  statement("3.7", "a goal gate that fails on the way to the exit goes to its retry_target", () => {
    const body = `${tools("a b[goal_gate=true, retry_target=a]")} start -> a -> b -> exit`;
    expect(walk(body, { b: [bad, ok()] }).path).toBe("start a b a b exit");
  });
});

describe("goal gates", () => {
  const gate = (own: string, settings = ""): string =>
    `${settings} ${tools(`a b c[goal_gate=true${own}]`)} start -> a -> b -> c; c -> exit
     c -> exit [condition="outcome=fail"]`;
  const back = (own: string, settings = ""): string =>
    walk(gate(own, settings), { c: [fail, ok()] }).path;

  statement("3.4", "one that is missed at the exit leads to its retry_target", () => {
    expect(back(", retry_target=b")).toContain("start a b c b c exit");
  });
  statement("3.4", "then to the retry_target of the graph", () => {
    expect(back("", "retry_target=b;")).toContain("start a b c b c exit");
  });
  statement("3.4", "then to the fallback_retry_target of the graph", () => {
    expect(back("", "fallback_retry_target=b;")).toContain("start a b c b c exit");
  });
  statement("3.4", "the node's fallback_retry_target comes before the graph's retry_target", () => {
    expect(back(", fallback_retry_target=b", "retry_target=a;")).toContain("c b c exit");
  });
  statement("3.4", "without any target the run fails", () => {
    expect(walk(gate(""), { c: fail }).status).toBe("failed");
  });
  statement("3.4", "a partial success is enough", () => {
    const walked = walk(gate(", retry_target=a"), { c: says({ outcome: "partial_success" }) });
    expect(walked).toMatchObject({ status: "completed", path: "start a b c exit" });
  });
  statement("3.4", "an outcome of the author's own is not enough", () => {
    const walked = walk(gate(", retry_target=b"), { c: [says({ outcome: "port" }), ok()] });
    expect(walked.path).toContain("c b c exit");
  });
  statement("3.4", "one that was not visited does not count", () => {
    const body = `${tools("a b[goal_gate=true, retry_target=a]")} start -> a -> exit [weight=1]
      a -> b -> exit`;
    expect(walk(body)).toMatchObject({ status: "completed", path: "start a exit" });
  });
  statement("3.4", "one that is never reached ends with the limit of visits", () => {
    const walked = walk(gate(", retry_target=b", "max_visits=4;"), { c: fail });
    expect(walked.status).toBe("failed");
    expect(walked.attempts("c")).toBe(4);
  });
  decided("3.4", "goal gates", "one that is missed counts at a dead end, too", () => {
    const body = `${tools("a b[goal_gate=true]")} start -> a -> exit; a -> b [weight=1]`;
    expect(walk(body, { b: says({ outcome: "port" }) }).status).toBe("failed");
  });
});
