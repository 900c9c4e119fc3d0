/** The syntax and the attributes of the language: chapter 2 of the specification, and 11.1. */
import { describe, expect } from "vitest";
import { bad, ok } from "../core/play.ts";
import { nodeOf, pipelineOf } from "../pipeline/dot/tree.ts";
import {
  decided,
  found,
  graph,
  planOf,
  says,
  statement,
  stepIn,
  tools,
  Walk,
  walk,
} from "./statement.ts";

const ENDS = "start [shape=Mdiamond]; exit [shape=Msquare]";
const PLAIN = graph("start -> exit");
const errors = (text: string): readonly string[] =>
  found(text).filter((one) => one.startsWith("error"));
const refused = (text: string): void => expect(errors(text)).not.toEqual([]);

describe("the syntax", () => {
  const wrong: Readonly<Record<string, string>> = {
    "an undirected graph": `graph g { ${ENDS} start -> exit }`,
    "an undirected edge": graph("start -- exit"),
    "a string without an end": graph('start -> exit [label="x]'),
    "text after the graph": `${PLAIN} more`,
    "a brace without an end": "digraph g { start -> exit",
    "a bare value with a space": graph("a [prompt=two words]; start -> a -> exit"),
  };
  for (const [name, text] of Object.entries(wrong)) {
    statement("2.3", `${name} is an error`, () => refused(text));
  }

  const accepted: Readonly<Record<string, readonly [string, string]>> = {
    "a second graph in the file is ignored": [`${PLAIN} digraph h { }`, "dot-dialect"],
    "strict is accepted": [`strict ${PLAIN}`, "dot-dialect"],
    "an HTML-like label is accepted": [graph("start -> exit [label=<b>]"), "dot-dialect"],
    "ports are accepted": [graph("start:n -> exit:s"), "dot-dialect"],
    "an id with a hyphen is accepted": [graph("a-b [prompt=x]; start -> a-b -> exit"), "node_id"],
    "an id that is not ASCII is accepted": [graph("ä [prompt=x]; start -> ä -> exit"), "node_id"],
    "an id with a space is accepted": [
      graph('"a b" [prompt=x]; start -> "a b" -> exit'),
      "node_id",
    ],
  };
  for (const [name, [text, rule]] of Object.entries(accepted)) {
    decided("2.3", "other syntax", `${name}, with a warning`, () => {
      expect(found(text)).toContain(`warning[${rule}]`);
      expect(new Walk(text).status).toBe("completed");
    });
  }

  decided("2.3", "other syntax", "commas between attributes may be missing", () => {
    const text = graph("a [shape=parallelogram tool_command=x max_retries=2]; start -> a -> exit");
    expect(errors(text)).toEqual([]);
    expect(stepIn(planOf(text), "a").retry.attempts).toBe(3);
  });

  statement("2.3", "comments do not count, and are no comments inside of strings", () => {
    const text = graph('/* x */ a [prompt="see // and /* this */"]; // y\nstart -> a -> exit');
    expect(nodeOf(text, "a").prompt).toBe("see // and /* this */");
  });

  statement("2.2", 'a string has the escapes \\" \\n \\t \\\\', () => {
    const text = graph(String.raw`a [prompt="q\"n\nt\tb\\"]; start -> a -> exit`);
    expect(nodeOf(text, "a").prompt).toBe('q"n\nt\tb\\');
  });

  statement("11.1", "attributes may stand on several lines, and a string may have lines", () => {
    const text = graph('a [\n  prompt="one\ntwo",\n  max_retries=2\n]; start -> a -> exit');
    expect(nodeOf(text, "a")).toMatchObject({ prompt: "one\ntwo", maxRetries: 2 });
  });

  statement("2.9", "a chain gives its attributes to every edge", () => {
    const { edges } = pipelineOf(graph("a [prompt=x]; start -> a -> exit [weight=3]"));
    expect(edges.map(({ from, to, weight }) => [from, to, weight])).toEqual([
      ["start", "a", 3],
      ["a", "exit", 3],
    ]);
  });
});

