/** Diagnostics and stylesheets: chapters 7 and 8 of the specification. */
import { describe, expect } from "vitest";
import { nodeOf } from "../pipeline/dot/tree.ts";
import { decided, found, graph, lowered, planOf, statement, stepIn, tools } from "./statement.ts";

const EXIT = "exit [shape=Msquare]";
const START = "start [shape=Mdiamond]";

describe("errors", () => {
  const cases: readonly (readonly [string, string, string])[] = [
    ["start_node", "no start", `digraph g { ${EXIT} }`],
    ["start_node", "two starts", graph("s [shape=Mdiamond]; s -> exit; start -> exit")],
    ["terminal_node", "no exit", `digraph g { ${START} }`],
    ["terminal_node", "two exits", graph("e [shape=Msquare]; start -> exit; start -> e")],
    ["reachability", "a node that nothing leads to", graph("start -> exit; lost [prompt=x]")],
    ["start_no_incoming", "an edge to the start", graph("start -> exit; a [prompt=x]; a -> start")],
    ["exit_no_outgoing", "an edge from the exit", graph("a [prompt=x]; start -> exit -> a")],
    [
      "stylesheet_syntax",
      "a rule without braces",
      graph('model_stylesheet="nobody"; start -> exit'),
    ],
    [
      "stylesheet_syntax",
      "a rule without an end",
      graph('model_stylesheet="* { llm_model: x"; start -> exit'),
    ],
  ];
  for (const [rule, name, text] of cases) {
    statement("7.2", `${rule} is an error: ${name}`, () => {
      expect(found(text)).toContain(`error[${rule}]`);
    });
  }

  decided("7.2", "undeclared targets", "an edge to an undeclared node is a warning", () => {
    expect(found(graph("start -> a -> exit"))).toEqual(["warning[edge_target_exists]"]);
  });

  decided("7.2", "unreachable node", "the error names the node", () => {
    const { diagnostics } = lowered(graph("start -> exit; lost [prompt=x]"));
    expect(diagnostics[0]).toMatchObject({ severity: "error", rule: "reachability" });
    expect(diagnostics[0]?.message).toContain("`lost`");
  });

  decided("4.2", "unknown shape", "a shape without a meaning is an error", () => {
    expect(found(graph("a [shape=star, prompt=x]; start -> a -> exit"))).toContain(
      "error[unknown-shape]",
    );
  });

  statement("7.1", "a file with an error has no plan", () => {
    expect(lowered(graph("start -> exit; lost [prompt=x]")).plan).toBeUndefined();
  });

  statement("7.1", "a diagnostic has a rule, a severity, a place and a fix", () => {
    expect(lowered(graph("start -> exit; lost [prompt=x]")).diagnostics).toEqual([
      expect.objectContaining({
        rule: "reachability",
        severity: "error",
        line: 1,
        column: expect.any(Number),
        help: expect.stringContaining("add an edge"),
      }),
    ]);
  });
});

describe("warnings", () => {
  const cases: readonly (readonly [string, string, string])[] = [
    ["type_known", "a type of another engine", "a [type=mine, prompt=x]; start -> a -> exit"],
    ["fidelity_valid", "of an edge", "start -> exit [fidelity=some]"],
    ["fidelity_valid", "of a node", "a [prompt=x, fidelity=some]; start -> a -> exit"],
    ["fidelity_valid", "of the graph", "default_fidelity=some; start -> exit"],
    ["retry_target_exists", "of the graph", "retry_target=nowhere; start -> exit"],
    [
      "retry_target_exists",
      "of a node",
      `${tools("a[fallback_retry_target=nowhere]")} start -> a -> exit`,
    ],
    [
      "goal_gate_has_retry",
      "a goal gate alone",
      `${tools("a[goal_gate=true]")} start -> a -> exit`,
    ],
    ["prompt_on_llm_nodes", "neither prompt nor label", "a [timeout=3s]; start -> a -> exit"],
  ];
  for (const [rule, name, body] of cases) {
    statement("7.2", `${rule} is a warning: ${name}`, () => {
      const { plan } = lowered(graph(body));
      expect(found(graph(body))).toEqual([`warning[${rule}]`]);
      expect(plan).toBeDefined();
    });
  }
});

describe("stylesheets", () => {
  const models = (sheet: string, body: string): readonly unknown[] =>
    ["a", "b", "c", "d"].map(
      (id) => nodeOf(graph(`model_stylesheet="${sheet}"; ${body}`), id).llmModel,
    );
  const four = "start -> a -> b -> c -> d -> exit";

  statement("8.3", "* < shape < class < id < the node's own attribute", () => {
    const sheet =
      "#c { llm_model: id } .k { llm_model: class } box { llm_model: shape } * { llm_model: any }";
    const nodes = `a [prompt=x, class=k]; b [prompt=x]; c [prompt=x, class=k]
      d [prompt=x, class=k, llm_model=own]; t [shape=hexagon]`;
    expect(models(sheet, `${nodes}; ${four}; start -> t -> exit`)).toEqual([
      "class",
      "shape",
      "id",
      "own",
    ]);
    const all = graph(`model_stylesheet="${sheet}"; ${nodes}; ${four}; start -> t -> exit`);
    expect(nodeOf(all, "t").llmModel).toBe("any");
  });

  statement("8.3", "of two equal selectors the later one counts", () => {
    const sheet = ".k { llm_model: one } .l { llm_model: two } .k { llm_model: three }";
    const nodes = `a [prompt=x, class="k,l"]; b [prompt=x, class=l]; c [prompt=x, class=k]; d [prompt=x]`;
    expect(models(sheet, `${nodes}; ${four}`)).toEqual(["three", "two", "three", undefined]);
  });

  statement("8.2", "a value may have quotes, and the last semicolon may be missing", () => {
    const sheet = String.raw`* { llm_provider: openai; llm_model: \"gpt 5\" }`;
    const nodes = "a [prompt=x]; b [prompt=x]; c [prompt=x]; d [prompt=x]";
    expect(models(sheet, `${nodes}; ${four}`)[0]).toBe("gpt 5");
  });

  statement(
    "8.5",
    "the model of the graph counts where neither node nor stylesheet has one",
    () => {
      const text =
        graph(`graph [llm_model=all, reasoning_effort=low]; model_stylesheet="#b { llm_model: sheet }"
      a [prompt=x]; b [prompt=x]; c [prompt=x, llm_model=own]; start -> a -> b -> c -> exit`);
      const model = (id: string): unknown => {
        const { work } = stepIn(planOf(text), id);
        return work.kind === "agent" ? work.settings.model : undefined;
      };
      expect(["a", "b", "c"].map(model)).toEqual(["all", "sheet", "own"]);
    },
  );

  decided("2.6", "`reasoning_effort`", "without reasoning_effort no effort is passed", () => {
    const args = (effort: string): unknown => {
      const plan = planOf(graph(`a [prompt=x${effort}]; start -> a -> exit`));
      const { work } = stepIn(plan, "a");
      return work.kind === "agent" ? plan.agents[work.agent]?.args : undefined;
    };
    expect(args("")).toEqual([]);
    expect(args(", reasoning_effort=low")).toEqual(["--effort", "low"]);
  });
});
