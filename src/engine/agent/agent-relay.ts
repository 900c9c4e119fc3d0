/**
 * The file with which one conversation hands a task over to the next. When the context is too full for
 * the agent to write it, the notes are made from the streams of the conversation.
 *
 * Owns: the path of the file, its validity, the copy that the journal names, and the parts of the
 * streams that become notes, with their limits.
 * Does not: ask for the file (agent-prompt.ts) or decide what follows (agent-steps.ts).
 * Invariants:
 * - engine/B4 The journal names a handover only after a copy of it, with that hash, is on the disk;
 *   the file in the working tree may change or disappear.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import type { AttemptRef, Output } from "../../core/event.ts";
import { visitText } from "../../core/step-path.ts";
import type { AgentAdapter, AgentEvent } from "../../runner/agents/adapter.ts";
import { appended, headOf, tailOf } from "../../runner/agents/stream-json.ts";
import { textOf } from "../../runner/file-text.ts";
import { ATTEMPT_FILE } from "../../runner/process/attempt-folder.ts";
import { followLines } from "../../runner/process/output.ts";
import { sha256 } from "../../util/json.ts";
import { LaunchError } from "../launch.ts";
import { RELAY_SECTIONS } from "./agent-prompt.ts";

const FOLDER = ".perdure-relay";
const COPY = "relay.md";
const CHARACTERS_MIN = 40;
const CHARACTERS_MAX = 256 * 1024;

/** The file in the working tree, which the agent may write; git ignores its folder. */
export function relayFileIn(cwd: string, at: AttemptRef): string {
  const name = visitText(at).replace(/[^A-Za-z0-9._@-]/g, "_");
  return join(cwd, FOLDER, `${name}.md`);
}

/** Makes the folder; returns the path of the file for the prompt. */
export function prepareRelay(cwd: string, at: AttemptRef): string {
  const folder = join(cwd, FOLDER);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  writeFileSync(join(folder, ".gitignore"), "*\n");
  return relative(cwd, relayFileIn(cwd, at));
}

/** Copies the handover from the file or the answer to the attempt's folder, or returns its fault. */
export function takeRelay(
  cwd: string,
  at: AttemptRef,
  dir: string,
  said: string,
): Output | { readonly problem: string } {
  const written = textOf(relayFileIn(cwd, at));
  const problems = [written, said].map(faultOf);
  const text = problems[0] === undefined ? written : problems[1] === undefined ? said : undefined;
  if (text === undefined) {
    const which = written === undefined ? problems[1] : problems[0];
    return { problem: `the notes for the next conversation are not good: ${which}` };
  }
  return keepNotes(dir, text);
}

/** Writes notes to the folder of an attempt and flushes them, before the journal names them (engine/B4). */
export function keepNotes(dir: string, text: string): Output {
  const path = join(dir, COPY);
  writeFileSync(path, text, { mode: 0o600, flush: true });
  return { path, sha256: sha256(text), bytes: Buffer.byteLength(text) };
}

/** The text of a handover, verified against the hash in the journal. */
export function readRelay({ path, sha256: expected }: Output): string {
  const text = textOf(path);
  if (text !== undefined && sha256(text) === expected) return text;
  const state = text === undefined ? "is gone" : "was changed";
  throw new LaunchError(`it should continue from the notes ${path}, but the file ${state}`);
}

function faultOf(text: string | undefined): string | undefined {
  if (text === undefined) return "there are none";
  if (text.trim().length < CHARACTERS_MIN) return "they are too short";
  if (text.length > CHARACTERS_MAX) return `they are longer than ${CHARACTERS_MAX} characters`;
  const missing = RELAY_SECTIONS.find((section) => !hasSection(text, section));
  return missing === undefined ? undefined : `the part "${missing}" is missing or empty`;
}

/** True for a heading of any level with text below it. */
function hasSection(text: string, section: string): boolean {
  const lines = text.split("\n").map((line) => line.trim());
  const isHeading = (line: string): boolean => line.startsWith("#");
  const start = lines.findIndex(
    (line) => isHeading(line) && line.toLowerCase().includes(section.toLowerCase()),
  );
  if (start < 0) return false;
  const end = lines.findIndex((line, index) => index > start && isHeading(line));
  return lines.slice(start + 1, end < 0 ? undefined : end).some((line) => line !== "");
}

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
        this.#text = appended(this.#text, `${event.text}\n`, TEXT_CHARACTERS_MAX);
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
