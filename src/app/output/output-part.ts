/**
 * A part of what an attempt printed, by its bytes: for a page that shows any part of a long output
 * without reading all of it.
 *
 * Owns: which attempt and file a name means, where a part begins and ends, and following a file.
 * Does not: join a name from outside into a path; the attempt and the file are looked up.
 * Invariants:
 * - output-part/O1 A part costs the memory of one part, however long the file is.
 * - output-part/O2 A part ends where the next one begins: never inside a character, a secret or an escape.
 */
import * as fs from "node:fs/promises";
import { join } from "node:path";
import type { EventOf, Recorded } from "../../core/event.ts";
import { attemptText } from "../../core/step-path.ts";
import { attemptDirOf } from "../../engine/state-dir.ts";
import { errorCode } from "../../runner/file-text.ts";
import { LINE_BYTES_MAX } from "../../runner/process/output.ts";
import { pause, watchFile } from "../../runner/process/waiting.ts";
import { attemptEnd } from "../../view/attempt-history.ts";
import { plainLines, withoutEscapes } from "../../view/text.ts";
import type { LoadedRun } from "../loaded-run.ts";
import { stepNamed } from "../project/names.ts";
import type { Project } from "../project/project.ts";
import { command, Refusal } from "../refusal.ts";
import { type OutputFile, outputFiles, outputReaders, startedAttempt } from "./output.ts";
import { masked } from "./secret-mask.ts";

/** How many bytes of an output one answer holds, by default and at most. */
const PART_BYTES = 64 * 1024;
const PART_BYTES_MAX = 1024 * 1024;
/** How far around a cut a secret is looked for. */
const AROUND_BYTES = 4 * 1024;
/** How far a cut moves in one step when it falls into a secret. */
const MOVE_BYTES = 8;
/** How often a file that the system does not watch is read. */
const LOOK_MS = 500;
/** How often a fast writer is read. */
const BATCH_MS = 100;
/** How long an incomplete last line is held back. */
const QUIET_MS = 400;

const NEWLINE = 0x0a;

/** The start of an attempt. */
export type AttemptStart = EventOf<"step.started">;

/** The part of an output that somebody wants. */
export interface WantedOutput {
  /** `fix@2.1`; the last attempt of a step or a visit if it names no attempt. */
  readonly attempt: string;
  readonly file?: string | undefined;
  /** The first byte; a negative number counts from the end. */
  readonly from?: number | undefined;
  readonly limit?: number | undefined;
}

/** A part of an output. */
export interface OutputPart {
  readonly attempt: string;
  readonly file: string;
  /** The bytes of the file that the text stands for. */
  readonly from: number;
  readonly to: number;
  /** How long the file is. */
  readonly bytes: number;
  /** Nothing follows this part. */
  readonly ended: boolean;
  readonly text: string;
}

/** The attempt that a name means: the last one of a step or a visit that it names. */
export function attemptNamed(known: LoadedRun, name: string): AttemptStart {
  const full = stepNamed(known, name);
  const found = known.events.findLast(({ event }) => {
    if (event.type !== "step.started") return false;
    const at = attemptText(event);
    return at === full || isInside(at, full);
  })?.event;
  if (found?.type === "step.started") return found;
  const message = `run ${known.shortId} has had no attempt ${name}`;
  throw new Refusal("unknown-step", message, command("show", known.shortId));
}

/** True for an attempt `fix@2.1` of the visit `fix@2` or of the step `fix`. */
function isInside(attempt: string, name: string): boolean {
  return attempt.startsWith(name) && /^(@\d+)?\.\d+$/.test(attempt.slice(name.length));
}

/** True when one of these events ended an attempt: it prints nothing more. */
export function hasEnded(
  { events }: { readonly events: readonly Recorded[] },
  at: AttemptStart,
): boolean {
  const key = attemptText(at);
  return events.some(({ event }) => {
    const end = attemptEnd(event);
    return end !== undefined && attemptText(end) === key;
  });
}

/** A file of an attempt with its size. */
interface SizedOutput extends OutputFile {
  readonly bytes: number;
}

/** The files that an attempt has written, in the order in which they are written. */
export async function writtenOutput(
  known: LoadedRun,
  at: AttemptStart,
): Promise<readonly SizedOutput[]> {
  const folder = attemptDirOf(known.dir, at);
  const files: SizedOutput[] = [];
  for (const file of outputFiles(startedAttempt(known, at))) {
    const bytes = (await fs.stat(join(folder, file.name)).catch(missing))?.size ?? 0;
    if (bytes > 0) files.push({ ...file, bytes });
  }
  return files;
}

