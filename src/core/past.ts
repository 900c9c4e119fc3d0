/** Leaving work behind: what was done stays as history, what was going on is abandoned. */
import { assert } from "../util/assert.ts";
import { draft } from "./draft.ts";
import { childScopes, enter, touch, uncountInside, visitsOf } from "./flow.ts";
import type { Run, StepRecord, Visit } from "./run.ts";

/** Makes all that was done for a step history: it will be visited anew. */
export function makePast(run: Run, record: StepRecord, time: number): void {
  for (const old of record.visits.slice(record.past)) {
    abandon(run, old, time);
    uncountInside(run, old);
  }
  draft(record).past = record.visits.length;
  touch(run, record);
}

function abandon(run: Run, visit: Visit, time: number): void {
  const { status } = visit.state;
  assert(status !== "running" || visit.instances !== undefined, "a rewind meets no live process");
  if (status === "completed" || status === "skipped" || status === "abandoned") return;
  abandonInside(run, visit, time);
  enter(run, visit, { status: "abandoned", at: time });
}

/** Leaves what was going on inside a visit. */
export function abandonInside(run: Run, visit: Visit, time: number): void {
  for (const scope of childScopes(run, visit)) {
    for (const inner of visitsOf(scope)) abandon(run, inner, time);
  }
}
