/**
 * Lowers the texts of a DOT file to templates: it replaces `$variables` in prompts, and adds how an
 * agent reports an outcome that an edge tests.
 *
 * Owns: the variables, the quoting of all other text, and the instructions for the status file.
 * Does not: choose the texts (work.ts) or read status files (room `engine`).
 */
import type { DotAttributes } from "../../pipeline/dot/ast.ts";
import { comparedWith } from "../../pipeline/dot/condition.ts";
import type { DotEdge } from "../../pipeline/dot/model.ts";

const VARIABLE = /\$([A-Za-z_]\w*)/g;

/** The text as a template that renders to itself: `${{` in a DOT file is not an expression. */
export function literal(text: string): string {
  // A function, because `$` is special in a replacement string.
  return text.replaceAll("${{", () => "$${{");
}

/** The value of `$name` in a prompt: an attribute of the graph; a missing `goal` is empty. */
function variableOf(graph: DotAttributes, name: string): string | undefined {
  const value = graph.get(name)?.value.text;
  return name === "goal" ? (value ?? "") : value;
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

/** The text as a template: `$name` becomes an attribute of the graph, or an input, or stays. */
export function expandVariables(text: string, graph: DotAttributes): string {
  return literal(text).replaceAll(VARIABLE, (whole, name: string) => {
    const value = variableOf(graph, name);
    if (value !== undefined) return literal(value);
    return isForShell(name) ? whole : fromInput(name, whole);
  });
}

/** The variables that the file does not define, each once. */
export function unknownVariables(text: string, graph: DotAttributes): readonly string[] {
  const names = [...text.matchAll(VARIABLE)].map((found) => found[1] ?? "");
  return [...new Set(names)].filter(
    (name) => variableOf(graph, name) === undefined && !isForShell(name),
  );
}

/** Matches prompts that mention a status file themselves. */
const OWN_WORDS = /STATUS_(?:PATH|FILE)\b|status\.json/;

/** How to write the status file, with the outcomes that the edges test; empty when no edge does. */
export function statusWords(prompt: string, edges: readonly DotEdge[]): string {
  const asked = edges.some(({ condition }) => condition !== undefined) || edges.length > 1;
  if (!asked || OWN_WORDS.test(prompt)) return "";
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
    "Before you end, say how it went: write one JSON object to the file that the environment",
    `variable PERDURE_STATUS_FILE names, such as {"outcome": "fail", "notes": "why"${next}}.`,
    `Outcomes that are waited for: ${[...outcomes].join(", ")}. Without the file it is success.`,
    ...(next === "" ? [] : [`Labels to choose from: ${[...labels].join(", ")}.`]),
  ].join("\n");
}
