/** `perdure resume` and `perdure retry`: continue a run, here or in the background (`--detach`). */

import { createInterface } from "node:readline/promises";
import type { LogsRun } from "../../app/attractor-logs.ts";
import { agreeOnSharing, directoryUserOf, sharingLines } from "../../app/directory-sharing.ts";
import { execute } from "../../app/drive.ts";
import { type InterruptedVisit, partialWork } from "../../app/interrupted-work.ts";
import { type LoadedRun, loadRun, refuseCopy, whyInputOf } from "../../app/loaded-run.ts";
import { ownerText } from "../../app/owner.ts";
import { unavailable } from "../../app/ownership.ts";
import { checkPricesOnResume, parseBudget, parseTurns } from "../../app/prices.ts";
import { isElsewhere, openProject, type Project, resolveRunId } from "../../app/project.ts";
import { command, Refusal } from "../../app/refusal.ts";
import {
  addBudgetToOwned,
  checkResume,
  completeFiles,
  firstStep,
  pipelineFileState,
  planResume,
  refuseOtherFile,
  resumeInBackground,
  resumeOptions,
} from "../../app/resume.ts";
import {
  confirmRepeat,
  previewLines,
  previewRewind,
  type RewindPreview,
  type RewindRequest,
  rewindFilesLines,
} from "../../app/rewind.ts";
import { filesOption } from "../../app/rewind-files.ts";
import { environmentLines, givenVariables, requireVariables } from "../../app/run-environment.ts";
import type { Recover } from "../../plan/plan.ts";
import { EXIT, type ExitCode, exitCodeOf } from "../../view/exit-code.ts";
import { interruptedLines } from "../../view/preview/interrupted-work.ts";
import { why } from "../../view/why.ts";
import { confirmation } from "../ask.ts";
import { print, printDiagnostics, printError, printJson } from "../print.ts";
import { displayOf, printOutcome } from "../screen/display.ts";
import { type OutputOptions, screenKind, wantsJson } from "../screen/output-options.ts";
import type { AgreedUpdate } from "./update.ts";

export interface ResumeOptions extends OutputOptions {
  readonly pipelineId?: string;
  readonly fromStep?: string;
  readonly dryRun?: boolean;
  readonly detach?: boolean;
  readonly takeOver?: boolean;
  /** Continue beside other runs in the same directory. */
  readonly beside?: boolean;
  /** False: what the plan needs is not looked for first. */
  readonly preflight?: boolean;
  /** Continue in a copy of the run's project. */
  readonly asCopy?: boolean;
  /** What to add to the run's budget. */
  readonly budget?: string;
  /** Variables that take new values: NAME, or NAME=value. */
  readonly env?: readonly string[];
  /** How many turns more agents get that have used up theirs. */
  readonly turns?: string;
  /** What to do with work that was interrupted. */
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
  const request: RewindRequest | undefined =
    options.fromStep === undefined
      ? undefined
      : { verb: "from-step", step: options.fromStep, files };
  return continueRun(project, runId, request, options);
}

async function chosenRun(
  id: string | undefined,
  options: ResumeOptions,
): Promise<Omit<LogsRun, "runId"> & { readonly runId: string | undefined }> {
  if (options.logs !== undefined) {
    const { runOfLogs } = await import("../../app/attractor-logs.ts");
    return runOfLogs(options.logs, id ?? options.file);
  }
  if (id !== undefined && options.pipelineId !== undefined) {
    const message = `the run is named twice: ${id} and --pipeline-id ${options.pipelineId}`;
    throw new Refusal("bad-option", message, command("resume", id));
  }
  const project = await openProject(process.cwd(), "read-write");
  const given = id ?? options.pipelineId;
  const { file, fromStep, dryRun } = options;
  if (given !== undefined) {
    const runId = await resolveRunId(project.journal, given);
    if (file !== undefined) refuseOtherFile(await loadRun(project, runId), file, fromStep);
    return { project, runId };
  }
  const { lastRun } = await import("../../app/resume.ts");
  const failedToo = fromStep !== undefined || dryRun === true;
  return {
    project,
    runId: await lastRun(project, { file, confirm: confirmation(options), failedToo }),
  };
}

/** Another attempt of a failed step, or a done step and every step after it again. */
export async function retryCommand(
  id: string,
  step: string,
  options: ResumeOptions,
): Promise<ExitCode> {
  const project = await openProject(process.cwd(), "read-write");
  const runId = await resolveRunId(project.journal, id);
  const files = filesOption(options.files);
  const { failed } = options;
  const turns = options.turns === undefined ? undefined : parseTurns(options.turns);
  return continueRun(project, runId, { verb: "retry", step, files, failed, turns }, options);
}

