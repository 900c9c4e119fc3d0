/**
 * Reads output files while they grow.
 *
 * Owns: lines from bytes; following a file, pulling from it, and its end.
 * Does not: hold a file in memory: one chunk and one line at a time.
 * Invariants:
 * - runner/O1 every complete line is delivered once and in order; the incomplete last one at
 *   `close`.
 * - runner/O2 a line longer than its limit (LINE_BYTES_MAX by default) is cut, never grown.
 * - runner/O3 a character is decoded whole, wherever a chunk or a cut falls.
 * - runner/O4 a reader that fails stops and reports the error, once to `onError` and again at
 *   `close`; no such error ends the program.
 */
import { closeSync, constants, fstatSync, openSync, promises, readSync } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { errorCode } from "../file-text.ts";
import { watchFile } from "./waiting.ts";

/** The longest line that is delivered whole. */
export const LINE_BYTES_MAX = 1024 * 1024;

const CHUNK_BYTES = 64 * 1024;
const LAST_LINE_BYTES_MAX = 4 * 1024;

/** How often a fast writer is read at most, and how often a file without a watch is polled. */
const BATCH_MS = 20;
const CHECK_MS = 250;

const NEWLINE = 0x0a;

/** A file that is being followed. */
interface FollowedFile {
  /**
   * Reads the rest, delivers the incomplete last line, and closes the file. Rejects with the error
   * that ended the reading, if one did.
   */
  close(): Promise<void>;
}

interface FollowOptions {
  readonly fromOffset?: number;
  readonly bytesMax?: number;
  /** The file cannot be read any more, or `onLine` threw; called once, and no line follows. */
  readonly onError?: (error: unknown) => void;
}

/** Calls `onLine` with each line and the offset after it, as the file grows. */
export function followLines(
  file: string,
  onLine: (line: string, endOffset: number) => void,
  { fromOffset = 0, bytesMax = LINE_BYTES_MAX, onError }: FollowOptions = {},
): FollowedFile {
  const cutter = new LineCutter(fromOffset, bytesMax, onLine);
  const follower = new Follower(file, cutter, fromOffset, onError);
  return { close: () => follower.close() };
}

/** The last line of a file that is not blank, progress bars included; "" when there is none. */
export function lastLine(file: string): string {
  const lines = lastText(file, LAST_LINE_BYTES_MAX).split(/[\r\n]+/);
  return lines.findLast((line) => line.trim() !== "")?.trim() ?? "";
}

/** The last bytes of a file as text; "" when there is none. */
export function lastText(file: string, bytesMax: number): string {
  const tail = readTail(file, bytesMax);
  return tail.toString("utf8", characterStart(tail));
}

/** How much of a file one call of `PulledFile.pull` reads; a frame of a screen waits for it. */
const PULL_BYTES_MAX = 512 * 1024;
/** The end of an output that is kept when its reader skips ahead. */
const SKIP_TO_BYTES = 64 * 1024;

/**
 * A file that is read when its reader asks for it: no watch, no timer, no promise. A reader that
 * only shows the end skips what came too fast.
 */
export class PulledFile {
  readonly #file: string;
  readonly #onLine: (line: string) => void;
  readonly #mode: "whole" | "end";
  #lines: LineCutter;
  #offset = 0;
  #descriptor: number | undefined;
  /** The rest of the line in which the reader arrived when it skipped ahead. */
  #isTorn = false;
  #hasSkipped = false;

  constructor(file: string, onLine: (line: string) => void, mode: "whole" | "end") {
    this.#file = file;
    this.#onLine = onLine;
    this.#mode = mode;
    this.#lines = this.#cutter();
  }

  /** True when lines were left out. */
  get hasSkipped(): boolean {
    return this.#hasSkipped;
  }

  /** The last line as far as it is written. */
  get partial(): string {
    return this.#isTorn ? "" : this.#lines.partial;
  }