describe("defaults", () => {
  const timeouts = (body: string): readonly unknown[] =>
    ["a", "b", "c"].map((id) => nodeOf(graph(body), id).timeoutMs);

  statement("2.10", "those of a subgraph count inside of it, and a node's own come first", () => {
    const inner = "subgraph s { node [timeout=9s]; a [prompt=x]; b [prompt=x, timeout=2s] }";
    expect(timeouts(`${inner} c [prompt=x]; start -> a -> b -> c -> exit`)).toEqual([
      9_000,
      2_000,
      undefined,
    ]);
  });

  statement("2.10", "the label of a subgraph gives its nodes a class", () => {
    const text = graph('subgraph s { label="Loop A!"; a [prompt=x] } start -> a -> exit');
    expect(nodeOf(text, "a").classes).toContain("loop-a");
  });

  statement("2.11", "those of nodes count for the nodes after them", () => {
    const body = "a [prompt=x]; node [timeout=9s]; b [prompt=x]; c [prompt=x, timeout=1s]";
    expect(timeouts(`${body}; start -> a -> b -> c -> exit`)).toEqual([undefined, 9_000, 1_000]);
  });

  statement(
    "2.11",
    "those of edges count for the edges after them, and their own come first",
    () => {
      const { edges } = pipelineOf(
        graph("a [prompt=x]; start -> a; edge [weight=4]; a -> exit; a -> exit [weight=5]"),
      );
      expect(edges.map(({ weight }) => weight)).toEqual([0, 4, 5]);
    },
  );
});

describe("attributes", () => {
  const durations = {
    "250ms": 250,
    "1s": 1_000,
    "15m": 900_000,
    "2h": 7_200_000,
    "1d": 86_400_000,
  };
  for (const [written, timeoutMs] of Object.entries(durations)) {
    statement("2.4", `a duration needs no quotes: ${written}`, () => {
      const plan = planOf(graph(`${tools(`a[timeout=${written}]`)} start -> a -> exit`));
      expect(stepIn(plan, "a").timeoutMs).toBe(timeoutMs);
    });
  }

  statement("2.5", "the goal may be a declaration; prompts and the context have it", () => {
    const text = `digraph g { goal="Win"; ${ENDS}; a [prompt="Do: $goal"]; start -> a -> exit }`;
    const plan = planOf(text);
    expect(stepIn(plan, "a").work).toMatchObject({ kind: "agent", prompt: "Do: Win" });
    expect(new Walk(text).context["graph.goal"]).toBe("Win");
  });

  statement("2.6", "without a prompt the label is the prompt", () => {
    const plan = planOf(graph('a [label="Build it"]; start -> a -> exit'));
    expect(stepIn(plan, "a").work).toMatchObject({ prompt: "Build it" });
  });

  statement("2.6", "a type outweighs a shape", () => {
    const plan = planOf(graph("a [shape=hexagon, type=tool, tool_command=x]; start -> a -> exit"));
    expect(stepIn(plan, "a").work.kind).toBe("shell");
  });

  statement("2.6", "a codergen node that exceeds its timeout fails", () => {
    const body = `a [prompt=x, timeout=1s]; ${tools("b")} start -> a -> exit; b -> exit
      a -> b [condition="outcome=fail"]`;
    expect(stepIn(planOf(graph(body)), "a").timeoutMs).toBe(1_000);
    const late = { how: "timed-out", limit: "timeout", message: "late" } as const;
    expect(walk(body, { a: late })).toMatchObject({ path: "start a b exit", status: "completed" });
  });

  const restart = `loop_restart_persist_keys="kept"; ${tools("a b c")} start -> a -> b
    b -> c; c -> exit; b -> a [condition="context.again=yes", loop_restart=true]`;
  const again = ok({ again: "yes", kept: "k", other: "o" });

  statement("2.7", "loop_restart begins a new round of the run, at its target", () => {
    const walked = walk(restart, { b: [again, ok()] });
    expect(walked).toMatchObject({ status: "completed", path: "a b c exit" });
    expect(walked.checkpoint).toMatchObject({ perdure: { restarts: 1 } });
  });

  decided("2.7", "`loop_restart`", "a new round keeps graph.* and the keys that are named", () => {
    const { context } = walk(restart, { b: [again, ok()] });
    expect(context).toMatchObject({ kept: "k", "graph.goal": "The goal" });
    expect(context).not.toHaveProperty("other");
  });

  statement("2.13", "a diamond after a failed node may ask for outcome!=success", () => {
    const body = `${tools("a b")} d [shape=diamond]; start -> a -> d; b -> exit
      d -> exit [condition="outcome=success"]; d -> b [condition="outcome!=success"]`;
    expect(walk(body, { a: bad }).path).toBe("start a d b exit");
    expect(walk(body, { a: says({ outcome: "success" }) }).path).toBe("start a d exit");
  });
});
