/**
 * `perdure run FILE`: starts a new run. It never reads old state; it only mentions unfinished runs.
 */

import { relative, resolve } from "node:path";
import { execute } from "../../app/drive/drive.ts";
import { askGitEarly } from "../../app/drive/loop-parts.ts";
import { agreeOnSharing, sharingLines } from "../../app/drive/ownership.ts";
import { loadRun } from "../../app/loaded-run.ts";
import { parseInput, type TypedInput } from "../../app/pipeline/input.ts";
import {
  adHocReading,
  type ReadingOptions,
  type ReadPlan,
  readingOf,
  requireAdHocPlan,
} from "../../app/pipeline/pipeline-file.ts";
import { findPipeline, offeredPipelines, oneOffOf } from "../../app/pipeline/pipeline-name.ts";
import {
  createProject,
  openProject,
  type Project,
  resolveRunId,
  shortIdOf,
} from "../../app/project/project.ts";
import { command, Refusal } from "../../app/refusal.ts";
import { newestRunOf, refuseOtherFile } from "../../app/resume.ts";
import { createRun, type EarlierRun, prepareRun, unfinishedRunOf } from "../../app/start.ts";
import { keepHeapSmall } from "../../app/this-process.ts";
import { defined } from "../../util/defined.ts";
import type { ExitCode } from "../../view/exit-code.ts";
import { countText, tableLines } from "../../view/text.ts";
import { print, printDiagnostics, printError, readPlan } from "../print.ts";
import { displayOf } from "../screen/display.ts";
import {
  ask,
  canAsk,
  confirmation,
  type OutputOptions,
  screenKind,
  stdoutWidth,
} from "../terminal.ts";

import { detach, endOfPart, gateOptions } from "./background.ts";
import { nothingStarted } from "./resume.ts";

/** The options of `run`; some of them mean `resume`. */
export interface RunArguments extends RunOptions {
  readonly resume?: string;
  readonly resumeLast?: boolean;
  readonly fromStep?: string;
  readonly run?: string;
}

/** Refuses options that would be ignored when `run` means `resume`. */
export function refuseMixedOptions(file: string | undefined, options: RunArguments): void {
  const { resume, resumeLast, fromStep, run: named } = options;
  const resumes = resume !== undefined || resumeLast === true || fromStep !== undefined;
  if (named !== undefined && !resumes) {
    const message = `--run names the run for --from-step, and there is no --from-step`;
    throw new Refusal("bad-option", message, command("resume", named));
  }
  const names = [resume !== undefined, resumeLast === true, named !== undefined];
  if (names.filter((given) => given).length > 1) {
    const message = "the run is named twice: by --resume, --resume-last or --run";
    throw new Refusal("bad-option", message, command("resume", resume ?? named ?? "RUN"));
  }
  const forks = fromStep !== undefined && (file ?? named) !== undefined;
  if (resumes && !forks && (options.input ?? options.inputJson) !== undefined) {
    const message = "a resumed run keeps its input; another input needs a new run";
    const again = {
      ...command("run", file ?? "FILE", "--input", "..."),
      note: "from the start",
    };
    const fork = command("fork", resume ?? named ?? "RUN", "--input", "...");
    throw new Refusal("bad-option", message, [again, fork]);
  }
}

/**
 * `run FILE --from-step STEP`: repeats a part of the newest run of the pipeline, finished or not, or
 * of the run that `--run` names. With another input it is a new run that shares the steps before.
 */
export async function runFromStep(
  file: string | undefined,
  step: string,
  options: RunArguments,
): Promise<ExitCode> {
  const { run: named, input, inputJson, fromStep: _, ...rest } = options;
  const { resumeCommand } = await import("./resume.ts");
  if (file === undefined && input === undefined && inputJson === undefined) {
    return resumeCommand(named, options);
  }
  const project = await openProject(process.cwd(), "read-write", named);
  const id = await partOf(project, file, named, step);
  await project.journal.close();
  if (input === undefined && inputJson === undefined) {
    return resumeCommand(id, { ...rest, fromStep: step });
  }
  const { forkCommand } = await import("./history.ts");
  return forkCommand(id, { ...rest, ...defined({ input, inputJson }), at: step, start: true });
}

