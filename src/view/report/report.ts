/**
 * The report of a run as one value, made from its journal; three formats are written from it.
 *
 * Owns: which questions the report answers, and the time that each attempt worked.
 * Does not: use anything but the journal, except the ends of outputs that the caller passes.
 * Invariants:
 * - view/T1 Time without an owner is not working time, as in `run.workedMs`; a clock that was set
 *   back counts as no time.
 */
import type { AttemptEnd, AttemptRef, Recorded, Spent } from "../../core/event.ts";
import { statusWord } from "../../core/graph/visit-state.ts";
import { findVisit, type Run, type Visit } from "../../core/run.ts";
import { addSpent, NOTHING_SPENT } from "../../core/spending.ts";
import { attemptText, stepPath } from "../../core/step-path.ts";
import { type RunStatus, type StepState, stepStateOf } from "../../core/summary.ts";
import type { Budget, Plan, Step } from "../../plan/plan.ts";
import { type Attempt, attemptEnd, attemptOutcome } from "../attempt-history.ts";
import { type Drawing, runDrawing } from "../graph/drawing.ts";
import { TINTS, type Tint } from "../graph/markup.ts";
import { resultText, type ShowInput } from "../show.ts";
import { elapsedOf, runElapsed, runStatusOf, type StepStatus, stateWord } from "../step-status.ts";
import { stepTree } from "../step-tree.ts";
import { type Why, why, whyAdvice } from "../why.ts";
import {
  type ContextWrite,
  contextHistory,
  type Decision,
  decisionHistory,
  type Ownership,
  ownerHistory,
  type VisitEntry,
  visitHistory,
} from "./history.ts";
import { type Problem, problemHistory } from "./problems.ts";

interface RunReportInput extends ShowInput {
  readonly plan: Plan;
  /** The last lines that attempts printed, by attempt (`fix@2.3`). */
  readonly outputs?: ReadonlyMap<string, string>;
}

export interface RunReport {
  readonly runId: string;
  readonly pipeline: string;
  readonly status: RunStatus;
  readonly words: Why;
  readonly advice: ReturnType<typeof whyAdvice>;
  readonly run: Run;
  readonly startedAt?: number;
  readonly endedAt: number;
  readonly elapsedMs: number;
  /** How long attempts have run, all together. */
  readonly workedMs: number;
  readonly spent: Spent;
  readonly budget: Budget;
  readonly visits: readonly VisitEntry[];
  readonly steps: readonly StepTotals[];
  readonly bars: readonly Bar[];
  readonly context: readonly ContextWrite[];
  readonly problems: readonly Problem[];
  readonly owners: readonly Ownership[];
  readonly decisions: readonly Decision[];
  readonly outputs: ReadonlyMap<string, string>;
  readonly drawing: Drawing;
}

/** A step with what all its visits and attempts add up to. */
interface StepTotals {
  readonly path: string;
  readonly label: string;
  readonly depth: number;
  readonly kind: Step["work"]["kind"];
  readonly status: StepStatus;
  /** The documented state. */
  readonly summary: StepState;
  readonly state: string;
  readonly visits: number;
  readonly attempts: number;
  /** Of a composite step: from its start to its end. */
  readonly workedMs: number;
  readonly spent?: Spent;
  readonly result: string;
}

/** One attempt on the timeline. */
export interface Bar {
  /** As in `fix@2.3`. */
  readonly at: string;
  readonly startedAt: number;
  readonly endedAt?: number;
  readonly workedMs: number;
  readonly outcome: Attempt["outcome"];
  readonly tint: Tint;
  readonly composite: boolean;
  readonly spent?: Spent;
}

/** The report of a run. */
export function runReport(input: RunReportInput): RunReport {
  const { run, events, liveness, now, plan } = input;
  const { created } = run;
  const spans = attemptSpans(events);
  return {
    runId: input.runId,
    pipeline: input.pipeline,
    status: runStatusOf(run, liveness),
    words: why(input),
    advice: whyAdvice(input),
    run,
    ...(created === undefined ? {} : { startedAt: created.time }),
    endedAt: run.updatedAt,
    elapsedMs: runElapsed(run, liveness, now),
    workedMs: run.workedMs,
    spent: run.spent,
    budget: run.funds,
    visits: visitHistory(run, events),
    steps: stepTotals(input, spans),
    bars: spans.map((span) => barOf(run, span)),
    context: contextHistory(run, events),
    problems: problemHistory(run, events),
    owners: ownerHistory(events, liveness),
    decisions: decisionHistory(run, events),
    outputs: input.outputs ?? new Map<string, string>(),
    drawing: runDrawing(plan, run, events, liveness),
  };
}

interface Totals {
  readonly attempts: number;
  readonly workedMs: number;
  readonly spent: Spent | undefined;
}

