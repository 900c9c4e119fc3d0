/**
 * Follows the stream of a running agent: reports the conversation's id as soon as it is known, and
 * requests the end of the process at a limit: it makes no progress, it has used its turns, or its
 * conversation is nearly full.
 *
 * Owns: these limits, as a function of the stream alone, so that a later owner that reads the same
 * stream reaches the same verdict; and the moment of a stop. Limits other than a stall wait until
 * the running tools have ended and the model has not started the next answer, so that the
 * conversation contains the tools' results.
 * Does not: judge how the attempt ended (agent-verdict.ts).
 */
import { join } from "node:path";
import type { Relay } from "../../plan/plan.ts";
import type { AgentAdapter, AgentEvent } from "../../runner/agents/adapter.ts";
import { AgentFollower, type AgentReport } from "../../runner/agents/report.ts";
import { headOf } from "../../runner/agents/stream-json.ts";
import { type PriceList, windowOf } from "../../runner/agents/usage.ts";
import { ATTEMPT_FILE } from "../../runner/process/attempt-folder.ts";
import { type FollowedFile, followLines, lastLine } from "../../runner/process/output.ts";

/** Events that accompany others: a subagent's usage with its result, a call's after its tools. */
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
  /** Requests the end of the process. */
  readonly onLimit: () => void;
  /** The stream is unreadable. */
  readonly onError: (error: unknown) => void;
}

/** Reads one attempt's stream from its first byte, even when an earlier owner started it. */
export class AgentWatch {
  readonly #options: WatchOptions;
  readonly #follower: AgentFollower;
  readonly #file: FollowedFile;
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
const CALL_CHARACTERS_MAX = 200;

export interface AgentLimits {
  /** How many turns the model has left in this attempt; absent when its agent counts them. */
  readonly turns?: number;
  /** How many turns it has in all, those of earlier attempts included; for messages. */
  readonly turnsAllowed?: number;
  readonly relay?: Relay;
  readonly model?: string;
}

/** A limit that was reached. `turns` and `relay` wait until the running tools have ended. */
type Reached =
  | { readonly kind: "stall"; readonly message: string }
  | { readonly kind: "turns"; readonly message: string }
  | { readonly kind: "relay"; readonly message: string };

/** The limit that an agent has reached; undefined after its result. */
export function limitReached(report: AgentReport, limits: AgentLimits): Reached | undefined {
  const { stall, result, turns, context } = report;
  if (result?.ok === true) return undefined;
  if (stall !== undefined) {
    const call = `${stall.name} ${headOf(stall.input, CALL_CHARACTERS_MAX)}`.trim();
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
export function turnsMessage({ turnsAllowed }: AgentLimits): string {
  const turns = turnsAllowed === undefined ? "its" : `all of its ${turnsAllowed}`;
  return `it used up ${turns} turns (max_turns) before it was done`;
}

function relayAt(relay: Relay, report: AgentReport, model: string | undefined): number {
  if ("tokens" in relay) return relay.tokens;
  const window = report.window ?? windowOf(model) ?? WINDOW_DEFAULT;
  return Math.floor(relay.share * window);
}
