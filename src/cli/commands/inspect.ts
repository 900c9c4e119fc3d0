/**
 * The commands that only read: `show`, `why`, `explain`, `replay`, `logs`, `diff`, `timeline`,
 * `graph` and `report`.
 */

import { existsSync, writeFileSync } from "node:fs";
import { extname } from "node:path";
import { type LoadedRun, whyInputOf } from "../../app/loaded-run.ts";
import {
  type CheckpointEntry,
  compareRun,
  explain,
  lastQuestion,
  maskedRun,
  type RunDifference,
  replayRun,
  shownRun,
  timelineOfRun,
} from "../../app/look/inspect.ts";
import { type LogLine, printLogs } from "../../app/output/logs.ts";
import { failedOutput } from "../../app/output/output-tail.ts";
import { masked } from "../../app/output/secret-mask.ts";
import { knownPipeline } from "../../app/pipeline/pipeline-name.ts";
import type { RunWords } from "../../app/project/names.ts";
import { hasRuns, openProject } from "../../app/project/project.ts";
import { advice, Refusal } from "../../app/refusal.ts";
import { exposureLines } from "../../view/attempt-history.ts";
import { standingLines } from "../../view/end-card.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { explainJson, explainLines } from "../../view/explain.ts";
import { contextLines, fileLines, linesText, totalText } from "../../view/file-changes.ts";
import { type Drawing, leftOutText, planDrawing, runDrawing } from "../../view/graph/drawing.ts";
import { diffJson, materialJson, refJson, timelineJson } from "../../view/json/action-json.ts";
import type { DocumentJson } from "../../view/json/documents.ts";
import { showJson, whyJson } from "../../view/json/run-json.ts";
import type { KnownNotice } from "../../view/notification.ts";
import { interruptedJson, interruptedLines } from "../../view/preview/interrupted-work.ts";
import { materialLines } from "../../view/question-text.ts";
import { replayJson, replayLines } from "../../view/report/replay.ts";
import { type RunReport, runReport } from "../../view/report/report.ts";
import { showLines } from "../../view/show.ts";
import {
  commandText,
  commitText,
  countText,
  outputLine,
  type Tone,
  tableLines,
  utcText,
} from "../../view/text.ts";
import { outcomeTone } from "../../view/timeline.ts";
import { type NamedRun, openNamed, runNamed } from "../named-run.ts";
import {
  documentText,
  isJsonExpected,
  isOutputClosed,
  print,
  printDocument,
  printDocumentLine,
  printError,
  printRaw,
  printText,
  readPlan,
} from "../print.ts";
import { isOver, printResult } from "../screen/display.ts";
import { type OutputOptions, stdoutStyle, stdoutWidth, wantsJson } from "../terminal.ts";

async function openToShow(
  given: readonly (string | undefined)[],
  form: RunWords = {},
): Promise<NamedRun> {
  const named = await openNamed("read-only", given, form);
  return { ...named, known: shownRun(named.known) };
}

/** Everything about one run, or what one of its gates shows. */
export async function showCommand(
  given: readonly (string | undefined)[],
  options: OutputOptions,
): Promise<ExitCode> {
  const { project, known, words } = await openToShow(given, { takes: 1 });
  const [gate] = words;
  if (gate !== undefined) {
    const question = lastQuestion(known, gate);
    const { material: shown = [] } = question;
    if (wantsJson(options)) printDocument("material", materialJson(known.id, gate, shown));
    else for (const line of materialLines(question)) printRaw(line);
    return EXIT.done;
  }
  const notices = await noticesOf(known);
  const input = { ...whyInputOf(known, Date.now()), events: known.events, notices };
  if (wantsJson(options)) {
    const { readableResult } = await import("../../app/take.ts");
    printDocument("show", showJson(input, await readableResult(project, known)));
  } else {
    const layout = { style: stdoutStyle(), width: stdoutWidth() };
    for (const line of showLines({ ...input, ...layout })) print(line);
    await printResult(project, known, print);
  }
  return EXIT.done;
}

async function noticesOf(known: LoadedRun): Promise<readonly KnownNotice[]> {
  if (known.plan.notify === undefined) return [];
  return (await import("../../app/notify.ts")).noticesIn(known);
}

/** Sends the notices of a run that are due, and those that were given up. */
export async function notifyCommand(
  id: string | undefined,
  options: OutputOptions & { readonly background?: boolean },
): Promise<ExitCode> {
  const { project, known } = await openToShow([id]);
  const { deliverNotices } = await import("../../app/notify.ts");
  const { sent, unsent } = await deliverNotices(project, known, {
    byPerson: options.background !== true,
  });
  const exit = unsent === 0 ? EXIT.done : EXIT.error;
  if (wantsJson(options)) {
    printDocument("notified", { run_id: known.id, sent, unsent });
    return exit;
  }
  print(`${countText(sent, "notice")} sent, ${unsent} not sent`);
  if (unsent > 0) print(`Details: ${commandText("show", known.shortId)}`);
  return exit;
}

