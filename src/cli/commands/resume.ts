/** `perdure resume`: goes on with a run from exactly where it was. */
import { realpathSync } from "node:fs";
import { resolve } from "node:path";
import { unavailable } from "../../app/available-run.ts";
import { filesOption } from "../../app/back-files.ts";
import { besideLines, startsBeside, workerOf } from "../../app/beside.ts";
import { parseBudget, parseTurns, refuseWithoutTurns } from "../../app/budget.ts";
import { readiness } from "../../app/environment.ts";
import { execute } from "../../app/execute.ts";
import { type Back, type BackRequest, filesLines, linesOf } from "../../app/going-back.ts";
import { completeFiles, goingOn, workedOut } from "../../app/going-on.ts";
import { type KnownRun, loadRun, whyInputOf } from "../../app/known-run.ts";
import type { LogsRun } from "../../app/logs-directory.ts";
import { refuseCopy } from "../../app/moved-project.ts";
import { type CutOff, partialWork } from "../../app/partial-work.ts";
import { checkPricesOnResume } from "../../app/prices.ts";
import { openProject, type Project, resolveRunId } from "../../app/project.ts";
import { command, Refusal } from "../../app/refusal.ts";
import { agreedRequest } from "../../app/repeat.ts";
import { environmentLines, givenVariables, requireVariables } from "../../app/run-environment.ts";
import type { UpdateRequested } from "../../core/fact.ts";
import { ROOT_SCOPE } from "../../core/place.ts";
import { findRecord, isDone } from "../../core/run.ts";
import { textOf } from "../../runner/file-text.ts";
import { sha256 } from "../../util/json.ts";
import { EXIT, type ExitCode, exitCodeOf } from "../../view/exit-code.ts";
import { partialLines } from "../../view/partial-text.ts";
import { why } from "../../view/why.ts";
import { confirmation } from "../ask.ts";
import { printDiagnostics } from "../diagnostics.ts";
import { print, printError, printJson } from "../print.ts";
import { checkRecover, recoverWord, recoveryOf } from "../recover.ts";
import { displayOf, printOutcome } from "../screen/display.ts";
import { type OutputOptions, screenKind, wantsJson } from "../screen/output-options.ts";
import type { AgreedUpdate } from "./update.ts";

export interface ResumeOptions extends OutputOptions {
  readonly pipelineId?: string;
  readonly fromStep?: string;
  readonly dryRun?: boolean;
  readonly detach?: boolean;
  readonly takeOver?: boolean;
  /** Go on beside other runs in the same directory. */
  readonly beside?: boolean;
  /** False: what the plan needs is not looked for first. */
  readonly preflight?: boolean;
  /** Go on in a copy of the run's project. */
  readonly asCopy?: boolean;
  /** What to add to the run's budget. */
  readonly budget?: string;
  /** Variables that take new values: NAME, or NAME=value. */
  readonly env?: readonly string[];
  /** How many turns more agents get that have used up theirs. */
  readonly turns?: string;
  /** What to do with work that was cut off. */
  readonly recover?: string;
  /** Adopt the edit of the pipeline's file. */
  readonly update?: boolean;
  /** Agree, without being asked, to the update or to repeating what must not happen twice. */
  readonly yes?: boolean;
  /** What to do with the files: keep or restore. */
  readonly files?: string;
  readonly stay?: boolean;
  readonly autoApprove?: boolean;
  /** Only runs of this pipeline file count as the last one. */
  readonly file?: string;
  /** With retry, of a fan-out: only its failed items. */
  readonly failed?: boolean;
  /** The directory that the run writes to, in place of its id. */
  readonly logs?: string;
}

/** Resumes the run that is named, or the one that was interrupted last. */
export async function resumeCommand(
  id: string | undefined,
  options: ResumeOptions,
): Promise<ExitCode> {
  const { project, runId, read } = await chosenRun(id, options);
  if (read !== undefined) await printDiagnostics(read);
  if (runId === undefined) return nothingStarted();
  const files = filesOption(options.files);
  const request: BackRequest | undefined =
    options.fromStep === undefined
      ? undefined
      : { verb: "from-step", step: options.fromStep, files };
  return goOn(project, runId, request, options);
}

async function chosenRun(
  id: string | undefined,
  options: ResumeOptions,
): Promise<Omit<LogsRun, "runId"> & { readonly runId: string | undefined }> {
  if (options.logs !== undefined) {
    const { runOfLogs } = await import("../../app/logs-directory.ts");
    return runOfLogs(options.logs, id ?? options.file);
  }
  if (id !== undefined && options.pipelineId !== undefined) {
    const message = `the run is named twice: ${id} and --pipeline-id ${options.pipelineId}`;
    throw new Refusal("bad-option", message, command("resume", id));
  }
  const project = openProject(process.cwd(), "read-write");
  const given = id ?? options.pipelineId;
  const { file, fromStep, dryRun } = options;
  if (given !== undefined) {
    const runId = resolveRunId(project.journal, given);
    if (file !== undefined) refuseOtherFile(loadRun(project, runId), file, fromStep);
    return { project, runId };
  }
  const { lastRun } = await import("../../app/last-run.ts");
  const failedToo = fromStep !== undefined || dryRun === true;
  return {
    project,
    runId: await lastRun(project, { file, confirm: confirmation(options), failedToo }),
  };
}

