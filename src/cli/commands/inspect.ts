/**
 * The commands that only read: `show`, `why`, `explain`, `replay`, `logs`, `diff`, `timeline`,
 * `graph` and `report`.
 */

import { existsSync, writeFileSync } from "node:fs";
import { extname, resolve } from "node:path";
import {
  type CheckpointEntry,
  compareRun,
  explain,
  maskedRun,
  openShown,
  type RunDifference,
  replayRun,
  timelineOfRun,
} from "../../app/inspect.ts";
import { openRun, whyInputOf } from "../../app/loaded-run.ts";
import { type LogLine, printLogs } from "../../app/logs.ts";
import { failedOutput } from "../../app/output-tail.ts";
import { findStateDir } from "../../app/project.ts";
import { advice, Refusal } from "../../app/refusal.ts";
import { masked } from "../../app/secret-mask.ts";
import type { JsonObject } from "../../util/json.ts";
import { exposureLines } from "../../view/attempt-text.ts";
import type { Point } from "../../view/checkpoint-name.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { explainJson, explainLines } from "../../view/explain.ts";
import {
  contextLines,
  fileJson,
  fileLines,
  linesText,
  totalText,
} from "../../view/file-changes.ts";
import { type Drawing, leftOutText, planDrawing, runDrawing } from "../../view/graph/drawing.ts";
import { showJson, whyJson } from "../../view/json/run-json.ts";
import { interruptedJson, interruptedLines } from "../../view/preview/interrupted-work.ts";
import { replayJson, replayLines } from "../../view/report/replay.ts";
import { type RunReport, runReport } from "../../view/report/report.ts";
import { showLines } from "../../view/show.ts";
import {
  commitText,
  isoText,
  outputLine,
  type Tone,
  tableLines,
  utcText,
} from "../../view/text.ts";
import { outcomeTone } from "../../view/timeline.ts";
import { why, whyLines } from "../../view/why.ts";
import { isOutputClosed, print, printError, printJson, printText, readPlan } from "../print.ts";
import { isOver, printResult } from "../screen/display.ts";
import { type OutputOptions, wantsJson } from "../screen/output-options.ts";
import { stdoutStyle } from "../screen/terminal-style.ts";

/** Everything about one run. */
export async function showCommand(
  id: string | undefined,
  options: OutputOptions,
): Promise<ExitCode> {
  const { project, known } = await openShown(process.cwd(), id);
  const input = { ...whyInputOf(known, Date.now()), events: known.events };
  if (wantsJson(options)) printJson(showJson(input));
  else {
    for (const line of showLines({ ...input, style: stdoutStyle() })) print(line);
    await printResult(project, known, print);
  }
  return EXIT.done;
}

/** What happened, what is done, and the command that continues the run. */
export async function whyCommand(
  id: string | undefined,
  options: OutputOptions,
): Promise<ExitCode> {
  const json = wantsJson(options);
  const { project, known } = await openShown(process.cwd(), id);
  const input = whyInputOf(known, Date.now());
  const { partialWork } = await import("../../app/interrupted-work.ts");
  const interrupted = (await partialWork(project, known)).map(({ work }) => work);
  if (json) {
    const partial = { partial_work: interrupted.map(interruptedJson) };
    printJson({ ...whyJson(input), ...partial, warnings: exposureLines(known.events) });
    return EXIT.done;
  }
  for (const line of whyLines(input, stdoutStyle())) print(line);
  const output = why(input).output ?? (await failedOutput(known))?.lines.map((one) => `  │ ${one}`);
  for (const line of output ?? []) print(line);
  if (isOver(known)) await printResult(project, known, print);
  for (const line of exposureLines(known.events)) print(line);
  for (const line of interrupted.flatMap((work) => interruptedLines(work, known.shortId)))
    print(line);
  return EXIT.done;
}

/** Why a step was run, run again, or not run again. */
export async function explainCommand(
  id: string,
  step: string,
  options: OutputOptions,
): Promise<ExitCode> {
  const json = wantsJson(options);
  const { known } = await openRun(process.cwd(), "read-only", id);
  const explained = explain(known, step);
  if (json) printJson(explainJson(explained));
  else for (const line of explainLines(explained)) print(line);
  return EXIT.done;
}

/** Makes every recorded decision again; the exit status is 3 if one differs now. */
export async function replayCommand(
  id: string | undefined,
  options: OutputOptions,
): Promise<ExitCode> {
  const json = wantsJson(options);
  const replayed = await replayRun(process.cwd(), id);
  if (json) printJson(replayJson(replayed));
  else for (const line of replayLines(replayed)) print(line);
  return replayed.replayed.difference === undefined ? EXIT.done : EXIT.failed;
}

