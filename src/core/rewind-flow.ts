/**
 * What a rewind does to a run: a step and all that lies behind it is open again, and what was there is
 * history.
 *
 * Owns: the meaning of `run.rewound`, and what it is to leave a visit behind, for evolve.ts alone (C2).
 * Does not: choose what is reopened (rewind.ts).
 */
import { arrowAt, indexOf } from "../plan/graph-index.ts";
import { assert } from "../util/assert.ts";
import { draft } from "./draft.ts";
import { repeatEffects } from "./effect.ts";
import type { RunRewound } from "./event.ts";
import { enter, leave, recordAt, reopenBehind, restart } from "./flow.ts";
import { abandonInside, makePast } from "./past.ts";
import { ROOT_SCOPE } from "./place.ts";
import { wayTo } from "./rewind-way.ts";
import { currentVisit, isDone, type Run, type Scope, stepOf } from "./run.ts";

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
  if (event.repeat === true) repeatEffects(run, event.step);
  if (event.restore !== undefined) {
    draft(run).restoring = { commit: event.restore, since: run.seq + 1 };
  }
  const assumed = new Set(event.assumed.map((id) => byId.get(id)));
  const way = wayTo(scope.graph, start);
  for (const position of way.before) {
    if (assumed.has(position)) assume(run, scope, position, event, time);
    else if (!isLeftOpen(scope, position)) continue;
    leave(run, recordAt(scope, position), way.arrowsFrom(position), way.steps);
  }
  const startRecord = recordAt(scope, start);
  if (currentVisit(startRecord) === undefined) restart(run, scope, start);
}

/** Declares a step done without having run it. */
function assume(run: Run, scope: Scope, position: number, event: RunRewound, time: number): void {
  const record = recordAt(scope, position);
  if (currentVisit(record) === undefined) restart(run, scope, position);
  const visit = currentVisit(record);
  assert(visit !== undefined, "a restarted step has a visit");
  abandonInside(run, visit, time);
  const outputs = event.outputs?.[stepOf(visit).id] ?? {};
  enter(run, visit, { status: "completed", at: time, exit: 0, outputs, assumed: true });
}

/** True for a step that is done, but that a loop around it was to come to once more. */
function isLeftOpen(scope: Scope, position: number): boolean {
  const arrows = (indexOf(scope.graph).outgoing[position] ?? []).filter(
    (index) => !arrowAt(scope.graph, index).back,
  );
  const isOpen = arrows.every((index) => scope.arrows[index] === "open");
  return isOpen && isDone(scope.steps[position]);
}
