/** `perdure resume`: goes on with a run from exactly where it was. */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { ROOT_SCOPE } from "../../core/place.ts";
import { planRewind, retryEvents } from "../../core/rewind.ts";
import { isDone } from "../../core/run.ts";
import { sha256 } from "../../util/hash.ts";
import { type Why, why } from "../../view/why.ts";
import { parseBudget } from "../budget.ts";
import { CliError, RunError } from "../cli-error.ts";
import { checkEnvironment } from "../environment.ts";
import { execute, ownedError, sayGoodbye, type Wish } from "../execute.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { type OutputOptions, screenKind, wantsJson } from "../output-options.ts";
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
  const refusal = refusalOf(known, wish, options);
  if (refusal instanceof CliError) throw refusal;
  if (refusal !== undefined) {
    if (options.dryRun !== true) completeFiles(known);
    print(refusal);
    return EXIT.done;
  }
  if (options.dryRun === true) return showPlan(known, wish, options);
  checkEnvironment(known.run.created?.envNames ?? []);
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

/** Why this run cannot be resumed: an error, or a sentence when there is simply nothing to do. */
function refusalOf(
  known: KnownRun,
  wish: Wish | undefined,
  options: ResumeOptions,
): CliError | string | undefined {
  const words = (): Why => why(whyInputOf(known, Date.now()));
  if (known.cleanedAt !== undefined) {
    const { happened, commands } = words();
    return new CliError(EXIT.error, happened, commands[0]);
  }
  const { owner } = known.lease ?? {};
  if (known.liveness === "owned" && owner !== undefined && options.takeOver !== true) {
    return ownedError(known.shortId, owner);
  }
  checkWish(known, wish);
  const finished = known.run.state.status === "completed" && wish === undefined;
  return finished ? `${words().happened}\nThere is nothing to resume.` : undefined;
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
  ];
}

/** Its owner may have been killed after the last event and before the files that tell of it. */
function completeFiles({ dir, run, planText, events }: KnownRun): void {
  RunFiles.open(dir, run, planText, events).close(run);
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
  return fileChanged(known)
    ? [...lines, `${run.created?.file} was edited since; the run goes on with its plan as it was`]
    : lines;
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
  options: ResumeOptions,
): Promise<ExitCode> {
  const { resumePlan, resumePlanLines } = await import("../../view/resume-plan.ts");
  const { resumeEvidence } = await import("../resume-evidence.ts");
  const rewind = wish === undefined ? undefined : planRewind(known.plan, known.run, wish.step);
  const steps = resumePlan({
    run: known.run,
    ...(await resumeEvidence(known)),
    rewind,
    recover: await recoverOf(known, options.recover),
    now: Date.now(),
  });
  if (wantsJson(options)) print(JSON.stringify(steps, null, 2));
  else for (const line of resumePlanLines(steps)) print(line);
  return EXIT.done;
}
