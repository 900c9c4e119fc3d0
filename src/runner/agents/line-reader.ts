/**
 * What the readers of all agents have in common: each line of a stream is a JSON object, and a
 * stream without a terminal event has a reason.
 *
 * Owns: reading lines, new sessions, the first event of an answer, and the end of a stream.
 * Does not: know the lines of any agent.
 */
import type { JsonObject } from "../../util/json.ts";
import type { AgentEvent, AgentFailure, AgentReader } from "./adapter.ts";
import { unfinished } from "./agent-failure.ts";
import { objectIn } from "./stream-json.ts";

/** A reader of JSON lines; an agent adds the meaning of its lines. */
export abstract class LineReader implements AgentReader {
  /** True after a terminal event. */
  protected ended = false;
  #spoke = false;
  #session: string | undefined;
  #answering = false;

  line(text: string): readonly AgentEvent[] {
    const line = objectIn(text);
    if (line === undefined) return [];
    this.#spoke = true;
    return this.meaningOf(line);
  }

  end(exit: number | undefined, stderr?: string): readonly AgentEvent[] {
    if (this.ended) return [];
    return [{ type: "result", ok: false, trouble: this.unfinished(exit, stderr) }];
  }

  /** The events of a line. */
  protected abstract meaningOf(line: JsonObject): readonly AgentEvent[];

  /** Why the stream has no terminal event. */
  protected unfinished(
    exit: number | undefined,
    stderr: string | undefined,
    also: Partial<Pick<Parameters<typeof unfinished>[0], "silence" | "stopExits">> = {},
  ): AgentFailure {
    return unfinished({ exit, stderr, spoke: this.#spoke, silence: "silent", ...also });
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

  /** No tool runs any more: the next event begins an answer. */
  protected toolsEnded(): void {
    this.#answering = false;
  }
}
