/**
 * What an agent's stream means for its attempt.
 *
 * Owns: the judgement: success is the agent's own terminal event (G2), trouble of the service is a
 * pause and not a failure, and what was used is counted once.
 * Does not: read streams (runner/agents) or decide what follows (core/decide.ts).
 */
import type { PauseReason, Spent } from "../core/event.ts";
import type { Ending } from "../core/fact.ts";
import { NOTHING_SPENT } from "../core/spending.ts";
import type { TroubleKind } from "../runner/agents/adapter.ts";
import { costOf } from "../runner/agents/prices.ts";
import type { AgentReport } from "../runner/agents/report.ts";

const PAUSES: readonly TroubleKind[] = [
  "rate-limit",
  "overloaded",
  "quota",
  "server",
  "cut",
  "session-gone",
] satisfies readonly PauseReason[];

/** The ending of an agent's attempt, given how its process ended. */
export function judgeAgent(ending: Ending, report: AgentReport, spent: Spent): Ending {
  const trouble = report.result?.trouble ?? report.lastTrouble;
  const ok = report.result?.ok === true && report.denied.length === 0;
  if (ending.how === "lost" && ok) {
    // Its stream already holds the good end: only the exit status is missing.
    return { how: "exited", exit: 0, outputs: {}, context: {}, spent };
  }
  if (ending.how !== "exited") return { ...ending, spent };
  if (ok) return { ...ending, exit: 0, spent };
  const reason = PAUSES.find((kind) => kind === trouble?.kind) as PauseReason | undefined;
  if (reason !== undefined && trouble !== undefined) {
    const { message, retryAfterMs } = trouble;
    const asked = retryAfterMs === undefined ? {} : { retryAfterMs };
    return { how: "paused", reason, message, ...asked, spent };
  }
  const problem = { reason: "agent", message: whyNot(report, trouble?.message) } as const;
  return { ...ending, problem, spent };
}

function whyNot({ denied, result }: AgentReport, message: string | undefined): string {
  if (denied.length > 0) return `it was not permitted to use ${denied.join(", ")}`;
  if (message !== undefined) return message;
  return result === undefined ? "it ended without a result" : "it says that it did not succeed";
}

/** What this attempt used: `before` is what its conversation had used when it began. */
export function spentOf(
  report: AgentReport,
  before: Spent | undefined,
  model: string | undefined,
): Spent {
  const { usage, turns } = report;
  const base = usage.counting === "total" ? (before ?? NOTHING_SPENT) : NOTHING_SPENT;
  const delta = {
    inputTokens: Math.max(0, usage.inputTokens - base.inputTokens),
    cachedTokens: Math.max(0, usage.cachedTokens - base.cachedTokens),
    outputTokens: Math.max(0, usage.outputTokens - base.outputTokens),
  };
  const costUsd = usage.costUsd ?? (model === undefined ? undefined : costOf(model, delta));
  return costUsd === undefined ? { ...delta, turns } : { ...delta, turns, costUsd };
}