/** The run whose steps before a step are taken as done. */
async function partOf(
  project: Project,
  file: string | undefined,
  named: string | undefined,
  step: string,
): Promise<string> {
  if (named === undefined) return newestRunOf(project, file ?? "");
  const id = await resolveRunId(project.journal, named);
  if (file !== undefined) refuseOtherFile(await loadRun(project, id), file, step);
  return id;
}

export interface RunOptions extends OutputOptions, ReadingOptions, TypedInput {
  /** A shell command to run instead of a pipeline. */
  readonly shell?: string;
  /** The model for a prompt with `--agent`. */
  readonly model?: string;
  readonly detach?: boolean;
  /** The directory for the files of the run, in the form of the DOT language. */
  readonly logs?: string;
  readonly stay?: boolean;
  readonly autoApprove?: boolean;
  /** False: no step takes the result of an earlier run. */
  readonly cache?: boolean;
  /** Start beside other runs in the same directory. */
  readonly beside?: boolean;
  /** False: does not check first whether agents and programs are installed. */
  readonly preflight?: boolean;
  /** The id of the run, from the service: the time of a schedule has one run. */
  readonly scheduled?: string;
}

/** How often a person may name an unknown pipeline, and how many pipelines are listed. */
const ANSWERS_MAX = 5;
const OFFERED_MAX = 50;

/** Lets the person choose a pipeline and starts it; undefined when there is none to choose. */
export async function runChosen(options: RunOptions): Promise<ExitCode | undefined> {
  const offered = offeredPipelines().slice(0, OFFERED_MAX);
  if (offered.length === 0) return undefined;
  if (!canAsk(options)) {
    const next = offered.map(({ name }) => command("run", name));
    throw new Refusal("bad-option", "perdure run needs a pipeline", next);
  }
  const rows = offered.map(({ name, about = "" }, at) => [`${at + 1}`.padStart(3), name, about]);
  for (const line of tableLines(rows, { width: stdoutWidth() })) print(line);
  for (let asked = 0; asked < ANSWERS_MAX; asked++) {
    const answer = await ask("Which one? (its number or its name) ");
    if (answer === "") break;
    const names = offered.map(({ name }) => name);
    const begun = names.filter((name) => name.toLowerCase().startsWith(answer));
    const named = names.find((name) => name.toLowerCase() === answer);
    const chosen =
      names[Number(answer) - 1] ?? named ?? (begun.length === 1 ? begun[0] : undefined);
    if (chosen !== undefined) return runCommand(chosen, options);
    print(`There is no pipeline ${answer}.`);
  }
  return nothingStarted();
}

/** Starts a new run and drives it to its end. */
export async function runCommand(
  named: string | undefined,
  options: RunOptions,
): Promise<ExitCode> {
  const screen = screenKind(options);
  keepHeapSmall();
  const { plan, sha256, file, path, typed } = await pipelineOf(named, options);
  if (options.logs !== undefined) {
    const aside = (await import("../../app/attractor-logs.ts")).freeLogs(options.logs);
    if (aside !== undefined) printError(`The files of an earlier run are now in ${aside}.`);
  }
  const given = parseInput(options, plan.inputSchema);
  const { preflight } = options;
  const request = { file, typed, preflight, cwd: process.cwd() };
  const { input, warnings, priceLines } = await prepareRun(plan, given, request);
  for (const line of warnings) printError(line);
  const project = await createProject(process.cwd());
  const choice = await askAboutUnfinished(project, path, options);
  if (choice.kind === "resume") {
    const { resumeCommand } = await import("./resume.ts");
    return resumeCommand(choice.runId, options);
  }
  if (choice.kind === "watch") {
    const { attachCommand } = await import("./interact.ts");
    return attachCommand(choice.runId, options);
  }
  if (choice.kind === "abort") return nothingStarted();
  const worker = { plan, cwd: process.cwd() };
  const { starts, beside } = await agreeOnSharing(project, worker, {
    beside: options.beside === true,
    confirm: confirmation(options),
    command: typed,
  });
  if (!starts) return nothingStarted();
  if (plan.workspace?.snapshots === true) await askGitEarly(project, process.cwd());
  const logs = options.logs === undefined ? {} : { logs: resolve(options.logs) };
  const runId = await createRun(project, plan, {
    file: path,
    ...(path === "" ? {} : { fileSha256: sha256 }),
    input,
    args: process.argv.slice(2),
    cwd: process.cwd(),
    ...logs,
    ...(options.scheduled === undefined ? {} : { runId: options.scheduled }),
  });
  const shortId = await shortIdOf(project.journal, runId);
  if (options.detach === true) {
    const forwarded = [...gateOptions(options), ...(beside ? ["--beside"] : []), "--no-preflight"];
    return detach(project, { id: runId, shortId }, forwarded, options);
  }
  const openingLines = async (): Promise<readonly string[]> => [
    `Run ${runId} of ${plan.name} (${countText(plan.graph.steps.length, "step")})`,
    `If it is interrupted: perdure resume ${shortId}`,
    ...priceLines,
    ...(await sharingLines(project, { ...worker, id: runId })),
  ];
  const { stay = false, autoApprove = false } = options;
  const known = await loadRun(project, runId);
  const executed = await execute(project, known, {
    ...{ display: displayOf(screen), openingLines, stay, autoApprove, beside },
    ...(options.cache === false ? { cache: "off" } : {}),
  });
  return endOfPart(project, executed, options);
}

