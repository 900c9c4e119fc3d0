/**
 * Reads transcripts: files of JSON lines that an agent may be appending to.
 *
 * Owns: reading from the end, reading only what is new, and the check whether a conversation in a
 * file has begun.
 * Does not: know what the lines of one agent mean. The last line may be incomplete; then it is not
 * valid JSON.
 */
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import type { JsonObject } from "../../util/json.ts";
import { errorCode } from "../file-text.ts";
import type { AgentCommand, FinishedCall } from "./adapter.ts";
import { objectIn } from "./stream-json.ts";

const BLOCK_BYTES = 256 * 1024;
const NEWLINE = 0x0a;

/**
 * The lines of a file, last to first, from its last `bytesMax` bytes. A line that begins before
 * them is left out. A missing file has no lines.
 */
export function* linesFromEnd(file: string, bytesMax: number): Generator<string> {
  const descriptor = opened(file);
  if (descriptor === undefined) return;
  try {
    const size = fstatSync(descriptor).size;
    const from = Math.max(0, size - bytesMax);
    // The pieces of a line whose beginning is not read yet, first to last.
    let pieces: readonly Buffer[] = [];
    for (let end = size; end > from; end -= Math.min(BLOCK_BYTES, end - from)) {
      const block = bytesAt(
        descriptor,
        Math.max(from, end - BLOCK_BYTES),
        Math.min(BLOCK_BYTES, end - from),
      );
      let lineEnd = block.length;
      for (;;) {
        const newline = lineEnd === 0 ? -1 : block.lastIndexOf(NEWLINE, lineEnd - 1);
        if (newline < 0) break;
        yield Buffer.concat([block.subarray(newline + 1, lineEnd), ...pieces]).toString("utf8");
        pieces = [];
        lineEnd = newline;
      }
      pieces = [block.subarray(0, lineEnd), ...pieces];
    }
    if (from === 0) yield Buffer.concat(pieces).toString("utf8");
  } finally {
    closeSync(descriptor);
  }
}

/** How much of the end of a transcript is searched: the latest turns are there. */
export const TRANSCRIPT_BYTES_MAX = 64 * 1024 * 1024;

/** True when the last part of a transcript contains a word without quotes. */
export function holds(transcript: string, word: string): boolean {
  for (const line of linesFromEnd(transcript, TRANSCRIPT_BYTES_MAX)) {
    if (line.includes(word)) return true;
  }
  return false;
}

function opened(file: string): number | undefined {
  try {
    return openSync(file, "r");
  } catch (error) {
    if (errorCode(error) === "ENOENT") return undefined;
    throw error;
  }
}

/** How many bytes before the last position are compared, to see that it is the same file. */
const TAIL_BYTES = 256;
/** How many files are remembered, the latest ones. */
const FILES_MAX = 64;

interface Position<T> {
  readonly state: T;
  /** All lines before this byte are in the state. */
  readonly offset: number;
  readonly tail: Buffer;
}

/**
 * A fold over the lines of files that only grow; it reads each line once. `add` may change the
 * state in place if adding a line twice changes nothing, because a line without its end is read
 * again.
 */
export class LineFold<T> {
  readonly #start: () => T;
  readonly #add: (state: T, line: string) => T;
  readonly #isWanted: (line: Buffer) => boolean;
  readonly #known = new Map<string, Position<T>>();

  /** Unwanted lines are not decoded: most of a transcript is the output of tools. */
  constructor(
    start: () => T,
    add: (state: T, line: string) => T,
    isWanted: (line: Buffer) => boolean = () => true,
  ) {
    this.#start = start;
    this.#add = add;
    this.#isWanted = isWanted;
  }

  /** The state after all lines of the file; the start state where there is no file. */
  of(file: string): T {
    const descriptor = opened(file);
    if (descriptor === undefined) return this.#start();
    try {
      return this.#readOn(file, descriptor);
    } finally {
      closeSync(descriptor);
    }
  }

