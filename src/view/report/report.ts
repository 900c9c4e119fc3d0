/**
 * The report of a run as one value, made from its journal; three formats are written from it.
 *
 * Owns: which questions the report answers.
 * Does not: use anything but the journal, except the ends of outputs that the caller passes.
 */
import type { Spent } from "../../core/event.ts";
import { findVisit, type Run, type Visit } from "../../core/run.ts";
import { addSpent, NOTHING_SPENT } from "../../core/spending.ts";
import { attemptText, stepPath } from "../../core/step-path.ts";
import { type RunStatus, type StepState, stepStateOf } from "../../core/summary.ts";
import type { Budget, Plan, Step } from "../../plan/plan.ts";
import { type Attempt, attemptsOf } from "../attempt-history.ts";
import { type Drawing, runDrawing } from "../graph/drawing.ts";
import { TINTS, type Tint } from "../graph/markup.ts";
import { resultText, type ShowInput } from "../show.ts";
import { elapsedOf, runElapsed, runStatusOf, type StepStatus, stateWord } from "../step-status.ts";
import { stepTree } from "../step-tree.ts";
import { type Why, why, whyAdvice } from "../why.ts";
import { contextHistory, decisionHistory, ownerHistory, visitHistory } from "./history.ts";
import { problemHistory } from "./problems.ts";

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
  readonly visits: ReturnType<typeof visitHistory>;
  readonly steps: readonly StepTotals[];
  readonly bars: readonly Bar[];
  readonly context: ReturnType<typeof contextHistory>;
  readonly problems: ReturnType<typeof problemHistory>;
  readonly owners: ReturnType<typeof ownerHistory>;
  readonly decisions: ReturnType<typeof decisionHistory>;
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
export interface Bar extends Omit<Attempt, "at"> {
  /** As in `fix@2.3`. */
  readonly at: string;
  readonly tint: Tint;
  readonly composite: boolean;
}

/** The report of a run. */
export function runReport(input: RunReportInput): RunReport {
  const { run, events, liveness, now, plan } = input;
  const { created } = run;
  const attempts = attemptsOf(events);
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
    steps: stepTotals(input, attempts),
    bars: attempts.map((attempt) => barOf(run, attempt)),
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

function stepTotals(input: RunReportInput, all: readonly Attempt[]): readonly StepTotals[] {
  const totals = new Map<string, Totals>();
  for (const { at, workedMs, spent } of all) {
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

/** The state of a step in whose colour the bar of an attempt is drawn. */
const BAR_STATES: Readonly<Record<Attempt["outcome"], StepStatus>> = {
  running: "running",
  completed: "completed",
  failed: "failed",
  lost: "failed",
  paused: "waiting",
  interrupted: "interrupted",
  uncertain: "uncertain",
  asked: "asked",
  waiting: "sleeping",
  continued: "completed",
  relayed: "completed",
  submitted: "completed",
  conflicted: "interrupted",
};

function barOf(run: Run, { at, ...attempt }: Attempt): Bar {
  const tint = TINTS[BAR_STATES[attempt.outcome]];
  return { ...attempt, at: attemptText(at), tint, composite: isOpened(findVisit(run, at)) };
}
