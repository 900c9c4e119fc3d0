/**
 * Follows the stream of a running agent: reports the conversation's id as soon as it is known, and
 * requests the end of the process at a limit.
 *
 * Owns: the moment of a stop. Limits other than a stall wait until the running tools have ended and the
 *   model has not started the next answer, so that the conversation contains the tools' results.
 * Does not: judge how the attempt ended (agent-verdict.ts).
 */
import { join } from "node:path";
import type { AgentAdapter, AgentEvent } from "../../runner/agents/adapter.ts";
import { AgentFollower, type AgentReport } from "../../runner/agents/report.ts";
import type { PriceList } from "../../runner/agents/usage.ts";
import { ATTEMPT_FILE } from "../../runner/process/attempt-folder.ts";
import { type FollowedFile, followLines, lastLine } from "../../runner/process/output.ts";
import { type AgentLimits, limitReached } from "./agent-limits.ts";

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

/** Reads one attempt's stream from its first byte, also when an earlier owner started it. */
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