/** Where an output is, and how its bytes become text. */
interface OutputSource {
  readonly at: AttemptStart;
  readonly name: string;
  readonly path: string;
  /** Of the stream of an agent: what a person sees of some of its lines. */
  readonly words: ((lines: readonly string[]) => string) | undefined;
}

async function sourceOf(known: LoadedRun, wanted: WantedOutput): Promise<OutputSource> {
  const at = attemptNamed(known, wanted.attempt);
  const { files } = (await outputReaders(known.plan))(startedAttempt(known, at));
  const file = files.find(({ name }) => name === (wanted.file ?? files[0]?.name));
  if (file === undefined) {
    const names = files.map(({ name }) => name).join(", ");
    const message = `${attemptText(at)} has no output ${wanted.file}; it has ${names}`;
    throw new Refusal("missing-file", message, command("logs", known.shortId, attemptText(at)));
  }
  const { name, isStream } = file;
  const words = (lines: readonly string[]): string =>
    lines.flatMap((line) => file.lines(line).map(({ text }) => `${text}\n`)).join("");
  const path = join(attemptDirOf(known.dir, at), name);
  return { at, name, path, words: isStream ? words : undefined };
}

/** Reads a part of what an attempt printed. */
export async function readOutput(known: LoadedRun, wanted: WantedOutput): Promise<OutputPart> {
  const source = await sourceOf(known, wanted);
  // Asked before the file is read: an attempt that has ended has written all of it.
  return partOf(source, wanted, hasEnded(known, source.at));
}

async function partOf(
  source: OutputSource,
  { from: given = 0, limit = PART_BYTES }: WantedOutput,
  isOver: boolean,
): Promise<OutputPart> {
  const names = { attempt: attemptText(source.at), file: source.name };
  const file = await fs.open(source.path, "r").catch(missing);
  if (file === undefined) return { ...names, from: 0, to: 0, bytes: 0, ended: isOver, text: "" };
  try {
    const bytes = (await file.stat()).size;
    const length = Math.min(Math.max(limit, 1), PART_BYTES_MAX);
    const start = given < 0 ? Math.max(0, bytes + given) : Math.min(given, bytes);
    const part = await (source.words === undefined ? textPart : streamPart)(
      { file, bytes, words: source.words ?? (() => ""), isFromEnd: given < 0 },
      start,
      length,
    );
    return { ...names, ...part, bytes, ended: isOver && part.to >= bytes };
  } finally {
    await file.close();
  }
}

interface OpenOutput {
  readonly file: fs.FileHandle;
  readonly bytes: number;
  readonly words: (lines: readonly string[]) => string;
  readonly isFromEnd: boolean;
}

type Part = Pick<OutputPart, "from" | "to" | "text">;

/** A part of a text: whole lines where they fit. */
async function textPart(output: OpenOutput, start: number, length: number): Promise<Part> {
  const read = Math.max(0, start - AROUND_BYTES);
  const wanted = start - read + length + AROUND_BYTES;
  const around = await bytesAt(output.file, read, Math.min(wanted, output.bytes - read));
  const end = read + around.length;
  const line = output.isFromEnd && start > 0 ? around.indexOf(NEWLINE, start - read) : -1;
  const begin = line >= 0 && line < around.length - 1 ? line + 1 : boundary(around, start - read);
  const full = Math.min(begin + length, around.length);
  const whole = around.lastIndexOf(NEWLINE, full - 1) + 1;
  const isLast = end >= output.bytes && full === around.length;
  const cut = isLast ? full : whole > begin ? whole : boundary(around, full);
  const text = plainLines(masked(around.toString("utf8", begin, cut)));
  return { from: read + begin, to: read + cut, text };
}

