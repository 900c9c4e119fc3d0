/**
 * Lookups in a plan and its graphs, each computed once: positions, edges, the order of steps,
 * and which optional parts of a step's result the pipeline uses (the end of its output, the identity
 * of its effect). The journal keeps these parts only if something refers to them.
 *
 * Does not: parse expressions. It searches their text for names, and a doubtful match counts as a
 * reference.
 */
import type { Edge, Graph, Plan, Step, Work } from "./plan.ts";

/** The graphs of a plan: its own, and that of its end. */
export function graphsOf(plan: Plan): readonly Graph[] {
  return plan.finally === undefined ? [plan.graph] : [plan.graph, plan.finally];
}

interface GraphIndex {
  readonly byId: ReadonlyMap<string, number>;
  /** Positions of the edges that leave a step. */
  readonly outgoing: readonly (readonly number[])[];
  /** Positions of the edges that lead to a step. */
  readonly incoming: readonly (readonly number[])[];
  /** How many edges lead to each step, without back edges. */
  readonly forwardCount: readonly number[];
  /** Steps that start when the scope opens. */
  readonly entries: readonly number[];
  /** Whether any step names an output. */
  readonly hasOutputs: boolean;
}

const repeatable = new WeakMap<Graph, ReadonlySet<number>>();

/** The steps that a loop, a missed goal or a restart can make a run visit again. */
export function repeatableSteps(graph: Graph): ReadonlySet<number> {
  const known = repeatable.get(graph);
  if (known !== undefined) return known;
  const starts = new Set<number>();
  for (const { to, back, restart } of graph.edges) {
    if (back || restart !== undefined) starts.add(to);
  }
  for (const { goal } of graph.steps) {
    if (goal?.retryTarget !== undefined) starts.add(goal.retryTarget);
  }
  const again = closureOfAll(graph, starts);
  repeatable.set(graph, again);
  return again;
}

const indexes = new WeakMap<Graph, GraphIndex>();

/** The index of a graph; the same graph gives the same index. */
export function indexOf(graph: Graph): GraphIndex {
  const known = indexes.get(graph);
  if (known !== undefined) return known;
  const index = buildIndex(graph);
  indexes.set(graph, index);
  return index;
}

function buildIndex(graph: Graph): GraphIndex {
  const outgoing: number[][] = graph.steps.map(() => []);
  const incoming: number[][] = graph.steps.map(() => []);
  const forwardCount: number[] = graph.steps.map(() => 0);
  graph.edges.forEach((edge, position) => {
    outgoing[edge.from]?.push(position);
    incoming[edge.to]?.push(position);
    if (!edge.back) forwardCount[edge.to] = (forwardCount[edge.to] ?? 0) + 1;
  });
  const entries = forwardCount.flatMap((count, step) => (count === 0 ? [step] : []));
  const byId = new Map(graph.steps.map((step, position) => [step.id, position]));
  const hasOutputs = graph.steps.some(({ outputs }) => Object.keys(outputs).length > 0);
  return { byId, outgoing, incoming, forwardCount, entries, hasOutputs };
}

/** The graphs inside a step; none unless it is a composite. */
export function graphsIn(work: Work): readonly Graph[] {
  if (work.kind === "branches") return work.branches.map(({ graph }) => graph);
  return "graph" in work ? [work.graph] : [];
}

/** The step at a position; positions come from the same graph, so it exists. */
export function stepAt(graph: Graph, position: number): Step {
  return graph.steps[position] as Step;
}

/** The edge at a position of the same graph. */
export function edgeAt(graph: Graph, position: number): Edge {
  return graph.edges[position] as Edge;
}

/** A step and all steps after it, without back edges, breadth first. */
export function closureOf(graph: Graph, start: number): readonly number[] {
  return [...closureOfAll(graph, [start])];
}

/** Several steps and all steps after any of them. */
export function closureOfAll(graph: Graph, starts: Iterable<number>): ReadonlySet<number> {
  const { outgoing } = indexOf(graph);
  const seen = new Set(starts);
  for (const step of seen) {
    for (const position of outgoing[step] ?? []) {
      const edge = edgeAt(graph, position);
      if (!edge.back) seen.add(edge.to);
    }
  }
  return seen;
}

/** The steps before a step, nearest first, at most `limit`. */
export function ancestorsOf(graph: Graph, start: number, limit: number): readonly number[] {
  const { incoming } = indexOf(graph);
  const seen = new Set([start]);
  for (const step of seen) {
    if (seen.size > limit) break;
    for (const position of incoming[step] ?? []) {
      const edge = edgeAt(graph, position);
      if (!edge.back) seen.add(edge.from);
    }
  }
  seen.delete(start);
  return [...seen];
}

/** Positions in an order in which every forward edge leads to a later one. */
export function forwardOrder(graph: Graph): readonly number[] {
  const { forwardCount, outgoing, entries } = indexOf(graph);
  const missing = forwardCount.slice();
  const order = [...entries];
  for (const position of order) {
    for (const index of outgoing[position] ?? []) {
      const edge = edgeAt(graph, index);
      if (edge.back) continue;
      const left = (missing[edge.to] ?? 0) - 1;
      missing[edge.to] = left;
      if (left === 0) order.push(edge.to);
    }
  }
  return order;
}

/** Whether the plan, or a report of a failure to an agent, uses this part of a step's result. */
export function refersTo(plan: Plan, step: string, what: "output" | "identity"): boolean {
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

const references = new WeakMap<Plan, References>();

function referencesIn(plan: Plan): References {
  const known = references.get(plan);
  if (known !== undefined) return known;
  const texts: string[] = [];
  collect(plan, texts);
  const reported = new Set<string>();
  for (const graph of graphsOf(plan)) addReported(graph, reported, false);
  const found = { texts, reported };
  references.set(plan, found);
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
