/** `report --format json`: the report for programs. docs/REPORT.md describes its fields. */
import type { Json, JsonObject } from "../../util/json.ts";
import { spentJson, usedJson } from "../cost-text.ts";
import { timeJson } from "../json/run-json.ts";
import { isoText } from "../text.ts";
import type { Bar, RunReport, StepTotals } from "./report.ts";

/** The version of the report's shape. */
const REPORT_VERSION = 1;

/** The whole report; nothing is left out. */
export function reportJson(report: RunReport): JsonObject {
  const { run } = report;
  const { created } = run;
  return {
    version: REPORT_VERSION,
    run_id: report.runId,
    pipeline: report.pipeline,
    status: report.status,
    happened: report.words.happened,
    done: report.words.done,
    next: report.words.commands,
    ...(report.words.output === undefined ? {} : { check_output: report.words.output }),
    file: created?.file ?? null,
    cwd: created?.cwd ?? null,
    input: created?.input ?? null,
    fingerprint: created?.fingerprint ?? null,
    started_at: timeJson(report.startedAt),
    ended_at: isoText(report.endedAt),
    elapsed_ms: report.elapsedMs,
    worked_ms: report.workedMs,
    spent: usedJson(report.spent),
    budget: budgetJson(report),
    visits: report.visits.map((visit) => ({
      visit: visit.path,
      started_at: isoText(visit.startedAt),
      ended_at: timeJson(visit.endedAt),
      attempts: visit.attempts,
      outcome: visit.outcome,
      next: visit.next,
    })),
    steps: report.steps.map(stepJson),
    attempts: report.bars.map(barJson),
    context: report.context.map(({ seq, time, by, key, before, after }) => ({
      seq,
      time: isoText(time),
      by,
      key,
      before: before ?? null,
      is_new: before === undefined,
      after,
    })),
    problems: report.problems.map(({ time, ...problem }) => ({ ...problem, time: isoText(time) })),
    owners: report.owners.map(({ epoch, owner, from, until, left }) => ({
      epoch,
      pid: owner.pid,
      host: owner.host,
      user: owner.user,
      from: isoText(from),
      until: isoText(until),
      left,
    })),
    decisions: report.decisions.map(({ time, ...decision }) => ({
      ...decision,
      time: isoText(time),
    })),
    outputs: Object.fromEntries(report.outputs),
  };
}

/** The limits; null means no limit. */
function budgetJson({ budget: { usd, tokens, turns, timeMs } }: RunReport): Json {
  return {
    usd: usd ?? null,
    tokens: tokens ?? null,
    turns: turns ?? null,
    time_ms: timeMs ?? null,
  };
}

function stepJson(step: StepTotals): Json {
  return {
    step: step.path,
    kind: step.kind,
    state: step.state,
    visits: step.visits,
    attempts: step.attempts,
    worked_ms: step.workedMs,
    spent: spentJson(step.spent),
    result: step.result,
  };
}

function barJson(bar: Bar): Json {
  return {
    attempt: bar.at,
    outcome: bar.outcome,
    started_at: isoText(bar.startedAt),
    ended_at: timeJson(bar.endedAt),
    worked_ms: bar.workedMs,
    composite: bar.composite,
    spent: spentJson(bar.spent),
  };
}
