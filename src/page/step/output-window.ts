/**
 * The part of an output that the page holds: neighbouring chunks of it, never more than a limit, so
 * that an output of any size costs the browser the same.
 *
 * Owns: which chunks are held, and their lines.
 * Does not: load a chunk (output.ts) or show one.
 * Invariants:
 * - output-window/W1 The chunks are neighbours: each begins at the byte where the one before ends.
 * - output-window/W2 A line keeps its key while chunks are added and dropped around it.
 */
import type { Doc } from "../api.ts";

/** How much is asked for at once. */
export const CHUNK_BYTES = 128 * 1024;
/** How much is held. */
export const HELD_BYTES_MAX = 1024 * 1024;
/** A longer line is shown in pieces. */
const LINE_CHARACTERS_MAX = 2_000;

type Part = Pick<Doc<"output">, "from" | "to" | "bytes" | "ended" | "text">;

interface Chunk {
  readonly from: number;
  readonly to: number;
  readonly text: string;
}

export interface HeldOutput {
  readonly chunks: readonly Chunk[];
  /** How long the whole output is. */
  readonly bytes: number;
  /** Nothing more will come. */
  readonly ended: boolean;
}

export interface OutputLine {
  readonly key: number;
  readonly text: string;
}

/** The first byte that is held. */
export function heldFrom({ chunks }: HeldOutput): number {
  return chunks[0]?.from ?? 0;
}

/** The byte after the last one that is held. */
export function heldTo({ chunks }: HeldOutput): number {
  return chunks.at(-1)?.to ?? 0;
}

/** True when the end of the output is held. */
export function holdsEnd(window: HeldOutput): boolean {
  return heldTo(window) >= window.bytes;
}

/** A window with only this part. */
export function windowOf(part: Part): HeldOutput {
  return { chunks: [chunkOf(part)], bytes: part.bytes, ended: part.ended };
}

/** The window with a part after its end; chunks at its beginning are dropped when it is full. */
export function withNext(window: HeldOutput, part: Part): HeldOutput {
  const { bytes, ended } = part;
  if (part.from !== heldTo(window)) return { ...window, bytes: Math.max(bytes, window.bytes) };
  const last = window.chunks.at(-1);
  // Small news of a living step become one chunk.
  const isSmall = last !== undefined && part.to - last.from <= CHUNK_BYTES;
  const chunks = isSmall
    ? [...window.chunks.slice(0, -1), { from: last.from, to: part.to, text: last.text + part.text }]
    : [...window.chunks, chunkOf(part)];
  let first = 0;
  while (first < chunks.length - 1 && part.to - (chunks[first]?.from ?? 0) > HELD_BYTES_MAX)
    first++;
  return { chunks: chunks.slice(first), bytes, ended };
}

/** The window with a part before its beginning; chunks at its end are dropped when it is full. */
export function withPrevious(window: HeldOutput, part: Part): HeldOutput {
  if (part.to !== heldFrom(window) || part.to === part.from) return window;
  const chunks = [chunkOf(part), ...window.chunks];
  let length = chunks.length;
  while (length > 1 && (chunks[length - 1]?.to ?? 0) - part.from > HELD_BYTES_MAX) length--;
  const bytes = Math.max(window.bytes, part.bytes);
  return { ...window, chunks: chunks.slice(0, length), bytes };
}

function chunkOf({ from, to, text }: Part): Chunk {
  return { from, to, text };
}

const pieces = new WeakMap<Chunk, readonly string[]>();

/** The lines that are held; the first and the last one may be parts of a line. */
export function linesOf({ chunks }: HeldOutput): readonly OutputLine[] {
  const lines: OutputLine[] = [];
  let open: { key: number; text: string } | undefined;
  for (const chunk of chunks) {
    let at = chunk.from;
    const split = pieces.get(chunk) ?? chunk.text.split("\n");
    pieces.set(chunk, split);
    for (const [index, text] of split.entries()) {
      open = open === undefined ? { key: at, text } : { key: open.key, text: open.text + text };
      at += text.length + 1;
      if (index === split.length - 1) continue;
      addLine(lines, open);
      open = undefined;
    }
  }
  if (open !== undefined && open.text !== "") addLine(lines, open);
  return lines;
}

function addLine(lines: OutputLine[], { key, text }: OutputLine): void {
  if (text.length <= LINE_CHARACTERS_MAX) {
    lines.push({ key, text });
    return;
  }
  for (let at = 0; at < text.length; at += LINE_CHARACTERS_MAX) {
    lines.push({ key: key + at, text: text.slice(at, at + LINE_CHARACTERS_MAX) });
  }
}
