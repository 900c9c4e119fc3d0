/** `perdure resume`: goes on with a run from exactly where it was. */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { ROOT_SCOPE } from "../../core/place.ts";
import { planRewind, retryEvents } from "../../core/rewind.ts";
import { isDone } from "../../core/run.ts";
import { sha256 } from "../../util/hash.ts";
import { why } from "../../view/why.ts";
import { parseBudget } from "../budget.ts";
import { CliError, RunError } from "../cli-error.ts";
import { checkEnvironment } from "../environment.ts";
import { evidenceOf } from "../evidence.ts";
import { execute, ownedError, sayGoodbye, type Wish } from "../execute.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { filesOption } from "../files-option.ts";
import { type OutputOptions, screenKind, wantsJson } from "../output-options.ts";
import type { Agreed } from "../pipeline-update.ts";
import { print } from "../print.ts";
import {
  type KnownRun,
  loadRun,
  openProject,
  type Project,
  resolveRunId,
  whyInputOf,
} from "../project.ts";
import { checkRecover, recoverOf } from "../recover.ts";
import { RunFiles } from "../run-files.ts";

export interface ResumeOptions extends OutputOptions {
  readonly pipelineId?: string;
  readonly fromStep?: string;
  readonly dryRun?: boolean;
  readonly detach?: boolean;
  readonly takeOver?: boolean;
  /** What to add to the run's budget. */
  readonly budget?: string;
  /** What to do with agents that were cut off. */
  readonly recover?: string;
  /** Adopt the edit of the pipeline's file. */
  readonly update?: boolean;
  /** Agree to the update without being asked. */
  readonly yes?: boolean;
  /** What to do with the files of the workspace. */
  readonly files?: string;
  /** Only runs of this pipeline file count as the last one. */
  readonly file?: string;
}

/** Resumes the run that is named, or the last unfinished one. */
export async function resumeCommand(
  id: string | undefined,
  options: ResumeOptions,
): Promise<ExitCode> {
  const project = openProject(process.cwd(), "read-write");
  const runId = chooseRun(project, id ?? options.pipelineId, options.file);
  const wish: Wish | undefined =
    options.fromStep === undefined
      ? undefined
      : { type: "rewind-requested", step: options.fromStep };
  return goOn(project, runId, wish, options);
}

/** `perdure retry RUN STEP`: another try of a failed step, or a done step and all behind it again. */
export async function retryCommand(
  id: string,
  step: string,
  options: ResumeOptions,
): Promise<ExitCode> {
  const project = openProject(process.cwd(), "read-write");
  const runId = resolveRunId(project.journal, id);
  return goOn(project, runId, { type: "retry-requested", step }, options);
}

async function goOn(
  project: Project,
  runId: string,
  wish: Wish | undefined,
  options: ResumeOptions,
): Promise<ExitCode> {
  const known = loadRun(project, runId);
  if (options.budget !== undefined) parseBudget(options.budget);
  checkRecover(options);
  const foreign = filesOption(options.files);
  refuse(known, wish, options);
  const agreed: Agreed =
    options.update === true
      ? await (await import("../pipeline-update.ts")).agreeOnUpdate(project, known, options)
      : { kind: "same" };
  if (agreed.kind === "over") return agreed.exit;
  const update = agreed.kind === "update" ? agreed.update : undefined;
  if (known.run.state.status === "completed" && wish === undefined && update === undefined) {
    if (options.dryRun !== true) completeFiles(known);
    print(`${why(whyInputOf(known, Date.now())).happened}\nThere is nothing to resume.`);
    return EXIT.done;
  }
  if (options.dryRun === true) return showPlan(known, wish, options);
  checkEnvironment(update?.envNames ?? known.run.created?.envNames ?? []);
  if (options.detach === true) {
    const { detach } = await import("../detach.ts");
    return detach(project, runId, known.shortId, detachedOptions(wish, options));
  }
  const recover = await recoverOf(known, options.recover);
  const screen = screenKind(options);
  const exit = await execute(project, known, {
    screen,
    takeOver: options.takeOver === true,
    ...(wish === undefined ? {} : { wish }),
    ...(update === undefined ? {} : { update }),
    ...(foreign === undefined ? {} : { foreign }),
    ...(options.budget === undefined ? {} : { added: parseBudget(options.budget) }),
    ...(recover === undefined ? {} : { recover }),
    greet: greeting,
  });
  sayGoodbye(project, runId, screen);
  return exit;
}

