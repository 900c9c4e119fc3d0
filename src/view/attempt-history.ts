/**
 * Every attempt of a run with its start, its end and the time that it worked: a fold over the events. A
 * `Run` keeps only the newest state of a visit; reports and receipts need all attempts. Then what is known
 * of one attempt besides its result, in words and as JSON: what the step reported, the briefing of its
 * agent, processes that it left running, and secrets that it stored.
 *
 * Invariants:
 * - view/T1 Time without an owner is not working time, as in `run.workedMs`; a clock that was set
 *   back counts as no time.
 */
import type {
  AttemptEnd,
  AttemptRef,
  Briefing,
  Exposure,
  FailureReason,
  LeftRunning,
  Recorded,
  RunEvent,
  Spent,
  StepReport,
} from "../core/event.ts";
import { attemptText, stepPath, visitText } from "../core/step-path.ts";
import { defined } from "../util/defined.ts";
import type { JsonObject } from "../util/json.ts";
import { confirmedText, messageText } from "./failure-text.ts";
import { cutText, plainText, shortList } from "./text.ts";

export interface Attempt {
  readonly at: AttemptRef;
  readonly startedAt: number;
  /** Absent while it runs, as far as the journal knows. */
  readonly endedAt?: number;
  readonly workedMs: number;
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

/** The attempts of each visit (`fix@2`), in order. */
export function attemptHistory(
  events: Iterable<Recorded>,
): ReadonlyMap<string, readonly Attempt[]> {
  return Map.groupBy(attemptsOf(events), ({ at }) => visitText(at));
}

interface Draft extends Omit<Attempt, "workedMs"> {
  workedMs: number;
  /** When working time began that is not counted yet; infinite while nothing works. */
  since: number;
}

/** Every attempt of a run, in the order of their starts. */
export function attemptsOf(events: Iterable<Recorded>): readonly Attempt[] {
  const drafts = new Map<string, Draft>();
  let last = 0;
  for (const { event, time } of events) {
    if (event.type === "step.started") {
      const { scope, step, visit, attempt, wake } = event;
      drafts.set(attemptText(event), {
        at: { scope, step, visit, attempt },
        startedAt: time,
        workedMs: 0,
        outcome: wake === undefined ? "running" : "waiting",
        since: wake === undefined ? time : Number.POSITIVE_INFINITY,
      });
    } else if (event.type === "run.opened") {
      for (const draft of drafts.values()) {
        draft.workedMs += Math.max(0, last - draft.since);
        if (Number.isFinite(draft.since)) draft.since = time;
      }
    } else if ("attempt" in event) {
      const key = attemptText(event);
      const draft = drafts.get(key);
      const change = changeBy(event, time);
      if (draft !== undefined && change !== undefined) {
        const { at, startedAt, spent, since } = draft;
        const workedMs = draft.workedMs + Math.max(0, time - since);
        const known = { at, startedAt, workedMs, ...defined({ spent }) };
        drafts.set(key, { ...known, ...change, since: Number.POSITIVE_INFINITY });
      }
    }
    last = time;
  }
  return Array.from(drafts.values(), ({ since, ...attempt }) => {
    return { ...attempt, workedMs: attempt.workedMs + Math.max(0, last - since) };
  });
}

type Change = Omit<Attempt, "at" | "startedAt" | "workedMs">;

/** How an event changes its attempt; undefined when the attempt continues to work. */
function changeBy(event: RunEvent, time: number): Change | undefined {
  if (event.type === "step.asked") return { outcome: "asked", message: event.question };
  if (event.type === "step.uncertain") {
    const { message, spent } = event;
    return { endedAt: time, outcome: "uncertain", message, ...defined({ spent }) };
  }
  const end = attemptEnd(event);
  return end && { endedAt: time, ...defined({ spent: end.spent }), ...outcomeOf(end) };
}

function outcomeOf(end: AttemptEnd): Pick<Attempt, "outcome" | "exit" | "reason" | "message"> {
  switch (end.type) {
    case "step.completed": {
      const { exit, settledBy, identity } = end;
      // A completion that a probe or a person confirmed has no exit status.
      if (settledBy === undefined) return { outcome: "completed", exit };
      return { outcome: "completed", message: confirmedText(settledBy, identity) };
    }
    case "step.failed": {
      const { reason, message, exit } = end;
      return { outcome: "failed", reason, message, ...defined({ exit }) };
    }
    case "step.lost":
      return { outcome: "lost", message: end.message };
    case "step.paused":
      return { outcome: "paused", message: `${end.reason}: ${end.message}` };
    case "step.interrupted":
      return { outcome: "interrupted", message: end.message };
    case "step.conflicted":
      return { outcome: "conflicted", message: end.message };
    case "step.continued":
      return { outcome: "continued", message: end.ask.why };
    case "step.submitted":
      return { outcome: "submitted", message: end.message ?? "finished, and handed to its judge" };
    case "step.relayed":
      return { outcome: "relayed", message: `handed over in ${end.checkpoint.path}` };
  }
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