interface LogsOptions {
  readonly follow?: boolean;
}

/** Prints the output of all attempts, or of those of one step. */
export async function logsCommand(
  id: string,
  step: string | undefined,
  options: LogsOptions,
): Promise<ExitCode> {
  const { project, known } = await openRun(process.cwd(), "read-only", id);
  const style = stdoutStyle();
  const show = (line: LogLine): void => print(outputLine(line, style));
  const reader = { follow: options.follow === true, print: show, isClosed: isOutputClosed };
  const lines = await printLogs(project, known, step, reader);
  if (lines === 0) printError(`${step ?? `run ${known.shortId}`} has printed nothing`);
  return EXIT.done;
}

interface DiffOptions extends OutputOptions {
  readonly patch?: boolean;
  readonly stat?: boolean;
}

/**
 * Shows the changes of files and context between two checkpoints, or of one step, visit or attempt.
 */
export async function diffCommand(
  id: string,
  first: string,
  second: string | undefined,
  options: DiffOptions,
): Promise<ExitCode> {
  const json = wantsJson(options);
  const { project, known } = await openRun(process.cwd(), "read-only", id);
  const patch = options.patch === true;
  const difference = await compareRun(project, known, [first, second], { patch });
  if (json) printJson(diffJson(difference));
  else printDiff(difference);
  return EXIT.done;
}

/** A patch is alone on stdout, so that `git apply` can read it. */
function printDiff({ from, to, changed, context, patch }: RunDifference): void {
  const say = patch === undefined ? print : printError;
  say(`${from.name} -> ${to.name}: ${totalText(changed)}`);
  if (patch === undefined) for (const line of fileLines(changed)) print(line);
  else printText(patch.text);
  if (patch?.cut === true) say("the patch is cut: it is too long");
  for (const line of contextLines(context)) say(line);
}

function diffJson({ from, to, changed, context, patch }: RunDifference): JsonObject {
  const pointJson = ({ name, seq, commit }: Point): JsonObject => ({
    name,
    sequence: seq,
    snapshot: commit ?? null,
  });
  return {
    from: pointJson(from),
    to: pointJson(to),
    files: changed.map(fileJson),
    context: { added: context.added, changed: context.changed, removed: context.removed },
    ...(patch === undefined ? {} : { patch: patch.text, patch_cut: patch.cut }),
  };
}

/** The checkpoints of a run in order, with what changed from one to the next. */
export async function timelineCommand(id: string, options: OutputOptions): Promise<ExitCode> {
  const json = wantsJson(options);
  const { project, known } = await openRun(process.cwd(), "read-only", id);
  const entries = await timelineOfRun(project, known);
  if (json) {
    printJson(entries.map(entryJson));
    return EXIT.done;
  }
  const head = ["TIME (UTC)", "CHECKPOINT", "OUTCOME", "SNAPSHOT", "FILES", "LINES", ""];
  const toneOf = (row: number, column: number): Tone | undefined => {
    const entry = entries[row - 1];
    if (entry === undefined || column === 0) return "dim";
    return column === OUTCOME_COLUMN ? outcomeTone(entry.outcome) : undefined;
  };
  const rows = [head, ...entries.map(entryCells)];
  for (const line of tableLines(rows, { style: stdoutStyle(), toneOf })) print(line);
  return EXIT.done;
}

const OUTCOME_COLUMN = 2;

function entryCells({ changed, ...entry }: CheckpointEntry): readonly string[] {
  return [
    utcText(entry.time),
    entry.what,
    entry.outcome,
    entry.snapshot === undefined ? "" : commitText(entry.snapshot),
    changed === undefined ? "" : `${changed.length}`,
    changed === undefined ? "" : linesText(changed),
    entry.note,
  ];
}

function entryJson({ changed, ...entry }: CheckpointEntry): JsonObject {
  return {
    sequence: entry.seq,
    time: isoText(entry.time),
    checkpoint: entry.what,
    outcome: entry.outcome,
    snapshot: entry.snapshot ?? null,
    set_aside: entry.aside ?? null,
    files: changed === undefined ? null : changed.map(fileJson),
    note: entry.note,
  };
}

type GraphFormat = "mermaid" | "dot" | "svg";

