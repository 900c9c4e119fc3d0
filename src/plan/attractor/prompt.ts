/**
 * Lowers the texts of a DOT file to templates: it replaces `$variables` in prompts, and adds how an
 * agent reports an outcome that an edge tests.
 *
 * Owns: the variables, the quoting of all other text, and the instructions for the status file.
 * Does not: choose the texts (work.ts) or read status files (room `engine`).
 */
import type { DotAttributes } from "../../pipeline/dot/ast.ts";
import { comparedWith } from "../../pipeline/dot/condition.ts";
import type { DotEdge, DotNode } from "../../pipeline/dot/model.ts";

/**
 * `$name`, `$context.key`, `$graph.name`, a built-in key such as `$tool.output`, and the same between
 * double braces, as templates of other engines have it.
 */
const VARIABLE = new RegExp(
  "\\$((?:context|graph|inputs?|tool|human\\.gate|parallel|stack|internal)\\.[\\w.]*\\w|[A-Za-z_]\\w*)" +
    "|(?<!\\$)\\{\\{\\s*([A-Za-z_][\\w.-]*)\\s*\\}\\}",
  "g",
);
const GRAPH = /^graph\./;
const CONTEXT = /^context\./;
const INPUT = /^inputs?\./;
/** Keys that a run of the language sets by itself. */
const BUILT_IN = ["outcome", "preferred_label", "current_node", "last_stage", "last_response"];
const BUILT_IN_GROUP = /^(?:tool|human\.gate|parallel|stack|internal)\./;

/** The text as a template that renders to itself: `${{` in a DOT file is not an expression. */
export function literal(text: string): string {
  // A function, because `$` is special in a replacement string.
  return text.replaceAll("${{", () => "$${{");
}

/** The attribute of the graph that a variable names; a missing `goal` is empty. */
function attributeOf(graph: DotAttributes, name: string): string | undefined {
  const own = name.replace(GRAPH, "");
  const value = graph.get(own)?.value.text;
  return own === "goal" ? (value ?? "") : value;
}

/** `$LIKE_THIS` is for the agent's shell. */
function isForShell(name: string): boolean {
  return name === name.toUpperCase();
}

/** An expression: the named value of the run's input, or another text. */
export function fromInput(name: string, otherwise: string): string {
  const key = JSON.stringify(name);
  return `\${{ type(input) == map && ${key} in input ? input[${key}] : ${JSON.stringify(otherwise)} }}`;
}

/** An expression: the value of a key in the run's context, or another text if it is not set. */
export function fromContext(name: string, otherwise = ""): string {
  const key = JSON.stringify(name);
  const plain = JSON.stringify(name.replace(CONTEXT, ""));
  const unset = JSON.stringify(otherwise);
  const rest = plain === key ? unset : `${plain} in context ? context[${plain}] : ${unset}`;
  return `\${{ ${key} in context ? context[${key}] : ${rest} }}`;
}

/** Where the value of a variable comes from. */
type Source = "graph" | "context" | "input" | "shell" | "unknown";

function sourceOf(graph: DotAttributes, name: string): Source {
  if (attributeOf(graph, name) !== undefined) return "graph";
  const isBuiltIn = BUILT_IN.includes(name) || BUILT_IN_GROUP.test(name);
  if (CONTEXT.test(name) || isBuiltIn) return "context";
  if (INPUT.test(name)) return "input";
  return isForShell(name) ? "shell" : "unknown";
}

/** The text as a template: every variable that has a value is filled in, the others stay. */
export function expandVariables(text: string, graph: DotAttributes): string {
  let template = "";
  // Text that stays as it is, up to the next expression.
  let plain = "";
  let from = 0;
  for (const { 0: whole, 1: dollar, 2: braces = "", index } of text.matchAll(VARIABLE)) {
    const name = dollar ?? braces;
    plain += text.slice(from, index);
    from = index + whole.length;
    const source = sourceOf(graph, name);
    if (source === "graph") plain += attributeOf(graph, name) ?? "";
    else if (source === "shell") plain += whole;
    else {
      const isInput = source === "input" || source === "unknown";
      const value = isInput ? fromInput(name.replace(INPUT, ""), whole) : fromContext(name);
      template += literal(plain) + value;
      plain = "";
    }
  }
  return template + literal(plain + text.slice(from));
}

/** The variables that only an input can fill in, each once, by their names in the input. */
export function unknownVariables(text: string, graph: DotAttributes): readonly string[] {
  const names = [...text.matchAll(VARIABLE)].map(([, dollar, braces = ""]) => dollar ?? braces);
  const given = names.filter((name) => ["unknown", "input"].includes(sourceOf(graph, name)));
  return [...new Set(given.map((name) => name.replace(INPUT, "")))];
}

/** Matches prompts that name the path of a status file. */
const OWN_PATH = /STATUS_(?:PATH|FILE)\b|STAGE_DIR\b|LOGS_ROOT\b[^\s]*status\.json/;
/** Matches prompts that mention a status file without its path. */
const OWN_FILE = /status\.json/;

/** The path for prompts that explain the file themselves. */
const PATH_WORDS = [
  "",
  "",
  "---",
  "The path of this status.json is in the environment variable PERDURE_STATUS_FILE: write it there.",
].join("\n");

/**
 * How to write the status file, with the outcomes that the edges test; only its path when the
 * prompt explains it, and nothing when no edge tests an outcome.
 */
export function statusWords(
  prompt: string,
  edges: readonly DotEdge[],
  { oneCall }: Pick<DotNode, "oneCall">,
): string {
  // A model without tools writes no file: its answer says it.
  if (OWN_PATH.test(prompt) && !oneCall) return "";
  if (OWN_FILE.test(prompt) && !oneCall) return PATH_WORDS;
  const asked = edges.some(({ condition }) => condition !== undefined) || edges.length > 1;
  if (!asked) return "";
  const clauses = edges.flatMap(({ condition }) =>
    condition?.ok === true ? condition.condition.anyOf.flat() : [],
  );
  const asking = clauses.filter(({ key }) => /^(?:context\.)?outcome$/.test(key));
  const words = asking.map(comparedWith).filter((word) => word !== "");
  // Sorted, so that the order of edges in the file does not change the prompt.
  const outcomes = new Set(["success", "fail", ...words.sort()]);
  const labels = new Set(edges.flatMap(({ label }) => (label === undefined ? [] : [label])).sort());
  const choose = edges.filter(({ condition }) => condition === undefined).length > 1;
  const next = choose && labels.size > 0 ? ', "preferred_label": "..."' : "";
  return [
    "",
    "",
    "---",
    ...(oneCall
      ? [
          "Say how it went: end your answer with one JSON object in a fenced block, such as",
          `{"outcome": "fail", "notes": "why"${next}}.`,
        ]
      : [
          "Before you end, say how it went: write one JSON object to the file that the environment",
          `variable PERDURE_STATUS_FILE names, such as {"outcome": "fail", "notes": "why"${next}}.`,
        ]),
    `Outcomes that are waited for: ${[...outcomes].join(", ")}. Without it, it is success.`,
    ...(next === "" ? [] : [`Labels to choose from: ${[...labels].join(", ")}.`]),
  ].join("\n");
}
