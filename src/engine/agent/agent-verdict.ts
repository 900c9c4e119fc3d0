/**
 * The verdict on an agent's attempt, made from its stream.
 *
 * Owns: the judgement. Success is the agent's own terminal event (adapter/G2). A denied call alone
 * is no
 *   failure. A problem of the service causes a pause and no failure. An agent that reached a limit did
 *   so regardless of what ended it. Usage is counted once.
 * Does not: read streams (runner/agents) or decide what follows (core/decide.ts).
 */
import type { AgentProblem, LastTool, PauseReason, Spent, UsageBefore } from "../../core/event.ts";
import type { Ending } from "../../core/fact.ts";
import { NOTHING_SPENT } from "../../core/spending.ts";
import type { AgentSettings } from "../../plan/plan.ts";
import type { AgentFailureKind } from "../../runner/agents/adapter.ts";
import type { AgentReport } from "../../runner/agents/report.ts";
import { headOf } from "../../runner/agents/stream-json.ts";
import { type PriceList, type Usage, usedSince } from "../../runner/agents/usage.ts";
import { type AgentLimits, limitReached, turnsMessage } from "./agent-watch.ts";

const INPUT_CHARACTERS_MAX = 200;

const PAUSES: readonly AgentFailureKind[] = [
  "rate-limit",
  "overloaded",
  "quota",
  "server",
  "cut",
  "session-gone",
] satisfies readonly PauseReason[];

const TROUBLES: readonly AgentFailureKind[] = [
  "auth",
  "model",
  "overflow",
  "denied",
  "missing",
  "silent",
] satisfies readonly AgentProblem[];

/** The ending of an agent's attempt, given how its process ended. */
export function judgeAgent(ending: Ending, report: AgentReport, limits: AgentLimits): Ending {
  const trouble = report.result?.trouble ?? report.lastTrouble;
  const ok = report.result?.ok === true;
  if (ending.how === "lost" && ok) {
    // The stream contains the successful end: only the exit status is missing.
    return { how: "exited", exit: 0, outputs: {}, context: {}, fromStream: true };
  }
  if (ending.how === "stopped" || ending.how === "lost") {
    return reined(report, limits) ?? { ...ending, ...toolOf(report) };
  }
  if (ending.how !== "exited") return ending;
  if (ok) return { ...ending, exit: 0 };
  if (trouble?.kind === "interrupted") {
    // Something else ended it (a kill, a system without memory): that is not its own failure.
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
  if (trouble?.kind === "max-turns") {
    return { how: "reined", reason: "turns", message: turnsMessage(limits) };
  }
  const kind = report.denied.length > 0 ? "denied" : trouble?.kind;
  const known = TROUBLES.find((one) => one === kind) as AgentProblem | undefined;
  const problem = { reason: "agent", message: whyNot(report, trouble?.message) } as const;
  return { ...ending, problem: known === undefined ? problem : { ...problem, trouble: known } };
}

/** The time that the service named for a retry, if only earlier errors of the stream name it. */
function sameBefore({ lastTrouble }: AgentReport, kind: PauseReason): number | undefined {
  return lastTrouble?.kind === kind ? lastTrouble.retryAfterMs : undefined;
}

/** The ending of an agent that was ended because of a limit. */
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

/** Facts outside the stream that the usage of an attempt depends on. */
interface Spending {
  readonly session: string | undefined;
  /** The usage of its conversation at the start, by the agent's count or otherwise by ours. */
  readonly before: UsageBefore | undefined;
  /** The cost of its conversation at the start, as far as this run knows. */
  readonly costBefore: number | undefined;
  readonly settings: Pick<AgentSettings, "model" | "billing">;
  readonly prices: PriceList;
}

/** The spending of this attempt. */
export function spentOf(report: AgentReport, around: Spending): Spent {
  const { turns } = report;
  const { session, before = NOTHING_SPENT, settings } = around;
  const { counting, ...all } = report.usage;
  const usage = counting === "total" ? usedSince(all, before) : all;
  const { inputTokens, cachedTokens, outputTokens } = usage;
  const model = report.model ?? settings.model;
  return {
    ...{ inputTokens, cachedTokens, outputTokens, turns },
    ...costOf(report, usage, model, around),
    ...(report.uncounted ? { unmeasured: true } : {}),
    ...(model === undefined ? {} : { model }),
    ...(session === undefined ? {} : { session }),
  };
}

/** The cost: nothing with a subscription, the agent's own number, or an estimate. */
function costOf(
  report: AgentReport,
  usage: Usage,
  model: string | undefined,
  { settings, prices, costBefore = 0 }: Spending,
): Pick<Spent, "costUsd" | "estimated" | "unpriced"> {
  if (settings.billing === "subscription") return { costUsd: 0 };
  // A gateway may report another model name than the one that the author wrote.
  const names = [report.model, settings.model].filter((name) => name !== undefined);
  const own = names.some((name) => prices.isOwn(name)) && usage.estimated !== true;
  const { conversationUsd } = report;
  if (conversationUsd !== undefined && !own) {
    return { costUsd: Math.max(0, conversationUsd - costBefore) };
  }
  if (usage.costUsd !== undefined && !own) {
    const { costUsd, estimated, unpriced } = usage;
    return {
      costUsd,
      ...(estimated === undefined ? {} : { estimated }),
      ...(unpriced === undefined ? {} : { unpriced: model ?? "" }),
    };
  }
  if (usage.inputTokens + usage.outputTokens === 0) return {};
  const priced = names.find((name) => prices.find(name) !== undefined);
  const costUsd = priced === undefined ? undefined : prices.costOf(priced, usage);
  return costUsd === undefined ? {} : { costUsd, estimated: true };
}
