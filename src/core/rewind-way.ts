/**
 * The way on which a run comes to a step from which a person goes on: what lies before that step is
 * taken as done, and left by these arrows.
 *
 * Owns: which arrows those are.
 * Does not: go there (rewind-flow.ts).
 * Invariants:
 * - V1 A step that selects one arrow is left by one, towards the step that is wanted, whatever its
 *   conditions say: the other ways are not gone.
 */
import { ancestorsOf, arrowAt, forwardOrder, indexOf, stepAt } from "../plan/graph-index.ts";
import type { Graph } from "../plan/plan.ts";
import { isDone, type Scope } from "./run.ts";

export interface Way {
  /** What lies before the step, in an order in which it can be gone through. */
  readonly before: readonly number[];
  /** That and the step itself. */
  readonly steps: ReadonlySet<number>;
  /** The arrows by which a step before it is left. */
  arrowsFrom(position: number): readonly number[];
}

/** The way to a step. */
export function wayTo(graph: Graph, start: number): Way {
  const steps = new Set([start, ...ancestorsOf(graph, start, graph.steps.length)]);
  const before = forwardOrder(graph).filter(
    (position) => position !== start && steps.has(position),
  );
  const arrowsFrom = (position: number): readonly number[] => {
    const leaving = (indexOf(graph).outgoing[position] ?? []).filter((index) => {
      const { back, restart } = arrowAt(graph, index);
      return !back && restart === undefined;
    });
    if (stepAt(graph, position).split === "all") {
      return leaving.filter((index) => {
        const { on, condition } = arrowAt(graph, index);
        return on === "completed" && condition === undefined;
      });
    }
    const leads = leaving.filter((index) => steps.has(arrowAt(graph, index).to));
    const straight = leads.find((index) => arrowAt(graph, index).to === start);
    const one = straight ?? leads.find((index) => arrowAt(graph, index).on === "completed");
    return one === undefined ? leads.slice(0, 1) : [one];
  };
  return { before, steps, arrowsFrom };
}

/** The steps on the way to a step that are not done: they are taken as done. */
export function unfinishedBefore(scope: Scope, start: number): readonly number[] {
  const { graph } = scope;
  const { incoming, outgoing } = indexOf(graph);
  const { before, arrowsFrom } = wayTo(graph, start);
  const followed = new Set<number>();
  return before.filter((position) => {
    const comes = (incoming[position] ?? []).filter((index) => !arrowAt(graph, index).back);
    const done = isDone(scope.steps[position]);
    const onTheWay = comes.length === 0 || comes.some((index) => followed.has(index));
    if (!done && !onTheWay) return false;
    const leaves = outgoing[position] ?? [];
    const gone = leaves.filter((index) => scope.arrows[index] === "live");
    const settled = leaves.some((index) => scope.arrows[index] !== "open");
    for (const index of done && settled ? gone : arrowsFrom(position)) followed.add(index);
    return !done;
  });
}
