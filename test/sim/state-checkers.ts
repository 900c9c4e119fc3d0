/** Every change of a visit's state stands in the transition tables. */
import type { Recorded, RunEvent, StepEvent } from "../../src/core/event.ts";
import { emptyRun, evolve, type Plans } from "../../src/core/evolve.ts";
import { isOver, type StateName, stateName } from "../../src/core/graph/visit-state.ts";
import { findVisit, type Run, type Visit, visitRef, visitsOf } from "../../src/core/run.ts";
import { visitText } from "../../src/core/step-path.ts";
import { SIDE_TRANSITIONS, VISIT_TRANSITIONS } from "../../src/core/transition.ts";
import { Violation } from "./conversation-checkers.ts";

/** Replays a run, and looks at the state of every visit after each event. */
export function replayChecked(plans: Plans, id: string, events: Iterable<Recorded>): Run {
  const known = new Map<Visit, StateName>();
  let run = emptyRun(id);
  for (const recorded of events) {
    run = evolve(plans, run, recorded);
    for (const scope of run.scopes.values()) {
      for (const visit of visitsOf(scope)) checkVisit(run, recorded.event, visit, known);
    }
  }
  return run;
}

function checkVisit(run: Run, event: RunEvent, visit: Visit, known: Map<Visit, StateName>): void {
  const [was, is] = [known.get(visit), stateName(visit.state)];
  known.set(visit, is);
  const path = visitText(visitRef(visit));
  if (was !== undefined && was !== is && !isListed(run, event, visit, was, is)) {
    throw new Violation(`${event.type} takes ${path} from ${was} to ${is}`);
  }
  const { parent } = visit.record.scope;
  if (parent === undefined || isOver(visit.state) || parent.state.status === "running") return;
  throw new Violation(`${path} is ${is} inside a visit that is ${stateName(parent.state)}`);
}

function isListed(run: Run, event: RunEvent, visit: Visit, was: StateName, is: StateName): boolean {
  if (
    event.type.startsWith("step.") &&
    "visit" in event &&
    findVisit(run, event as never) === visit
  ) {
    return VISIT_TRANSITIONS[was][event.type as StepEvent["type"]]?.includes(is) === true;
  }
  return SIDE_TRANSITIONS.some(
    ({ events, from, to }) => events.includes(event.type) && from.includes(was) && to === is,
  );
}