  #readOn(file: string, descriptor: number): T {
    const { size } = fstatSync(descriptor);
    const before = this.#known.get(file);
    const isContinued = before !== undefined && isSame(descriptor, size, before);
    let { state, offset } = isContinued ? before : { state: this.#start(), offset: 0 };
    let pieces: Buffer[] = [];
    for (let from = offset; from < size; ) {
      const block = bytesAt(descriptor, from, Math.min(BLOCK_BYTES, size - from));
      if (block.length === 0) break;
      from += block.length;
      let begin = 0;
      for (let end = block.indexOf(NEWLINE); end >= 0; end = block.indexOf(NEWLINE, begin)) {
        const last = block.subarray(begin, end);
        const line = pieces.length === 0 ? last : Buffer.concat([...pieces, last]);
        if (this.#isWanted(line)) state = this.#add(state, line.toString("utf8"));
        offset += line.length + 1;
        pieces = [];
        begin = end + 1;
      }
      pieces.push(block.subarray(begin));
    }
    const rest = Buffer.concat(pieces);
    const tail = bytesAt(
      descriptor,
      Math.max(0, offset - TAIL_BYTES),
      Math.min(offset, TAIL_BYTES),
    );
    this.#remember(file, { state, offset, tail });
    return rest.length === 0 || !this.#isWanted(rest)
      ? state
      : this.#add(state, rest.toString("utf8"));
  }

  #remember(file: string, position: Position<T>): void {
    this.#known.delete(file);
    this.#known.set(file, position);
    const [oldest] = this.#known.keys();
    if (this.#known.size > FILES_MAX && oldest !== undefined) this.#known.delete(oldest);
  }
}

function isSame(
  descriptor: number,
  size: number,
  { offset, tail }: Pick<Position<unknown>, "offset" | "tail">,
): boolean {
  return size >= offset && bytesAt(descriptor, offset - tail.length, tail.length).equals(tail);
}

/** The bytes from a position; fewer if the file is shorter. */
function bytesAt(descriptor: number, from: number, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  return bytes.subarray(0, readSync(descriptor, bytes, 0, length, from));
}

/** A longer transcript certainly contains a turn. */
const LOOK_BYTES_MAX = 1024 * 1024;

/**
 * Whether a transcript of JSON lines contains a message of the user. An agent that is killed before
 * it leaves a file that it can neither resume nor overwrite.
 */
export function hasUserTurn(file: string): boolean {
  const text = beginningOf(file);
  if (text === undefined) return false;
  if (text.length >= LOOK_BYTES_MAX) return true;
  const whole = text.split("\n").slice(0, -1);
  return whole.some((line) => objectIn(line)?.type === "user");
}

/**
 * Whether the first line of a transcript of JSON lines is complete. An agent that is killed before
 * it is leaves a file that it cannot resume.
 */
export function hasFirstLine(file: string): boolean {
  const text = beginningOf(file) ?? "";
  if (text.length >= LOOK_BYTES_MAX) return true;
  const end = text.indexOf("\n");
  return end > 0 && objectIn(text.slice(0, end)) !== undefined;
}

/**
 * The command that removes transcripts without a turn, before a conversation starts under their id:
 * the agents refuse such an id as "already in use", and cannot resume it.
 */
export function removalOfEmpty(transcripts: readonly string[]): Pick<AgentCommand, "before"> {
  const empty = transcripts.filter((file) => !hasUserTurn(file));
  return empty.length === 0 ? {} : { before: ["rm", "-f", "--", ...empty] };
}

/** The calls without a recorded result; `recorded` gives the ids whose results are in a record. */
export function callsWithoutResult(
  transcript: string,
  calls: readonly FinishedCall[],
  recorded: (record: JsonObject) => readonly string[],
): readonly FinishedCall[] {
  const missing = new Set(calls.map(({ id }) => id));
  for (const line of linesFromEnd(transcript, TRANSCRIPT_BYTES_MAX)) {
    if (missing.size === 0) break;
    // Lines can be long, so most are not parsed.
    if (![...missing].some((id) => line.includes(id))) continue;
    const record = objectIn(line);
    for (const id of record === undefined ? [] : recorded(record)) missing.delete(id);
  }
  return calls.filter(({ id }) => missing.has(id));
}

function beginningOf(file: string): string | undefined {
  const descriptor = opened(file);
  if (descriptor === undefined) return undefined;
  try {
    return bytesAt(descriptor, 0, LOOK_BYTES_MAX).toString("latin1");
  } finally {
    closeSync(descriptor);
  }
}
