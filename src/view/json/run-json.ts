/**
 * A run for programs: `show`, `why` and `list` with `--output json`, and the stream of events.
 * `pipeline_id` is the documented name of `run_id`.
 */
import type { Recorded, RunEvent } from "../../core/event.ts";
import { type Run, visitRef } from "../../core/run.ts";
import { visitText } from "../../core/step-path.ts";
import { stepStateOf } from "../../core/summary.ts";
import type { Json, JsonObject } from "../../util/json.ts";
import { type Attempt, attemptHistory } from "../attempt-history.ts";
import { stepReportJson } from "../attempt-text.ts";
import { attemptSpentJson, usedJson } from "../cost-text.ts";
import { messagesJson } from "../message-text.ts";
import type { ShowInput } from "../show.ts";
import { runStatusOf, STEP_STYLES } from "../step-status.ts";
import { type StepNode, stepTree } from "../step-tree.ts";
import { isoText } from "../text.ts";
import { type WhyInput, why } from "../why.ts";

/** The value of `show --output json`. */
export function showJson(input: ShowInput): JsonObject {
  const { run, owner } = input;
  const { created } = run;
  const history = attemptHistory(input.events);
  const { happened, done, next, commands } = why(input);
  return {
    run_id: input.runId,
    pipeline_id: input.runId,
    pipeline_name: input.pipeline,
    status: runStatusOf(run, input.liveness),
    created_at: timeJson(created?.time),
    updated_at: isoText(run.updatedAt),
    cleaned_at: timeJson(input.cleanedAt),
    steps_completed: run.stepsDone,
    steps_total: run.stepsTotal,
    file: created?.file ?? null,
    cwd: created?.cwd ?? null,
    input: created?.input ?? null,
    args: created?.args ?? [],
    fingerprint: created?.fingerprint ?? null,
    forked_from: originJson(run.origin),
    owner: owner === undefined ? null : { pid: owner.pid, host: owner.host, user: owner.user },
    owner_alive: input.liveness === "owned",
    context: Object.fromEntries(run.context),
    spent: usedJson(run.spent),
    messages: messagesJson(run),
    steps: Array.from(stepTree(run), (node) => stepJson(node, history)),
    why: { happened, done, next, commands },
  };
}

/** The value of `why --output json`. */
export function whyJson(input: WhyInput): JsonObject {
  const { run, runId, liveness } = input;
  return { run_id: runId, status: runStatusOf(run, liveness), ...why(input) };
}

/** Where a fork comes from: the run, and the last event that both share. */
export function originJson(origin: Run["origin"]): Json {
  return origin === undefined ? null : { run_id: origin.run, sequence: origin.seq };
}

/** A moment as JSON; null when there is none. */
export function timeJson(time: number | undefined): Json {
  return time === undefined ? null : isoText(time);
}

function stepJson(node: StepNode, history: ReadonlyMap<string, readonly Attempt[]>): JsonObject {
  const { visit, status, path, record } = node;
  const state = visit?.state;
  const attempts = visit && history.get(visitText(visitRef(visit)));
  const failed = state?.status === "failed" ? state : undefined;
  const completed = state?.status === "completed" ? state : undefined;
  const message = state !== undefined && "message" in state ? state.message : null;
  return {
    step_id: path,
    state: record === undefined ? "pending" : stepStateOf(record),
    detail: STEP_STYLES[status].word,
    visit: visit?.number ?? 0,
    retry_count: Math.max(0, (visit?.attempts ?? 0) - 1),
    started_at: timeJson(visit?.startedAt),
    completed_at: timeJson(completed?.at ?? failed?.at),
    exit: (completed?.settledBy === undefined ? completed?.exit : null) ?? failed?.exit ?? null,
    reason: failed?.reason ?? null,
    ...(completed?.settledBy && {
      settled_by: completed.settledBy,
      identity: completed.identity ?? null,
    }),
    error_message: message,
    ...stepReportJson(completed?.reported ?? failed?.reported),
    outputs: outputsJson(completed?.outputs ?? {}),
    attempts: (attempts ?? []).map(attemptJson),
  };
}

/** Outputs as JSON: name -> path, hash and size. */
export function outputsJson(
  outputs: Readonly<Record<string, { path: string; sha256: string; bytes: number }>>,
): JsonObject {
  return Object.fromEntries(
    Object.entries(outputs).map(([name, { path, sha256, bytes }]) => [
      name,
      { path, sha256, bytes },
    ]),
  );
}

function attemptJson(attempt: Attempt): JsonObject {
  return {
    attempt: attempt.at.attempt,
    state: attempt.outcome,
    started_at: isoText(attempt.startedAt),
    ended_at: timeJson(attempt.endedAt),
    exit: attempt.exit ?? null,
    reason: attempt.reason ?? null,
    message: attempt.message ?? null,
    ...(attempt.spent === undefined ? {} : { cost: attemptSpentJson(attempt.spent) }),
  };
}

/** An event with its run and its number. */
export type EventJson = {
  /** The version of the events' format. */
  readonly v: number;
  readonly run_id: string;
  readonly seq: number;
  /** ISO 8601, UTC. */
  readonly time: string;
} & RunEvent;

/** The only form in which events leave the program; it leaves out the marks of secrets. */
export function eventJson(runId: string, { seq, time, version, event }: Recorded): EventJson {
  const json = { v: version, run_id: runId, seq, time: isoText(time), ...event };
  if ("secrets" in json) delete json.secrets;
  return json;
}
