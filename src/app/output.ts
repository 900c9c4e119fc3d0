/**
 * The output of a run's attempts: the files that hold it, and the lines that a person sees of them.
 * For an agent, these are its words, its tool calls and its delays.
 *
 * Owns: the order and the labels of the files, these lines, and how much of an output is read.
 * Does not: judge a stream; the adapters are loaded only for plans that use them.
 */

import { closeSync, fstatSync, openSync, readSync, statSync } from "node:fs";
import { join } from "node:path";
import { judgeOf } from "../core/conversation/judge.ts";
import type { AttemptRef, RunEvent } from "../core/event.ts";
import { attemptOf, findVisit, stepOf, type Visit } from "../core/run.ts";
import { attemptText } from "../core/step-path.ts";
import { attemptDirOf, type RunDir } from "../engine/state-dir.ts";
import { checksOf } from "../plan/check.ts";
import type { Plan, Step } from "../plan/plan.ts";
import type { AgentEvent } from "../runner/agents/adapter.ts";
import { ATTEMPT_FILE, checkOutputFile } from "../runner/process/attempt-folder.ts";
import { followLines, lastLine } from "../runner/process/output.ts";
import { closeAll } from "../util/close.ts";
import { formatDuration } from "../util/duration.ts";
import { firstLine } from "../view/text.ts";
import type { LoadedRun } from "./loaded-run.ts";
import { masked } from "./secret-mask.ts";

interface OutputFile {
  readonly name: string;
  /** Who speaks in it, beside the step itself: a check, or a judge. */
  readonly mark?: string;
  /** It holds the stream of an agent, or what a command printed. */
  readonly isWork: boolean;
}

/** An attempt whose output is to be read. */
export interface PrintedAttempt {
  readonly step: Step | undefined;
  /** The agent that judges in it. */
  readonly judge?: string | undefined;
}

/** The attempt that a visit is at. */
export function printedAttempt(visit: Visit): PrintedAttempt {
  return { step: stepOf(visit), judge: judgeOf(visit)?.agent };
}

/** The files of an attempt, in the order in which they are written. */
export function outputFiles({ step, judge }: PrintedAttempt): readonly OutputFile[] {
  const work = [ATTEMPT_FILE.output, ATTEMPT_FILE.stderr] as const;
  if (judge !== undefined) return work.map((name) => ({ name, mark: "judge", isWork: true }));
  const commands = checksOf(step ?? {}).filter(({ kind }) => kind === "command");
  return [
    ...work.map((name) => ({ name, isWork: true })),
    ...commands.map((_, index) => ({
      name: checkOutputFile(index + 1),
      mark: commands.length === 1 ? "check" : `check ${index + 1}`,
      isWork: false,
    })),
  ];
}

/** Turns a line of an attempt's output into what is shown of it. */
type LineReader = (line: string) => readonly string[];

/** Gives a reader for the work of one attempt: that of its step's agent, or of its judge. */
export type LineReaders = (attempt: PrintedAttempt) => LineReader;

type Retrying = Extract<AgentEvent, { type: "retrying" }>;

const INPUT_SHOWN_MAX = 120;
const asItIs: LineReader = (line) => [line];

/** The readers for the steps of a plan. */
export async function lineReaders(plan: Plan): Promise<LineReaders> {
  const served = Object.values(plan.agents).some(({ adapter }) => adapter !== "command");
  if (!served) return () => asItIs;
  const { agentAdapter } = await import("../runner/agents/registry.ts");
  return ({ step, judge }) => {
    const agent = judge ?? (step?.work.kind === "agent" ? step.work.agent : "");
    const adapter = agentAdapter(plan.agents[agent]?.adapter ?? "");
    if (adapter === undefined) return asItIs;
    const reader = adapter.reader();
    // What is no part of the stream (an error of the program itself) is shown as it is.
    return (line) => (line.startsWith("{") ? reader.line(line).flatMap(shownLines) : [line]);
  };
}

/** "… overloaded (529): asks its model again in 0.6s (retry 2 of 10)". */
function retryText({ trouble, delayMs, attempt, attemptsMax }: Retrying): string {
  const when = delayMs === undefined ? "" : ` in ${formatDuration(delayMs)}`;
  const total = attemptsMax === undefined ? "" : ` of ${attemptsMax}`;
  const which = attempt === undefined ? "" : ` (retry ${attempt}${total})`;
  const again = when === "" && which === "" ? "" : `: asks its model again${when}${which}`;
  return `… ${trouble.message}${again}`;
}

