/** `perdure resume`: goes on with a run from exactly where it was. */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { ROOT_SCOPE } from "../../core/place.ts";
import { isDone } from "../../core/run.ts";
import { sha256 } from "../../util/hash.ts";
import { partialLines } from "../../view/partial-text.ts";
import { why } from "../../view/why.ts";
import { unavailable } from "../available-run.ts";
import { filesOption } from "../back-files.ts";
import { parseBudget } from "../budget.ts";
import { CliError } from "../cli-error.ts";
import { checkEnvironment } from "../environment.ts";
import { execute, sayGoodbye } from "../execute.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { type Back, type BackRequest, filesLines, linesOf } from "../going-back.ts";
import { completeFiles, goingOn, workedOut } from "../going-on.ts";
import { type KnownRun, loadRun, whyInputOf } from "../known-run.ts";
import type { LogsRun } from "../logs-run.ts";
import { type OutputOptions, screenKind, wantsJson } from "../output-options.ts";
import { type CutOff, partialWork } from "../partial-work.ts";
import type { Agreed } from "../pipeline-update.ts";
import { print } from "../print.ts";
import { openProject, type Project, resolveRunId } from "../project.ts";
import { checkRecover, recoverWord, recoveryOf } from "../recover.ts";

export interface ResumeOptions extends OutputOptions {
  readonly pipelineId?: string;
  readonly fromStep?: string;
  readonly dryRun?: boolean;
  readonly detach?: boolean;
  readonly takeOver?: boolean;
  /** What to add to the run's budget. */
  readonly budget?: string;
  /** What to do with work that was cut off. */
  readonly recover?: string;
  /** Adopt the edit of the pipeline's file. */
  readonly update?: boolean;
  /** Agree to the update without being asked. */
  readonly yes?: boolean;
  /** What to do with the files: keep or restore. */
  readonly files?: string;
  readonly stay?: boolean;
  readonly autoApprove?: boolean;
  /** Only runs of this pipeline file count as the last one. */
  readonly file?: string;
  /** The directory that the run writes to, in place of its id. */
  readonly logs?: string;
}

/** Resumes the run that is named, or the last unfinished one. */
export async function resumeCommand(
  id: string | undefined,
  options: ResumeOptions,
): Promise<ExitCode> {
  const { project, runId } =
    options.logs === undefined
      ? chosenRun(id, options)
      : await (await import("../logs-run.ts")).runOfLogs(options.logs, id ?? options.file);
  const files = filesOption(options.files);
  const request: BackRequest | undefined =
    options.fromStep === undefined
      ? undefined
      : { verb: "from-step", step: options.fromStep, files };
  return goOn(project, runId, request, options);
}

function chosenRun(id: string | undefined, options: ResumeOptions): LogsRun {
  const project = openProject(process.cwd(), "read-write");
  return { project, runId: chooseRun(project, id ?? options.pipelineId, options.file) };
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
  return goOn(project, runId, { verb: "retry", step, files }, options);
}

async function goOn(
  project: Project,
  runId: string,
  request: BackRequest | undefined,
  options: ResumeOptions,
): Promise<ExitCode> {
  const known = loadRun(project, runId);
  if (options.budget !== undefined) parseBudget(options.budget);
  checkRecover(options);
  const refusal = unavailable(known, options);
  if (refusal !== undefined) throw refusal;
  if (request !== undefined && options.update === true) {
    const message = "--update and --from-step are two wishes: first the one, then the other";
    throw new CliError(EXIT.usage, message, `perdure resume ${known.shortId} --update`);
  }
  const agreed: Agreed =
    options.update === true
      ? await (await import("../pipeline-update.ts")).agreeOnUpdate(project, known, options)
      : { kind: "same" };
  if (agreed.kind === "over") return agreed.exit;
  const update = agreed.kind === "update" ? agreed.update : undefined;
  if (known.run.state.status === "completed" && request === undefined && update === undefined) {
    if (options.dryRun !== true) await completeFiles(project, known);
    print(`${why(whyInputOf(known, Date.now())).happened}\nThere is nothing to resume.`);
    return EXIT.done;
  }
  const back = request && (await workedOut(project, known, request));
  const cut =
    back === undefined ? await partialWork(project, known, recoverWord(options.recover)) : [];
  if (options.dryRun === true) return showPlan(known, { back, cut }, options);
  checkEnvironment(update?.envNames ?? known.run.created?.envNames ?? []);
  if (options.detach === true) {
    const { detach, peopleOptions } = await import("../detach.ts");
    const told = [...detachedOptions(options), ...peopleOptions(options)];
    return detach(project, runId, known.shortId, told);
  }
  const recovery = await recoveryOf(cut, options.recover, known.shortId);
  const screen = screenKind(options);
  const { exit, known: after } = await execute(project, known, {
    screen,
    ...goingOn(project, { request, back }, options),
    ...(update === undefined ? {} : { update }),
    ...recovery,
    greet: (now) => [
      ...greeting(now, back?.rewind?.step),
      ...(back === undefined ? [] : linesOf(now, back)),
      ...(options.recover === "ask" ? [] : cutLines(cut, known.shortId)),
    ],
  });
  sayGoodbye(after, screen);
  return exit;
}

function chooseRun(
  { journal }: Project,
  given: string | undefined,
  file: string | undefined,
): string {
  if (given !== undefined) return resolveRunId(journal, given);
  const status = ["queued", "running", "waiting", "interrupted", "failed"] as const;
  const runs = journal.list(file === undefined ? { status } : { status, file: resolve(file) });
  const last = runs.find(({ cleanedAt }) => cleanedAt === undefined);
  if (last !== undefined) return last.runId;
  const where = file === undefined ? "here" : `of ${file}`;
  throw new CliError(EXIT.usage, `there is no unfinished run ${where}`, "perdure list runs");
}

/** What the process in the background has to be told again. */
function detachedOptions(options: ResumeOptions): readonly string[] {
  return [
    ...(options.fromStep === undefined ? [] : ["--from-step", options.fromStep]),
    ...(options.files === undefined ? [] : ["--files", options.files]),
    ...(options.takeOver === true ? ["--take-over"] : []),
    ...(options.budget === undefined ? [] : ["--budget", options.budget]),
    ...(options.recover === undefined ? [] : ["--recover", options.recover]),
    ...(options.update === true ? ["--update", "--yes"] : []),
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
  try {
    return sha256(readFileSync(file, "utf8")) === fileSha256 ? "same" : "edited";
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== undefined) return "unreadable";
    throw error;
  }
}

/** `--dry-run`: what would happen to each step, and why. Changes nothing. */
async function showPlan(
  known: KnownRun,
  { back, cut }: { readonly back: Back | undefined; readonly cut: readonly CutOff[] },
  options: ResumeOptions,
): Promise<ExitCode> {
  const { resumePlan, resumePlanLines } = await import("../../view/resume-plan.ts");
  const { resumeEvidence } = await import("../resume-evidence.ts");
  const steps = resumePlan({
    plan: known.plan,
    run: known.run,
    ...(await resumeEvidence(known)),
    rewind: back?.rewind,
    recover: recoverWord(options.recover),
    now: Date.now(),
  });
  if (wantsJson(options)) {
    print(JSON.stringify(steps, null, 2));
    return EXIT.done;
  }
  for (const line of resumePlanLines(steps)) print(line);
  for (const line of back === undefined ? [] : filesLines(known, back)) print(line);
  for (const line of cutLines(cut, known.shortId)) print(line);
  return EXIT.done;
}
