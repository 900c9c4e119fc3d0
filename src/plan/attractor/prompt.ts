/**
 * The texts of a DOT file as texts of a plan: prompts with their `$variables` filled in, and what an
 * agent must know to report an outcome that an edge depends on.
 *
 * Owns: which variables there are, that nothing else in a text is read as an expression, and the
 * words about the status file.
 * Does not: choose the texts (work.ts) or know how an answer is read.
 */
import type { DotAttributes } from "../../pipeline/dot/collect.ts";
import { comparedWith, type DotCondition } from "../../pipeline/dot/condition.ts";

const VARIABLE = /\$([A-Za-z_]\w*)/g;

/** A text that means itself: `${{` in a DOT file is no expression. */
export function literal(text: string): string {
  // A function, because `$` means something in a replacement.
  return text.replaceAll("${{", () => "$${{");
}

/** The value of `$name` in a prompt: an attribute of the graph, `goal` before all. */
function variableOf(graph: DotAttributes, name: string): string | undefined {
  const value = graph.get(name)?.value.text;
  return name === "goal" ? (value ?? "") : value;
}

/** `$LIKE_THIS` is for the agent's shell. */
function isForShell(name: string): boolean {
  return name === name.toUpperCase();
}

/** An expression: what the input of the run has under a name, else another text. */
export function fromInput(name: string, otherwise: string): string {
  const key = JSON.stringify(name);
  return `\${{ type(input) == map && ${key} in input ? input[${key}] : ${JSON.stringify(otherwise)} }}`;
}

/** The text as a template: `$name` is the graph's attribute or the input of that name, or stays. */
export function expandVariables(text: string, graph: DotAttributes): string {
  return literal(text).replaceAll(VARIABLE, (whole, name: string) => {
    const value = variableOf(graph, name);
    if (value !== undefined) return literal(value);
    return isForShell(name) ? whole : fromInput(name, whole);
  });
}

/** The names of the variables that nothing in the file fills in, each once. */
export function unknownVariables(text: string, graph: DotAttributes): readonly string[] {
  const names = [...text.matchAll(VARIABLE)].map((found) => found[1] ?? "");
  return [...new Set(names)].filter(
    (name) => variableOf(graph, name) === undefined && !isForShell(name),
  );
}

/** An edge, as far as it asks how the step before it went. */
export interface AskingEdge {
  readonly label?: string;
  /** The condition; `unread` when there is one in another language than DOT's. */
  readonly condition?: DotCondition | "unread";
}

/** Prompts that speak of a status file themselves. */
const OWN_WORDS = /STATUS_(?:PATH|FILE)\b|status\.json/;

/** How to write the status file, with the outcomes that the edges test; empty when no edge does. */
export function statusWords(prompt: string, edges: readonly AskingEdge[]): string {
  const asked = edges.some(({ condition }) => condition !== undefined) || edges.length > 1;
  if (!asked || OWN_WORDS.test(prompt)) return "";
  const clauses = edges.flatMap(({ condition }) =>
    typeof condition === "object" ? condition.anyOf.flat() : [],
  );
  const asking = clauses.filter(({ key }) => /^(?:context\.)?outcome$/.test(key));
  const words = asking.map(comparedWith).filter((word) => word !== "");
  // Sorted, so that the order of edges in a file changes nothing.
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
