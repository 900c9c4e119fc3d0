/**
 * Where a run of a DOT graph can go.
 *
 * Owns: the edges by their ends, and walks along them.
 * Does not: judge (lint.ts).
 */
import type { DotEdge, DotNode, DotPipeline } from "./model.ts";

export interface DotFlow {
  readonly starts: readonly DotNode[];
  readonly exits: readonly DotNode[];
  outgoing(id: string): readonly DotEdge[];
  incoming(id: string): readonly DotEdge[];
  /** What a run can come to from a start, by edges and by retry targets. */
  reached(): ReadonlySet<string>;
  /** Whether a run can get from the start to the exit without coming to a node. */
  avoidable(id: string): boolean;
}

/** The ways through a pipeline. */
export function flowOf(pipeline: DotPipeline): DotFlow {
  const nodes = [...pipeline.nodes.values()];
  const bySource = Map.groupBy(pipeline.edges, ({ from }) => from);
  const byTarget = Map.groupBy(pipeline.edges, ({ to }) => to);
  const outgoing = (id: string): readonly DotEdge[] => bySource.get(id) ?? [];
  const starts = nodes.filter(({ handler }) => handler === "start");
  const exits = nodes.filter(({ handler }) => handler === "exit");
  const next = (id: string): readonly string[] => outgoing(id).map(({ to }) => to);
  const jumps = (id: string): readonly string[] => {
    const { retryTarget, fallbackRetryTarget } = pipeline.nodes.get(id) ?? {};
    return [retryTarget, fallbackRetryTarget].filter((target) => target !== undefined);
  };
  const { retryTarget, fallbackRetryTarget } = pipeline.settings;
  const anywhere = [retryTarget, fallbackRetryTarget].filter((target) => target !== undefined);
  return {
    starts,
    exits,
    outgoing,
    incoming: (id) => byTarget.get(id) ?? [],
    reached: () => {
      const from = [...starts.map(({ id }) => id), ...anywhere];
      return walk(from, (id) => [...next(id), ...jumps(id)]);
    },
    avoidable: (gate) => {
      const start = starts[0]?.id;
      if (start === undefined || start === gate) return false;
      // All branches of a parallel node run, so one that is a gate cannot be passed by.
      const closed = (id: string): boolean =>
        id === gate || (pipeline.nodes.get(id)?.handler === "parallel" && next(id).includes(gate));
      const reached = walk([start], (id) => (closed(id) ? [] : next(id)));
      return exits.some(({ id }) => reached.has(id));
    },
  };
}

function walk(from: readonly string[], next: (id: string) => readonly string[]) {
  const reached = new Set(from);
  const open = [...reached];
  for (let id = open.pop(); id !== undefined; id = open.pop()) {
    for (const target of next(id)) {
      if (reached.has(target)) continue;
      reached.add(target);
      open.push(target);
    }
  }
  return reached;
}
