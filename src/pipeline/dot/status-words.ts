/**
 * What an agent has to know to say how it went, where the way on depends on that.
 *
 * Owns: these words, for walks in DOT and in YAML alike.
 * Does not: know how an answer is read.
 */
import { comparedWith, type DotCondition } from "./condition.ts";

/** An edge, as far as it asks how the step before it went. */
export interface AskingEdge {
  readonly label?: string;
  /** The condition; `unread` when there is one in another language than DOT's. */
  readonly condition?: DotCondition | "unread";
}

/** Prompts that speak of a status file themselves. */
const OWN_WORDS = /STATUS_(?:PATH|FILE)\b|status\.json/;

/** The file to write, and the words that the edges behind it wait for; empty when nobody asks. */
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
