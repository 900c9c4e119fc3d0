/**
 * `perdure run FILE`: starts a new run. It never reads old state; it only mentions unfinished runs.
 */

import { relative, resolve } from "node:path";
import { agreeOnSharing, sharingLines } from "../../app/directory-sharing.ts";
import { execute } from "../../app/drive.ts";
import { parseInput, type TypedInput } from "../../app/input.ts";
import { loadRun } from "../../app/loaded-run.ts";
import { askGitEarly } from "../../app/loop-parts.ts";
import { type ReadingOptions, readingOf } from "../../app/pipeline-file.ts";
import { findPipeline, pipelineNames } from "../../app/pipeline-name.ts";
import { createProject, type Project, shortIdOf } from "../../app/project.ts";
import { command, Refusal } from "../../app/refusal.ts";
import { createRun, type EarlierRun, prepareRun, unfinishedRunOf } from "../../app/start.ts";
import { keepHeapSmall } from "../../app/this-process.ts";
import { sha256 } from "../../util/json.ts";
import type { ExitCode } from "../../view/exit-code.ts";
import { countText } from "../../view/text.ts";
import { ask, canAsk, confirmation } from "../ask.ts";
import { print, printError, readPlan } from "../print.ts";
import { displayOf } from "../screen/display.ts";
import { type OutputOptions, screenKind } from "../screen/output-options.ts";
import { detach, endOfPart, gateOptions, nothingStarted } from "./resume.ts";

/** The options of `run`; some of them spell `resume`. */
export interface RunArguments extends RunOptions {
  readonly resume?: string;
  readonly resumeLast?: boolean;
  readonly fromStep?: string;
  readonly run?: string;
}

/** Refuses options that a spelling of `resume` would ignore. */
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
  if (resumes && (options.input ?? options.json) !== undefined) {
    const message = "a resumed run keeps its input; another input needs a new run";
    const again = {
      ...command("run", file ?? "FILE", "--input", "..."),
      note: "from the start",
    };
    const fork = command("fork", resume ?? named ?? "RUN", "--input", "...");
    throw new Refusal("bad-option", message, [again, fork]);
  }
}

interface RunOptions extends OutputOptions, ReadingOptions, TypedInput {
  readonly detach?: boolean;
  /** Only check the file. */
  readonly validate?: boolean;
  /** The directory for the files of the run, in the form of the DOT language. */
  readonly logs?: string;
  readonly stay?: boolean;
  readonly autoApprove?: boolean;
  /** Start beside other runs in the same directory. */
  readonly beside?: boolean;
  /** False: does not check first whether agents and programs are installed. */
  readonly preflight?: boolean;
}

/** The pipeline that the person chooses from those of the folder; undefined when there is none. */
export async function chosenPipeline(options: RunOptions): Promise<string | undefined> {
  const names = pipelineNames();
  if (names.length === 0) return undefined;
  if (!canAsk(options)) {
    const next = names.map((name) => command("run", name));
    throw new Refusal("bad-option", "which pipeline is meant?", next);
  }
  for (const [index, name] of names.entries()) print(`${index + 1}  ${name}`);
  const answer = await ask("Which pipeline? ");
  return names[Number(answer) - 1] ?? names.find((name) => name.toLowerCase() === answer);
}

/** Starts a new run and drives it to its end. */
export async function runCommand(named: string, options: RunOptions): Promise<ExitCode> {
  const path = findPipeline(named);
  const file = path === resolve(named) ? named : relative(process.cwd(), path);
  const screen = screenKind(options);
  const reading = readingOf(options, file);
  const typed = ["run", file];
  if (options.validate === true) {
    const { validateCommand } = await import("./pipeline.ts");
    return validateCommand([file], options);
  }
  keepHeapSmall();
  const { plan, text } = await readPlan(path, typed, reading);
  if (options.logs !== undefined) {
    (await import("../../app/attractor-logs.ts")).refuseUsedLogs(options.logs);
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
    fileSha256: sha256(text),
    input,
    args: process.argv.slice(2),
    cwd: process.cwd(),
    ...logs,
  });
  const shortId = await shortIdOf(project.journal, runId);
  if (options.detach === true) {
    const forwarded = [...gateOptions(options), ...(beside ? ["--beside"] : []), "--no-preflight"];
    return detach(project, runId, shortId, forwarded);
  }
  const greet = async (): Promise<readonly string[]> => [
    `Run ${runId} of ${plan.name} (${countText(plan.graph.steps.length, "step")})`,
    `If it is interrupted: perdure resume ${shortId}`,
    ...priceLines,
    ...(await sharingLines(project, { ...worker, id: runId })),
  ];
  const { stay = false, autoApprove = false } = options;
  const known = await loadRun(project, runId);
  const executed = await execute(project, known, {
    ...{ display: displayOf(screen), greet, stay, autoApprove, beside },
  });
  return endOfPart(project, executed, options);
}

type Choice =
  | { readonly kind: "new" | "abort" }
  | { readonly kind: "resume" | "watch"; readonly runId: string };

async function askAboutUnfinished(
  project: Project,
  file: string,
  options: RunOptions,
): Promise<Choice> {
  const last = await unfinishedRunOf(project, file);
  if (last === undefined) return { kind: "new" };
  const unfinished = unfinishedText(last, file);
  if (screenKind(options) === "plain") print(unfinished);
  if (!canAsk(options)) return { kind: "new" };
  // A run that another process drives can only be watched.
  const [offer, kind] = last.owned
    ? (["[w]atch it", "watch"] as const)
    : (["[r]esume it", "resume"] as const);
  const answer = await ask(`${unfinished}\n${offer}, start a [n]ew run, or [a]bort? `);
  if (answer !== "" && kind.startsWith(answer)) return { kind, runId: last.runId };
  return { kind: answer.startsWith("n") ? "new" : "abort" };
}

function unfinishedText(last: EarlierRun, file: string): string {
  const { shortId } = last;
  const done = `${last.stepsCompleted} of ${last.stepsTotal} steps completed`;
  const name = relative(process.cwd(), file);
  return last.owned
    ? `Run ${shortId} of ${name} is still running (${done}). Watch it: perdure attach ${shortId}`
    : `Run ${shortId} of ${name} is unfinished (${done}). Continue it: perdure resume ${shortId}`;
}
