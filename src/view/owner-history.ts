/** Who drove a run, one after the other, and how each of them left it: a fold over the events. */
import type { Owner, Recorded, RunEvent } from "../core/event.ts";
import { attemptText } from "../core/place.ts";
import { attemptEnd } from "./attempt-history.ts";
import type { Liveness } from "./step-status.ts";
import { stopText } from "./stop-text.ts";

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
  const open = new OpenAttempts();
  for (const { event, time } of events) {
    if (event.type === "run.opened") {
      close(open.onlyAsk() ? ASKING : "vanished without a word");
      current = { epoch: event.epoch, owner: event.owner, from: time, until: time };
      left = undefined;
      continue;
    }
    if (current !== undefined) current = { ...current, until: time };
    left = leavingText(event) ?? left;
    open.take(event);
  }
  close(liveness !== "owned" && open.onlyAsk() ? ASKING : LEAVINGS[liveness]);
  return reigns;
}

/** Nobody has to drive a run that only waits for an answer. */
const ASKING = "ended while it waited for a person";

/** The attempts that are under way, and whether all of them only wait for people. */
class OpenAttempts {
  readonly #scopes = new Map<string, string>();
  readonly #asked = new Set<string>();

  take(event: RunEvent): void {
    if (event.type === "step.started") this.#scopes.set(attemptText(event), event.scope);
    if (event.type === "step.asked") this.#asked.add(attemptText(event));
    const end = attemptEnd(event);
    if (end === undefined) return;
    this.#scopes.delete(attemptText(end));
    this.#asked.delete(attemptText(end));
  }

  /** A composite step that is open around a question waits as well. */
  onlyAsk(): boolean {
    const around = [...this.#asked].map((at) => this.#scopes.get(at) ?? "");
    const waits = (at: string): boolean =>
      this.#asked.has(at) || around.some((scope) => scope.startsWith(`${at}[`));
    return this.#asked.size > 0 && [...this.#scopes.keys()].every(waits);
  }
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
      return `stopped it: ${stopText(event.reason)}`;
    default:
      return undefined;
  }
}

/** "ada on laptop, pid 4711". */
export function ownerText({ user, host, pid }: Owner): string {
  return `${user} on ${host}, pid ${pid}`;
}
