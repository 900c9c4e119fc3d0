/** The rows of the runs of all projects, and what waits for a person, as the dashboard shows them. */
import type { AttemptRef, Owner } from "../../core/event.ts";
import type { Run, Visit } from "../../core/run.ts";
import type { RunStatus } from "../../core/summary.ts";
import type { Json } from "../../util/json.ts";
import { messageText } from "../failure-text.ts";
import { inputText } from "../input-text.ts";
import { type Liveness, runStatusOf } from "../step-status.ts";
import { isoText } from "../text.ts";
import { questionsJson, refJson } from "./action-json.ts";
import type { inbox, runRows } from "./dashboard-documents.ts";
import type { DocumentOf } from "./document-parts.ts";
import { timeJson } from "./part-json.ts";

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
