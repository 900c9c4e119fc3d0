/**
 * Every attempt of a run with its start and its end: a fold over the events. A `Run` keeps only the
 * newest state of a visit; reports and receipts need all attempts.
 */
import type {
  AttemptEnd,
  AttemptRef,
  FailureReason,
  Recorded,
  RunEvent,
  Spent,
  StepCompleted,
} from "../core/event.ts";
import { attemptText, visitText } from "../core/step-path.ts";
import { confirmedText } from "./once-text.ts";

export interface Attempt {
  readonly at: AttemptRef;
  readonly startedAt: number;
  readonly endedAt?: number;
  readonly outcome:
    | "running"
    | "completed"
    | "failed"
    | "lost"
    | "paused"
    | "interrupted"
    | "uncertain"
    | "asked"
    | "waiting"
    | "continued"
    | "relayed"
    | "submitted"
    | "conflicted";
  readonly exit?: number;
  readonly reason?: FailureReason;
  readonly message?: string;
  /** What it used of a model, if that is known. */
  readonly spent?: Spent;
}

/** The event, if it ends an attempt. */
export function attemptEnd(event: RunEvent): AttemptEnd | undefined {
  switch (event.type) {
    case "step.completed":
    case "step.failed":
    case "step.lost":
    case "step.paused":
    case "step.interrupted":
    case "step.continued":
    case "step.relayed":
    case "step.submitted":
    case "step.conflicted":
      return event;
    default:
      return undefined;
  }
}

const OUTCOMES = {
  "step.completed": "completed",
  "step.failed": "failed",
  "step.lost": "lost",
  "step.paused": "paused",
  "step.interrupted": "interrupted",
  "step.continued": "continued",
  "step.relayed": "relayed",
  "step.submitted": "submitted",
  "step.conflicted": "conflicted",
} as const satisfies Readonly<Record<AttemptEnd["type"], Attempt["outcome"]>>;

/** How an attempt ended. */
export function attemptOutcome({ type }: AttemptEnd): Attempt["outcome"] {
  return OUTCOMES[type];
}

/** The attempts of each visit (`fix@2`), in order. */
export function attemptHistory(
  events: Iterable<Recorded>,
): ReadonlyMap<string, readonly Attempt[]> {
  const history = new Map<string, Attempt[]>();
  for (const { event, time } of events) {
    if (event.type === "step.started") {
      const { scope, step, visit, attempt } = event;
      const begun: Attempt = {
        at: { scope, step, visit, attempt },
        startedAt: time,
        outcome: event.wake === undefined ? "running" : "waiting",
      };
      const key = visitText(event);
      const known = history.get(key);
      if (known === undefined) history.set(key, [begun]);
      else known.push(begun);
    }
    if (event.type === "step.asked") {
      const attempts = history.get(visitText(event)) ?? [];
      const open = attempts[event.attempt - 1];
      const message = event.question;
      if (open) attempts[event.attempt - 1] = { ...open, outcome: "asked", message };
    }
    if (event.type === "step.uncertain") {
      const attempts = history.get(visitText(event)) ?? [];
      const open = attempts[event.attempt - 1];
      const { message, spent } = event;
      const used = spent === undefined ? {} : { spent };
      // Its receipt, if any, follows when the effect is settled.
      if (open) {
        const ended = { ...open, endedAt: time, outcome: "uncertain", message, ...used } as const;
        attempts[event.attempt - 1] = ended;
      }
    }
    const end = attemptEnd(event);
    if (end !== undefined) close(history.get(visitText(end)) ?? [], end, time);
  }
  return history;
}

function close(attempts: Attempt[], end: AttemptEnd, time: number): void {
  const open = attempts[end.attempt - 1];
  if (open !== undefined) attempts[end.attempt - 1] = ended(open, end, time);
}

function ended(open: Attempt, end: AttemptEnd, time: number): Attempt {
  const { spent = open.spent } = end;
  const closed = { ...open, endedAt: time, ...(spent === undefined ? {} : { spent }) };
  switch (end.type) {
    case "step.completed":
      return completed(closed, end);
    case "step.failed": {
      const { reason, message, exit } = end;
      const failed = { ...closed, outcome: "failed", reason, message } as const;
      return exit === undefined ? failed : { ...failed, exit };
    }
    case "step.lost":
      return { ...closed, outcome: "lost", message: end.message };
    case "step.paused":
      return { ...closed, outcome: "paused", message: `${end.reason}: ${end.message}` };
    case "step.interrupted":
      return { ...closed, outcome: "interrupted", message: end.message };
    case "step.conflicted":
      return { ...closed, outcome: "conflicted", message: end.message };
    case "step.continued":
      return { ...closed, outcome: "continued", message: end.ask.why };
    case "step.submitted": {
      const message = end.message ?? "finished, and handed to its judge";
      return { ...closed, outcome: "submitted", message };
    }
    case "step.relayed":
      return { ...closed, outcome: "relayed", message: `handed over in ${end.checkpoint.path}` };
  }
}

/** A completion that a probe or a person confirmed has no exit status. */
function completed(closed: Attempt, end: StepCompleted): Attempt {
  const { message: _, ...rest } = closed;
  const { exit, settledBy, identity } = end;
  if (settledBy === undefined) return { ...rest, outcome: "completed", exit };
  return { ...rest, outcome: "completed", message: confirmedText(settledBy, identity) };
}

/** The start of each open attempt, for a follower that shows how long an attempt took. */
export class AttemptClock {
  private readonly starts = new Map<string, number>();

  /** Adds the next event; returns the start of its attempt. */
  startOf(recorded: Recorded): number | undefined {
    const { event, time } = recorded;
    if (event.type === "step.started") {
      this.starts.set(attemptText(event), time);
      return time;
    }
    const end = attemptEnd(event);
    if (end === undefined) return undefined;
    const key = attemptText(end);
    const start = this.starts.get(key);
    this.starts.delete(key);
    return start;
  }
}