/** A pipeline to run, and how it was named. */
interface NamedPlan extends Pick<ReadPlan, "plan" | "sha256"> {
  /** Its file as the person named it. */
  readonly file: string;
  /** The path of its file; empty for a pipeline without one. */
  readonly path: string;
  /** The command that runs it. */
  readonly typed: readonly string[];
}

/** Reads the pipeline that the command line names or describes. */
export async function pipelineOf(
  named: string | undefined,
  options: RunOptions,
): Promise<NamedPlan> {
  const oneOff = oneOffOf(named, options);
  if (oneOff !== undefined) {
    const { text, typed } = oneOff;
    const read = await requireAdHocPlan(text, typed, adHocReading(options));
    await printDiagnostics(read);
    return { ...read, file: "-", path: "", typed };
  }
  const path = findPipeline(named ?? "");
  const file = path === resolve(named ?? "") ? (named ?? "") : relative(process.cwd(), path);
  const typed = ["run", file];
  const read = await readPlan(path, typed, readingOf(options, file));
  return { ...read, file, path, typed };
}

type Choice =
  | { readonly kind: "new" | "abort" }
  | { readonly kind: "resume" | "watch"; readonly runId: string };

async function askAboutUnfinished(
  project: Project,
  file: string,
  options: RunOptions,
): Promise<Choice> {
  const last = file === "" ? undefined : await unfinishedRunOf(project, file);
  if (last === undefined) return { kind: "new" };
  const unfinished = unfinishedText(last, file);
  if (screenKind(options) === "plain") print(unfinished);
  if (!canAsk(options)) return { kind: "new" };
  // A run that another process drives can only be watched.
  const [offer, kind] = last.owned
    ? (["[w]atch it", "watch"] as const)
    : (["[r]esume it", "resume"] as const);
  const step = last.owned ? undefined : await stepToSkip(project, last.runId);
  const skip = step === undefined ? "" : `, [s]kip ${step} and resume`;
  const answer = await ask(`${unfinished}\n${offer}${skip}, start a [n]ew run, or [a]bort? `);
  if (answer !== "" && kind.startsWith(answer)) return { kind, runId: last.runId };
  if (step !== undefined && answer !== "" && "skip".startsWith(answer)) {
    const { skipStep } = await import("../../app/request/step-decision.ts");
    await skipStep({ project, known: await loadRun(project, last.runId) }, step);
    return { kind: "resume", runId: last.runId };
  }
  return { kind: answer.startsWith("n") ? "new" : "abort" };
}

/** The step that a person may want to skip before an unfinished run continues. */
async function stepToSkip(project: Project, runId: string): Promise<string | undefined> {
  const { blockingStep } = await import("../../app/request/step-decision.ts");
  return blockingStep(await loadRun(project, runId));
}

function unfinishedText(last: EarlierRun, file: string): string {
  const { shortId } = last;
  const done = `${last.stepsCompleted} of ${last.stepsTotal} steps completed`;
  const name = relative(process.cwd(), file);
  return last.owned
    ? `Run ${shortId} of ${name} is still running (${done}). Watch it: perdure attach ${shortId}`
    : `Run ${shortId} of ${name} is unfinished (${done}). Continue it: perdure resume ${shortId}`;
}
