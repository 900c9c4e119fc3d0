/**
 * A fold over the lines of a file that only grows: each line is read once, however often one asks.
 *
 * Owns: where the reading of each file stopped, and noticing that it is another file by now.
 * Does not: know what lines mean. The last one may be torn; whoever reads it as JSON sees that.
 */
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { errorCode } from "../file-text.ts";

const BLOCK_BYTES = 256 * 1024;
/** So many bytes before the place where the reading stopped tell whether it is still that file. */
const TAIL_BYTES = 256;
/** The files that were asked for last are remembered. */
const FILES_MAX = 64;
const NEWLINE = 0x0a;

interface Position<T> {
  readonly state: T;
  /** All lines before this byte are in the state. */
  readonly offset: number;
  readonly tail: Buffer;
}

/**
 * What the lines of files add up to; `add` takes in one line. It may change the state that it is
 * given if taking in the same line twice changes nothing: a line without its end is read again.
 */
export class LineFold<T> {
  readonly #start: () => T;
  readonly #add: (state: T, line: string) => T;
  readonly #isWanted: (line: Buffer) => boolean;
  readonly #known = new Map<string, Position<T>>();

  /** Lines that are not wanted are not even decoded: most of a transcript is what tools printed. */
  constructor(
    start: () => T,
    add: (state: T, line: string) => T,
    isWanted: (line: Buffer) => boolean = () => true,
  ) {
    this.#start = start;
    this.#add = add;
    this.#isWanted = isWanted;
  }

  /** What the file adds up to now; what nothing adds up to where there is none. */
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
    const goesOn = before !== undefined && isSame(descriptor, size, before);
    let { state, offset } = goesOn ? before : { state: this.#start(), offset: 0 };
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

function opened(file: string): number | undefined {
  try {
    return openSync(file, "r");
  } catch (error) {
    if (errorCode(error) === "ENOENT") return undefined;
    throw error;
  }
}

function bytesAt(descriptor: number, from: number, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  return bytes.subarray(0, readSync(descriptor, bytes, 0, length, from));
}
