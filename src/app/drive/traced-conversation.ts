/**
 * Follows the stream of an agent and makes the spans of its turns and tool calls.
 *
 * A stream has no times. The first process that reads a line notes its time in a file beside the
 * stream, and every later reader takes the time from there: after a kill the same lines make the
 * same spans.
 *
 * Owns: that file.
 * Does not: know the run, or send anything.
 */
import { appendFileSync, statSync } from "node:fs";
import { join } from "node:path";
import type { AgentAdapter } from "../../runner/agents/adapter.ts";
import { textOf } from "../../runner/file-text.ts";
import { ATTEMPT_FILE } from "../../runner/process/attempt-folder.ts";
import { type FollowedFile, followLines } from "../../runner/process/output.ts";
import { ConversationTrace } from "../../view/trace/conversation-trace.ts";
import type { Span } from "../../view/trace/span.ts";
import { maskedJson } from "../output/secret-mask.ts";

/** The file with the time of each line that says something: `<end of the line> <time>`. */
const TIMES_FILE = "stream-times";

interface ConversationOptions {
  /** The folder of the attempt. */
  readonly folder: string;
  readonly adapter: AgentAdapter;
  readonly trace: ConstructorParameters<typeof ConversationTrace>[0];
  readonly onSpans: (spans: readonly Span[]) => void;
}

/** A stream that is being followed. */
export class TracedConversation {
  readonly #options: ConversationOptions;
  readonly #trace: ConversationTrace;
  readonly #times: Map<number, number>;
  readonly #file: FollowedFile;
  #lastAt: number;

  constructor(options: ConversationOptions) {
    this.#options = options;
    this.#trace = new ConversationTrace(options.trace);
    this.#lastAt = options.trace.startedAt;
    this.#times = readTimes(join(options.folder, TIMES_FILE));
    const reader = options.adapter.reader();
    this.#file = followLines(
      join(options.folder, ATTEMPT_FILE.output),
      (line, end) => {
        const events = line.startsWith("{") ? reader.line(line) : [];
        if (events.length === 0) return;
        const time = this.#timeOf(end);
        options.onSpans(events.flatMap((event) => this.#trace.add(maskedJson(event), time)));
      },
      { onError: () => undefined },
    );
  }

  /** Reads the rest of the stream of an attempt that ended at this time. */
  async close(endedAt: number): Promise<void> {
    // A stream that cannot be read any more has no further spans.
    await this.#file.close().catch(() => undefined);
    this.#options.onSpans(this.#trace.end(Math.max(endedAt, this.#lastAt)));
  }

  /** Stops following; what is open stays open for the next process. */
  async stop(): Promise<void> {
    await this.#file.close().catch(() => undefined);
  }

  /** The time of the line that ends here. A line that nobody saw is as old as its file at most. */
  #timeOf(end: number): number {
    const known = this.#times.get(end);
    const time = Math.max(this.#lastAt, known ?? Math.min(Date.now(), this.#writtenAt()));
    this.#lastAt = time;
    if (known === undefined) {
      appendFileSync(join(this.#options.folder, TIMES_FILE), `${end} ${time}\n`, { mode: 0o600 });
    }
    return time;
  }

  #writtenAt(): number {
    const path = join(this.#options.folder, ATTEMPT_FILE.output);
    return Math.round(statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Date.now());
  }
}

/** The noted times, by the end of their line; an incomplete last line does not count. */
function readTimes(path: string): Map<number, number> {
  const lines = (textOf(path) ?? "").split("\n").slice(0, -1);
  return new Map(
    lines.map((line) => {
      const [end = "", time = ""] = line.split(" ");
      return [Number(end), Number(time)];
    }),
  );
}