/** Refuses what cannot be resumed, or not like this, before anything is asked or changed. */
async function refuse(
  project: Project,
  known: LoadedRun,
  wanted: RewindRequest | undefined,
  options: ResumeOptions,
): Promise<void> {
  if (options.budget !== undefined) parseBudget(options.budget);
  if (options.turns !== undefined) parseTurns(options.turns);
  checkRecover(options);
  const refusal = unavailable(known, options);
  if (refusal !== undefined) throw refusal;
  await refuseCopy(project.dir, known, options.asCopy === true);
  if (wanted === undefined || options.update !== true) return;
  const message = "--update and --from-step cannot be combined: use one after the other";
  throw new Refusal("bad-option", message, command("resume", known.shortId, "--update"));
}

/** Options that ask nothing of the run itself. */
const BESIDE_BUDGET: ReadonlySet<string> = new Set([
  ...["budget", "pipelineId", "file", "preflight", "output", "quiet"],
]);

/** With nothing but `--budget`, the living owner of a run is asked to add to it. */
async function isBudgetAdded(
  project: Project,
  known: LoadedRun,
  options: ResumeOptions,
): Promise<boolean> {
  const { budget } = options;
  const owner = known.liveness === "owned" ? known.lease?.owner : undefined;
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  const isAlone = given.every(([name]) => BESIDE_BUDGET.has(name));
  if (budget === undefined || !isAlone || owner === undefined) return false;
  if (owner.opens !== undefined || isElsewhere(known.lease)) return false;
  await checkPricesOnResume(known, undefined, budget);
  if (!(await addBudgetToOwned(project, known, budget))) return false;
  print(`Added ${budget} to the budget of run ${known.shortId}, which ${ownerText(owner)} drives.`);
  return true;
}

async function continueRun(
  project: Project,
  runId: string,
  wanted: RewindRequest | undefined,
  options: ResumeOptions,
): Promise<ExitCode> {
  const known = await loadRun(project, runId);
  if (wanted === undefined && (await isBudgetAdded(project, known, options))) return EXIT.done;
  await refuse(project, known, wanted, options);
  const request = wanted && (await confirmRepeat(known, wanted, options, confirmation(options)));
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
  const back = request && (await previewRewind(project, known, request));
  const kept = options.files === "keep" ? "continue" : undefined;
  const recover = recoverWord(options.recover) ?? kept;
  const cut = back === undefined ? await partialWork(project, known, recover) : [];
  if (options.dryRun === true) return showPlan(known, { back, cut }, options);
  const { run, plan, shortId } = known;
  const adopted = { run, plan: update?.plan ?? plan };
  const variables = givenVariables(options.env ?? [], adopted.plan);
  requireVariables(adopted, shortId, { given: variables, names: update?.envNames });
  const { preflight, turns, budget } = options;
  const needs = { update, request, preview: back, recover, preflight, turns, budget };
  const { priceLines, warnings } = await checkResume(known, needs);
  for (const line of warnings) printError(line);
  const worker = directoryUserOf(known);
  const { starts, beside } = await agreeOnSharing(project, worker, {
    beside: options.beside === true,
    confirm: confirmation(options),
    command: ["resume", known.shortId],
  });
  if (!starts) return nothingStarted();
  if (options.detach === true) {
    const forwarded = [...detachedOptions(options), ...gateOptions(options)];
    return detach(project, runId, known.shortId, forwarded);
  }
  const recovery = await recoveryOf(cut, options.recover, known.shortId);
  const screen = screenKind(options);
  const {
    known: after,
    endedBy,
    isDetached,
  } = await execute(project, known, {
    display: displayOf(screen),
    ...resumeOptions(project, { request, back }, { ...options, beside }),
    ...(update === undefined ? {} : { update }),
    ...recovery,
    variables,
    greet: async (now) => [
      ...greeting(now, back?.rewind?.step),
      ...environmentLines(now, commandOf(shortId, request), variables),
      ...priceLines,
      ...(await sharingLines(project, worker)),
      ...(back === undefined ? [] : previewLines(now, back)),
      ...(options.recover === "ask" ? [] : interruptedWorkLines(cut, known.shortId)),
    ],
  });
  if (isDetached) return leaveToBackground(project, after, options);
  await printOutcome(after, screen);
  return exitCodeOf(after.run, endedBy);
}

function nothingStarted(): ExitCode {
  print("Nothing was started.");
  return EXIT.interrupted;
}

