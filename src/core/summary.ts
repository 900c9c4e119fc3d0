/** The documented summary of a run and its steps: what `pipeline_state` and `step_state` hold. */

export type RunStatus = "queued" | "running" | "interrupted" | "completed" | "failed";

export type StepState =
  | "pending"
  | "running"
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

/** What a batch of events changed in the summary tables. */
export interface SummaryChange {
  readonly status: RunStatus;
  readonly stepsCompleted: number;
  readonly stepsTotal: number;
  readonly steps: readonly StepSummary[];
}
