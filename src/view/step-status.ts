/**
 * The state of a step as a person sees it: one word, one glyph, one tone for each.
 *
 * Owns: these words. Every table, report and screen takes them from here.
 * Does not: know about owners; the caller says whether the run has one.
 */

import { statusWord } from "../core/graph/visit-state.ts";
import { waitsForPerson } from "../core/next-actions.ts";
import { currentVisit, type Run, type StepRecord, type Visit } from "../core/run.ts";
import type { RunStatus } from "../core/summary.ts";
import type { Tone } from "./text.ts";

export type StepStatus =
  | "pending"
  | "ready"
  | "running"
  | "waiting"
  | "interrupted"
  | "uncertain"
  | "asked"
  | "sleeping"
  | "completed"
  | "assumed"
  | "failed"
  | "handled"
  | "skipped"
  | "unreached";

/** Whether a run has an owner: a living one, one that died, or none. */
export type Liveness = "owned" | "orphaned" | "free";

interface StepStyle {
  readonly glyph: string;
  readonly word: string;
  readonly tone: Tone;
}

/** How each state looks. */
export const STEP_STYLES: Readonly<Record<StepStatus, StepStyle>> = {
  pending: { glyph: "·", word: "pending", tone: "dim" },
  ready: { glyph: "·", word: "ready", tone: "dim" },
  running: { glyph: "▶", word: "running", tone: "busy" },
  waiting: { glyph: "↻", word: "retrying", tone: "wait" },
  interrupted: { glyph: "‖", word: "interrupted", tone: "wait" },
  uncertain: { glyph: "?", word: "uncertain", tone: "wait" },
  asked: { glyph: "◆", word: "asking", tone: "wait" },
  sleeping: { glyph: "◌", word: "waiting", tone: "wait" },
  completed: { glyph: "✓", word: "completed", tone: "good" },
  assumed: { glyph: "✓", word: "assumed completed", tone: "good" },
  failed: { glyph: "✗", word: "failed", tone: "bad" },
  handled: { glyph: "✗", word: "failed, handled", tone: "dim" },
  skipped: { glyph: "–", word: "skipped", tone: "dim" },
  unreached: { glyph: "–", word: "not reached", tone: "dim" },
};

/** How each status of a run looks. */
export const RUN_STYLES: Readonly<Record<RunStatus, Omit<StepStyle, "word">>> = {
  queued: STEP_STYLES.pending,
  running: STEP_STYLES.running,
  waiting: STEP_STYLES.asked,
  interrupted: STEP_STYLES.interrupted,
  completed: STEP_STYLES.completed,
  failed: STEP_STYLES.failed,
};

/** The state of a step, by its current visit. */
export function statusOf(record: StepRecord | undefined): StepStatus {
  const visit = currentVisit(record);
  if (visit !== undefined) return visitStatus(visit);
  return record?.counted === true ? "unreached" : "pending";
}

/** The state of one visit, be it the current one or an earlier one. */
export function visitStatus({ state }: Visit): StepStatus {
  const word = statusWord(state);
  switch (word) {
    case "completed":
      return "assumed" in state && state.assumed ? "assumed" : "completed";
    case "failed":
      return "handled" in state && state.handled ? "handled" : "failed";
    case "abandoned":
      return "pending";
    default:
      return word;
  }
}

/** The word for a state; without a living owner, a running step is only known to have run. */
export function stateWord(status: StepStatus, liveness: Liveness): string {
  const { word } = STEP_STYLES[status];
  return status === "running" && liveness !== "owned" ? "was running" : word;
}

/** The documented status of a run, given whether it has an owner. */
export function runStatusOf(run: Run, liveness: Liveness): RunStatus {
  switch (run.state.status) {
    case "completed":
    case "failed":
      return run.state.status;
    case "stopped":
      return "interrupted";
    case "created":
      return liveness === "owned" ? "queued" : "interrupted";
    default:
      if (waitsForPerson(run)) return "waiting";
      return liveness === "owned" ? "running" : "interrupted";
  }
}

/** How long a visit has taken, when that is known. Without an owner, nobody watches the process. */
export function elapsedOf(visit: Visit, liveness: Liveness, now: number): number | undefined {
  const { state, startedAt } = visit;
  switch (state.status) {
    case "running":
      return liveness === "owned" ? Math.max(0, now - state.since) : undefined;
    case "waiting":
      // Gates and waits need no owner for their time to pass.
      if (state.for === "person" || state.for === "time") return Math.max(0, now - state.since);
      return undefined;
    case "completed":
    case "failed":
    case "skipped":
      // A visit that ends in the same instant has no process and no time to show.
      return startedAt === undefined || state.at <= startedAt ? undefined : state.at - startedAt;
    default:
      return undefined;
  }
}

/**
 * The number of the current or next attempt, and the last one that the visit may have. Lost, paused
 * and interrupted attempts use up no retries, so after one of them the last number is not known.
 */
export function attemptOrdinal(visit: Visit): { readonly number: number; readonly last?: number } {
  const status = statusWord(visit.state);
  // A completed attempt uses up no retry.
  const current = ["running", "asked", "sleeping", "completed"].includes(status);
  const ended = current ? visit.attempts - 1 : visit.attempts;
  const comes = status === "ready" || status === "waiting" || status === "interrupted";
  const number = comes ? visit.attempts + 1 : visit.attempts;
  if (ended > visit.failures) return { number };
  return { number, last: Math.max(number, visit.failuresMax) };
}

/** "attempt 2 of 3", "attempt 7"; empty when there is only one. */
export function attemptWords(visit: Visit): string {
  const { number, last } = attemptOrdinal(visit);
  if (last === undefined) return `attempt ${number}`;
  return last > 1 ? `attempt ${number} of ${last}` : "";
}

/** How long a run has taken so far, or took. */
export function runElapsed(run: Run, liveness: Liveness, now: number): number {
  const active = run.state.status === "running" || run.state.status === "stopping";
  const end = active && liveness === "owned" ? now : run.updatedAt;
  return Math.max(0, end - (run.created?.time ?? end));
}