/** `perdure retry RUN STEP`: another try of a failed step, or a done step and all behind it again. */
export async function retryCommand(
  id: string,
  step: string,
  options: ResumeOptions,
): Promise<ExitCode> {
  const project = openProject(process.cwd(), "read-write");
  const runId = resolveRunId(project.journal, id);
  const files = filesOption(options.files);
  const { failed } = options;
  const turns = options.turns === undefined ? undefined : parseTurns(options.turns);
  return goOn(project, runId, { verb: "retry", step, files, failed, turns }, options);
}

/** Refuses what cannot be resumed, or not like this, before anything is asked or changed. */
function refuse(
  project: Project,
  known: KnownRun,
  wanted: BackRequest | undefined,
  options: ResumeOptions,
): void {
  if (options.budget !== undefined) parseBudget(options.budget);
  if (options.turns !== undefined) parseTurns(options.turns);
  checkRecover(options);
  const refusal = unavailable(known, options);
  if (refusal !== undefined) throw refusal;
  refuseCopy(project.dir, known, options.asCopy === true);
  if (wanted === undefined || options.update !== true) return;
  const message = "--update and --from-step are two wishes: first the one, then the other";
  throw new Refusal("bad-option", message, command("resume", known.shortId, "--update"));
}

async function goOn(
  project: Project,
  runId: string,
  wanted: BackRequest | undefined,
  options: ResumeOptions,
): Promise<ExitCode> {
  const known = loadRun(project, runId);
  refuse(project, known, wanted, options);
  const request = wanted && (await agreedRequest(known, wanted, options, confirmation(options)));
  if (wanted !== undefined && request === undefined) return nothingStarted();
  const agreed: AgreedUpdate =
    options.update === true
      ? await (await import("./update.ts")).agreeOnUpdate(project, known, options)
      : { kind: "same" };
  if (agreed.kind === "over") return agreed.exit;
  const update = agreed.kind === "update" ? agreed.update : undefined;
  if (known.run.state.status === "completed" && request === undefined && update === undefined) {
    if (options.dryRun !== true) await completeFiles(project, known);
    print(`${why(whyInputOf(known, Date.now())).happened}\nThere is nothing to resume.`);
    return EXIT.done;
  }
  const back = request && (await workedOut(project, known, request));
  const kept = options.files === "keep" ? "continue" : undefined;
  const recover = recoverWord(options.recover) ?? kept;
  const cut = back === undefined ? await partialWork(project, known, recover) : [];
  if (options.dryRun === true) return showPlan(known, { back, cut }, options);
  const { run, plan, shortId } = known;
  const adopted = { run, plan: update?.plan ?? plan };
  const variables = givenVariables(options.env ?? [], adopted.plan);
  requireVariables(adopted, shortId, { given: variables, names: update?.envNames });
  const raised = options.turns !== undefined || update !== undefined;
  if (!raised && recover !== "restart" && request?.verb !== "from-step") refuseWithoutTurns(known);
  const priceLines = await checkPricesOnResume(known, update?.plan, options.budget);
  await lookAhead(known, { update, back }, options);
  const worker = workerOf(known);
  const { starts, beside } = await startsBeside(project, worker, {
    beside: options.beside === true,
    confirm: confirmation(options),
    command: ["resume", known.shortId],
  });
  if (!starts) return nothingStarted();
  if (options.detach === true) {
    const { detach, peopleOptions } = await import("../detach.ts");
    const told = [...detachedOptions(options), ...peopleOptions(options)];
    return detach(project, runId, known.shortId, told);
  }
  const recovery = await recoveryOf(cut, options.recover, known.shortId);
  const screen = screenKind(options);
  const { known: after, endedBy } = await execute(project, known, {
    display: displayOf(screen),
    ...goingOn(project, { request, back }, { ...options, beside }),
    ...(update === undefined ? {} : { update }),
    ...recovery,
    variables,
    greet: (now) => [
      ...greeting(now, back?.rewind?.step),
      ...environmentLines(now, commandOf(shortId, request), variables),
      ...priceLines,
      ...besideLines(project, worker),
      ...(back === undefined ? [] : linesOf(now, back)),
      ...(options.recover === "ask" ? [] : cutLines(cut, known.shortId)),
    ],
  });
  printOutcome(after, screen);
  return exitCodeOf(after.run, endedBy);
}

/** Looks whether what the steps ahead need is there; where some run again, all of them count. */
async function lookAhead(
  { run, plan, shortId }: KnownRun,
  {
    update,
    back,
  }: { readonly update: UpdateRequested | undefined; readonly back: Back | undefined },
  options: ResumeOptions,
): Promise<void> {
  const root = update === undefined && back === undefined ? run.scopes.get(ROOT_SCOPE) : undefined;
  const done = (id: string): boolean => root !== undefined && isDone(findRecord(root, id));
  const looked = { ...options, isDone: done };
  const found = await readiness(update?.plan ?? plan, looked, ["resume", shortId]);
  for (const line of found) printError(line);
}

