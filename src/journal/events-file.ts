/**
 * The second copy of a run's events, `runs/<id>/events.jsonl`: one line of JSON for each event, for
 * people, for other programs, and for the repair of a broken database.
 *
 * Owns: the format of the lines, and bringing the file up to date with the journal.
 * Does not: decide anything. The journal is the truth; the file may lag behind it and never leads it.
 * Invariants:
 * - journal/F1 A line carries the checksum that the journal has for the event (run-log/J7).
 * - journal/F2 A torn last line is removed; a file with any other difference is set aside and
 *   rewritten.
 * - journal/F3 A file that holds more whole events than the journal is an error: the journal lost
 *   them.
 * - journal/F4 An owner that was replaced removes no line of the next one.
 */
import * as fs from "node:fs";
import { dirname } from "node:path";
import type { Recorded } from "../core/event.ts";
import { assert } from "../util/assert.ts";
import { failpoint } from "../util/failpoint.ts";
import { isObject } from "../util/json.ts";
import {
  type ChainHead,
  chainCrc,
  chainStart,
  decode,
  encodeRecorded,
  type UnsealedEvent,
} from "./event-codec.ts";
import { guarded, JournalError } from "./journal-error.ts";
import { syncFile } from "./sqlite/database.ts";

const FILE_MODE = 0o600;
const NEWLINE = 0x0a;
/** How many bytes at the end of a file are read to find its last event. */
const TAIL_BYTES = 64 * 1024;

/** The changes that `catchUp` made. */
interface CatchUp {
  /** How many events were missing at the end. */
  readonly appended: number;
  /** How many bytes of a torn last line were removed. */
  readonly tornBytes: number;
  /** The new path of the old file, when it did not agree with the journal. */
  readonly setAside?: string;
}

/** The content of an events file, as far as it can be trusted. */
interface EventsFileContent {
  /** The run that the first line names. */
  readonly runId?: string;
  /** The events up to the first problem; their chain is whole. */
  readonly events: readonly Recorded[];
  readonly problems: readonly string[];
}

/** The events file of a run, open for appending. */
export class EventsFile {
  readonly #path: string;
  readonly #runId: string;
  #descriptor: number;
  #head: ChainHead | undefined;
  #bytes = 0;

  private constructor(path: string, runId: string, descriptor: number) {
    this.#path = path;
    this.#runId = runId;
    this.#descriptor = descriptor;
  }

  /** Opens the file, or creates it; `catchUp` must follow. Throws JournalError. */
  static open(path: string, runId: string): EventsFile {
    return new EventsFile(
      path,
      runId,
      guarded(path, () => openForWriting(path)),
    );
  }

