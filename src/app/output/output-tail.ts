/**
 * The end of an attempt's output, for a screen that is drawn again and again: each frame reads what is
 * new and keeps the last lines.
 *
 * Owns: how many lines and characters are kept.
 * Does not: watch files or wait; the caller decides when to read.
 * Invariants:
 * - output-tail/O5 A call of `read` reads a limited number of bytes, and what is kept has a limit.
 */
import { join } from "node:path";
import type { AttemptRef } from "../../core/event.ts";
import { attemptOf, hasProcess, stepOf } from "../../core/run.ts";
import { stepPath } from "../../core/step-path.ts";
import { attemptDirOf, type RunDir } from "../../engine/state-dir.ts";
import { PulledFile } from "../../runner/process/output.ts";
import { defined } from "../../util/defined.ts";
import type { FailedOutput } from "../../view/end-card.ts";
import { principalFailure } from "../../view/failure-advice.ts";
import { commandText, plainText } from "../../view/text.ts";
import type { LoadedRun } from "../loaded-run.ts";
import {
  type AgentActivity,
  markedText,
  type OutputLine,
  type OutputReaders,
  outputReaders,
  type PrintedAttempt,
  printedAttempt,
} from "./output.ts";
import { masked } from "./secret-mask.ts";

const LINES_KEPT_MAX = 500;
const LINE_CHARACTERS_MAX = 2_000;

interface TailSource {
  readonly dir: RunDir;
  readonly at: AttemptRef;
  readonly readers: OutputReaders;
}

/** A tail is complete after so many reads, or the output is longer than anybody reads. */
const READS_MAX = 16;

/** Reads the output of one attempt from its first byte, or from its end if it is long. */
export class OutputTail {
  readonly #files: readonly { readonly file: PulledFile; readonly isStream: boolean }[];
  readonly #activity: () => AgentActivity | undefined;
  #lines: OutputLine[] = [];
  #dropped = false;

  constructor({ dir, at, readers }: TailSource, printed: PrintedAttempt) {
    const folder = attemptDirOf(dir, at);
    const reader = readers(printed);
    this.#activity = () => reader.activity();
    this.#files = reader.files.map(({ name, isStream, lines }) => {
      const take = (text: string): void => {
        for (const line of lines(text)) this.#keep(line);
      };
      // The stream of an agent is read whole: its usage is a sum over all of it.
      const from = isStream ? "whole" : "end";
      return { file: new PulledFile(join(folder, name), take, from), isStream };
    });
  }

  /** Of an agent: what it has used and what it does. */
  get activity(): AgentActivity | undefined {
    return this.#activity();
  }

  /** The last lines, newest last, without escapes and secrets. */
  lines(): readonly OutputLine[] {
    const partial = this.#files.flatMap(({ file, isStream }) =>
      isStream || file.partial === "" ? [] : [shown({ text: file.partial })],
    );
    return partial.length === 0 ? this.#lines : [...this.#lines, ...partial];
  }

  /** True when there were more lines than are kept. */
  get isCut(): boolean {
    return this.#dropped || this.#files.some(({ file }) => file.hasSkipped);
  }

  /** Reads what is new, up to a limit; true when there was something. */
  read(): boolean {
    let bytes = 0;
    for (const { file } of this.#files) bytes += file.pull();
    return bytes > 0;
  }

  /** Reads the rest of an attempt that has ended. */
  readToEnd(): void {
    for (let reads = 0; reads < READS_MAX && this.read(); reads++);
    this.close();
  }

  /** Ends the reading; the incomplete last lines count. */
  close(): void {
    for (const { file } of this.#files) file.close();
  }

  #keep(line: OutputLine): void {
    this.#lines.push(shown(line));
    if (this.#lines.length < 2 * LINES_KEPT_MAX) return;
    this.#lines = this.#lines.slice(-LINES_KEPT_MAX);
    this.#dropped = true;
  }
}

/** Masked before it is shortened: half of a secret is not recognised. */
function shown({ text, tone, ...of }: OutputLine): OutputLine {
  const plain = plainText(masked(text)).slice(0, LINE_CHARACTERS_MAX);
  return { text: markedText({ ...of, text: plain }), ...defined({ tone }) };
}

const FAILED_LINES_MAX = 20;
/** The end of the output of the step that made a run fail; undefined when it printed nothing. */
export async function failedOutput({
  run,
  plan,
  dir,
  shortId,
}: LoadedRun): Promise<FailedOutput | undefined> {
  const visit = run.state.status === "failed" ? principalFailure(run) : undefined;
  if (visit === undefined || visit.attempts === 0 || !hasProcess(stepOf(visit))) return undefined;
  const at = attemptOf(visit);
  const tail = new OutputTail(
    { dir, at, readers: await outputReaders(plan) },
    printedAttempt(visit),
  );
  tail.readToEnd();
  const lines = tail.lines().map(({ text }) => text);
  while (lines.at(-1)?.trim() === "") lines.pop();
  if (lines.length === 0) return undefined;
  const logs = commandText("logs", shortId, stepPath(at));
  return { lines: lines.slice(-FAILED_LINES_MAX), logs };
}
