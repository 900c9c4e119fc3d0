/**
 * Follows the stream of a running agent: tells its conversation's id as soon as it is known, and has
 * it ended when a limit is reached.
 *
 * Owns: the moment of a stop: limits other than a stall wait until the running tools have ended and
 * the model has not begun to answer them, so that what they did is in the conversation.
 * Does not: judge how the attempt ended (agent-verdict.ts).
 */
import { join } from "node:path";
import type { AgentAdapter, AgentEvent } from "../../runner/agents/adapter.ts";
import { AgentFollower, type AgentReport } from "../../runner/agents/report.ts";
import type { PriceList } from "../../runner/agents/usage.ts";
import { ATTEMPT_FILE } from "../../runner/process/attempt-folder.ts";
import { type FollowedFile, followLines, lastLine } from "../../runner/process/output.ts";
import { type AgentLimits, limitReached } from "./agent-limits.ts";

/** What is told beside what happens: a subagent's usage with its result, a call's after its tools. */
const ASIDES: ReadonlySet<AgentEvent["type"]> = new Set<AgentEvent["type"]>([
  "session",
  "model",
  "usage",
  "cost",
  "denied",
]);
/** An agent's line may hold a whole file. */
const STREAM_LINE_BYTES_MAX = 64 * 1024 * 1024;

export interface WatchOptions {
  readonly adapter: AgentAdapter;
  readonly prices: PriceList;
  readonly dir: string;
  readonly limits: AgentLimits;
  /** Adds what only the transcript tells. */
  readonly complete: (report: AgentReport) => AgentReport;
  readonly onSession: (session: string) => void;
  /** Something was used. */
  readonly onUse: () => void;
  /** The process is to be ended. */
  readonly onLimit: () => void;
  /** The stream cannot be read on. */
  readonly onError: (error: unknown) => void;
}

/** Reads one attempt's stream from its first byte, whoever started it. */
export class AgentWatch {
  readonly #options: WatchOptions;
  readonly #follower: AgentFollower;
  readonly #file: FollowedFile;
  /** The tools have ended, and nothing of the next answer has been seen. */
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

  /** What is known so far. */
  get report(): AgentReport {
    return this.#options.complete(this.#follower.report);
  }

  /** Has it ended as soon as its running tools have. */
  stopAfterTurn(): void {
    this.#afterTurn = true;
    this.#look();
  }

  /** Stops following the stream. */
  async close(): Promise<void> {
    await this.#file.close();
  }

  /** What the whole stream says, once the process has ended. */
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
