/**
 * The head of a run, as every page of the dashboard about that run shows it.
 *
 * Owns: its values.
 * Does not: read output or files; the caller passes what it has read.
 */
import { type Run, waitingFor } from "../../core/run.ts";
import { remainingMs } from "../live/remaining-time.ts";
import type { Estimate } from "../preview/estimate.ts";
import { runElapsed } from "../step-status.ts";
import { isoText } from "../text.ts";
import type { WhyInput } from "../why.ts";
import type { runPage } from "./dashboard-documents.ts";
import type { DocumentOf } from "./document-parts.ts";
import { originJson, timeJson, usedJson } from "./part-json.ts";
import { standingJson } from "./run-json.ts";

/** What stands above every page of a run. */
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
