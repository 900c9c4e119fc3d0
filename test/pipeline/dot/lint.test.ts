import { describe, expect, it } from "vitest";
import { renderDiagnostics } from "../../../src/pipeline/diagnostic.ts";
import { loadDot } from "../../../src/pipeline/dot/load.ts";
import { brief } from "./tree.ts";

const ENDS = "start [shape=Mdiamond] exit [shape=Msquare]";

/** What is said about a graph with a start and an exit. */
function lint(statements: string): string[] {
  return brief(`digraph {\n${ENDS}\n${statements}\n}`);
}

describe("errors, as the specification has them", () => {
  it.each([
    [
      "start_node",
      "digraph g { exit [shape=Msquare] }",
      "1:1 error[start_node] there is no start node",
    ],
    [
      "start_node",
      "digraph g { a [shape=Mdiamond] b [shape=Mdiamond] exit\na -> exit b -> exit }",
      "1:32 error[start_node] there are 2 start nodes: a, b",
    ],
    [
      "terminal_node",
      "digraph g { start [shape=Mdiamond] }",
      "1:1 error[terminal_node] there is no exit node",
    ],
    [
      "reachability",
      `digraph { ${ENDS}\nstart -> exit\nlost [prompt=x] }`,
      "3:1 error[reachability] no path leads from the start to `lost`",
    ],
    [
      "start_no_incoming",
      `digraph { ${ENDS}\na [prompt=x] start -> a -> exit\na -> start }`,
      "3:1 error[start_no_incoming] the start node `start` has an edge into it, from `a`",
    ],
    [
      "exit_no_outgoing",
      `digraph { ${ENDS}\na [prompt=x] start -> a -> exit\nexit -> a }`,
      "3:1 error[exit_no_outgoing] the exit node `exit` has an edge out of it, to `a`",
    ],
    [
      "condition_syntax",
      `digraph { ${ENDS}\nstart -> exit [condition="a=b && \\"x\\" y"] }`,
      '2:34 error[condition_syntax] the clause `"x" y` has no key',
    ],
    [
      "stylesheet_syntax",
      `digraph { ${ENDS} start -> exit\nmodel_stylesheet="* { llm_model: x }\n  nobody" }`,
      "3:3 error[stylesheet_syntax] `nobody` has no `{`",
    ],
    [
      "unknown-shape (decision n)",
      `digraph { ${ENDS}\nstart -> a -> exit a [prompt=x, shape=star] }`,
      "2:39 error[unknown-shape] the shape `star` of `a` is unknown",
    ],
  ])("%s", (_rule, text, said) => {
    expect(brief(text)).toContain(said);
    expect(brief(text).filter((line) => line.includes("error")).length).toBe(1);
  });
});

describe("warnings, as the specification has them", () => {
  it.each([
    [
      "type_known",
      "start -> a -> exit\na [type=mine, prompt=x]",
      "4:9 warning[type_known] the type `mine` of `a` is not part of the language",
    ],
    [
      "fidelity_valid",
      "start -> exit [fidelity=some]",
      "3:25 warning[fidelity_valid] there is no fidelity `some`; `fidelity` is not set",
    ],
    [
      "retry_target_exists",
      "start -> exit\nretry_target=nowhere",
      "4:14 warning[retry_target_exists] `retry_target` names `nowhere`, which is not a node",
    ],
    [
      "goal_gate_has_retry",
      "start -> a -> exit\na [prompt=x, goal_gate=true]",
      "4:14 warning[goal_gate_has_retry] the goal gate `a` has no retry target: " +
        "when it fails, so does the run",
    ],
    [
      "prompt_on_llm_nodes",
      "start -> a -> exit\na [timeout=3s]",
      "4:1 warning[prompt_on_llm_nodes] `a` has neither a prompt nor a label " +
        "to tell the model what to do",
    ],
    [
      "edge_target_exists (decision g)",
      "start -> ship_it -> exit",
      "3:10 warning[edge_target_exists] `ship_it` has no statement of its own; " +
        "it becomes a codergen node",
    ],
    [
      "goal gates that a run may never come to (decision j)",
      "retry_target=a\nstart -> a -> exit\na -> b [label=x] b -> exit\n" +
        "a [prompt=x] b [prompt=x,\ngoal_gate=true]",
      "7:1 warning[goal-gate-avoidable] a run can reach the exit without a visit to the goal gate `b`",
    ],
    [
      "outcomes that only look like one",
      'start -> exit [condition="outcome=SUCCESS"]',
      "3:27 warning[unknown-outcome] there is no outcome `SUCCESS`, unless a step reports exactly that",
    ],
    [
      "properties of the stylesheet",
      'start -> exit model_stylesheet="* { llm_model: a; colour: b }"',
      "3:51 warning[unknown-attribute] `colour` is not a property of the language; it is ignored",
    ],
  ])("%s", (_rule, statements, said) => {
    expect(lint(statements)).toEqual([said]);
  });
});

