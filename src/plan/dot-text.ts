/**
 * The texts of a DOT file as texts of a plan: prompts with their `$variables` filled in.
 *
 * Owns: which variables there are, and that nothing else in a text is read as an expression.
 * Does not: choose the texts (dot-work.ts).
 */
import type { DotAttributes } from "../pipeline/dot/collect.ts";

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