function nothingStarted(): ExitCode {
  print("Nothing was started.");
  return EXIT.interrupted;
}

/** Who names a run and a pipeline means a run of that pipeline: by its file, or by its name. */
function refuseOtherFile(
  { run, plan, shortId }: KnownRun,
  file: string,
  fromStep: string | undefined,
): void {
  const own = run.created?.file ?? "";
  if (file === plan.name || realPath(resolve(file)) === realPath(own)) return;
  const message = `run ${shortId} is a run of ${own}, not of ${file}`;
  const from = fromStep === undefined ? [] : ["--from-step", fromStep];
  throw new Refusal("wrong-pipeline", message, command("resume", shortId, ...from));
}

/** A path without links; one that leads nowhere is taken as it is written. */
function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === undefined) throw error;
    return path;
  }
}

/** What the person typed, without its options. */
function commandOf(shortId: string, request: BackRequest | undefined): readonly string[] {
  if (request === undefined) return ["resume", shortId];
  if (request.verb === "retry") return ["retry", shortId, request.step];
  return ["resume", shortId, "--from-step", request.step];
}

/** What the process in the background has to be told again. */
function detachedOptions(options: ResumeOptions): readonly string[] {
  return [
    ...(options.fromStep === undefined ? [] : ["--from-step", options.fromStep]),
    ...(options.files === undefined ? [] : ["--files", options.files]),
    ...(options.takeOver === true ? ["--take-over"] : []),
    ...(options.asCopy === true ? ["--as-copy"] : []),
    ...(options.beside === true ? ["--beside"] : []),
    "--no-preflight",
    ...(options.budget === undefined ? [] : ["--budget", options.budget]),
    ...(options.env ?? []).flatMap((word) => ["--env", word]),
    ...(options.turns === undefined ? [] : ["--turns", options.turns]),
    ...(options.recover === undefined ? [] : ["--recover", options.recover]),
    ...(options.update === true ? ["--update"] : []),
    ...(options.update === true || options.yes === true ? ["--yes"] : []),
    ...(options.files === undefined ? [] : ["--files", options.files]),
  ];
}

function greeting(known: KnownRun, fromStep: string | undefined): readonly string[] {
  const { run, plan, shortId } = known;
  const records = run.scopes.get(ROOT_SCOPE)?.steps ?? [];
  const first = plan.graph.steps.findIndex(({ id }, position) =>
    fromStep === undefined ? !isDone(records[position]) : id === fromStep,
  );
  const at = first === -1 ? plan.graph.steps.length - 1 : first;
  const from = `step ${at + 1} of ${plan.graph.steps.length}: ${plan.graph.steps[at]?.id}`;
  const lines = [
    `Resuming run ${known.id} of ${plan.name} from ${from}`,
    `If it is interrupted: perdure resume ${shortId}`,
  ];
  const now = fileNow(known);
  if (now === "same") return lines;
  const asItWas = "the run goes on with its plan as it was";
  if (now === "unreadable") {
    return [...lines, `${run.created?.file} cannot be read; ${asItWas}`];
  }
  const edited = `${run.created?.file} was edited since; ${asItWas}`;
  return [...lines, `${edited} (adopt the edit: perdure resume ${shortId} --update)`];
}

/** What was cut off, and what becomes of it. */
function cutLines(cut: readonly CutOff[], shortId: string): readonly string[] {
  return cut.flatMap(({ work }) => partialLines(work, shortId));
}

/** What has become of the author's file. */
function fileNow({ run }: KnownRun): "same" | "edited" | "unreadable" {
  const { file, fileSha256 } = run.created ?? {};
  if (file === undefined || fileSha256 === undefined) return "same";
  const text = textOf(file);
  if (text === undefined) return "unreadable";
  return sha256(text) === fileSha256 ? "same" : "edited";
}

/** `--dry-run`: what would happen to each step, and why. Changes nothing. */
async function showPlan(
  known: KnownRun,
  { back, cut }: { readonly back: Back | undefined; readonly cut: readonly CutOff[] },
  options: ResumeOptions,
): Promise<ExitCode> {
  const { resumePlan, resumePlanLines } = await import("../../view/resume-plan.ts");
  const { resumeEvidence } = await import("../../app/resume-evidence.ts");
  const steps = resumePlan({
    plan: known.plan,
    run: known.run,
    ...(await resumeEvidence(known)),
    rewind: back?.rewind,
    recover: recoverWord(options.recover),
    now: Date.now(),
  });
  if (wantsJson(options)) {
    printJson(steps);
    return EXIT.done;
  }
  for (const line of resumePlanLines(steps)) print(line);
  for (const line of back === undefined ? [] : filesLines(known, back)) print(line);
  for (const line of cutLines(cut, known.shortId)) print(line);
  return EXIT.done;
}