function shownLines(event: AgentEvent): readonly string[] {
  switch (event.type) {
    case "text":
      return event.text.split("\n");
    case "tool-started":
      return [`→ ${event.name}: ${firstLine(event.input).slice(0, INPUT_SHOWN_MAX)}`];
    case "retrying":
      return [retryText(event)];
    case "denied":
      return [`✗ not permitted: ${event.tool}`];
    case "result":
      return event.ok ? [] : [`✗ ${event.trouble?.message ?? "it did not succeed"}`];
    default:
      return [];
  }
}

const TAIL_BYTES_MAX = 64 * 1024;
const TAIL_LINES_MAX = 40;
/** Of so many attempts at most, the newest. */
const ATTEMPTS_MAX = 200;

/** The tails by attempt (`fix@2.3`), oldest first; attempts that printed nothing are not there. */
export async function outputTails(known: LoadedRun): Promise<ReadonlyMap<string, string>> {
  const readers = await lineReaders(known.plan);
  const tails = new Map<string, string>();
  for (const at of attemptsOf(known).slice(-ATTEMPTS_MAX)) {
    const visit = findVisit(known.run, at);
    const printed = { step: visit && stepOf(visit), judge: at.judge };
    const read = readers(printed);
    const lines = outputFiles(printed)
      .flatMap(({ name, mark, isWork }) => {
        const tail = tailOf(join(attemptDirOf(known.dir, at), name));
        const shown = isWork ? tail.flatMap((line) => read(line)) : tail;
        return mark === undefined ? shown : shown.map((line) => `${mark} │ ${line}`);
      })
      .slice(-TAIL_LINES_MAX)
      .map(masked);
    if (lines.length > 0) tails.set(attemptText(at), lines.join("\n"));
  }
  return tails;
}

function attemptsOf({ events }: LoadedRun): readonly Extract<RunEvent, { type: "step.started" }>[] {
  return events.flatMap(({ event }) => (event.type === "step.started" ? [event] : []));
}

function tailOf(path: string): readonly string[] {
  let file: number;
  try {
    file = openSync(path, "r");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
  try {
    const { size } = fstatSync(file);
    const from = Math.max(0, size - TAIL_BYTES_MAX);
    const buffer = Buffer.alloc(size - from);
    const text = buffer.toString("utf8", 0, readSync(file, buffer, 0, buffer.length, from));
    const lines = text.split("\n");
    // The first line of a cut is rarely a whole one.
    return (from > 0 ? lines.slice(1) : lines).filter((line) => line !== "");
  } finally {
    closeSync(file);
  }
}

/** A line that an attempt printed, and who says it beside the step itself. */
export interface PrintedLine {
  readonly text: string;
  readonly mark: string | undefined;
}

/** The files of an attempt that are being followed. */
export interface FollowedAttempt {
  /** Resolves when everything that is in the files has been given. */
  close(): Promise<void>;
}

/** Gives each line that an attempt prints, from the first byte on. */
export function followAttempt(
  {
    dir,
    at,
    readers,
  }: { readonly dir: RunDir; readonly at: AttemptRef; readonly readers: LineReaders },
  printed: PrintedAttempt,
  onLine: (line: PrintedLine) => void,
  onError: (error: unknown) => void,
): FollowedAttempt {
  const folder = attemptDirOf(dir, at);
  const read = readers(printed);
  const files = outputFiles(printed).map(({ name, mark, isWork }) =>
    followLines(
      join(folder, name),
      (line) => {
        for (const text of isWork ? read(line) : [line]) onLine({ text, mark });
      },
      { onError },
    ),
  );
  return { close: () => closeAll(files) };
}

/** The last line of an attempt, and the size of its output when it was read. */
export interface LastLine {
  readonly bytes: number;
  readonly line: string;
}

/** Reads the last line of an attempt; only when its output has grown since `known`. */
export function lastLineOf(
  dir: RunDir,
  visit: Visit,
  readers: LineReaders,
  known: LastLine | undefined,
): LastLine {
  const printed = printedAttempt(visit);
  const folder = attemptDirOf(dir, attemptOf(visit));
  const files = outputFiles(printed)
    .filter(({ name }) => name !== ATTEMPT_FILE.stderr)
    .map(({ name, ...file }) => ({ ...file, path: join(folder, name) }));
  const sizes = files.map(({ path }) => statSync(path, { throwIfNoEntry: false })?.size ?? 0);
  const bytes = sizes.reduce((sum, size) => sum + size, 0);
  if (known?.bytes === bytes) return known;
  const latest = files[sizes.findLastIndex((size) => size > 0)];
  if (latest === undefined) return { bytes, line: "" };
  const line = lastLine(latest.path);
  const shown = latest.isWork ? (readers(printed)(line).at(-1) ?? "") : line;
  const marked = latest.mark === undefined ? shown : `${latest.mark} │ ${shown}`;
  return { bytes, line: masked(marked) };
}