function chooseRun(
  { journal }: Project,
  given: string | undefined,
  file: string | undefined,
): string {
  if (given !== undefined) return resolveRunId(journal, given);
  const status = ["queued", "running", "interrupted", "failed"] as const;
  const runs = journal.list(file === undefined ? { status } : { status, file: resolve(file) });
  const last = runs.find(({ cleanedAt }) => cleanedAt === undefined);
  if (last !== undefined) return last.runId;
  const where = file === undefined ? "here" : `of ${file}`;
  throw new CliError(EXIT.usage, `there is no unfinished run ${where}`, "perdure list runs");
}

/** Throws when this run cannot be resumed, or not in this way. */
function refuse(known: KnownRun, wish: Wish | undefined, options: ResumeOptions): void {
  if (known.cleanedAt !== undefined) {
    const { happened, commands } = why(whyInputOf(known, Date.now()));
    throw new CliError(EXIT.error, happened, commands[0]);
  }
  const { owner } = known.lease ?? {};
  if (known.liveness === "owned" && owner !== undefined && options.takeOver !== true) {
    throw ownedError(known.shortId, owner);
  }
  if (wish !== undefined && options.update === true) {
    const message = "--update and --from-step are two wishes: first the one, then the other";
    throw new CliError(EXIT.usage, message, `perdure resume ${known.shortId} --update`);
  }
  checkWish(known, wish);
}

/** Throws when the wish cannot be granted. */
function checkWish({ plan, run, shortId }: KnownRun, wish: Wish | undefined): void {
  try {
    if (wish?.type === "rewind-requested") planRewind(plan, run, wish.step);
    if (wish?.type === "retry-requested") retryEvents(plan, run, wish.step);
  } catch (error) {
    throw new RunError(shortId, error);
  }
}

/** What the process in the background has to be told again. */
function detachedOptions(wish: Wish | undefined, options: ResumeOptions): readonly string[] {
  return [
    ...(wish === undefined ? [] : ["--from-step", wish.step]),
    ...(options.takeOver === true ? ["--take-over"] : []),
    ...(options.budget === undefined ? [] : ["--budget", options.budget]),
    ...(options.recover === undefined ? [] : ["--recover", options.recover]),
    ...(options.update === true ? ["--update", "--yes"] : []),
    ...(options.files === undefined ? [] : ["--files", options.files]),
  ];
}

/** Its owner may have been killed after the last event and before the files that tell of it. */
function completeFiles(known: KnownRun): void {
  const { dir, run, events } = known;
  RunFiles.open(dir, run, known, events).close(run);
}

function greeting(known: KnownRun): readonly string[] {
  const { run, plan, shortId } = known;
  const records = run.scopes.get(ROOT_SCOPE)?.steps ?? [];
  const first = plan.graph.steps.findIndex((_, position) => !isDone(records[position]));
  const at = first === -1 ? plan.graph.steps.length - 1 : first;
  const from = `step ${at + 1} of ${plan.graph.steps.length}: ${plan.graph.steps[at]?.id}`;
  const lines = [
    `Resuming run ${known.id} of ${plan.name} from ${from}`,
    `If it is interrupted: perdure resume ${shortId}`,
  ];
  if (!fileChanged(known)) return lines;
  const edited = `${run.created?.file} was edited since; the run goes on with its plan as it was`;
  return [...lines, `${edited} (adopt the edit: perdure resume ${shortId} --update)`];
}

/** Whether the author's file is another one now; one that cannot be read counts as edited. */
function fileChanged({ run }: KnownRun): boolean {
  const { file, fileSha256 } = run.created ?? {};
  if (file === undefined || fileSha256 === undefined) return false;
  try {
    return sha256(readFileSync(file, "utf8")) !== fileSha256;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== undefined) return true;
    throw error;
  }
}

/** `--dry-run`: what would happen to each step, and why. Changes nothing. */
async function showPlan(
  known: KnownRun,
  wish: Wish | undefined,
  options: OutputOptions,
): Promise<ExitCode> {
  const { resumePlan, resumePlanLines } = await import("../../view/resume-plan.ts");
  const evidence = evidenceOf(known);
  const rewind = wish === undefined ? undefined : planRewind(known.plan, known.run, wish.step);
  const steps = resumePlan({ run: known.run, evidence, rewind, now: Date.now() });
  if (wantsJson(options)) print(JSON.stringify(steps, null, 2));
  else for (const line of resumePlanLines(steps)) print(line);
  return EXIT.done;
}
