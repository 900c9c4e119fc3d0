/**
 * What the stream of an agent says about its attempt: the conversation's id as soon as it is known, the
 * limit that the agent has reached, and at the end the verdict and the usage.
 *
 * Owns: the limits (no progress, the turns are used, the conversation is nearly full) and the verdict.
 *   Both follow from the stream alone, so that a later owner that reads the same stream decides the same.
 *   - Limits other than a stall wait until the running tools have ended and the model has not started the
 *     next answer, so that the conversation contains the results of the tools.
 *   - Success is the agent's own terminal event (adapter/G2). A denied call alone is no failure. A problem
 *     of the service causes a pause and no failure. An agent that reached a limit did so regardless of
 *     what ended it. Usage is counted once.
 * Does not: parse streams (runner/agents), or decide what follows (core/decide.ts).
 */
import { join } from "node:path";
import type { AgentProblem, LastTool, PauseReason, Spent, UsageBefore } from "../../core/event.ts";
import type { Ending } from "../../core/fact.ts";
import { NOTHING_SPENT } from "../../core/spending.ts";
import type { AgentSettings, Relay } from "../../plan/plan.ts";
import type { AgentAdapter, AgentEvent, AgentFailureKind } from "../../runner/agents/adapter.ts";
import { AgentFollower, type AgentReport } from "../../runner/agents/report.ts";
import { headOf } from "../../runner/agents/stream-json.ts";
import { type PriceList, type Usage, usedSince, windowOf } from "../../runner/agents/usage.ts";
import { ATTEMPT_FILE } from "../../runner/process/attempt-folder.ts";
import { followLines, lastLine } from "../../runner/process/output.ts";
import { defined } from "../../util/defined.ts";

/** Events that may come between a result and the next answer, such as the usage of a subagent. */
const ASIDES: ReadonlySet<AgentEvent["type"]> = new Set<AgentEvent["type"]>([
  "session",
  "model",
  "usage",
  "cost",
  "denied",
]);
/** A line of an agent may contain a whole file. */
const STREAM_LINE_BYTES_MAX = 64 * 1024 * 1024;

interface WatchOptions {
  readonly adapter: AgentAdapter;
  readonly prices: PriceList;
  readonly dir: string;
  readonly limits: AgentLimits;
  /** Adds the facts that only the transcript has. */
  readonly complete: (report: AgentReport) => AgentReport;
  readonly onSession: (session: string) => void;
  /** The usage has changed. */
  readonly onUse: () => void;
  /** A limit is reached: the process is to be ended. */
  readonly onLimit: () => void;
  /** The stream cannot be read. */
  readonly onError: (error: unknown) => void;
}

/** Reads one attempt's stream from its first byte, even when an earlier owner started it. */
export class AgentWatch {
  readonly #options: WatchOptions;
  readonly #follower: AgentFollower;
  readonly #file: ReturnType<typeof followLines>;
  /** True when the tools have ended and the next answer has not started. */
  #between = false;
  #afterTurn = false;
  #limited = false;

