/** A plan as somebody may have edited it: steps changed, renamed, added, taken out, or put elsewhere. */
import { closureOf } from "../../src/plan/graph-index.ts";
import { type Edge, type Graph, markBackEdges, type Plan, type Step } from "../../src/plan/plan.ts";
import type { Random } from "../../src/util/random.ts";

type Edit = (graph: Graph, random: Random) => Graph;

/** One or two edits; some of them change nothing that matters. */
export function editedPlan(plan: Plan, random: Random): Plan {
  let { graph } = plan;
  const edits = 1 + random.below(2);
  for (let count = 0; count < edits; count++) graph = random.pick(EDITS)(graph, random);
  // A file in which steps could share a conversation at the same time is no valid one.
  if (!sharesInOrder(graph)) return plan;
  return random.chance(0.2)
    ? { ...plan, graph, maxParallel: 1 + random.below(4), budget: { turns: 5 } }
    : { ...plan, graph };
}

function sharesInOrder(graph: Graph): boolean {
  const sessionAt = (position: number): string | undefined => {
    const work = graph.steps[position]?.work;
    return work?.kind === "agent" ? work.session : undefined;
  };
  const positions = graph.steps.map((_, position) => position).filter((one) => sessionAt(one));
  return positions.every((one) =>
    positions.every(
      (other) =>
        sessionAt(one) !== sessionAt(other) ||
        closureOf(graph, one).includes(other) ||
        closureOf(graph, other).includes(one),
    ),
  );
}

const EDITS: readonly Edit[] = [
  // Another command, condition or policy for one step.
  (graph, random) =>
    change(graph, random, (step) =>
      step.work.kind === "shell" ? { ...step, work: { kind: "shell", run: word(random) } } : step,
    ),
  (graph, random) => change(graph, random, (step) => ({ ...step, env: { EDIT: word(random) } })),
  (graph, random) =>
    change(graph, random, (step) => ({
      ...step,
      retry: { ...step.retry, attempts: 1 + random.below(3) },
    })),
  (graph, random) => change(graph, random, (step) => ({ ...step, id: `${word(random)}x` })),
  // A new step behind one that is there, or beside all others.
  (graph, random) => {
    const id = `new${random.below(5)}`;
    if (graph.steps.some((step) => step.id === id)) return graph;
    const from = random.below(graph.steps.length);
    const [first] = graph.steps;
    if (first === undefined) return graph;
    const added: Step = { ...first, id, work: { kind: "shell", run: "new" }, join: "all" };
    const edge = { from, to: graph.steps.length, on: "completed", weight: 0 } as const;
    const edges = random.chance(0.8) ? [...graph.edges, edge] : graph.edges;
    return made([...graph.steps, added], edges);
  },
  // One step less; what it led to waits for nothing.
  (graph, random) => {
    if (graph.steps.length < 2) return graph;
    const out = random.below(graph.steps.length);
    const moved = (position: number): number => (position > out ? position - 1 : position);
    const edges = graph.edges
      .filter(({ from, to }) => from !== out && to !== out)
      .map((edge) => ({ ...edge, from: moved(edge.from), to: moved(edge.to) }));
    const left = graph.steps.filter((_, position) => position !== out);
    return made(
      left.map((step) => withTarget(step, (at) => (at === out ? undefined : moved(at)))),
      edges,
    );
  },
  // The same steps in another order.
  (graph) => {
    const last = graph.steps.length - 1;
    const edges = graph.edges.map((edge) => ({
      ...edge,
      from: last - edge.from,
      to: last - edge.to,
    }));
    const steps = graph.steps.toReversed();
    return made(
      steps.map((step) => withTarget(step, (at) => last - at)),
      edges,
    );
  },
  // An edge less.
  (graph, random) => {
    const out = random.below(graph.edges.length + 1);
    return made(
      graph.steps,
      graph.edges.filter((_, index) => index !== out),
    );
  },
];

/** A step whose goal leads back to where its target has moved. */
function withTarget(step: Step, moved: (position: number) => number | undefined): Step {
  if (step.goal?.retryTarget === undefined) return step;
  const { retryTarget, ...goal } = step.goal;
  const target = moved(retryTarget);
  return { ...step, goal: target === undefined ? goal : { ...goal, retryTarget: target } };
}

function change(graph: Graph, random: Random, edit: (step: Step) => Step): Graph {
  const at = random.below(graph.steps.length);
  const steps = graph.steps.map((step, position) => (position === at ? edit(step) : step));
  return new Set(steps.map(({ id }) => id)).size === steps.length ? { ...graph, steps } : graph;
}

function made(steps: readonly Step[], edges: readonly Omit<Edge, "back">[]): Graph {
  return { steps, edges: markBackEdges(steps.length, edges) };
}

function word(random: Random): string {
  return `edit${random.below(100)}`;
}