/** What happened, what is done, and the command that continues the run. */
export async function whyCommand(
  id: string | undefined,
  options: OutputOptions,
): Promise<ExitCode> {
  const json = wantsJson(options);
  const { project, known } = await openToShow([id]);
  const input = whyInputOf(known, Date.now());
  const { partialWork } = await import("../../app/rewind/interrupted-work.ts");
  const interrupted = (await partialWork(project, known)).map(({ work }) => work);
  if (json) {
    const warnings = exposureLines(known.events);
    const works = interrupted.map(interruptedJson);
    const { readableResult } = await import("../../app/take.ts");
    const result = await readableResult(project, known);
    printDocument("why", whyJson(input, works, warnings, result));
    return EXIT.done;
  }
  const layout = { style: stdoutStyle(), width: stdoutWidth() };
  const output = await failedOutput(known);
  for (const line of standingLines({ ...input, ...layout, output })) print(line);
  if (isOver(known)) await printResult(project, known, print);
  for (const line of exposureLines(known.events)) print(line);
  for (const line of interrupted.flatMap((work) => interruptedLines(work, known.shortId)))
    print(line);
  return EXIT.done;
}

/** Why a step was run, run again, or not run again. */
export async function explainCommand(
  given: readonly (string | undefined)[],
  options: OutputOptions,
): Promise<ExitCode> {
  const json = wantsJson(options);
  const { known, words } = await openNamed("read-only", given, { needs: 1, what: "a step" });
  const explained = explain(known, words[0] ?? "");
  if (json) printDocument("explain", explainJson(known.id, explained));
  else for (const line of explainLines(explained)) print(line);
  return EXIT.done;
}

/** Makes every recorded decision again; the exit status is 3 if one differs now. */
export async function replayCommand(
  id: string | undefined,
  options: OutputOptions,
): Promise<ExitCode> {
  const json = wantsJson(options);
  const project = await openProject(process.cwd(), "read-only", id);
  const replayed = await replayRun(project, (await runNamed(project, [id])).runId);
  if (json) printDocument("replay", replayJson(replayed));
  else for (const line of replayLines(replayed)) print(line);
  return replayed.replayed.difference === undefined ? EXIT.done : EXIT.failed;
}

interface LogsOptions extends OutputOptions {
  readonly follow?: boolean;
}

/** Prints the output of all attempts, or of those of one step. */
export async function logsCommand(
  given: readonly (string | undefined)[],
  options: LogsOptions,
): Promise<ExitCode> {
  const { project, known, words } = await openNamed("read-only", given, { takes: 1 });
  const [step] = words;
  const style = stdoutStyle();
  const show = (line: LogLine): void => {
    if (wantsJson(options)) printDocumentLine("logs", logJson(known.id, line));
    else printRaw(outputLine(line, style));
  };
  const reader = { follow: options.follow === true, print: show, isClosed: isOutputClosed };
  const lines = await printLogs(project, known, step, reader);
  if (lines === 0) printError(`${step ?? `run ${known.shortId}`} has printed nothing`);
  return EXIT.done;
}

function logJson(runId: string, { at, mark, text }: LogLine): DocumentJson<"logs"> {
  return { run_id: runId, ...refJson(at), by: mark ?? null, line: text };
}

interface DiffOptions extends OutputOptions {
  readonly patch?: boolean;
  readonly stat?: boolean;
}

/**
 * Shows the changes of files and context between two checkpoints, or of one step, visit or attempt.
 */
export async function diffCommand(
  given: readonly (string | undefined)[],
  options: DiffOptions,
): Promise<ExitCode> {
  const json = wantsJson(options);
  const form = { needs: 1, takes: 2, what: "a step or a checkpoint" };
  const { project, known, words } = await openNamed("read-only", given, form);
  const [first = "", second] = words;
  const patch = options.patch === true;
  const difference = await compareRun(project, known, [first, second], { patch });
  if (json) printDocument("diff", diffJson(known.id, difference));
  else printDiff(difference);
  return EXIT.done;
}

