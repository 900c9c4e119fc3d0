/**
 * The report of an agent's stream: a fold over its events, the same for a stream that is read while
 * it grows and for one that is read again after a crash.
 *
 * Owns: the report and the limits of its size.
 * Does not: judge it, or know any one agent.
 * Invariants:
 * - report/G3 its size does not grow with the stream.
 * - runner/G5 a result counts only if the conversation did not continue after it.
 */

import { ruleFor } from "../../util/agent-access.ts";
import { defined } from "../../util/defined.ts";
import { type Json, sha256 } from "../../util/json.ts";
import type {
  AgentAdapter,
  AgentEvent,
  AgentFailure,
  AgentReader,
  FinishedCall,
  ToolCall,
} from "./adapter.ts";
import { appended, headOf, tailOf } from "./stream-json.ts";
import { addUsage, NOTHING_USED, type PriceList, type Usage } from "./usage.ts";

const TEXT_CHARACTERS_MAX = 64 * 1024;
const INPUT_CHARACTERS_MAX = 2_000;
const OPEN_TOOLS_MAX = 64;
const FINISHED_CALLS_MAX = 64;
const RESULT_CHARACTERS_MAX = 4_000;
const DENIED_CALLS_MAX = 64;
/** The number of equal failures of the same call in a row that is a stall. */
export const STALL_FAILURES = 5;

/** A call that failed several times in a row with the same input. */
interface Stall {
  readonly name: string;
  readonly input: string;
  readonly failures: number;
}

interface AgentResult {
  readonly ok: boolean;
  readonly text?: string;
  readonly structured?: Json;
  readonly trouble?: AgentFailure;
}

/** The report of one invocation of an agent. */
export interface AgentReport {
  readonly session?: string;
  /** The model that answers, as the agent names it. */
  readonly model?: string;
  /** Absent while the agent runs. */
  readonly result?: AgentResult;
  /** Correct at any moment: `delta` covers this invocation so far, `total` the conversation. */
  readonly usage: Usage & { readonly counting: "delta" | "total" };
  /** The model has answered, or begun to, and the stream has not reported the usage yet. */
  readonly uncounted: boolean;
  /** The cost of the conversation so far, over all its invocations. */
  readonly conversationUsd?: number;
  /** Tokens of the latest call of the model, as far as known: its whole input and its output. */
  readonly context?: number;
  /** How many tokens fit into a call, if the agent or the name of its model shows it. */
  readonly window?: number;
  /** Answers of the model. */
  readonly turns: number;
  /** Calls that began and have not ended in the stream; their effects are unknown. */
  readonly openTools: readonly ToolCall[];
  /** The latest calls of the agent itself that have ended, oldest first. */
  readonly finished: readonly FinishedCall[];
  /** The last call that began; `ok` once it has ended. */
  readonly lastTool?: ToolCall & { readonly ok?: boolean };
  /** The calls that were denied, each once, as the rules that would have allowed them. */
  readonly denied: readonly string[];
  readonly retries: number;
  readonly lastTrouble?: AgentFailure;
  readonly stall?: Stall;
  /** The end of its text. */
  readonly text: string;
}

interface OpenCall extends ToolCall {
  readonly signature: string;
  readonly turn: number;
}

