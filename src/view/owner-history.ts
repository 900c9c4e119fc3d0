/** Who drove a run, one after the other, and how each of them left it: a fold over the events. */
import type { Owner, Recorded, RunEvent } from "../core/event.ts";
import type { Liveness } from "./step-status.ts";

export interface Reign {
  readonly epoch: number;
  readonly owner: Owner;
  readonly from: number;
  /** Its last event. */
  readonly until: number;
  /** How it ended, in words. */
  readonly left: string;
}

/** The owners of a run in their order; `liveness` says what became of the last one. */
export function ownerHistory(events: Iterable<Recorded>, liveness: Liveness): readonly Reign[] {
  const reigns: Reign[] = [];
  let current: Omit<Reign, "left"> | undefined;
  let left: string | undefined;
  const close = (how: string): void => {
    if (current !== undefined) reigns.push({ ...current, left: left ?? how });
  };
  for (const { event, time } of events) {
    if (event.type === "run.opened") {
      close("vanished without a word");
      current = { epoch: event.epoch, owner: event.owner, from: time, until: time };
      left = undefined;
      continue;
    }
    if (current !== undefined) current = { ...current, until: time };
    left = leavingText(event) ?? left;
  }
  close(LEAVINGS[liveness]);
  return reigns;
}

const LEAVINGS: Readonly<Record<Liveness, string>> = {
  owned: "drives it now",
  orphaned: "died",
  free: "gave it up",
};

function leavingText(event: RunEvent): string | undefined {
  switch (event.type) {
    case "run.completed":
      return "completed it";
    case "run.failed":
      return "ended it as failed";
    case "run.stopped":
      return `stopped it: ${event.by}`;
    default:
      return undefined;
  }
}

/** "ada on laptop, pid 4711". */
export function ownerText({ user, host, pid }: Owner): string {
  return `${user} on ${host}, pid ${pid}`;
}
