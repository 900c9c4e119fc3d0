/**
 * What a rewind does to a run: a step and all that lies behind it is open again, and what was there is
 * history.
 *
 * Owns: the meaning of `run.rewound`, and what it is to leave a visit behind, for evolve.ts alone (C2).
 * Does not: choose what is reopened (rewind.ts).
 */
import { indexOf } from "../plan/graph-index.ts";
import type { Graph } from "../plan/plan.ts";
import { assert } from "../util/assert.ts";
import type { RunRewound } from "./event.ts";
import { draft, enter, leave, recordAt, reopenBehind, restart } from "./flow.ts";
import { abandonInside, makePast } from "./past.ts";
import { ROOT_SCOPE } from "./place.ts";
import { currentVisit, type Run, type Scope } from "./run.ts";

/** Opens a step and all that lies behind it again; what was there stays as history. */
export function rewind(run: Run, event: RunRewound, time: number): void {
  const scope = run.scopes.get(ROOT_SCOPE);
  assert(scope !== undefined, "a run that can be rewound has a root scope");
  const { byId } = indexOf(scope.graph);
  const start = byId.get(event.step);
  assert(start !== undefined, `illegal event: no step ${event.step}`);
  for (const position of reopenBehind(run, scope, start)) {
    const record = scope.steps[position];
    if (record !== undefined) makePast(run, record, time);
  }
  if (event.restore !== undefined) {
    draft(run).restoring = { commit: event.restore, since: run.seq + 1 };
  }
  for (const id of event.assumed) assume(run, scope, byId.get(id), time);
  const startRecord = recordAt(scope, start);
  if (currentVisit(startRecord) === undefined) restart(run, scope, start);
}

/** Declares a step done without having run it; arrows that ask for nothing are followed. */
function assume(run: Run, scope: Scope, position: number | undefined, time: number): void {
  assert(position !== undefined, "an assumed step is in the plan");
  const record = recordAt(scope, position);
  if (currentVisit(record) === undefined) restart(run, scope, position);
  const visit = currentVisit(record);
  assert(visit !== undefined, "a restarted step has a visit");
  abandonInside(run, visit, time);
  enter(run, visit, { status: "completed", at: time, exit: 0, outputs: {}, assumed: true });
  leave(run, record, unconditionalArrows(scope.graph, position));
}

function unconditionalArrows(graph: Graph, position: number): readonly number[] {
  return (indexOf(graph).outgoing[position] ?? []).filter((index) => {
    const arrow = graph.arrows[index];
    return arrow?.on === "completed" && arrow.condition === undefined && !arrow.back;
  });
}
