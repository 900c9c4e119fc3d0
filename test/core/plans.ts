/** Small plans for tests, written as edges: `a>b`, `b>a` back, `a!>c` on failure. */
import {
  type Edge,
  type Graph,
  markBackEdges,
  PLAN_FORMAT,
  type Plan,
  type Step,
} from "../../src/plan/plan.ts";

export type StepChanges = Partial<Omit<Step, "id">>;

export function stepOf(id: string, changes: StepChanges = {}): Step {
  return {
    id,
    join: "all",
    split: "all",
    work: { kind: "shell", run: "true" },
    env: {},
    retry: {
      attempts: 1,
      backoff: { initialMs: 100, factor: 2, maxMs: 1_000, jitter: 0 },
      onResume: "fresh",
    },
    outputs: {},
    once: false,
    visitsMax: 10,
    ...changes,
  };
}

export function graphOf(edges: string, steps: Record<string, StepChanges> = {}): Graph {
  const ids: string[] = [];
  const position = (id: string): number => {
    if (!ids.includes(id)) ids.push(id);
    return ids.indexOf(id);
  };
  const made: Omit<Edge, "back">[] = [];
  for (const word of edges.split(/\s+/).filter((part) => part !== "")) {
    const [, from = "", failed, to, condition] =
      /^(\w+)(?:(!?)>(\w+)(?:\?(.+))?)?$/.exec(word) ?? [];
    const start = position(from);
    if (to === undefined) continue;
    const on = failed === "!" ? "failed" : "completed";
    const edge = { from: start, to: position(to), on, weight: 0 } as const;
    made.push(condition === undefined ? edge : { ...edge, condition });
  }
  return {
    steps: ids.map((id) => stepOf(id, steps[id])),
    edges: markBackEdges(ids.length, made),
  };
}

export function planOf(
  edges: string,
  steps: Record<string, StepChanges> = {},
  changes: Partial<Plan> = {},
): Plan {
  const graph = graphOf(edges, steps);
  return {
    format: PLAN_FORMAT,
    name: "test",
    maxParallel: 4,
    env: {},
    agents: {},
    graph,
    ...changes,
  };
}
