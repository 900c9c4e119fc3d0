/**
 * The post-mortem of a run: everything that its journal tells about how it went, as one value.
 *
 * Owns: which questions are answered, and the value that all three formats are written from.
 * Does not: know anything that the journal does not hold, except the tails of outputs when the
 * caller brings them.
 */
import type { AttemptRef, Spent } from "../core/event.ts";
import { attemptText, stepPath } from "../core/place.ts";
import { findVisit, type Run, type Visit } from "../core/run.ts";
import { addSpent, NOTHING_SPENT } from "../core/spending.ts";
import type { RunStatus } from "../core/summary.ts";
import { statusWord } from "../core/visit-state.ts";
import type { Budget, Plan, Step } from "../plan/plan.ts";
import { type AttemptSpan, attemptSpans } from "./attempt-span.ts";
import { type ContextChange, contextHistory } from "./context-history.ts";
import { type Decision, decisionHistory } from "./decision-history.ts";
import { type Drawing, runDrawing } from "./graph-drawing.ts";
import { ownerHistory, type Reign } from "./owner-history.ts";
import { TINTS, type Tint } from "./palette.ts";
import { type ReportInput, resultText } from "./run-report.ts";
import { elapsedOf, runElapsed, runStatusOf, type StepStatus, stateWord } from "./step-status.ts";
import { stepTree } from "./step-tree.ts";
import { type Trouble, troubleHistory } from "./trouble-history.ts";
import { type VisitEntry, visitHistory } from "./visit-history.ts";
import { type Why, why } from "./why.ts";

export interface PostMortemInput extends ReportInput {
  readonly plan: Plan;
  /** The last lines that attempts printed, by attempt (`fix@2.3`). */
  readonly outputs?: ReadonlyMap<string, string>;
}

export interface PostMortem {
  readonly runId: string;
  readonly pipeline: string;
  readonly status: RunStatus;
  readonly words: Why;
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
  readonly context: readonly ContextChange[];
  readonly troubles: readonly Trouble[];
  readonly owners: readonly Reign[];
  readonly decisions: readonly Decision[];
  readonly outputs: ReadonlyMap<string, string>;
  readonly drawing: Drawing;
}

/** A step with what all its visits and attempts add up to. */
export interface StepTotals {
  readonly path: string;
  readonly label: string;
  readonly depth: number;
  readonly kind: Step["work"]["kind"];
  readonly status: StepStatus;
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
  /** "completed", "failed", ..., "running". */
  readonly outcome: string;
  readonly tint: Tint;
  readonly composite: boolean;
  readonly spent?: Spent;
}

/** The whole story of a run. */
export function postMortem(input: PostMortemInput): PostMortem {
  const { run, events, liveness, now, plan } = input;
  const { created } = run;
  const spans = attemptSpans(events);
  return {
    runId: input.runId,
    pipeline: input.pipeline,
    status: runStatusOf(run, liveness),
    words: why(input),
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
    troubles: troubleHistory(run, events),
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

function stepTotals(input: PostMortemInput, spans: readonly AttemptSpan[]): readonly StepTotals[] {
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
  "step.completed": "done",
  "step.failed": "failed",
  "step.lost": "failed",
  "step.paused": "waiting",
  "step.interrupted": "interrupted",
  "step.continued": "done",
  "step.relayed": "done",
  "step.submitted": "done",
  "step.conflicted": "interrupted",
};

/** What an attempt without an end is at. */
function openStatus(visit: Visit | undefined, at: AttemptRef): StepStatus {
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
    outcome: end === undefined ? open : end.type.slice("step.".length),
    tint: TINTS[end === undefined ? open : BAR_STATES[end.type]],
    composite: isOpened(findVisit(run, at)),
    ...(spent === undefined ? {} : { spent }),
  };
}