/** Follows one stream line by line; its report is up to date after each. */
export class AgentFollower {
  readonly #reader: AgentReader;
  readonly #calls = new Map<string, OpenCall>();
  #failing: { readonly signature: string; readonly stall: Stall } | undefined;
  #report: AgentReport = {
    usage: { counting: "delta", ...NOTHING_USED },
    uncounted: false,
    turns: 0,
    openTools: [],
    finished: [],
    denied: [],
    retries: 0,
    text: "",
  };

  constructor(adapter: Pick<AgentAdapter, "reader">, prices?: PriceList) {
    this.#reader = adapter.reader(prices);
  }

  /** The report so far. */
  get report(): AgentReport {
    return this.#report;
  }

  /** Reads one line; returns its events. */
  line(text: string): readonly AgentEvent[] {
    return this.#fold(this.#reader.line(text));
  }

  /** Reads the end: the exit status, undefined for a signal, and the end of standard error. */
  end(exit: number | undefined, stderr?: string): AgentReport {
    this.#fold(this.#reader.end(exit, stderr));
    return this.#report;
  }

  #fold(events: readonly AgentEvent[]): readonly AgentEvent[] {
    for (const event of events) this.#report = this.#next(this.#report, event);
    return events;
  }

  #next(report: AgentReport, event: AgentEvent): AgentReport {
    switch (event.type) {
      case "session":
        return { ...report, session: event.id };
      case "model":
        return { ...report, model: event.model };
      case "text":
        return { ...report, text: appended(report.text, event.text, TEXT_CHARACTERS_MAX) };
      case "tool-started":
        return this.#toolStarted(report, event);
      case "tool-ended":
        return this.#toolEnded(report, event);
      case "usage":
        return withUsage(report, event);
      case "cost":
        return { ...report, conversationUsd: event.totalUsd };
      case "turn": {
        const { result: _, ...ongoing } = report;
        return { ...ongoing, turns: report.turns + 1, uncounted: true };
      }
      case "retrying":
        return { ...report, retries: report.retries + 1, lastTrouble: event.trouble };
      case "denied":
        return { ...report, denied: withRule(report.denied, this.#deniedRule(event)) };
      case "result":
        return withResult(report, event);
    }
  }

  /** A call that began carries its own input. */
  #deniedRule({ tool, id, input }: Extract<AgentEvent, { type: "denied" }>): string {
    const call = id === undefined ? undefined : this.#calls.get(id);
    const known = input ?? call?.input;
    return known === undefined ? tool : ruleFor(tool, known);
  }

  #toolStarted(
    report: AgentReport,
    { id, name, input }: Extract<AgentEvent, { type: "tool-started" }>,
  ): AgentReport {
    const call = { id, name, input: headOf(input, INPUT_CHARACTERS_MAX) };
    const { turns: turn } = report;
    this.#calls.set(id, { ...call, turn, signature: sha256(`${name}\n${input}`) });
    const [oldest] = this.#calls.keys();
    if (this.#calls.size > OPEN_TOOLS_MAX && oldest !== undefined) this.#calls.delete(oldest);
    return { ...report, openTools: this.#openTools(), lastTool: call };
  }

  #toolEnded(
    report: AgentReport,
    { id, ok, result }: Extract<AgentEvent, { type: "tool-ended" }>,
  ): AgentReport {
    const call = this.#calls.get(id);
    if (call === undefined) return report;
    this.#calls.delete(id);
    this.#failing = ok ? undefined : this.#failedAgain(call);
    const { stall: _, ...others } = report;
    const stalled = this.#failing !== undefined && this.#failing.stall.failures >= STALL_FAILURES;
    return {
      ...others,
      openTools: this.#openTools(),
      finished: result === undefined ? report.finished : withCall(report, call, ok, result),
      ...(report.lastTool?.id === id ? { lastTool: { ...report.lastTool, ok } } : {}),
      ...(stalled && this.#failing !== undefined ? { stall: this.#failing.stall } : {}),
    };
  }

  #failedAgain({ signature, name, input }: OpenCall): {
    readonly signature: string;
    readonly stall: Stall;
  } {
    const before = this.#failing?.signature === signature ? this.#failing.stall.failures : 0;
    return { signature, stall: { name, input, failures: before + 1 } };
  }

  #openTools(): readonly ToolCall[] {
    return [...this.#calls.values()].map(({ id, name, input }) => ({ id, name, input }));
  }
}

function withUsage(
  report: AgentReport,
  event: Extract<AgentEvent, { type: "usage" }>,
): AgentReport {
  const { context, window } = event;
  return {
    ...report,
    usage: counted(report.usage, event),
    uncounted: false,
    ...defined({ context, window }),
  };
}

function counted(
  { counting: before, ...usageBefore }: AgentReport["usage"],
  { counting, usage }: Extract<AgentEvent, { type: "usage" }>,
): AgentReport["usage"] {
  switch (counting) {
    case "total":
      return { counting, ...usage };
    case "invocation":
      return { counting: "delta", ...usage };
    case "delta":
      return { counting: before, ...addUsage(usageBefore, usage) };
  }
}

function withCall(
  { finished }: AgentReport,
  { id, name, input, turn }: OpenCall,
  ok: boolean,
  result: string,
): readonly FinishedCall[] {
  const bounded = headOf(result, RESULT_CHARACTERS_MAX);
  return [...finished, { id, name, input, ok, result: bounded, turn }].slice(-FINISHED_CALLS_MAX);
}

function withRule(denied: readonly string[], rule: string): readonly string[] {
  if (denied.includes(rule) || denied.length >= DENIED_CALLS_MAX) return denied;
  return [...denied, rule];
}

function withResult(
  report: AgentReport,
  event: Extract<AgentEvent, { type: "result" }>,
): AgentReport {
  const { ok, text, structured, trouble } = event;
  const result = {
    ok,
    ...(text === undefined ? {} : { text: tailOf(text, TEXT_CHARACTERS_MAX) }),
    ...defined({ structured, trouble }),
  };
  return { ...report, result };
}
