/** `report --json`: the report for programs. docs/REPORT.md describes its fields. */
import { parseVisit, stepPath } from "../../core/step-path.ts";
import type { PartOf, reportParts } from "../json/document-parts.ts";
import type { DocumentJson } from "../json/documents.ts";
import { attemptJson, spentJson, timeJson, usedJson } from "../json/part-json.ts";
import { isoText } from "../text.ts";
import type { RunReport } from "./report.ts";

/** The whole report; nothing is left out. */
export function reportJson(report: RunReport): DocumentJson<"report"> {
  const { run, words, advice, budget } = report;
  const { created } = run;
  return {
    run_id: report.runId,
    pipeline: report.pipeline,
    status: report.status,
    happened: words.happened,
    done: words.done,
    next: advice.map(({ say, command }) => ({ text: say, command })),
    check_output: words.output ?? [],
    file: created?.file ?? null,
    cwd: created?.cwd ?? null,
    input: created?.input ?? null,
    fingerprint: created?.fingerprint ?? null,
    started_at: timeJson(report.startedAt),
    ended_at: isoText(report.endedAt),
    elapsed_ms: report.elapsedMs,
    worked_ms: report.workedMs,
    spent: usedJson(report.spent),
    // Null means no limit.
    budget: {
      usd: budget.usd ?? null,
      tokens: budget.tokens ?? null,
      turns: budget.turns ?? null,
      time_ms: budget.timeMs ?? null,
    },
    ...worksJson(report),
    ...historyJson(report),
  };
}

type Parts = { readonly [K in keyof typeof reportParts]: PartOf<(typeof reportParts)[K]> };

/** What ran: visits, steps and attempts. */
function worksJson(report: RunReport): Pick<Parts, "visits" | "steps" | "attempts" | "outputs"> {
  return {
    visits: report.visits.map(({ path, startedAt, endedAt, attempts, outcome, ledTo }) => {
      const named = parseVisit(path);
      return {
        step: stepPath(named),
        visit: named.visit ?? 0,
        detail: outcome,
        started_at: isoText(startedAt),
        ended_at: timeJson(endedAt),
        attempts,
        led_to: ledTo,
      };
    }),
    steps: report.steps.map((step) => ({
      step: step.path,
      kind: step.kind,
      status: step.summary,
      detail: step.state,
      visits: step.visits,
      attempts: step.attempts,
      worked_ms: step.workedMs,
      spent: spentJson(step.spent),
      result: step.result,
    })),
    attempts: report.bars.map((bar) => ({
      ...attemptJson(bar.at),
      status: bar.outcome,
      started_at: isoText(bar.startedAt),
      ended_at: timeJson(bar.endedAt),
      worked_ms: bar.workedMs,
      composite: bar.composite,
      spent: spentJson(bar.spent),
    })),
    outputs: Array.from(report.outputs, ([at, output]) => ({ ...attemptJson(at), output })),
  };
}

/** What changed, what went wrong, and who decided. */
function historyJson(
  report: RunReport,
): Pick<Parts, "context" | "problems" | "owners" | "decisions"> {
  return {
    context: report.context.map(({ seq, time, by, key, before, after }) => ({
      sequence: seq,
      time: isoText(time),
      by,
      key,
      before: before ?? null,
      is_new: before === undefined,
      after,
    })),
    problems: report.problems.map(({ seq, time, at, kind, why, handling }) => ({
      sequence: seq,
      time: isoText(time),
      ...attemptJson(at),
      kind,
      why,
      handling,
    })),
    owners: report.owners.map(({ epoch, owner, from, until, left }) => ({
      epoch,
      pid: owner.pid,
      host: owner.host,
      user: owner.user,
      from: isoText(from),
      until: isoText(until),
      left,
    })),
    decisions: report.decisions.map(({ seq, time, what }) => ({
      sequence: seq,
      time: isoText(time),
      what,
    })),
  };
}
