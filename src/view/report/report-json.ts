/** `report --format json`: the report for programs. docs/REPORT.md describes its fields. */
import type { Json, JsonObject } from "../../util/json.ts";
import { spentJson, usedJson } from "../cost-text.ts";
import { isoText } from "../text.ts";
import type { Bar, RunReport, StepTotals } from "./report.ts";

/** The version of the report's shape. */
export const REPORT_VERSION = 1;

/** The whole report; nothing is left out. */
export function reportJson(story: RunReport): JsonObject {
  const { run } = story;
  const { created } = run;
  return {
    version: REPORT_VERSION,
    run_id: story.runId,
    pipeline: story.pipeline,
    status: story.status,
    happened: story.words.happened,
    done: story.words.done,
    next: story.words.commands,
    ...(story.words.output === undefined ? {} : { check_output: story.words.output }),
    file: created?.file ?? null,
    cwd: created?.cwd ?? null,
    input: created?.input ?? null,
    fingerprint: created?.fingerprint ?? null,
    started_at: timeJson(story.startedAt),
    ended_at: isoText(story.endedAt),
    elapsed_ms: story.elapsedMs,
    worked_ms: story.workedMs,
    spent: usedJson(story.spent),
    budget: budgetJson(story),
    visits: story.visits.map((visit) => ({
      visit: visit.path,
      started_at: isoText(visit.startedAt),
      ended_at: timeJson(visit.endedAt),
      attempts: visit.attempts,
      outcome: visit.outcome,
      next: visit.next,
    })),
    steps: story.steps.map(stepJson),
    attempts: story.bars.map(barJson),
    context: story.context.map(({ seq, time, by, key, before, after }) => ({
      seq,
      time: isoText(time),
      by,
      key,
      before: before ?? null,
      is_new: before === undefined,
      after,
    })),
    problems: story.problems.map(({ time, ...problem }) => ({ ...problem, time: isoText(time) })),
    owners: story.owners.map(({ epoch, owner, from, until, left }) => ({
      epoch,
      pid: owner.pid,
      host: owner.host,
      user: owner.user,
      from: isoText(from),
      until: isoText(until),
      left,
    })),
    decisions: story.decisions.map(({ time, ...decision }) => ({
      ...decision,
      time: isoText(time),
    })),
    outputs: Object.fromEntries(story.outputs),
  };
}

function timeJson(time: number | undefined): Json {
  return time === undefined ? null : isoText(time);
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
