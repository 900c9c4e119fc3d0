/**
 * The documented summary of a run and its steps: the content of `pipeline_state` and `step_state`.
 */
import type { Plan } from "../plan/plan.ts";
import { statusWord } from "./graph/visit-state.ts";
import { waitsForPerson } from "./next-actions.ts";
import { currentVisit, type Run, type StepRecord, stepOf, type Visit } from "./run.ts";
import { stepPath } from "./step-path.ts";

/** `waiting`: nothing continues before a person answers. */
export type RunStatus = "queued" | "running" | "waiting" | "interrupted" | "completed" | "failed";

export type StepState =
  | "pending"
  | "running"
  | "waiting"
  | "completed"
  | "failed"
  | "retrying"
  | "skipped"
  | "interrupted";

export interface StepSummary {
  /** The step's id; for a step in a nested scope, its path. */
  readonly stepId: string;
  readonly state: StepState;
  readonly retryCount: number;
  readonly startedAt?: number;
  readonly completedAt?: number;
  readonly workspacePath?: string;
  readonly errorMessage?: string;
}

/** The changes of the summary tables after a batch of events. */
export interface SummaryChange {
  readonly status: RunStatus;
  readonly stepsCompleted: number;
  readonly stepsTotal: number;
  readonly steps: readonly StepSummary[];
}

/** The rows of a run that was just created: every step of the plan is pending. */
export function initialSummary(plan: Plan): SummaryChange {
  const steps = plan.graph.steps.map(({ id }) => pendingRow(id));
  return { status: "queued", stepsCompleted: 0, stepsTotal: steps.length, steps };
}

/** The workspace of a visit; the core knows only the run's shared one. */
export type WorkspaceOf = (run: Run, visit: Visit) => string | undefined;

const sharedWorkspace: WorkspaceOf = ({ workspace, created }) => workspace?.path ?? created?.cwd;

/** The rows that changed: those of the given steps. */
export function summaryOf(
  run: Run,
  changed: Iterable<StepRecord>,
  workspaceOf: WorkspaceOf = sharedWorkspace,
): SummaryChange {
  return {
    status: statusOf(run),
    stepsCompleted: run.stepsCompleted,
    stepsTotal: run.stepsTotal,
    steps: Array.from(changed, (record) => rowOf(run, record, workspaceOf)),
  };
}

/** All rows of a run, for rebuilding the tables. */
export function fullSummary(run: Run, workspaceOf: WorkspaceOf = sharedWorkspace): SummaryChange {
  const steps: StepSummary[] = [];
  for (const scope of run.scopes.values()) {
    scope.graph.steps.forEach((step, position) => {
      const record = scope.steps[position];
      steps.push(
        record === undefined ? pendingRow(scope.id + step.id) : rowOf(run, record, workspaceOf),
      );
    });
  }
  return { ...summaryOf(run, []), steps };
}

/** A run's status in the words of the documented table. */
export function statusOf(run: Run): RunStatus {
  switch (run.state.status) {
    case "created":
      return "queued";
    case "running":
      return waitsForPerson(run) ? "waiting" : "running";
    case "stopping":
      return "running";
    case "stopped":
      return "interrupted";
    default:
      return run.state.status;
  }
}

/** A step's state in the words of the documented table. */
export function stepStateOf(record: StepRecord): StepState {
  const visit = currentVisit(record);
  if (visit === undefined) return record.counted ? "skipped" : "pending";
  const status = statusWord(visit.state);
  switch (status) {
    case "ready":
      return visit.attempts > 0 ? "retrying" : "pending";
    case "waiting":
      return "retrying";
    case "asked":
    case "sleeping":
      return "waiting";
    case "abandoned":
      return "pending";
    case "uncertain":
      return "interrupted";
    default:
      return status;
  }
}

function pendingRow(stepId: string): StepSummary {
  return { stepId, state: "pending", retryCount: 0 };
}

function rowOf(run: Run, record: StepRecord, workspaceOf: WorkspaceOf): StepSummary {
  const visit = currentVisit(record);
  const stepId = stepPath({ scope: record.scope.id, step: stepOf(record).id });
  const state = visit?.state;
  const ended = state?.status === "completed" || state?.status === "failed";
  const path = visit === undefined || visit.attempts === 0 ? undefined : workspaceOf(run, visit);
  const error = state !== undefined && "message" in state ? state.message : undefined;
  return {
    stepId,
    state: stepStateOf(record),
    retryCount: Math.max(0, (visit?.attempts ?? 0) - 1),
    ...(visit?.startedAt === undefined ? {} : { startedAt: visit.startedAt }),
    ...(ended ? { completedAt: state.at } : {}),
    ...(path === undefined ? {} : { workspacePath: path }),
    ...(error === undefined ? {} : { errorMessage: error }),
  };
}