/** The first position from `at` on that is not inside a character, a secret or a terminal escape. */
function boundary(bytes: Buffer, at: number): number {
  if (at <= 0 || at >= bytes.length || bytes[at - 1] === NEWLINE) return Math.max(0, at);
  const from = bytes.lastIndexOf(NEWLINE, at - 1) + 1;
  for (let cut = characterStart(bytes, at); cut < bytes.length; ) {
    const newline = bytes.indexOf(NEWLINE, cut);
    const before = bytes.toString("utf8", Math.max(from, cut - AROUND_BYTES), cut);
    const until = Math.min(newline < 0 ? bytes.length : newline, cut + AROUND_BYTES);
    const after = bytes.toString("utf8", cut, until);
    if (shown(before + after) === shown(before) + shown(after)) return cut;
    cut = characterStart(bytes, cut + MOVE_BYTES);
  }
  return characterStart(bytes, at);
}

function shown(text: string): string {
  return withoutEscapes(masked(text));
}

function characterStart(bytes: Buffer, at: number): number {
  let start = at;
  while (start < bytes.length && ((bytes[start] ?? 0) & 0xc0) === 0x80) start++;
  return start;
}

/** A part of the stream of an agent: its lines are read whole, whatever the limit is. */
async function streamPart(output: OpenOutput, start: number, length: number): Promise<Part> {
  const { file, bytes, words } = output;
  const from = start === 0 ? 0 : await lineEnd(output, start - 1);
  const chunk = await bytesAt(file, from, Math.min(length, bytes - from));
  const whole = chunk.lastIndexOf(NEWLINE) + 1;
  if (whole > 0) return { from, to: from + whole, text: wordsOf(chunk.subarray(0, whole), words) };
  const to = await lineEnd(output, from);
  // The last line is not complete yet.
  if (to === from) return { from, to, text: "" };
  if (to - from > LINE_BYTES_MAX) return { from, to, text: "… (a line that is too long)\n" };
  return { from, to, text: wordsOf(await bytesAt(file, from, to - from), words) };
}

function wordsOf(bytes: Buffer, words: OpenOutput["words"]): string {
  const lines = bytes.toString("utf8").split("\n").slice(0, -1);
  return plainLines(masked(words(lines)));
}

/** The byte after the end of the line at a position; the position itself when it has no end. */
async function lineEnd({ file, bytes }: OpenOutput, at: number): Promise<number> {
  for (let from = at; from < bytes; from += PART_BYTES) {
    const chunk = await bytesAt(file, from, Math.min(PART_BYTES, bytes - from));
    const newline = chunk.indexOf(NEWLINE);
    if (newline >= 0) return from + newline + 1;
    if (chunk.length === 0) break;
  }
  return at;
}

async function bytesAt(file: fs.FileHandle, from: number, length: number): Promise<Buffer> {
  const bytes = Buffer.alloc(Math.max(0, length));
  const { bytesRead } = await file.read(bytes, 0, bytes.length, from);
  return bytes.subarray(0, bytesRead);
}

function missing(error: unknown): undefined {
  if (["ENOENT", "ENOTDIR"].includes(errorCode(error))) return undefined;
  throw error;
}

/** Yields what an attempt prints from a byte on, part by part, until it has ended. */
export async function* followOutput(
  project: Project,
  known: LoadedRun,
  wanted: WantedOutput,
  signal: AbortSignal,
): AsyncGenerator<OutputPart> {
  const source = await sourceOf(known, wanted);
  let { from } = wanted;
  let isOver = hasEnded(known, source.at);
  let seq = known.run.seq;
  let held: { readonly bytes: number; readonly since: number } | undefined;
  while (!signal.aborted) {
    const part = await partOf(source, { ...wanted, from }, isOver);
    const isWhole = part.ended || part.to < part.bytes || part.text.endsWith("\n");
    if (part.bytes !== held?.bytes) held = { bytes: part.bytes, since: performance.now() };
    const isQuiet = performance.now() - held.since >= QUIET_MS;
    if (part.ended || (part.to > part.from && (isWhole || isQuiet))) {
      yield part;
      from = part.to;
      if (part.ended) return;
    }
    if (part.to < part.bytes && part.to > part.from) continue;
    await changeOf(source.path, signal);
    const news = await project.journal.log.eventsAfter(known.id, seq);
    seq = news.at(-1)?.seq ?? seq;
    isOver ||= hasEnded({ events: news }, source.at);
  }
}

/** Waits until a file may have changed. */
async function changeOf(path: string, signal: AbortSignal): Promise<void> {
  const changed = new AbortController();
  const unwatch = watchFile(path, () => changed.abort());
  await pause(LOOK_MS, AbortSignal.any([signal, changed.signal]));
  unwatch?.();
  await pause(BATCH_MS, signal);
}