function stepTotals(input: RunReportInput, spans: readonly AttemptSpan[]): readonly StepTotals[] {
  const totals = new Map<string, Totals>();
  for (const { at, workedMs, spent } of spans) {
    const known = totals.get(stepPath(at));
    totals.set(stepPath(at), {
      attempts: (known?.attempts ?? 0) + 1,
      workedMs: (known?.workedMs ?? 0) + workedMs,
      spent: spent === undefined ? known?.spent : addSpent(known?.spent ?? NOTHING_SPENT, spent),
    });
  }
  return Array.from(stepTree(input.run), (node) => {
    const { path, label, depth, status, visit, record, step } = node;
    const { attempts = 0, workedMs = 0, spent } = totals.get(path) ?? {};
    return {
      path,
      label,
      depth,
      kind: step.work.kind,
      status,
      summary: record === undefined ? "pending" : stepStateOf(record),
      state: stateWord(status, input.liveness),
      visits: record?.visits.length ?? 0,
      attempts,
      workedMs: isOpened(visit) ? (elapsedOf(visit, input.liveness, input.now) ?? 0) : workedMs,
      ...(spent === undefined ? {} : { spent }),
      result: visit === undefined ? "" : resultText(visit, input.now),
    };
  });
}

function isOpened(visit: Visit | undefined): visit is Visit {
  return visit?.instances !== undefined;
}

const BAR_STATES: Readonly<Record<NonNullable<AttemptSpan["end"]>["type"], StepStatus>> = {
  "step.completed": "completed",
  "step.failed": "failed",
  "step.lost": "failed",
  "step.paused": "waiting",
  "step.interrupted": "interrupted",
  "step.continued": "completed",
  "step.relayed": "completed",
  "step.submitted": "completed",
  "step.conflicted": "interrupted",
};

const OPEN_OUTCOMES = { asked: "asked", sleeping: "waiting", running: "running" } as const;

/** The state of an attempt that has not ended. */
function openStatus(visit: Visit | undefined, at: AttemptRef): keyof typeof OPEN_OUTCOMES {
  const status = visit?.attempts === at.attempt ? statusWord(visit.state) : undefined;
  return status === "asked" || status === "sleeping" ? status : "running";
}

function barOf(run: Run, span: AttemptSpan): Bar {
  const { at, startedAt, endedAt, workedMs, end, spent } = span;
  const open = openStatus(findVisit(run, at), at);
  return {
    at: attemptText(at),
    startedAt,
    ...(endedAt === undefined ? {} : { endedAt }),
    workedMs,
    outcome: end === undefined ? OPEN_OUTCOMES[open] : attemptOutcome(end),
    tint: TINTS[end === undefined ? open : BAR_STATES[end.type]],
    composite: isOpened(findVisit(run, at)),
    ...(spent === undefined ? {} : { spent }),
  };
}

/** An attempt as a stretch of time. */
export interface AttemptSpan {
  readonly at: AttemptRef;
  readonly startedAt: number;
  /** Absent while it runs, as far as the journal knows. */
  readonly endedAt?: number;
  readonly workedMs: number;
  readonly end?: AttemptEnd;
  readonly spent?: Spent;
}

interface OpenSpan {
  readonly index: number;
  readonly at: AttemptRef;
  readonly startedAt: number;
  /** When uncounted working time began; never, once only the effect is uncertain. */
  uncounted: number;
  workedMs: number;
  spent?: Spent;
}

/** The spans of all attempts, in the order in which they started. */
export function attemptSpans(events: Iterable<Recorded>): readonly AttemptSpan[] {
  const spans: AttemptSpan[] = [];
  const open = new Map<string, OpenSpan>();
  let last = 0;
  for (const { event, time } of events) {
    if (event.type === "step.started") {
      const { scope, step, visit, attempt } = event;
      const at = { scope, step, visit, attempt };
      const index = spans.push({ at, startedAt: time, workedMs: 0 }) - 1;
      open.set(attemptText(at), { index, at, startedAt: time, uncounted: time, workedMs: 0 });
    }
    if (event.type === "run.opened") {
      for (const span of open.values()) {
        span.workedMs += Math.max(0, last - span.uncounted);
        if (Number.isFinite(span.uncounted)) span.uncounted = time;
      }
    }
    // Nothing works while a person is asked, or while only time passes.
    const idle = event.type === "step.asked" || (event.type === "step.started" && event.wake);
    if (idle) rest(open.get(attemptText(event)), time);
    if (event.type === "step.uncertain")
      uncertainty(open.get(attemptText(event)), event.spent, time);
    const end = attemptEnd(event);
    const span = end && open.get(attemptText(end));
    if (end !== undefined && span !== undefined) {
      open.delete(attemptText(end));
      spans[span.index] = closed(span, end, time);
    }
    last = time;
  }
  for (const { index, at, startedAt, uncounted, workedMs } of open.values()) {
    spans[index] = { at, startedAt, workedMs: workedMs + Math.max(0, last - uncounted) };
  }
  return spans;
}

function rest(span: OpenSpan | undefined, time: number): void {
  if (span === undefined) return;
  span.workedMs += Math.max(0, time - span.uncounted);
  span.uncounted = Number.POSITIVE_INFINITY;
}

/** The process has ended; whether its effect happened becomes known later. */
function uncertainty(span: OpenSpan | undefined, spent: Spent | undefined, time: number): void {
  if (span === undefined) return;
  span.workedMs += Math.max(0, time - span.uncounted);
  span.uncounted = Number.POSITIVE_INFINITY;
  if (spent !== undefined) span.spent = spent;
}

function closed(span: OpenSpan, end: AttemptEnd, time: number): AttemptSpan {
  const { at, startedAt, uncounted } = span;
  const workedMs = span.workedMs + Math.max(0, time - uncounted);
  const base = { at, startedAt, endedAt: time, workedMs, end };
  const spent = end.spent ?? span.spent;
  return spent === undefined ? base : { ...base, spent };
}
