/**
 * Every attempt of a run with its start and its end: a fold over the events. A `Run` keeps only the
 * newest state of a visit; reports and receipts need all attempts. Then what is known of one attempt
 * besides its result, in words and as JSON: what the step reported, the briefing of its agent,
 * processes that it left running, and secrets that it stored.
 */
import type {
  AttemptEnd,
  AttemptRef,
  Briefing,
  EventOf,
  Exposure,
  FailureReason,
  LeftRunning,
  Recorded,
  RunEvent,
  Spent,
  StepReport,
} from "../core/event.ts";
import { attemptText, stepPath, visitText } from "../core/step-path.ts";
import type { JsonObject } from "../util/json.ts";
import { confirmedText, messageText } from "./failure-text.ts";
import { cutText, plainText, shortList } from "./text.ts";

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
function completed(closed: Attempt, end: EventOf<"step.completed">): Attempt {
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

/** `partial_success, label "Fix it": two tests are left`; empty when it reported nothing. */
export function stepReportText({ outcome, label, next = [], notes }: StepReport = {}): string {
  const said = [
    ...(outcome === undefined ? [] : [plainText(outcome)]),
    ...(label === undefined ? [] : [`label "${plainText(label)}"`]),
    ...(next.length === 0 ? [] : [`next ${plainText(next.join(", "))}`]),
  ].join(", ");
  if (notes === undefined) return said;
  return said === "" ? messageText(notes) : `${said}: ${messageText(notes)}`;
}

/** The same for programs. */
export function stepReportJson(reported: StepReport | undefined): JsonObject {
  if (reported === undefined) return {};
  const { outcome, label, next, notes } = reported;
  return {
    reported: {
      outcome: outcome ?? null,
      preferred_label: label ?? null,
      suggested_next_ids: next ?? [],
      notes: notes ?? null,
    },
  };
}

/** `it got a briefing (compact): the step says compact`. */
export function briefingText({ mode, thread, why }: Briefing): string {
  const where = thread === undefined ? "" : `, thread ${thread.name}`;
  return `it got a briefing (${mode}${where}): ${why}`;
}

/** The same as JSON, without the text, which is part of the attempt's prompt. */
export function briefingJson({ mode, by, why, thread }: Briefing): JsonObject {
  return { mode, by, why, thread: thread === undefined ? null : { ...thread } };
}

const NAMES_MAX = 3;
const COMMAND_WIDTH_MAX = 60;

/** "it left processes running, which were ended: sleep 600 (process 4711)"; undefined for none. */
export function leftoverText(left: readonly LeftRunning[] = []): string | undefined {
  if (left.length === 0) return undefined;
  const names = left.map(({ pid, command, survived }) => {
    const alive = survived === true ? ", which did not die" : "";
    return `${cutText(plainText(command), COMMAND_WIDTH_MAX)} (process ${pid}${alive})`;
  });
  const what =
    left.length === 1
      ? "it left a process running, which was ended"
      : "it left processes running, which were ended";
  return `${what}: ${shortList(names, NAMES_MAX)}`;
}

/** "it stored a secret: API_TOKEN in context.token"; undefined when there is none. */
export function exposureText(exposes: readonly Exposure[] = []): string | undefined {
  if (exposes.length === 0) return undefined;
  const secrets = exposes.length === 1 ? "a secret" : "secrets";
  const names = exposes.map(({ secret, in: where }) => `${secret} in ${where}`);
  return `it stored ${secrets}: ${shortList(names, NAMES_MAX)}`;
}

/** A warning for each such step of a run. */
export function exposureLines(events: readonly Recorded[]): readonly string[] {
  const lines = events.flatMap(({ event }) => {
    if (event.type !== "step.completed" && event.type !== "step.failed") return [];
    const text = exposureText(event.exposes);
    if (text === undefined) return [];
    return [`warning: ${stepPath(event)}: ${text}; exports contain it unmasked`];
  });
  return [...new Set(lines)];
}
