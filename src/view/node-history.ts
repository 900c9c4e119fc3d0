/**
 * The order in which steps ended: what `node_history` of a checkpoint holds. A run as a value does
 * not keep it, so whoever writes checkpoints feeds this with each event.
 *
 * Owns: the bound on it.
 * Does not: record tries in between; they are counted in `node_retries`.
 */
import type { Recorded, RunEvent, VisitEnd } from "../core/event.ts";
import { stepPath } from "../core/place.ts";

/** The newest so many entries are kept; older ones are only counted. */
export const HISTORY_MAX = 10_000;

export type NodeOutcome = "completed" | "failed" | "skipped";

/** The ends of visits in their order, as many as are kept: a fold over the events. */
export class NodeHistory {
  private readonly ring: (readonly [string, NodeOutcome])[] = [];
  private next = 0;
  private count = 0;
  private newest: Recorded<VisitEnd> | undefined;

  /** Takes the next event in; only ends of visits matter. */
  add(recorded: Recorded): void {
    const end = visitEnd(recorded.event);
    if (end === undefined) return;
    this.newest = { ...recorded, event: end };
    this.ring[this.next] = [stepPath(end), outcomeOf(end)];
    this.next = (this.next + 1) % HISTORY_MAX;
    this.count++;
  }

  /** Oldest first. */
  entries(): readonly (readonly [string, NodeOutcome])[] {
    if (this.count <= HISTORY_MAX) return this.ring.slice();
    return [...this.ring.slice(this.next), ...this.ring.slice(0, this.next)];
  }

  /** How many entries were too old to keep. */
  get leftOut(): number {
    return Math.max(0, this.count - HISTORY_MAX);
  }

  /** The last visit that ended. */
  get last(): Recorded<VisitEnd> | undefined {
    return this.newest;
  }
}

/** The event, if it ends a visit: no other try follows. */
export function visitEnd(event: RunEvent): VisitEnd | undefined {
  switch (event.type) {
    case "step.completed":
    case "step.skipped":
      return event;
    case "step.failed":
    case "step.lost":
      return event.retry === undefined ? event : undefined;
    default:
      return undefined;
  }
}

function outcomeOf(end: VisitEnd): NodeOutcome {
  if (end.type === "step.completed") return "completed";
  return end.type === "step.skipped" ? "skipped" : "failed";
}
