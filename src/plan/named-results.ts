/**
 * Which optional parts of a step's result the pipeline uses: the end of its output, and the
 * identity of its effect. The journal keeps these parts only if something refers to them.
 *
 * Owns: the search for references in a plan.
 * Does not: parse expressions. It searches their text for names, and a doubtful match counts as a
 * reference.
 */
import { graphsIn, graphsOf, indexOf, stepAt } from "./graph-index.ts";
import type { Graph, Plan, Step } from "./plan.ts";

/** A part of `results.<step>` that exists only when something refers to it. */
type OptionalResult = "output" | "identity";

/**
 * Whether the plan uses this part of a step's result; so do reports of failures to agents.
 */
export function refersTo(plan: Plan, step: string, what: OptionalResult): boolean {
  const { texts, reported } = referencesIn(plan);
  if (what === "output" && reported.has(step)) return true;
  if (texts.length === 0) return false;
  const word = new RegExp(`\\b${what}\\b`);
  const name = new RegExp(`(?<![\\w-])${step}(?![\\w-])`);
  return texts.some((text) => word.test(text) && (COMPUTED.test(text) || name.test(text)));
}

/** An expression that looks something up in the results. */
const RESULTS = /\bresults\s*[.[]/;
/** A key that is not written out: it may be the name of any step. */
const COMPUTED = /\[\s*[A-Za-z_]/;

interface References {
  /** All texts that may refer to results. */
  readonly texts: readonly string[];
  /** Steps, by their ids, whose failure leads to an agent. */
  readonly reported: ReadonlySet<string>;
}

const known = new WeakMap<Plan, References>();

function referencesIn(plan: Plan): References {
  const before = known.get(plan);
  if (before !== undefined) return before;
  const texts: string[] = [];
  collect(plan, texts);
  const reported = new Set<string>();
  for (const graph of graphsOf(plan)) addReported(graph, reported, false);
  const found = { texts, reported };
  known.set(plan, found);
  return found;
}

function collect(value: unknown, texts: string[]): void {
  if (typeof value === "string") {
    if (RESULTS.test(value)) texts.push(value);
  } else if (typeof value === "object" && value !== null) {
    for (const inner of Object.values(value)) collect(inner, texts);
  }
}

/** Adds the steps of a graph whose failure leads to an agent, there or around the graph. */
function addReported(graph: Graph, reported: Set<string>, around: boolean): void {
  graph.steps.forEach((step, position) => {
    const leads = around || leadsToAgent(graph, position);
    if (leads) reported.add(step.id);
    for (const inner of graphsIn(step.work)) addReported(inner, reported, leads);
  });
}

function leadsToAgent(graph: Graph, position: number): boolean {
  const { outgoing } = indexOf(graph);
  const { onFailure } = stepAt(graph, position);
  const seen = new Set<number>();
  for (const index of outgoing[position] ?? []) {
    const edge = graph.edges[index];
    if (edge?.on === "failed" || onFailure === "continue") seen.add(edge?.to ?? position);
  }
  // A step without work passes the failure on.
  for (const next of seen) {
    const step = stepAt(graph, next);
    if (hasAgent(step)) return true;
    if (step.work.kind !== "pass") continue;
    for (const index of outgoing[next] ?? []) seen.add(graph.edges[index]?.to ?? next);
  }
  return false;
}

function hasAgent({ work }: Step): boolean {
  if (work.kind === "agent") return true;
  return graphsIn(work).some(({ steps }) => steps.some(hasAgent));
}