/** With `--patch` stdout gets only the patch, so that `git apply` can read it. */
function printDiff({ from, to, changed, context, patch }: RunDifference): void {
  const say = patch === undefined ? print : printError;
  say(`${from.name} -> ${to.name}: ${totalText(changed)}`);
  if (patch === undefined) for (const line of fileLines(changed)) print(line);
  else printText(patch.text);
  if (patch?.cut === true) say("the patch is too long and was cut");
  for (const line of contextLines(context)) say(line);
}

/** The checkpoints of a run in order, with what changed from one to the next. */
export async function timelineCommand(
  id: string | undefined,
  options: OutputOptions,
): Promise<ExitCode> {
  const json = wantsJson(options);
  const { project, known } = await openNamed("read-only", [id]);
  const entries = await timelineOfRun(project, known);
  if (json) {
    printDocument("timeline", timelineJson(known.id, entries));
    return EXIT.done;
  }
  const head = ["TIME (UTC)", "CHECKPOINT", "OUTCOME", "SNAPSHOT", "FILES", "LINES", ""];
  const toneOf = (row: number, column: number): Tone | undefined => {
    const entry = entries[row - 1];
    if (entry === undefined || column === 0) return "dim";
    return column === OUTCOME_COLUMN ? outcomeTone(entry.outcome) : undefined;
  };
  const rows = [head, ...entries.map(entryCells)];
  const layout = { style: stdoutStyle(), width: stdoutWidth(), toneOf };
  for (const line of tableLines(rows, layout)) print(line);
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

type GraphFormat = "mermaid" | "dot" | "svg" | "json";

const GRAPH_FORMATS: Formats<GraphFormat> = {
  mermaid: ["mmd", "mermaid"],
  dot: ["dot", "gv"],
  svg: ["svg"],
  json: ["json"],
};

/** Draws a pipeline file or a run, by default the newest one. */
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
  const path = what === undefined ? undefined : knownPipeline(what);
  if (path !== undefined && existsSync(path)) return planDrawing((await readPlan(path)).plan);
  if (what !== undefined && (/[./]/.test(what) || !(await hasRuns(process.cwd())))) {
    const message = `${what}: there is no such file`;
    throw new Refusal(
      "missing-file",
      message,
      advice("give the path of a pipeline file, or a run"),
    );
  }
  const { known } = await openToShow([what]);
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
    case "json":
      return documentText(
        "graph",
        (await import("../../view/json/graph-json.ts")).graphJson(drawing),
      );
  }
}

interface ReportOptions extends DocumentOptions {
  readonly json?: boolean;
  readonly withOutput?: boolean;
}

type ReportFormat = "md" | "html" | "json";

const REPORT_FORMATS: Formats<ReportFormat> = {
  md: ["md", "markdown"],
  html: ["html", "htm"],
  json: ["json"],
};

/** Writes a report on a run, by default the newest one. */
export async function reportCommand(
  id: string | undefined,
  options: ReportOptions,
): Promise<ExitCode> {
  const json = options.json === true ? { format: "json" } : {};
  const format = formatOf(REPORT_FORMATS, { ...options, ...json });
  // Masked before it is formatted, because a format may escape the characters of a secret.
  const known = maskedRun((await openToShow([id])).known);
  const { plan, events } = known;
  const outputs =
    options.withOutput === true
      ? await (await import("../../app/output/output.ts")).outputTails(known)
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
      return documentText("report", reportJson(report));
    }
  }
}

interface DocumentOptions {
  /** The same as the format json. */
  readonly json?: boolean;
  readonly format?: string;
  /** The file to write; without it the text is printed. */
  readonly output?: string;
}

/** The extensions of files, without the dot, by format; the first format is the default. */
type Formats<F extends string> = Readonly<Record<F, readonly string[]>>;

/** The format that the options name, or that of the extension of the file. */
function formatOf<F extends string>(formats: Formats<F>, options: DocumentOptions): F {
  const names = Object.keys(formats) as F[];
  const { output } = options;
  const format = options.json === true ? "json" : options.format;
  if (format !== undefined) {
    const named = names.find((name) => name === format);
    if (named !== undefined) return named;
    throw new Refusal("bad-option", `--format takes one of ${names.join(", ")}, not "${format}"`);
  }
  if (output === undefined) return names[0] as F;
  const extension = extname(output).slice(1).toLowerCase();
  const meant = names.find((name) => formats[name].includes(extension));
  if (meant !== undefined) return meant;
  const message = `the extension of ${output} is not that of a known format`;
  throw new Refusal("bad-option", message, advice(`add --format ${names.join("|")}`));
}

/** Prints a text, or writes it into a file and says so. */
function printOrWrite(text: string, { output }: DocumentOptions): void {
  if (output === undefined) {
    if (isJsonExpected()) process.stdout.write(masked(text));
    else printRaw(text.trimEnd());
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
