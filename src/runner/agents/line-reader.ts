/**
 * What the readers of all agents have in common: each line of a stream is a JSON object, and a
 * stream that ends without a terminal event is a failure.
 *
 * Owns: reading lines, new sessions, the first event of an answer, and the failure at the end of a
 * stream.
 * Does not: know the lines of any agent.
 */
import type { JsonObject } from "../../util/json.ts";
import type { AgentEvent, AgentFailure, AgentFailureKind, AgentReader } from "./adapter.ts";
import { agentFailure, agentFailureOf } from "./agent-failure.ts";
import { objectIn } from "./stream-json.ts";

const SIGNAL_EXITS: readonly number[] = [0, 129, 130, 137, 143];
/** The exit statuses of a shell that found no such program, or one that it cannot run. */
const MISSING_EXITS: readonly number[] = [126, 127];

/** A reader of JSON lines; an agent adds the meaning of its lines. */
export abstract class LineReader implements AgentReader {
  /** True after a terminal event. */
  protected ended = false;
  /** True after any line. */
  #printed = false;
  #session: string | undefined;
  #answering = false;

  line(text: string): readonly AgentEvent[] {
    const line = objectIn(text);
    if (line === undefined) return [];
    this.#printed = true;
    return this.meaningOf(line);
  }

  end(exit: number | undefined, stderr?: string): readonly AgentEvent[] {
    if (this.ended) return [];
    return [{ type: "result", ok: false, trouble: this.unfinished(exit, stderr) }];
  }

  /** The events of a line. */
  protected abstract meaningOf(line: JsonObject): readonly AgentEvent[];

  /**
   * Why the stream has no terminal event. `silence` is the failure of an agent that printed
   * nothing, not even to standard error; `stopExits` are its exit statuses after a request to stop.
   */
  protected unfinished(
    exit: number | undefined,
    stderr = "",
    silence: AgentFailureKind = "silent",
    stopExits: readonly number[] = [],
  ): AgentFailure {
    const message = stderr.trim();
    const ended = exit === undefined ? "was killed" : `ended with exit status ${exit}`;
    const expected = this.#printed ? [...SIGNAL_EXITS, ...stopExits] : SIGNAL_EXITS;
    if (exit === undefined || expected.includes(exit)) {
      return agentFailure("interrupted", `the agent ${ended} before it was done`);
    }
    if (this.#printed) {
      const why = message === "" ? "" : `: ${message}`;
      return agentFailure("other", `the agent ${ended} without a result${why}`);
    }
    if (MISSING_EXITS.includes(exit))
      return agentFailure("missing", message || `the agent ${ended}`);
    if (message === "") return agentFailure(silence, `the agent ${ended} and printed nothing`);
    return agentFailureOf({ message });
  }

  /** The conversation, if it is another than before. */
  protected session(id: string | undefined): readonly AgentEvent[] {
    if (id === undefined || id === this.#session) return [];
    this.#session = id;
    return [{ type: "session", id }];
  }

  /** An answer of the model, for streams that do not mark it: its first event after the tools. */
  protected turn(): readonly AgentEvent[] {
    if (this.#answering) return [];
    this.#answering = true;
    return [{ type: "turn" }];
  }

  /** All tools have ended, so the next event begins an answer. */
  protected toolsEnded(): void {
    this.#answering = false;
  }
}
