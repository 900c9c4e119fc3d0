/** How the context of a run evolved: every value that a step handed over, beside the one before. */
import { contextOwner } from "../core/context.ts";
import type { Recorded, RunEvent } from "../core/event.ts";
import { attemptText } from "../core/place.ts";
import type { Run } from "../core/run.ts";
import type { Json } from "../util/json.ts";

export interface ContextChange {
  readonly seq: number;
  readonly time: number;
  /** The attempt that handed it over, as in `fix@2.3`. */
  readonly by: string;
  readonly key: string;
  /** Absent when the key is new. */
  readonly before?: Json;
  readonly after: Json;
}

/** All changes in their order; a value that was handed over again unchanged is none. */
export function contextHistory(run: Run, events: Iterable<Recorded>): readonly ContextChange[] {
  const known = new Map<string, Map<string, Json>>();
  const changes: ContextChange[] = [];
  for (const { event, seq, time } of events) {
    if (event.type === "run.restarted") forget(known, event);
    if (event.type !== "step.completed" && event.type !== "step.failed") continue;
    // A branch has values of its own.
    const owner = contextOwner(run, event.scope);
    const values = known.get(owner) ?? new Map<string, Json>();
    known.set(owner, values);
    for (const [key, after] of Object.entries(event.context ?? {})) {
      const before = values.get(key);
      values.set(key, after);
      if (before !== undefined && JSON.stringify(before) === JSON.stringify(after)) continue;
      const change = { seq, time, by: attemptText(event), key, after };
      changes.push(before === undefined ? change : { ...change, before });
    }
  }
  return changes;
}

function forget(
  known: ReadonlyMap<string, Map<string, Json>>,
  { scope, keep }: Extract<RunEvent, { type: "run.restarted" }>,
): void {
  const values = known.get(scope);
  for (const key of [...(values?.keys() ?? [])]) if (!keep.includes(key)) values?.delete(key);
}