/** What the person typed, without its options. */
function commandOf(shortId: string, request: RewindRequest | undefined): readonly string[] {
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

function greeting(known: LoadedRun, fromStep: string | undefined): readonly string[] {
  const { run, plan, shortId } = known;
  const { position, total, step } = firstStep(known, fromStep);
  const from = `step ${position} of ${total}: ${step}`;
  const lines = [
    `Resuming run ${known.id} of ${plan.name} from ${from}`,
    `If it is interrupted: perdure resume ${shortId}`,
  ];
  const now = pipelineFileState(known);
  if (now === "same") return lines;
  const asItWas = "the run continues with its plan as it was";
  if (now === "unreadable") {
    return [...lines, `${run.created?.file} cannot be read; ${asItWas}`];
  }
  const edited = `${run.created?.file} was edited since; ${asItWas}`;
  return [...lines, `${edited} (adopt the edit: perdure resume ${shortId} --update)`];
}

/** What was cut off, and what becomes of it. */
function interruptedWorkLines(
  cut: readonly InterruptedVisit[],
  shortId: string,
): readonly string[] {
  return cut.flatMap(({ work }) => interruptedLines(work, shortId));
}

/** `--dry-run`: what would happen to each step, and why. Changes nothing. */
async function showPlan(
  known: LoadedRun,
  {
    back,
    cut,
  }: { readonly back: RewindPreview | undefined; readonly cut: readonly InterruptedVisit[] },
  options: ResumeOptions,
): Promise<ExitCode> {
  const { resumePlanLines } = await import("../../view/preview/resume-plan.ts");
  const steps = await planResume(known, back, recoverWord(options.recover));
  if (wantsJson(options)) {
    printJson(steps);
    return EXIT.done;
  }
  for (const line of resumePlanLines(steps)) print(line);
  for (const line of back === undefined ? [] : rewindFilesLines(known, back)) print(line);
  for (const line of interruptedWorkLines(cut, known.shortId)) print(line);
  return EXIT.done;
}

const CHOICES: readonly string[] = ["continue", "restart", "ask"];

/** What the person wants: for all, or for each visit (`fix@2`) that was asked about. */
interface Recovery {
  readonly recover?: Recover;
  readonly choices?: Readonly<Record<string, Recover>>;
}

/** Refuses a word that is none of the three, and a question that nobody can answer. */
export function checkRecover(options: { recover?: string; detach?: boolean }): void {
  const { recover } = options;
  if (recover === undefined) return;
  if (!CHOICES.includes(recover)) {
    const message = `--recover takes ${CHOICES.join(", ")}, not "${recover}"`;
    throw new Refusal("bad-option", message);
  }
  const terminal = process.stdin.isTTY === true && process.stderr.isTTY === true;
  if (recover !== "ask" || (terminal && options.detach !== true)) return;
  throw new Refusal("no-terminal", "--recover ask needs a terminal to ask on", {
    ...command("resume", "--recover", "continue"),
    note: "or restart",
  });
}

/** The word for all, when it is one; `ask` is a question, not an answer. */
export function recoverWord(given: string | undefined): Recover | undefined {
  return given === "continue" || given === "restart" ? given : undefined;
}

/** The person's choice; asked for only when something was cut off. */
export async function recoveryOf(
  cut: readonly InterruptedVisit[],
  given: string | undefined,
  shortId: string,
): Promise<Recovery> {
  const word = recoverWord(given);
  if (word !== undefined) return { recover: word };
  if (given !== "ask" || cut.length === 0) return {};
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  const choices: Record<string, Recover> = {};
  try {
    for (const { place, work } of cut) {
      for (const line of interruptedLines(work, shortId)) printError(line);
      const answer = await lines.question("Continue with it, or restart? [c/r] ");
      const restart = answer.trim().toLowerCase().startsWith("r");
      choices[place] = restart ? "restart" : "continue";
    }
  } finally {
    lines.close();
  }
  return { choices };
}

/** How gates are answered, as the process in the background has to know it. */
export function gateOptions(options: {
  readonly stay?: boolean;
  readonly autoApprove?: boolean;
}): readonly string[] {
  return [
    ...(options.stay === true ? ["--stay"] : []),
    ...(options.autoApprove === true ? ["--auto-approve"] : []),
  ];
}

/** Starts `perdure resume` in the background and says how to see it. */
export async function detach(
  project: Project,
  runId: string,
  shortId: string,
  options: readonly string[],
): Promise<ExitCode> {
  const { pid, isAlive } = await resumeInBackground(project, runId, shortId, options);
  print(`Run ${runId} ${isAlive ? `runs in the background as process ${pid}` : "has ended"}`);
  print(`See it: perdure attach ${shortId}`);
  return EXIT.done;
}

/** Leaves a run that this process has driven to one in the background; its steps keep running. */
export async function leaveToBackground(
  project: Project,
  { id, shortId }: LoadedRun,
  options: Parameters<typeof gateOptions>[0],
): Promise<ExitCode> {
  // Nobody is at its terminal, so it waits for answers from elsewhere.
  const forwarded = gateOptions({ ...options, stay: true });
  return detach(project, id, shortId, [...forwarded, "--beside", "--no-preflight"]);
}
