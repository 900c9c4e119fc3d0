/** `perdure resume`: goes on with a run from exactly where it was. */
import { readFileSync } from "node:fs";
import { attemptOf } from "../../core/next-actions.ts";
import { attemptText, ROOT_SCOPE } from "../../core/place.ts";
import { planRewind, retryEvents } from "../../core/rewind.ts";
import { isDone } from "../../core/run.ts";
import { attemptDirOf } from "../../engine/state-dir.ts";
import { lookAt } from "../../runner/adopt.ts";
import { sha256 } from "../../util/hash.ts";
import { type Evidence, resumePlan, resumePlanLines } from "../../view/resume-plan.ts";
import { why } from "../../view/why.ts";
import { CliError } from "../cli-error.ts";
import { detach } from "../detach.ts";
import { execute, sayGoodbye, type Wish } from "../execute.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { type OutputOptions, screenKind, wantsJson } from "../output-options.ts";
import { ownerText } from "../owner.ts";
import { print } from "../print.ts";
import {
  type KnownRun,
  loadRun,
  openProject,
  type Project,
  resolveRunId,
  whyInputOf,
} from "../project.ts";
import { checkEnvironment } from "./run.ts";

export interface ResumeOptions extends OutputOptions {
  readonly pipelineId?: string;
  readonly fromStep?: string;
  readonly dryRun?: boolean;
  readonly detach?: boolean;
  readonly takeOver?: boolean;
}

/** Resumes the run that is named, or the last unfinished one. */
export async function resumeCommand(
  id: string | undefined,
  options: ResumeOptions,
): Promise<ExitCode> {
  const project = openProject(process.cwd(), "read-write");
  const runId = chooseRun(project, id ?? options.pipelineId);
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
  if (options.dryRun === true) return showPlan(known, wish, options);
  const refusal = refusalOf(known, wish, options);
  if (refusal instanceof CliError) throw refusal;
  if (refusal !== undefined) {
    print(refusal);
    return EXIT.done;
  }
  checkEnvironment(known.plan);
  if (options.detach === true && wish === undefined) return detach(project, runId, known.shortId);
  const screen = screenKind(options);
  const exit = await execute(project, runId, {
    screen,
    takeOver: options.takeOver === true,
    ...(wish === undefined ? {} : { wish }),
    greet: greeting,
  });
  sayGoodbye(project, runId, screen);
  return exit;
}

function chooseRun({ journal }: Project, given: string | undefined): string {
  if (given !== undefined) return resolveRunId(journal, given);
  const runs = journal.list({ status: ["queued", "running", "interrupted", "failed"], limit: 50 });
  const last = runs.find(({ cleanedAt }) => cleanedAt === undefined);
  if (last !== undefined) return last.runId;
  throw new CliError(EXIT.usage, "there is no unfinished run here", "perdure list runs");
}

/** Why this run cannot be resumed: an error, or a sentence when there is simply nothing to do. */
function refusalOf(
  known: KnownRun,
  wish: Wish | undefined,
  options: ResumeOptions,
): CliError | string | undefined {
  const words = why(whyInputOf(known, Date.now()));
  const [command] = words.commands;
  if (known.cleanedAt !== undefined) return new CliError(EXIT.error, words.happened, command);
  const { owner } = known.lease ?? {};
  if (known.liveness === "owned" && owner !== undefined && options.takeOver !== true) {
    const message = `run ${known.shortId} is owned by ${ownerText(owner)}`;
    return new CliError(EXIT.owned, message, `perdure attach ${known.shortId}`);
  }
  if (wish?.type === "rewind-requested") planRewind(known.plan, known.run, wish.step);
  if (wish?.type === "retry-requested") retryEvents(known.plan, known.run, wish.step);
  const finished = known.run.state.status === "completed" && wish === undefined;
  return finished ? `${words.happened}\nThere is nothing to resume.` : undefined;
}

function greeting(known: KnownRun): readonly string[] {
  const { run, plan, shortId } = known;
  const records = run.scopes.get(ROOT_SCOPE)?.steps ?? [];
  const first = plan.graph.steps.findIndex((_, position) => !isDone(records[position]));
  const at = first === -1 ? plan.graph.steps.length - 1 : first;
  const lines = [
    `Resuming run ${known.id} of ${plan.name} from step ${at + 1} of ${plan.graph.steps.length}: ${plan.graph.steps[at]?.id}`,
    `If it is interrupted: perdure resume ${shortId}`,
  ];
  return fileChanged(known)
    ? [...lines, `${run.created?.file} was edited since; the run goes on with its plan as it was`]
    : lines;
}

/** Whether the author's file is another one now; a missing file counts as edited. */
function fileChanged({ run }: KnownRun): boolean {
  const { file, fileSha256 } = run.created ?? {};
  if (file === undefined || fileSha256 === undefined) return false;
  try {
    return sha256(readFileSync(file, "utf8")) !== fileSha256;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return true;
    throw error;
  }
}

/** `--dry-run`: what would happen to each step, and why. Changes nothing. */
function showPlan(known: KnownRun, wish: Wish | undefined, options: OutputOptions): ExitCode {
  const evidence = new Map<string, Evidence>();
  for (const visit of known.run.running) {
    const at = attemptOf(visit);
    evidence.set(attemptText(at), lookAt(attemptDirOf(known.dir, at)));
  }
  const rewind = wish === undefined ? undefined : planRewind(known.plan, known.run, wish.step);
  const steps = resumePlan({ run: known.run, evidence, rewind, now: Date.now() });
  if (wantsJson(options)) print(JSON.stringify(steps, null, 2));
  else for (const line of resumePlanLines(steps)) print(line);
  return EXIT.done;
}