  constructor(options: WatchOptions) {
    this.#options = options;
    this.#follower = new AgentFollower(options.adapter, options.prices);
    const file = join(options.dir, ATTEMPT_FILE.output);
    this.#file = followLines(file, (line) => this.#line(line), {
      bytesMax: STREAM_LINE_BYTES_MAX,
      onError: options.onError,
    });
  }

  /** The report so far. */
  get report(): AgentReport {
    return this.#options.complete(this.#follower.report);
  }

  /** Ends the agent as soon as its running tools have ended. */
  stopAfterTurn(): void {
    this.#afterTurn = true;
    this.#look();
  }

  /** Stops following the stream. */
  async close(): Promise<void> {
    await this.#file.close();
  }

  /** The report on the whole stream, after the process has ended. */
  async end(exit: number | undefined): Promise<AgentReport> {
    await this.#file.close();
    const stderr = lastLine(join(this.#options.dir, ATTEMPT_FILE.stderr));
    return this.#options.complete(this.#follower.end(exit, stderr));
  }

  #line(line: string): void {
    const events = this.#follower.line(line);
    for (const event of events) {
      if (event.type === "session") this.#options.onSession(event.id);
    }
    if (events.length === 0) return;
    const last = events.findLast(({ type }) => !ASIDES.has(type));
    if (last !== undefined) {
      const open = this.#follower.report.openTools.length;
      this.#between = last.type === "tool-ended" && open === 0;
    }
    if (this.#between || events.some(({ type }) => type === "usage")) this.#options.onUse();
    this.#look();
  }

  #look(): void {
    if (this.#limited || !(this.#between || this.#follower.report.stall !== undefined)) return;
    if (this.#afterTurn || limitReached(this.report, this.#options.limits) !== undefined) {
      this.#limited = true;
      this.#options.onLimit();
    }
  }
}

/** The assumed context size of an unknown model. */
const WINDOW_DEFAULT = 200_000;
/** How much of the input of a call a message shows. */
const INPUT_CHARACTERS_MAX = 200;

export interface AgentLimits {
  /** How many turns the model has left in this attempt; absent when its agent counts them. */
  readonly turns?: number;
  /** How many turns it has in all, those of earlier attempts included; for messages. */
  readonly turnsAllowed?: number;
  readonly relay?: Relay;
  readonly model?: string;
}

interface ReachedLimit {
  readonly kind: "stall" | "turns" | "relay";
  readonly message: string;
}

/** The limit that an agent has reached; undefined after its result. */
function limitReached(report: AgentReport, limits: AgentLimits): ReachedLimit | undefined {
  const { stall, result, turns, context } = report;
  if (result?.ok === true) return undefined;
  if (stall !== undefined) {
    const call = `${stall.name} ${headOf(stall.input, INPUT_CHARACTERS_MAX)}`.trim();
    return { kind: "stall", message: `the same call failed ${stall.failures} times: ${call}` };
  }
  if (limits.turns !== undefined && turns >= limits.turns) {
    return { kind: "turns", message: turnsMessage(limits) };
  }
  const full = limits.relay === undefined ? undefined : relayAt(limits.relay, report, limits.model);
  if (full === undefined || context === undefined || context < full) return undefined;
  return { kind: "relay", message: `its conversation has ${context} tokens; ${full} are allowed` };
}

/** The message for used turns; it names the key that limits them. */
function turnsMessage({ turnsAllowed }: AgentLimits): string {
  const turns = turnsAllowed === undefined ? "its" : `all of its ${turnsAllowed}`;
  return `it used up ${turns} turns (max_turns) before it was done`;
}

function relayAt(relay: Relay, report: AgentReport, model: string | undefined): number {
  if ("tokens" in relay) return relay.tokens;
  const window = report.window ?? windowOf(model) ?? WINDOW_DEFAULT;
  return Math.floor(relay.share * window);
}

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
    return endedByLimit(report, limits) ?? { ...ending, ...toolOf(report) };
  }
  if (ending.how !== "exited") return ending;
  if (ok) return { ...ending, exit: 0 };
  if (trouble?.kind === "interrupted") {
    // Something else ended it (a kill, a system without memory), so it did not fail itself.
    const { message } = trouble;
    return (
      endedByLimit(report, limits) ?? { how: "lost", started: true, message, ...toolOf(report) }
    );
  }
  const reason = PAUSES.find((kind) => kind === trouble?.kind) as PauseReason | undefined;
  if (reason !== undefined && trouble !== undefined) {
    const { message } = trouble;
    const retryAfterMs = trouble.retryAfterMs ?? earlierRetryMs(report, reason);
    return { how: "paused", reason, message, ...defined({ retryAfterMs }) };
  }
  if (trouble?.kind === "max-turns") {
    return { how: "reined", reason: "turns", message: turnsMessage(limits) };
  }
  const kind = report.denied.length > 0 ? "denied" : trouble?.kind;
  const known = TROUBLES.find((one) => one === kind) as AgentProblem | undefined;
  const problem = { reason: "agent", message: whyNot(report, trouble?.message) } as const;
  return { ...ending, problem: { ...problem, ...defined({ trouble: known }) } };
}

/** The time for a retry that an earlier error of the same kind named. */
function earlierRetryMs({ lastTrouble }: AgentReport, kind: PauseReason): number | undefined {
  return lastTrouble?.kind === kind ? lastTrouble.retryAfterMs : undefined;
}

/** The ending of an agent that was ended because of a limit; undefined when it reached none. */
function endedByLimit(report: AgentReport, limits: AgentLimits): Ending | undefined {
  const reached = limitReached(report, limits);
  if (reached === undefined) return undefined;
  const { kind, message } = reached;
  if (kind === "relay") return { how: "asked", ask: { kind: "relay", why: message } };
  return { how: "reined", reason: kind, message };
}

function toolOf({ lastTool }: AgentReport): { readonly tool?: LastTool } {
  if (lastTool === undefined) return {};
  const { name, input, ok } = lastTool;
  return { tool: { name, input: headOf(input, INPUT_CHARACTERS_MAX), ...defined({ ok }) } };
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
    ...defined({ model, session }),
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
      ...{ costUsd, ...defined({ estimated }) },
      ...(unpriced === undefined ? {} : { unpriced: model ?? "" }),
    };
  }
  if (usage.inputTokens + usage.outputTokens === 0) return {};
  const priced = names.find((name) => prices.find(name) !== undefined);
  const costUsd = priced === undefined ? undefined : prices.costOf(priced, usage);
  return costUsd === undefined ? {} : { costUsd, estimated: true };
}