  /** Makes the file hold exactly the events of the journal. Throws JournalError. */
  catchUp(events: readonly Recorded[]): CatchUp {
    return guarded(this.#path, () => {
      const { text, head } = encodeLines(this.#runId, chainStart(this.#runId), events);
      const wanted = Buffer.from(text);
      const actual = fs.readFileSync(this.#path);
      const whole = actual.lastIndexOf(NEWLINE) + 1;
      if (!wanted.subarray(0, actual.length).equals(actual)) {
        this.#checkNotAhead(head, events.length);
      }
      if (whole > wanted.length || !actual.subarray(0, whole).equals(wanted.subarray(0, whole))) {
        const setAside = this.#replace(wanted);
        this.#head = head;
        this.#bytes = wanted.length;
        return { appended: 0, tornBytes: 0, setAside };
      }
      if (whole < actual.length) fs.ftruncateSync(this.#descriptor, whole);
      this.#bytes = whole;
      const missing = wanted.subarray(whole);
      this.#write(missing);
      this.#head = head;
      const appended = missing.reduce((lines, byte) => lines + (byte === NEWLINE ? 1 : 0), 0);
      return { appended, tornBytes: actual.length - whole };
    });
  }

  /** Appends events that the journal has, in one write. Throws JournalError. */
  append(events: readonly Recorded[]): void {
    const head = this.#head;
    assert(head !== undefined, "catchUp comes before append");
    assert(events[0] === undefined || events[0].seq === head.seq + 1, "the events follow the head");
    failpoint("events-file.append.before");
    guarded(this.#path, () => {
      if (fs.fstatSync(this.#descriptor).size !== this.#bytes) this.#removeRest();
      const lines = encodeLines(this.#runId, head, events);
      this.#write(Buffer.from(lines.text));
      this.#head = lines.head;
    });
    failpoint("events-file.append.after");
  }

  /** Flushes the file to the disk. Throws JournalError. */
  sync(): void {
    guarded(this.#path, () => fs.fdatasyncSync(this.#descriptor));
  }

  close(): void {
    guarded(this.#path, () => fs.closeSync(this.#descriptor));
  }

  #write(bytes: Buffer): void {
    for (let done = 0; done < bytes.length; ) {
      const rest = bytes.length - done;
      done += fs.writeSync(this.#descriptor, bytes, done, rest, this.#bytes + done);
    }
    this.#bytes += bytes.length;
  }

  /** Removes the bytes of a failed write, which would be a torn line in the middle of the file. */
  #removeRest(): void {
    const rest = fs.readFileSync(this.#path).subarray(this.#bytes);
    const [line = ""] = rest.toString("utf8").split("\n", 1);
    if (parseLine(line)?.runId === this.#runId) {
      const message = `Another process owns run ${this.#runId} now: it writes ${this.#path}.`;
      throw new JournalError("stale-writer", message);
    }
    fs.ftruncateSync(this.#descriptor, this.#bytes);
  }

  #checkNotAhead(head: ChainHead, count: number): void {
    const { runId, events } = readEventsFile(this.#path);
    if (runId !== this.#runId || events.length <= count) return;
    const common = encodeLines(runId, chainStart(runId), events.slice(0, count));
    if (common.head.crc !== head.crc) return;
    throw new JournalError(
      "broken",
      `The journal of run ${runId} has lost events: it ends at ${count}, and its second copy ` +
        `${this.#path} has ${events.length}.`,
    );
  }

  /** Rewrites the file; the old one is kept under another name. */
  #replace(wanted: Buffer): string {
    const setAside = `${this.#path}.bad`;
    const building = `${this.#path}.new`;
    fs.writeFileSync(building, wanted, { mode: FILE_MODE, flush: true });
    fs.copyFileSync(this.#path, setAside);
    failpoint("events-file.replace.before");
    fs.renameSync(building, this.#path);
    syncFile(dirname(this.#path));
    failpoint("events-file.replace.after");
    fs.closeSync(this.#descriptor);
    this.#descriptor = openForWriting(this.#path);
    return setAside;
  }
}

/** False when the file certainly ends at this event of the journal or before it (journal/F3). */
export function mayBeAhead(path: string, seq: number): boolean {
  return guarded(path, () => {
    if (!fs.existsSync(path)) return false;
    const descriptor = fs.openSync(path, "r");
    try {
      const { size } = fs.fstatSync(descriptor);
      const tail = Buffer.alloc(Math.min(size, TAIL_BYTES));
      fs.readSync(descriptor, tail, 0, tail.length, size - tail.length);
      const end = tail.lastIndexOf(NEWLINE);
      if (end < 0) return size > 0;
      const last = tail.toString("utf8", tail.lastIndexOf(NEWLINE, end - 1) + 1, end);
      return (parseLine(last)?.event.seq ?? Number.POSITIVE_INFINITY) > seq;
    } finally {
      fs.closeSync(descriptor);
    }
  });
}

/** Reads an events file up to the first problem, and names the problem. */
export function readEventsFile(path: string): EventsFileContent {
  return parseEvents(guarded(path, () => fs.readFileSync(path)));
}

/** The text of an events file. */
export function eventsText(runId: string, events: readonly Recorded[]): string {
  return encodeLines(runId, chainStart(runId), events).text;
}

/** Parses the content of an events file up to the first problem. */
export function parseEvents(bytes: Buffer): EventsFileContent {
  const lines = bytes.toString("utf8").split("\n");
  const events: Recorded[] = [];
  const problems: string[] = [];
  let head: ChainHead | undefined;
  let runId: string | undefined;
  for (const [index, line] of lines.entries()) {
    const isLast = index === lines.length - 1;
    if (isLast && line === "") break;
    const read = readLine(line, head);
    if (typeof read === "string") {
      problems.push(`line ${index + 1}: ${isLast ? tornText(bytes) : read}`);
      const left = lines.length - 1 - index - (bytes.at(-1) === NEWLINE ? 1 : 0);
      if (left > 0) problems.push(`${left} more line${left === 1 ? "" : "s"} after it not used`);
      break;
    }
    ({ runId, head } = read);
    events.push(read.event);
  }
  return { ...(runId === undefined ? {} : { runId }), events, problems };
}

function tornText(bytes: Buffer): string {
  const torn = bytes.length - 1 - bytes.lastIndexOf(NEWLINE);
  return `torn, ${torn} byte${torn === 1 ? "" : "s"} dropped`;
}

interface Line {
  readonly runId: string;
  readonly head: ChainHead;
  readonly event: Recorded;
}

/** The event in the line after `previous`, or a description of its fault. */
function readLine(line: string, previous: ChainHead | undefined): Line | string {
  const parsed = parseLine(line);
  if (parsed === undefined) return "it is not an event";
  const { runId, crc, event } = parsed;
  const after = previous ?? chainStart(runId);
  if (event.seq !== after.seq + 1) return `event ${after.seq + 1} is missing`;
  if (chainCrc(after.crc, event) !== crc) return `event ${event.seq} does not match its checksum`;
  try {
    return { runId, head: { seq: event.seq, crc }, event: decode(runId, event) };
  } catch (error) {
    if (error instanceof JournalError && error.code === "broken") return error.message;
    throw error;
  }
}

function parseLine(line: string): { runId: string; crc: number; event: UnsealedEvent } | undefined {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
  if (!isObject(value)) return undefined;
  const { v: version, run: runId, seq, time, type, data, facts, crc } = value;
  if (typeof runId !== "string" || typeof type !== "string" || !isObject(data)) return undefined;
  if (typeof seq !== "number" || typeof time !== "number") return undefined;
  if (typeof version !== "number" || typeof crc !== "number") return undefined;
  // Parsing and writing our own JSON gives the same text again.
  const event = { seq, type, version, time, data: JSON.stringify(data) };
  return {
    runId,
    crc,
    event: facts === undefined ? event : { ...event, facts: JSON.stringify(facts) },
  };
}

function encodeLines(runId: string, from: ChainHead, events: readonly Recorded[]) {
  let { seq, crc } = from;
  let text = "";
  for (const recorded of events) {
    const event = encodeRecorded(recorded);
    const { version, time, type, data, facts } = event;
    seq = event.seq;
    crc = chainCrc(crc, event);
    const start = JSON.stringify({ v: version, run: runId, seq, time, type });
    const turns = facts === undefined ? "" : `,"facts":${facts}`;
    text += `${start.slice(0, -1)},"data":${data}${turns},"crc":${crc}}\n`;
  }
  return { text, head: { seq, crc } };
}

function openForWriting(path: string): number {
  const { O_RDWR, O_CREAT } = fs.constants;
  return fs.openSync(path, O_RDWR | O_CREAT, FILE_MODE);
}