const GRAPH_FORMATS: Formats<GraphFormat> = {
  mermaid: ["mmd", "mermaid"],
  dot: ["dot", "gv"],
  svg: ["svg"],
};

/** Draws a file or a run; the newest run by default. */
export async function graphCommand(
  what: string | undefined,
  options: DocumentOptions,
): Promise<ExitCode> {
  const format = formatOf(GRAPH_FORMATS, options);
  const drawing = await drawingOf(what);
  printOrWrite(await graphText(drawing, format), options);
  const left = leftOutText(drawing);
  if (left !== undefined) printError(`The picture is incomplete; ${left}.`);
  return EXIT.done;
}

async function drawingOf(what: string | undefined): Promise<Drawing> {
  if (what !== undefined && existsSync(what)) {
    return planDrawing((await readPlan(resolve(what))).plan);
  }
  if (what !== undefined && (/[./]/.test(what) || findStateDir(process.cwd()) === undefined)) {
    const message = `${what}: there is no such file`;
    throw new Refusal(
      "missing-file",
      message,
      advice("give the path of a pipeline file, or a run"),
    );
  }
  const { known } = await openShown(process.cwd(), what);
  const { plan, run, events, liveness } = known;
  return runDrawing(plan, run, events, liveness);
}

async function graphText(drawing: Drawing, format: GraphFormat): Promise<string> {
  switch (format) {
    case "mermaid":
      return (await import("../../view/graph/mermaid.ts")).mermaidText(drawing);
    case "dot":
      return (await import("../../view/graph/dot.ts")).dotText(drawing);
    case "svg":
      return (await import("../../view/graph/svg.ts")).svgText(drawing);
  }
}

interface ReportOptions extends DocumentOptions {
  readonly withOutput?: boolean;
}

type ReportFormat = "md" | "html" | "json";

const REPORT_FORMATS: Formats<ReportFormat> = {
  md: ["md", "markdown"],
  html: ["html", "htm"],
  json: ["json"],
};

/** Writes the report on a run; on the newest one by default. */
export async function reportCommand(
  id: string | undefined,
  options: ReportOptions,
): Promise<ExitCode> {
  const format = formatOf(REPORT_FORMATS, options);
  // Masked before it is formatted: a format may escape the characters of a secret.
  const known = maskedRun((await openShown(process.cwd(), id)).known);
  const { plan, events } = known;
  const outputs =
    options.withOutput === true
      ? await (await import("../../app/output.ts")).outputTails(known)
      : new Map<string, string>();
  const report = runReport({ ...whyInputOf(known, Date.now()), plan, events, outputs });
  printOrWrite(await reportText(report, format), options);
  return EXIT.done;
}

async function reportText(report: RunReport, format: ReportFormat): Promise<string> {
  switch (format) {
    case "md":
      return (await import("../../view/report/markdown.ts")).reportMarkdown(report);
    case "html":
      return (await import("../../view/report/html.ts")).reportHtml(report);
    case "json": {
      const { reportJson } = await import("../../view/report/report-json.ts");
      return `${JSON.stringify(reportJson(report), null, 2)}\n`;
    }
  }
}

interface DocumentOptions {
  readonly format?: string;
  /** The file to write; without it the text is printed. */
  readonly output?: string;
}

/** The extensions of files, without the dot, by format; the first format is the default. */
type Formats<F extends string> = Readonly<Record<F, readonly string[]>>;

/** The format that the options name, or that of the extension of the file. */
function formatOf<F extends string>(formats: Formats<F>, options: DocumentOptions): F {
  const names = Object.keys(formats) as F[];
  const { format, output } = options;
  if (format !== undefined) {
    const named = names.find((name) => name === format);
    if (named !== undefined) return named;
    throw new Refusal("bad-option", `--format takes one of ${names.join(", ")}, not "${format}"`);
  }
  if (output === undefined) return names[0] as F;
  const extension = extname(output).slice(1).toLowerCase();
  const meant = names.find((name) => formats[name].includes(extension));
  if (meant !== undefined) return meant;
  const message = `${output}: its extension names no format`;
  throw new Refusal("bad-option", message, advice(`add --format ${names.join("|")}`));
}

/** Prints a text, or writes it into a file and says so. */
function printOrWrite(text: string, { output }: DocumentOptions): void {
  if (output === undefined) {
    print(text.trimEnd());
    return;
  }
  try {
    writeFileSync(output, masked(text));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new Refusal("cannot-write", `${output} cannot be written (${code ?? String(error)})`);
  }
  print(`Wrote ${output}`);
}
