/**
 * The lines of a file from its last to its first: what a long transcript says last is read without
 * the rest of it.
 *
 * Owns: the way backwards through the blocks of a file.
 * Does not: know what lines mean. The last one may be torn; whoever reads it as JSON sees that.
 */
import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { errorCode } from "../file-text.ts";

const BLOCK_BYTES = 256 * 1024;
const NEWLINE = 0x0a;

/**
 * The lines of a file as it is now, last to first, from at most so many of its last bytes. A line
 * that begins before those is left out. None where there is no file.
 */
export function* linesFromEnd(file: string, bytesMax: number): Generator<string> {
  const descriptor = opened(file);
  if (descriptor === undefined) return;
  try {
    const size = fstatSync(descriptor).size;
    const from = Math.max(0, size - bytesMax);
    // The pieces of the line whose beginning is not found yet, first to last.
    let pieces: readonly Buffer[] = [];
    for (let end = size; end > from; end -= Math.min(BLOCK_BYTES, end - from)) {
      const block = blockOf(descriptor, Math.max(from, end - BLOCK_BYTES), end);
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

/** What is searched of a transcript: what was said last stands near its end. */
export const TRANSCRIPT_BYTES_MAX = 64 * 1024 * 1024;

/** True when a word, which has no quotes in it, stands in the last part of a transcript. */
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

/** The bytes between two places; fewer if the file has become shorter meanwhile. */
function blockOf(descriptor: number, from: number, end: number): Buffer {
  const bytes = Buffer.alloc(end - from);
  return bytes.subarray(0, readSync(descriptor, bytes, 0, bytes.length, from));
}
