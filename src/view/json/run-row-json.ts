/**
 * A run as the dashboard shows it outside of its steps: its row in the list of runs, what waits for a
 * person, and the head of the pages about the run.
 *
 * Does not: read output or files; the caller passes what it has read.
 */
import type { AttemptRef, Owner } from "../../core/event.ts";
import { type Run, type Visit, waitingFor } from "../../core/run.ts";
import type { RunStatus } from "../../core/summary.ts";
import type { Json } from "../../util/json.ts";
import { messageText } from "../failure-text.ts";
import { type Estimate, remainingMs } from "../preview/estimate.ts";
import { type Liveness, runElapsed, runStatusOf } from "../step-status.ts";
import { inputText, isoText } from "../text.ts";
import type { WhyInput } from "../why.ts";
import { questionsJson, refJson } from "./action-json.ts";
import type { inbox, runPage, runRows } from "./dashboard-documents.ts";
import type { DocumentOf } from "./document-parts.ts";
import { originJson, timeJson, usedJson } from "./part-json.ts";
import { standingJson } from "./run-json.ts";

type RunRowJson = DocumentOf<typeof runRows>["runs"][number];
type InboxJson = DocumentOf<typeof inbox>;

/** A run as a row. */
interface RowInput {
  readonly runId: string;
  readonly shortId: string;
  readonly project: string;
  readonly pipeline: string;
  readonly input: Json;
  readonly status: RunStatus;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly stepsCompleted: number;
  readonly stepsTotal: number;
  readonly currentStep?: string | undefined;
  readonly costUsd: number | undefined;
  readonly tokens: number;
  /** Undefined when nobody drives it. */
  readonly owner: Pick<Owner, "user" | "host"> | undefined;
  readonly file: string;
  readonly forkedFrom?: string | undefined;
  readonly cleanedAt?: number | undefined;
}

/** The row of a run. */
export function runRowJson(row: RowInput, now: number): RunRowJson {
  const { owner, status, createdAt, updatedAt } = row;
  const isOver = status === "completed" || status === "failed";
  const until = owner === undefined || isOver ? updatedAt : now;
  return {
    run_id: row.runId,
    short_id: row.shortId,
    project: row.project,
    pipeline: row.pipeline,
    about: inputText(row.input) ?? null,
    status,
    created_at: isoText(createdAt),
    updated_at: isoText(updatedAt),
    elapsed_ms: Math.max(0, until - createdAt),
    steps_completed: row.stepsCompleted,
    steps_total: row.stepsTotal,
    current_step: row.currentStep ?? null,
    cost_usd: row.costUsd ?? null,
    tokens: row.tokens === 0 ? null : row.tokens,
    owner: owner === undefined ? null : `${owner.user} on ${owner.host}`,
    file: row.file,
    forked_from: row.forkedFrom === undefined ? null : { run_id: row.forkedFrom },
    cleaned_at: timeJson(row.cleanedAt),
  };
}

/** A run that waits for a person. */
interface AskingInput {
  readonly runId: string;
  readonly shortId: string;
  readonly project: string;
  readonly pipeline: string;
  readonly run: Run;
  readonly liveness: Liveness;
  readonly questions: readonly { readonly visit: Visit; readonly answer?: unknown }[];
  readonly uncertain: readonly {
    readonly at: AttemptRef;
    readonly since: number;
    readonly message: string;
  }[];
}

/** Everything that waits for a person, the oldest first. */
export function inboxJson(runs: readonly AskingInput[]): InboxJson {
  const headOf = ({ runId, shortId, project, pipeline }: AskingInput) => ({
    ...{ run_id: runId, short_id: shortId, project, pipeline },
  });
  const questions = runs.flatMap((one) =>
    questionsJson(one.runId, one.questions).questions.map((question) => ({
      ...headOf(one),
      status: runStatusOf(one.run, one.liveness),
      ...question,
    })),
  );
  const uncertain = runs.flatMap((one) =>
    one.uncertain.map(({ at, since, message }) => ({
      ...headOf(one),
      ...refJson(at),
      since: isoText(since),
      message: messageText(message),
    })),
  );
  return {
    questions: questions.sort((a, b) => (a.asked_at < b.asked_at ? -1 : 1)),
    uncertain: uncertain.sort((a, b) => (a.since < b.since ? -1 : 1)),
  };
}

/** The head of every page of a run. */
export type OverviewJson = DocumentOf<typeof runPage>["overview"];

/** What the head of a run needs beside the run. */
interface OverviewInput extends WhyInput {
  /** The key of its project. */
  readonly project: string;
  readonly estimates: ReadonlyMap<string, Estimate>;
  readonly result: OverviewJson["result"];
  readonly failedOutput: readonly string[];
  /** What the agents that work now have used so far. */
  readonly runningUsd: number;
  readonly warnings: readonly string[];
}

/** The head of a run. */
export function overviewJson(input: OverviewInput): OverviewJson {
  const { run, liveness, now, owner } = input;
  const { created, state } = run;
  const isOver = state.status === "completed" || state.status === "failed";
  const remaining =
    isOver || liveness !== "owned" ? undefined : remainingMs(run, input.estimates, now);
  const { usd = null, tokens = null, turns = null, timeMs = null } = run.funds;
  return {
    ...standingJson(input),
    short_id: input.shortId,
    project: input.project,
    sequence: run.seq,
    created_at: isoText(created?.time ?? run.updatedAt),
    updated_at: isoText(run.updatedAt),
    ended_at: isOver ? isoText(run.updatedAt) : null,
    elapsed_ms: runElapsed(run, liveness, now),
    worked_ms: run.workedMs,
    estimate_ms: remaining ?? null,
    steps: stepCounts(run),
    spent: usedJson(run.spent),
    running_usd: input.runningUsd,
    budget: { usd, tokens, turns, time_ms: timeMs },
    owner:
      owner === undefined
        ? null
        : { pid: owner.pid, host: owner.host, user: owner.user, alive: liveness === "owned" },
    forked_from: originJson(run.origin),
    file: created?.file || null,
    directory: created?.cwd ?? null,
    input: created?.input ?? null,
    result: input.result,
    failed_output: input.failedOutput,
    warnings: input.warnings,
    cleaned_at: timeJson(input.cleanedAt),
  };
}

function stepCounts(run: Run): OverviewJson["steps"] {
  return {
    total: run.stepsTotal,
    completed: run.stepsCompleted,
    failed: run.failed.size,
    running: run.running.size,
    waiting: waitingFor(run, "person", "time", "retry", "owner", "probe").length,
  };
}
