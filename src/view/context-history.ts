/** How the context of a run evolved: every value that a step handed over, beside the one before. */
import type { Recorded } from "../core/event.ts";
import { attemptText } from "../core/place.ts";
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
export function contextHistory(events: Iterable<Recorded>): readonly ContextChange[] {
  const values = new Map<string, Json>();
  const changes: ContextChange[] = [];
  for (const { event, seq, time } of events) {
    if (event.type !== "step.completed") continue;
    for (const [key, after] of Object.entries(event.context)) {
      const before = values.get(key);
      values.set(key, after);
      if (before !== undefined && JSON.stringify(before) === JSON.stringify(after)) continue;
      const change = { seq, time, by: attemptText(event), key, after };
      changes.push(before === undefined ? change : { ...change, before });
    }
  }
  return changes;
}
