/** A run for programs: `show` and `why` with `--json`, and the state of a run. */
import { reported } from "../../core/event-parts.ts";
import { visitRef } from "../../core/run.ts";
import { visitText } from "../../core/step-path.ts";
import { stepStateOf } from "../../core/summary.ts";
import { type Attempt, attemptHistory } from "../attempt-history.ts";
import { type ResultSummary, resultJson } from "../end-card.ts";
import { messagesJson } from "../message-text.ts";
import { noticesJson } from "../notification.ts";
import type { ShowInput } from "../show.ts";
import { runStatusOf, STEP_STYLES } from "../step-status.ts";
import { type StepNode, stepTree } from "../step-tree.ts";
import { isoText } from "../text.ts";
import { type WhyInput, why, whyAdvice } from "../why.ts";
import type { interruptedWork, PartOf, step } from "./document-parts.ts";
import type { DocumentJson } from "./documents.ts";
import { originJson, outputsJson, printed, spentJson, timeJson, usedJson } from "./part-json.ts";

/** The value of `show --json`. */
export function showJson(input: ShowInput, result?: ResultSummary): DocumentJson<"show"> {
  const { run, owner } = input;
  const { created } = run;
  const history = attemptHistory(input.events);
  return {
    ...standingJson(input),
    created_at: timeJson(created?.time),
    updated_at: isoText(run.updatedAt),
    cleaned_at: timeJson(input.cleanedAt),
    steps_completed: run.stepsCompleted,
    steps_total: run.stepsTotal,
    file: created?.file ?? null,
    cwd: created?.cwd ?? null,
    input: created?.input ?? null,
    args: created?.args ?? [],
    fingerprint: created?.fingerprint ?? null,
    forked_from: originJson(run.origin),
    owner:
      owner === undefined
        ? null
        : { pid: owner.pid, host: owner.host, user: owner.user, alive: input.liveness === "owned" },
    context: Object.fromEntries(run.context),
    spent: usedJson(run.spent),
    result: resultJson(result, input.shortId),
    messages: messagesJson(run),
    notices: noticesJson(input.notices ?? []),
    steps: Array.from(stepTree(run), (node) => stepJson(node, history)),
  };
}

/** How a run stands: in words, and what to do next. */
export function standingJson(input: WhyInput): DocumentJson<"standing"> {
  const { happened, done } = why(input);
  return {
    run_id: input.runId,
    pipeline: input.pipeline,
    status: runStatusOf(input.run, input.liveness),
    happened,
    done,
    next: whyAdvice(input).map(({ say, command }) => ({ text: say, command })),
  };
}

/** The value of `why --json`. */
export function whyJson(
  input: WhyInput,
  interrupted: readonly PartOf<typeof interruptedWork>[],
  warnings: readonly string[],
  result?: ResultSummary,
): DocumentJson<"why"> {
  const { output: check_output = [] } = why(input);
  return {
    ...standingJson(input),
    check_output,
    interrupted_work: interrupted,
    result: resultJson(result, input.shortId),
    warnings,
  };
}

function stepJson(
  node: StepNode,
  history: ReadonlyMap<string, readonly Attempt[]>,
): PartOf<typeof step> {
  const { visit, status, path, record } = node;
  const state = visit?.state;
  const attempts = visit && history.get(visitText(visitRef(visit)));
  const failed = state?.status === "failed" ? state : undefined;
  const completed = state?.status === "completed" ? state : undefined;
  const report = completed?.reported ?? failed?.reported;
  const exit = completed?.settledBy === undefined ? completed?.exit : undefined;
  return {
    step: path,
    status: record === undefined ? "pending" : stepStateOf(record),
    detail: STEP_STYLES[status].word,
    visit: visit?.number ?? 0,
    retries: Math.max(0, (visit?.attempts ?? 0) - 1),
    started_at: timeJson(visit?.startedAt),
    ended_at: timeJson(completed?.at ?? failed?.at),
    exit: exit ?? failed?.exit ?? null,
    reason: failed?.reason ?? null,
    message: state !== undefined && "message" in state ? state.message : null,
    settled_by: completed?.settledBy ?? null,
    identity: completed?.identity ?? null,
    reported: report === undefined ? null : printed(reported, report),
    outputs: outputsJson(completed?.outputs ?? {}),
    attempts: (attempts ?? []).map(stepAttemptJson),
  };
}

function stepAttemptJson(attempt: Attempt): PartOf<typeof step>["attempts"][number] {
  return {
    attempt: attempt.at.attempt,
    status: attempt.outcome,
    started_at: isoText(attempt.startedAt),
    ended_at: timeJson(attempt.endedAt),
    exit: attempt.exit ?? null,
    reason: attempt.reason ?? null,
    message: attempt.message ?? null,
    spent: spentJson(attempt.spent),
  };
}
