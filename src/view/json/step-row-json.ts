/**
 * One row for each step of a run, for pages: of a run, of a moment, of two runs side by side.
 *
 * Owns: the values of a row. What an agent does at this moment is an argument: no event holds it.
 */
import { type Instances, type Run, stepOf, type Visit } from "../../core/run.ts";
import { stepStateOf } from "../../core/summary.ts";
import { resultText } from "../show.ts";
import { elapsedOf, type Liveness, STEP_STYLES, stateWord } from "../step-status.ts";
import { type StepNode, stepTree } from "../step-tree.ts";
import { firstLine } from "../text.ts";
import type { runPage } from "./dashboard-documents.ts";
import type { DocumentOf } from "./document-parts.ts";
import { timeJson } from "./part-json.ts";

/** The row of a step. */
export type StepRowJson = DocumentOf<typeof runPage>["steps"][number];

interface RowInput {
  readonly liveness: Liveness;
  readonly now: number;
  /** Of agents that work: what each uses and does, by the path of its step. */
  readonly activities?: ReadonlyMap<string, AgentActivity>;
}

interface AgentActivity {
  readonly turns: number;
  readonly costUsd?: number | undefined;
  readonly tool?: string | undefined;
}

/** The rows of a run, each after the composite step that it is in. */
export function stepRowsJson(run: Run, input: RowInput): readonly StepRowJson[] {
  return Array.from(stepTree(run), (node) => stepRowJson(node, input));
}

/** The row of one step. */
export function stepRowJson(node: StepNode, input: RowInput): StepRowJson {
  const { path, label, step, visit, status } = node;
  const state = visit?.state;
  const ended = state?.status === "completed" || state?.status === "failed" ? state.at : undefined;
  const activity = input.activities?.get(path);
  const { spent } = visit ?? {};
  return {
    step: path,
    parent: parentOf(path),
    label,
    kind: step.work.kind,
    status: documentedStatus(node, input.liveness),
    detail: stateWord(status, input.liveness),
    visit: visit?.number ?? 0,
    attempt: visit?.attempts ?? 0,
    started_at: timeJson(visit?.startedAt),
    ended_at: timeJson(ended),
    worked_ms: (visit && elapsedOf(visit, input.liveness, input.now)) ?? 0,
    cost_usd: activity?.costUsd ?? spent?.costUsd ?? null,
    tokens: spent === undefined ? null : spent.inputTokens + spent.outputTokens,
    turns: activity?.turns ?? spent?.turns ?? null,
    tool: activity?.tool ?? null,
    items: itemsOf(visit),
    message: visit === undefined ? null : messageOf(visit, status, input.now),
  };
}

/** Without an owner, a running step is only known to have run. */
function documentedStatus({ record, status }: StepNode, liveness: Liveness): StepRowJson["status"] {
  if (status === "running" && liveness !== "owned") return "interrupted";
  return record === undefined ? "pending" : stepStateOf(record);
}

/** The path of the composite step around a step: `map` for `map@1.1[3]/fix`; null at the top. */
function parentOf(path: string): string | null {
  const scope = path.slice(0, path.lastIndexOf("/"));
  return /^(.*)@\d+\.\d+\[\d+\]$/.exec(scope)?.[1] ?? null;
}

function itemsOf(visit: Visit | undefined): StepRowJson["items"] {
  const { instances } = visit ?? {};
  if (visit === undefined || instances === undefined) return null;
  const { kind } = stepOf(visit).work;
  return kind === "each" || kind === "branches" ? countsOf(instances) : null;
}

function countsOf({ total, opened, ended, failed }: Instances): StepRowJson["items"] {
  return {
    total,
    completed: ended - failed,
    failed,
    running: opened - ended,
    waiting: total - opened,
  };
}

/** Why a step failed or waits, in one line. */
function messageOf(visit: Visit, status: StepNode["status"], now: number): string | null {
  const { tone } = STEP_STYLES[status];
  if (tone !== "bad" && tone !== "wait" && status !== "handled") return null;
  const text = firstLine(resultText(visit, now));
  return text === "" ? null : text;
}