describe("what other engines run", () => {
  it.each([
    ["an exit that nothing leads to", "ask [shape=hexagon] start -> ask -> ask"],
    ["a node that only a retry target leads to", "start -> exit retry_target=r r [prompt=x]"],
    ["custom outcomes", 'start -> exit [condition="outcome=needs_dod"]'],
    ["unknown types", "start -> a -> exit a [type=read_file]"],
    ["shapes of other engines", "start -> a -> exit a [shape=insulator]"],
    ["any shape with a type", "start -> a -> exit a [shape=star, type=tool, tool_command=ls]"],
    ["HTML-like labels and ports", "start:n -> exit:s [label=<b>]"],
  ])("is not refused: %s", (_name, statements) => {
    expect(lint(statements).filter((line) => line.includes("error"))).toEqual([]);
  });

  it("has no goal gate to pass by where all branches run", () => {
    const text =
      "start -> f -> { a b } -> j -> exit f [shape=component] j [shape=tripleoctagon] " +
      'a [prompt=x, goal_gate=true, retry_target="f"] b [prompt=x]';
    expect(lint(text)).toEqual([]);
  });
});

it("draws a mistake inside of a condition where it is", () => {
  const text = `digraph g {
  start [shape=Mdiamond]
  exit [shape=Msquare]
  start -> exit [label="x\\ny", condition="a=\\"b\\" && c is d"]
}
`;
  const { diagnostics } = loadDot("flow.dot", text);
  expect(renderDiagnostics(diagnostics, text, { color: false })).toBe(
    `error[condition_syntax]: \`is d\` cannot follow \`c\`
 --> flow.dot:4:54
  |
4 |   start -> exit [label="x\\ny", condition="a=\\"b\\" && c is d"]
  |                                                      ^^^^^^
  = help: write \`key=value\`, \`key!=value\` or \`key\`, joined by \`&&\`

1 error
`,
  );
});

describe("paths and names", () => {
  it("names a node that no edge leaves", () => {
    expect(lint("a [prompt=x] b [prompt=y]\nstart -> a -> exit\na -> b")).toEqual([
      "3:14 warning[dead_end] no edge leaves `b`: a run that gets there ends without an exit",
    ]);
  });

  it("names the nodes from which no path leads to an exit, once", () => {
    const cycle = "a [prompt=x] b [prompt=y] c [prompt=z]";
    expect(lint(`${cycle}\nstart -> a -> exit\na -> b -> c -> b`)).toEqual([
      "3:14 warning[endless_cycle] no path leads to an exit from `b`, `c`",
    ]);
    // A failure may lead out of a cycle.
    expect(lint(`${cycle}\nb [retry_target=a]\nstart -> a -> exit\na -> b -> c -> b`)).toEqual([]);
  });

  it("accepts a name that the language does not have, and refuses one that no file can have", () => {
    const ids = ["a-b", '"a b"', '"\u00e4"', '"../evil"', '".."', '"checkpoint.json"', '"x.lock"'];
    ids.push("artifacts", "branches", "x".repeat(300));
    const rules = ids.map((id) => lint(`${id} [prompt=x]\nstart -> ${id} -> exit`));
    expect(rules.map((found) => found.map((line) => /\w+\[\w+\]/.exec(line)?.[0]))).toEqual([
      ["warning[node_id]"],
      ["warning[node_id]"],
      ["warning[node_id]"],
      ...Array.from({ length: 7 }, () => ["error[node_id]"]),
    ]);
  });

  it("names attributes that do nothing", () => {
    const tool = "shape=parallelogram, tool_command=x";
    expect(lint(`a [${tool}, auto_status=true, "tool_hooks.pre"="y"]\nstart -> a -> exit`)).toEqual(
      [
        "3:41 warning[unsupported] `auto_status` of `a` has no effect: without a file the exit status counts",
        "3:59 warning[unsupported] `tool_hooks.pre` of `a` has no effect: hooks are for the tool calls of an agent",
      ],
    );
  });
});
