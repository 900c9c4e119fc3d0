/**
 * What an agent's stream means for its attempt.
 *
 * Owns: the judgement: success is the agent's own terminal event (G2), a denied call by itself is no
 * failure, trouble of the service is a pause and not a failure, an agent that reached a limit did so
 * whoever ended it, and what was used is counted once.
 * Does not: read streams (runner/agents) or decide what follows (core/decide.ts).
 */
import type { LastTool, PauseReason, Spent } from "../core/event.ts";
import type { Ending } from "../core/fact.ts";
import { NOTHING_SPENT } from "../core/spending.ts";
import type { TroubleKind } from "../runner/agents/adapter.ts";
import { costOf } from "../runner/agents/prices.ts";
import type { AgentReport } from "../runner/agents/report.ts";
import { headOf } from "../runner/agents/stream-json.ts";
import { type AgentLimits, limitReached } from "./agent-limits.ts";

const INPUT_CHARACTERS_MAX = 200;

const PAUSES: readonly TroubleKind[] = [
  "rate-limit",
  "overloaded",
  "quota",
  "server",
  "cut",
  "session-gone",
] satisfies readonly PauseReason[];

/** The ending of an agent's attempt, given how its process ended. */
export function judgeAgent(ending: Ending, report: AgentReport, limits: AgentLimits): Ending {
  const trouble = report.result?.trouble ?? report.lastTrouble;
  const ok = report.result?.ok === true;
  if (ending.how === "lost" && ok) {
    // Its stream already holds the good end: only the exit status is missing.
    return { how: "exited", exit: 0, outputs: {}, context: {}, fromStream: true };
  }
  if (ending.how === "stopped" || ending.how === "lost") {
    return reined(report, limits) ?? { ...ending, ...toolOf(report) };
  }
  if (ending.how !== "exited") return ending;
  if (ok) return { ...ending, exit: 0 };
  if (trouble?.kind === "interrupted") {
    // Somebody else ended it (a kill, the system out of memory): that is no failure of its own.
    const { message } = trouble;
    return reined(report, limits) ?? { how: "lost", started: true, message, ...toolOf(report) };
  }
  const reason = PAUSES.find((kind) => kind === trouble?.kind) as PauseReason | undefined;
  if (reason !== undefined && trouble !== undefined) {
    const { message } = trouble;
    const retryAfterMs = trouble.retryAfterMs ?? sameBefore(report, reason);
    const asked = retryAfterMs === undefined ? {} : { retryAfterMs };
    return { how: "paused", reason, message, ...asked };
  }
  const problem = { reason: "agent", message: whyNot(report, trouble?.message) } as const;
  return { ...ending, problem };
}

/** When the service said to come back, if only the tries before the last word tell it. */
function sameBefore({ lastTrouble }: AgentReport, kind: PauseReason): number | undefined {
  return lastTrouble?.kind === kind ? lastTrouble.retryAfterMs : undefined;
}

/** The ending of an agent that had reached a limit when it was ended. */
function reined(report: AgentReport, limits: AgentLimits): Ending | undefined {
  const reached = limitReached(report, limits);
  if (reached === undefined) return undefined;
  const { kind, message } = reached;
  if (kind === "relay") return { how: "asked", ask: { kind: "relay", why: message } };
  return { how: "reined", reason: kind, message };
}

function toolOf({ lastTool }: AgentReport): { readonly tool?: LastTool } {
  if (lastTool === undefined) return {};
  const { name, input, ok } = lastTool;
  const tool = { name, input: headOf(input, INPUT_CHARACTERS_MAX) };
  return { tool: ok === undefined ? tool : { ...tool, ok } };
}

function whyNot({ result }: AgentReport, message: string | undefined): string {
  if (message !== undefined) return message;
  return result === undefined ? "it ended without a result" : "it says that it did not succeed";
}

/** What this attempt used: `before` is what its conversation had used when it began. */
export function spentOf(
  report: AgentReport,
  before: Spent | undefined,
  model: string | undefined,
): Spent {
  const { usage, turns, conversationUsd } = report;
  const base = usage.counting === "total" ? (before ?? NOTHING_SPENT) : NOTHING_SPENT;
  const delta = {
    inputTokens: Math.max(0, usage.inputTokens - base.inputTokens),
    cachedTokens: Math.max(0, usage.cachedTokens - base.cachedTokens),
    outputTokens: Math.max(0, usage.outputTokens - base.outputTokens),
  };
  const paid =
    conversationUsd === undefined
      ? usage.costUsd
      : Math.max(0, conversationUsd - (before?.costUsd ?? 0));
  const costUsd = paid ?? (model === undefined ? undefined : costOf(model, delta));
  return costUsd === undefined ? { ...delta, turns } : { ...delta, turns, costUsd };
}
