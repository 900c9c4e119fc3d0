/**
 * The output of the steps of a run, attempt by attempt: all of it, followed while a process drives the
 * run, or a part for readers that cannot take all of it.
 *
 * Owns: the order of the attempts, and the limits of a part; a line is masked before it is shortened, as
 * no mark recognises a part of a secret.
 */
import { createReadStream, existsSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { AttemptRef } from "../../core/event.ts";
import { attemptText, parseVisit, stepPath } from "../../core/step-path.ts";
import { attemptDirOf } from "../../engine/state-dir.ts";
import type { Subscription } from "../../journal/subscription.ts";
import { followLines } from "../../runner/process/output.ts";
import { closeAll } from "../../util/close.ts";
import { spokenLines } from "../../view/question-text.ts";
import { type LoadedRun, loadRun } from "../loaded-run.ts";
import { isAttemptOf, stepNamed } from "../project/names.ts";
import { livenessOf, type Project } from "../project/project.ts";
import { command, Refusal } from "../refusal.ts";
import { type OutputLine, type OutputReaders, outputReaders, startedAttempt } from "./output.ts";
import { type AttemptStart, hasEnded } from "./output-part.ts";
import { masked } from "./secret-mask.ts";

/** A line of a log. */
export interface LogLine extends OutputLine {
  /** The step that printed it; absent where only one was asked for. */
  readonly path: string | undefined;
  readonly at: AttemptRef;
}

/** Who reads the output. */
interface LogReader {
  /** Continues to read for as long as a process drives the run. */
  readonly follow: boolean;
  readonly print: (line: LogLine) => void;
  /** True when nobody reads any more. */
  readonly isClosed: () => boolean;
}

/** Prints the output of all attempts, or of one step's attempts; returns the number of lines. */
export async function printLogs(
  project: Project,
  known: LoadedRun,
  given: string | undefined,
  reader: LogReader,
): Promise<number> {
  const step = given === undefined ? undefined : stepNamed(known, given);
  const { shortId } = known;
  if (known.cleanedAt !== undefined) {
    const message = `the files of run ${shortId} were removed by perdure clean`;
    throw new Refusal("files-removed", message, command("show", shortId));
  }
  const readers = await outputReaders(known.plan);
  const wanted: Wanted = { ...reader, step, readers, lines: 0 };
  const shown = new Set<string>();
  const subscription = project.journal.log.subscribe(known.id);
  do {
    const now = await loadRun(project, known.id);
    for (const at of attemptsOf(now, step)) {
      if (shown.has(attemptText(at))) continue;
      shown.add(attemptText(at));
      const isRunning = reader.follow && !hasEnded(now, at);
      if (isRunning) await followAttempt({ project, subscription }, now, at, wanted);
      else await printAttempt(now, at, wanted);
    }
    if (!reader.follow || (await isOver(project, known.id, reader))) break;
  } while (await subscription.changed());
  subscription.close();
  return wanted.lines;
}

/** What to print, and for whom. */
interface Wanted extends LogReader {
  readonly step: string | undefined;
  readonly readers: OutputReaders;
  /** How many lines there were. */
  lines: number;
}

/** A file of an attempt, and the function that prints its lines. */
interface PrintedFile {
  readonly path: string;
  readonly show: (line: string) => void;
}

/** A line names its step, unless the person asked for that step. */
function printedFiles(known: LoadedRun, at: AttemptStart, wanted: Wanted): readonly PrintedFile[] {
  const { files } = wanted.readers(startedAttempt(known, at));
  const step = stepPath(at);
  const asked = wanted.step === undefined ? undefined : stepPath(parseVisit(wanted.step));
  return files.map(({ name, lines }) => ({
    path: join(attemptDirOf(known.dir, at), name),
    show: (line) => {
      for (const shown of lines(line)) {
        wanted.lines++;
        wanted.print({ ...shown, at, path: asked === step ? undefined : step });
      }
    },
  }));
}

async function printAttempt(known: LoadedRun, at: AttemptStart, wanted: Wanted): Promise<void> {
  const files = printedFiles(known, at, wanted);
  for (const line of spokenLines(known.events, at)) files[0]?.show(line);
  for (const { path, show } of files) {
    if (!existsSync(path)) continue;
    for await (const line of createInterface({ input: createReadStream(path) })) show(line);
  }
}

async function followAttempt(
  { project, subscription }: { readonly project: Project; readonly subscription: Subscription },
  known: LoadedRun,
  at: AttemptStart,
  wanted: Wanted,
): Promise<void> {
  const files = printedFiles(known, at, wanted).map(({ path, show }) => followLines(path, show));
  while (
    !hasEnded(await loadRun(project, known.id), at) &&
    !(await isOver(project, known.id, wanted))
  ) {
    await subscription.changed();
  }
  await closeAll(files);
}

/** True when the run has no living owner, or the reader has left. */
async function isOver(
  { journal }: Project,
  runId: string,
  { isClosed }: Pick<LogReader, "isClosed">,
): Promise<boolean> {
  return isClosed() || livenessOf(await journal.leases.of(runId)) !== "owned";
}

/** The attempts of a step and of the steps inside it, or of the whole run. */
function attemptsOf({ events }: LoadedRun, step: string | undefined): readonly AttemptStart[] {
  return events.flatMap(({ event }) =>
    event.type === "step.started" && (step === undefined || isAttemptOf(step, event))
      ? [event]
      : [],
  );
}

const LINES_MAX = 1000;
const LINE_CHARACTERS_MAX = 4000;
/** How many characters all lines of a part have together, at most. */
const PAGE_CHARACTERS_MAX = 100_000;

interface WantedLines {
  readonly step?: string | undefined;
  /** The number of the first line; a negative one counts from the end. */
  readonly from: number;
  readonly lines: number;
}

/** Some lines, and where the next ones start. */
interface LogPage {
  readonly first: number;
  readonly lines: readonly LogLine[];
  /** Undefined at the end of what was printed so far. */
  readonly next: number | undefined;
}

/** Some lines of what a run, or one of its steps, has printed. */
export async function logPage(
  project: Project,
  known: LoadedRun,
  { step, from, lines: wanted }: WantedLines,
): Promise<LogPage> {
  const limit = Math.min(wanted, LINES_MAX);
  const read = (print: (line: LogLine) => void): Promise<number> =>
    printLogs(project, known, step, { follow: false, print, isClosed: () => false });
  // The end is known only after all of it was read once: to keep the last lines would have no limit.
  const first = from < 0 ? Math.max(0, (await read(() => undefined)) + from) : from;
  const kept: LogLine[] = [];
  let position = 0;
  const total = await read((line) => {
    if (position >= first && kept.length < limit) kept.push(line);
    position++;
  });
  const lines = shortened(kept);
  const end = first + lines.length;
  return { first, lines, next: end < total ? end : undefined };
}

/** The lines that fit into one part; at least one. */
function shortened(lines: readonly LogLine[]): readonly LogLine[] {
  const fitting: LogLine[] = [];
  let left = PAGE_CHARACTERS_MAX;
  for (const line of lines) {
    const whole = masked(line.text);
    const cut = whole.length > LINE_CHARACTERS_MAX;
    const text = cut ? `${whole.slice(0, LINE_CHARACTERS_MAX)}…` : whole;
    left -= text.length;
    if (left < 0 && fitting.length > 0) break;
    fitting.push({ ...line, text });
  }
  return fitting;
}
