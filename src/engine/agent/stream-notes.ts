/**
 * Notes for a new conversation, made from the streams of the old one, because an agent with a full
 * context can no longer write them.
 *
 * Owns: the parts of the streams that are used, and their limits.
 * Does not: keep the notes (agent-relay.ts) or decide when they are made (agent-steps.ts).
 */
import { join } from "node:path";
import type { AgentAdapter, AgentEvent } from "../../runner/agents/adapter.ts";
import { grown, headOf, tailOf } from "../../runner/agents/stream-json.ts";
import { ATTEMPT_FILE } from "../../runner/process/attempt-folder.ts";
import { followLines } from "../../runner/process/output.ts";

const CALLS_MAX = 100;
const INPUT_CHARACTERS_MAX = 300;
const TEXT_CHARACTERS_MAX = 8 * 1024;
const EARLIER_CHARACTERS_MAX = 32 * 1024;
/** A line of an agent may contain a whole file. */
const LINE_BYTES_MAX = 64 * 1024 * 1024;

interface Call {
  readonly name: string;
  readonly input: string;
  ok?: boolean;
}

interface NotesSource {
  readonly adapter: AgentAdapter;
  /** The folders of the attempts that were part of the conversation, in order. */
  readonly folders: readonly string[];
  /** The reason why the conversation cannot continue. */
  readonly why: string;
  /** The notes with which the conversation itself started. */
  readonly earlier?: string;
}

/** The notes, with the headings of an agent's own notes. */
export async function notesFromStreams(source: NotesSource): Promise<string> {
  const { adapter, folders, why, earlier } = source;
  const record = new StreamRecord();
  for (const folder of folders) {
    const reader = adapter.reader();
    const output = join(folder, ATTEMPT_FILE.output);
    const take = (line: string): void => record.take(folder, reader.line(line));
    await followLines(output, take, { bytesMax: LINE_BYTES_MAX }).close();
  }
  return [
    "## Done",
    `The agent did not write these notes. Its conversation was too long to continue (${why}), ` +
      "so they were made from the record of it.",
    record.calls(),
    "## Remaining",
    "There is no list of the remaining work: compare the task with the working tree.",
    "## Decisions",
    record.lastWords(),
    "## Files touched",
    "See the calls above, and the state of the working tree (files, version control).",
    ...(earlier === undefined
      ? []
      : ["## Earlier notes", tailOf(earlier, EARLIER_CHARACTERS_MAX).trim()]),
  ]
    .join("\n\n")
    .concat("\n");
}

/** The latest tool calls and the last text of a conversation. */
class StreamRecord {
  readonly #calls = new Map<string, Call>();
  #left = 0;
  #text = "";

  /** Reads the stream of an attempt; some agents number their calls from one in each process. */
  take(attempt: string, events: readonly AgentEvent[]): void {
    for (const event of events) {
      if (event.type === "text") {
        this.#text = grown(this.#text, `${event.text}\n`, TEXT_CHARACTERS_MAX);
      } else if (event.type === "tool-started") {
        this.#add(`${attempt} ${event.id}`, { name: event.name, input: event.input });
      } else if (event.type === "tool-ended") {
        const call = this.#calls.get(`${attempt} ${event.id}`);
        if (call !== undefined) call.ok = event.ok;
      }
    }
  }

  /** Lists the agent's calls, the oldest first. */
  calls(): string {
    if (this.#calls.size === 0) return "It called no tool.";
    const lines = [...this.#calls.values()].map(({ name, input, ok }) => {
      const shown = headOf(input, INPUT_CHARACTERS_MAX).replaceAll("\n", "\n  ");
      const end = ok === undefined ? "not known to have ended" : ok ? "succeeded" : "failed";
      return `- ${name}: ${shown} (${end})`;
    });
    const earlier = this.#left === 0 ? "" : ` (${this.#left} earlier ones are left out)`;
    return [`It called these tools, the oldest first${earlier}:`, ...lines].join("\n");
  }

  lastWords(): string {
    const said = tailOf(this.#text, TEXT_CHARACTERS_MAX).trim();
    return said === "" ? "none" : `The last words of the agent were:\n\n${said}`;
  }

  #add(id: string, call: Call): void {
    this.#calls.set(id, call);
    const [oldest] = this.#calls.keys();
    if (this.#calls.size <= CALLS_MAX || oldest === undefined) return;
    this.#calls.delete(oldest);
    this.#left++;
  }
}
