/** `perdure run FILE`: starts a new run. It never reads old state; it only mentions unfinished runs. */

import { relative, resolve } from "node:path";
import { agreeOnSharing, sharingLines } from "../../app/directory-sharing.ts";
import { execute } from "../../app/drive.ts";
import { parseInput, type TypedInput } from "../../app/input.ts";
import { loadRun } from "../../app/loaded-run.ts";
import { type ReadingOptions, readingOf } from "../../app/pipeline-file.ts";
import { createProject, type Project, shortIdOf } from "../../app/project.ts";
import { command, Refusal } from "../../app/refusal.ts";
import { createRun, type EarlierRun, prepareRun, unfinishedRunOf } from "../../app/start.ts";
import { keepHeapSmall } from "../../app/this-process.ts";
import { sha256 } from "../../util/json.ts";
import { EXIT, type ExitCode, exitCodeOf } from "../../view/exit-code.ts";
import { countText } from "../../view/text.ts";
import { ask, canAsk, confirmation } from "../ask.ts";
import { print, printError, readPlan } from "../print.ts";
import { displayOf, printOutcome } from "../screen/display.ts";
import { type OutputOptions, screenKind } from "../screen/output-options.ts";
import { detach, gateOptions, leaveToBackground } from "./resume.ts";

export interface RunArguments extends ReadingOptions {
  readonly validate?: boolean;
  readonly logs?: string;
  readonly input?: readonly string[];
  readonly json?: readonly string[];
  readonly detach?: boolean;
  readonly output?: string;
  readonly quiet?: boolean;
  readonly stay?: boolean;
  readonly autoApprove?: boolean;
  readonly beside?: boolean;
  readonly resume?: string;
  readonly resumeLast?: boolean;
  readonly fromStep?: string;
  readonly run?: string;
}

/** Refuses what one of the spellings of `resume` would ignore. */
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

export interface RunOptions extends OutputOptions, ReadingOptions, TypedInput {
  readonly detach?: boolean;
  /** Only say what is wrong with the file. */
  readonly validate?: boolean;
  /** Where the files of the run are written in the form of the DOT language. */
  readonly logs?: string;
  readonly stay?: boolean;
  readonly autoApprove?: boolean;
  /** Start beside other runs in the same directory. */
  readonly beside?: boolean;
  /** False: what the plan needs is not looked for first. */
  readonly preflight?: boolean;
}

/** Starts a new run and drives it to its end. */
export async function runCommand(file: string, options: RunOptions): Promise<ExitCode> {
  const path = resolve(file);
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
  const site = { file, typed, preflight, cwd: process.cwd() };
  const { input, warnings, priceLines } = await prepareRun(plan, given, site);
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
  const {
    known: after,
    endedBy,
    isDetached,
  } = await execute(project, known, {
    ...{ display: displayOf(screen), greet, stay, autoApprove, beside },
  });
  if (isDetached) return leaveToBackground(project, after, options);
  await printOutcome(after, screen);
  return exitCodeOf(after.run, endedBy);
}

function nothingStarted(): ExitCode {
  print("Nothing was started.");
  return EXIT.interrupted;
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
  // Who is driven by another process can only be looked at.
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
