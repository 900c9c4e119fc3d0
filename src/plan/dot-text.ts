/**
 * The texts of a DOT file as texts of a plan: prompts with their `$variables` filled in.
 *
 * Owns: which variables there are, and that nothing else in a text is read as an expression.
 * Does not: choose the texts (dot-work.ts).
 */
import type { DotAttributes } from "../pipeline/dot/collect.ts";
import type { DotEdge } from "../pipeline/dot/model.ts";

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

/** Prompts that speak of a status file themselves. */
const OWN_WORDS = /STATUS_(?:PATH|FILE)\b|status\.json/;

/**
 * What an agent has to know to say how it went, where the way on depends on that: the file to write,
 * and the words that the edges behind it wait for.
 */
export function statusWords(prompt: string, edges: readonly DotEdge[]): string {
  const asked = edges.some(({ condition }) => condition !== undefined) || edges.length > 1;
  if (!asked || OWN_WORDS.test(prompt)) return "";
  const clauses = edges.flatMap(({ condition }) =>
    condition?.ok === true ? condition.condition.anyOf.flat() : [],
  );
  const outcomes = new Set(["success", "fail"]);
  for (const { key, literal: word } of clauses) {
    if (/^(?:context\.)?outcome$/.test(key) && word !== "") outcomes.add(word);
  }
  const labels = new Set(edges.flatMap(({ label }) => (label === undefined ? [] : [label])));
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