  /** Reads what is new, up to a limit; gives the number of bytes. */
  pull(): number {
    this.#descriptor ??= openFile(this.#file);
    if (this.#descriptor === undefined) return 0;
    const { size } = fstatSync(this.#descriptor);
    if (this.#mode === "end" && size - this.#offset > PULL_BYTES_MAX) this.#skip(size);
    const wanted = Math.min(size - this.#offset, PULL_BYTES_MAX);
    if (wanted <= 0) return 0;
    const chunk = Buffer.allocUnsafe(wanted);
    const read = readSync(this.#descriptor, chunk, 0, wanted, this.#offset);
    this.#offset += read;
    this.#lines.push(chunk.subarray(0, read));
    return read;
  }

  /** Delivers the incomplete last line and closes the file. */
  close(): void {
    this.#lines.end();
    if (this.#descriptor !== undefined) closeSync(this.#descriptor);
    this.#descriptor = undefined;
  }

  #skip(size: number): void {
    this.#offset = size - SKIP_TO_BYTES;
    this.#hasSkipped = true;
    this.#isTorn = true;
    this.#lines = this.#cutter();
  }

  #cutter(): LineCutter {
    return new LineCutter(this.#offset, LINE_BYTES_MAX, (line) => {
      if (this.#isTorn) this.#isTorn = false;
      else this.#onLine(line);
    });
  }
}

/** The descriptor of a regular file that is there. */
function openFile(file: string): number | undefined {
  let descriptor: number;
  try {
    descriptor = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch (error) {
    if (["ENOENT", "ENOTDIR", "ENXIO"].includes(errorCode(error))) return undefined;
    throw error;
  }
  if (fstatSync(descriptor).isFile()) return descriptor;
  closeSync(descriptor);
  return undefined;
}

class Follower {
  readonly #file: string;
  readonly #lines: LineCutter;
  readonly #chunk = Buffer.allocUnsafe(CHUNK_BYTES);
  #offset: number;
  #handle: FileHandle | undefined;
  #unwatch: (() => void) | undefined;
  #timer: NodeJS.Timeout | undefined;
  #reading: Promise<void> = Promise.resolve();
  #closed: Promise<void> | undefined;
  #changed = false;
  #failed: { readonly error: unknown } | undefined;
  readonly #onError: FollowOptions["onError"];

  constructor(
    file: string,
    lines: LineCutter,
    fromOffset: number,
    onError: FollowOptions["onError"],
  ) {
    this.#file = file;
    this.#lines = lines;
    this.#offset = fromOffset;
    this.#onError = onError;
    this.#schedule(0);
  }

  close(): Promise<void> {
    this.#closed ??= this.#finish();
    return this.#closed;
  }

  async #finish(): Promise<void> {
    clearTimeout(this.#timer);
    this.#unwatch?.();
    await this.#reading;
    try {
      if (this.#failed !== undefined) throw this.#failed.error;
      await this.#readOn();
      this.#lines.end();
    } finally {
      await this.#handle?.close();
    }
  }

  #schedule(delayMs: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#reading = this.#turn().catch((error: unknown) => this.#fail(error));
    }, delayMs);
  }

  #fail(error: unknown): void {
    this.#failed = { error };
    this.#unwatch?.();
    this.#onError?.(error);
  }

  async #turn(): Promise<void> {
    this.#changed = false;
    await this.#readOn();
    if (this.#closed !== undefined) return;
    if (this.#handle !== undefined) this.#unwatch ??= watchFile(this.#file, () => this.#wake());
    this.#schedule(this.#changed ? BATCH_MS : CHECK_MS);
  }

  #wake(): void {
    if (this.#changed || this.#closed !== undefined || this.#failed !== undefined) return;
    this.#changed = true;
    if (this.#timer !== undefined) this.#schedule(BATCH_MS);
  }

  async #readOn(): Promise<void> {
    this.#handle ??= await openIfThere(this.#file);
    if (this.#handle === undefined) return;
    for (;;) {
      const { bytesRead } = await this.#handle.read(this.#chunk, 0, CHUNK_BYTES, this.#offset);
      if (bytesRead === 0) return;
      this.#offset += bytesRead;
      this.#lines.push(this.#chunk.subarray(0, bytesRead));
    }
  }
}

/** Splits bytes that arrive in any pieces into lines. */
class LineCutter {
  readonly #onLine: (line: string, endOffset: number) => void;
  readonly #bytesMax: number;
  #kept: Buffer[] = [];
  #keptBytes = 0;
  #offset: number;
  #pending = false;

  constructor(
    fromOffset: number,
    bytesMax: number,
    onLine: (line: string, endOffset: number) => void,
  ) {
    this.#offset = fromOffset;
    this.#bytesMax = bytesMax;
    this.#onLine = onLine;
  }

  push(chunk: Buffer): void {
    let from = 0;
    for (let at = chunk.indexOf(NEWLINE); at >= 0; at = chunk.indexOf(NEWLINE, from)) {
      this.#keep(chunk.subarray(from, at));
      this.#offset += 1;
      this.#deliver();
      from = at + 1;
    }
    if (from < chunk.length) this.#keep(chunk.subarray(from));
  }

  end(): void {
    if (this.#pending) this.#deliver();
  }

  /** The beginning of a line that is not complete yet. */
  get partial(): string {
    return this.#pending ? Buffer.concat(this.#kept).toString("utf8") : "";
  }

  #keep(piece: Buffer): void {
    this.#pending = true;
    this.#offset += piece.length;
    const room = this.#bytesMax - this.#keptBytes;
    if (room <= 0 || piece.length === 0) return;
    // Copied, because the chunk is reused.
    this.#kept.push(Buffer.from(piece.subarray(0, room)));
    this.#keptBytes += Math.min(room, piece.length);
  }

  #deliver(): void {
    const bytes = Buffer.concat(this.#kept);
    const whole = bytes.length === this.#bytesMax ? characterEnd(bytes) : bytes.length;
    this.#kept = [];
    this.#keptBytes = 0;
    this.#pending = false;
    this.#onLine(bytes.toString("utf8", 0, whole).replace(/\r$/, ""), this.#offset);
  }
}

async function openIfThere(file: string): Promise<FileHandle | undefined> {
  try {
    const handle = await promises.open(file, constants.O_RDONLY | constants.O_NONBLOCK);
    if ((await handle.stat()).isFile()) return handle;
    await handle.close();
    throw new Error(`${file} is no file any more`);
  } catch (error) {
    if (errorCode(error) === "ENOENT") return undefined;
    throw error;
  }
}

function readTail(file: string, bytesMax: number): Buffer {
  const fd = openFile(file);
  if (fd === undefined) return Buffer.alloc(0);
  try {
    const { size } = fstatSync(fd);
    const tail = Buffer.alloc(Math.min(size, bytesMax));
    return tail.subarray(0, readSync(fd, tail, 0, tail.length, size - tail.length));
  } finally {
    closeSync(fd);
  }
}

const isContinuation = (byte: number | undefined): boolean =>
  byte !== undefined && (byte & 0xc0) === 0x80;

/** Where the first whole character begins. */
function characterStart(bytes: Buffer): number {
  let at = 0;
  while (at < 3 && isContinuation(bytes[at])) at++;
  return at;
}

/** Where the last whole character ends: a sequence shorter than its head says is incomplete. */
function characterEnd(bytes: Buffer): number {
  let head = bytes.length - 1;
  while (head > bytes.length - 4 && isContinuation(bytes[head])) head--;
  const first = bytes[head] ?? 0;
  const length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
  return head + length > bytes.length ? head : bytes.length;
}
