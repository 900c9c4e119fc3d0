/** Lookups in a graph, computed once per graph. */
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

/** The results of `repeatableSteps`. */
const results = new WeakMap<Graph, ReadonlySet<number>>();

/** The steps that a loop, a missed goal or a restart can make a run visit again. */
export function repeatableSteps(graph: Graph): ReadonlySet<number> {
  const known = results.get(graph);
  if (known !== undefined) return known;
  const starts = new Set<number>();
  for (const { to, back, restart } of graph.edges) {
    if (back || restart !== undefined) starts.add(to);
  }
  for (const { goal } of graph.steps) {
    if (goal?.retryTarget !== undefined) starts.add(goal.retryTarget);
  }
  const again = closureOfAll(graph, starts);
  results.set(graph, again);
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
