/** Plans of any size, as the YAML source would build them. */
import { type Edge, freeze, type Graph, type Plan, type Step } from "../src/plan/plan.ts";

export type Shape = "sequence" | "wide" | "join" | "items";

/** A plan with steps one after the other, all at once, or all but the last at once; or with items. */
export function planOf(steps: number, shape: Shape): Plan {
  return {
    format: 1,
    name: "bench",
    maxParallel: 8,
    env: {},
    agents: {},
    graph: graphOf(steps, shape),
  };
}

/** The same plan as a run reads it from its text, so that steps share nothing. */
export function frozenPlan(steps: number, shape: Shape): { plan: Plan; planText: string } {
  const { text } = freeze(planOf(steps, shape));
  return { plan: JSON.parse(text) as Plan, planText: text };
}

function graphOf(count: number, shape: Shape): Graph {
  if (shape === "items") return { steps: [eachOf(count)], edges: [] };
  return {
    steps: Array.from({ length: count }, (_, position) => stepOf(`step-${position}`)),
    edges: Array.from({ length: shape === "wide" ? 0 : count - 1 }, (_, from) =>
      edgeOf(from, shape === "join" ? count - 1 : from + 1),
    ),
  };
}

function stepOf(id: string): Step {
  return {
    id,
    join: "all",
    split: "all",
    work: { kind: "shell", run: "true" },
    env: {},
    retry: {
      attempts: 1,
      backoff: { initialMs: 1_000, factor: 2, maxMs: 60_000, jitter: 0.5 },
      onResume: "fresh",
    },
    outputs: {},
    once: false,
    visitsMax: 1,
  };
}

/** A fan-out of one step over this many items. */
function eachOf(count: number): Step {
  const list = Array.from({ length: count }, (_, index) => index);
  const graph = { steps: [stepOf("one")], edges: [] };
  const work = {
    kind: "each",
    items: { list },
    graph,
    maxParallel: 8,
    onItemFailure: "fail",
  } as const;
  return { ...stepOf("each"), work };
}

function edgeOf(from: number, to: number): Edge {
  return { from, to, on: "completed", weight: 0, back: false };
}
