/** `perdure resume` and `perdure retry`: continue a run, here or in the background (`--detach`). */

import { createInterface } from "node:readline/promises";
import type { LogsRun } from "../../app/attractor-logs.ts";
import { execute } from "../../app/drive/drive.ts";
import { askGitEarly } from "../../app/drive/loop-parts.ts";
import {
  agreeOnSharing,
  directoryUserOf,
  sharingLines,
  unavailable,
} from "../../app/drive/ownership.ts";
import {
  environmentLines,
  givenVariables,
  requireVariables,
} from "../../app/drive/run-environment.ts";
import { type LoadedRun, loadRun, refuseCopy, whyInputOf } from "../../app/loaded-run.ts";
import { type ReadingOptions, readingOf } from "../../app/pipeline/pipeline-file.ts";
import { parseBudget, parseTurns } from "../../app/prices.ts";
import { stepNamed } from "../../app/project/names.ts";
import { openProject, type Project, resolveRunId } from "../../app/project/project.ts";
import { command, Refusal } from "../../app/refusal.ts";
import { takesRequests } from "../../app/request/ask-owner.ts";
import {
  checkResume,
  completeFiles,
  firstStep,
  hasPending,
  hasPendingTurns,
  pipelineFileState,
  planResume,
  refuseOtherFile,
  resumeOptions,
} from "../../app/resume.ts";
import { type InterruptedVisit, partialWork } from "../../app/rewind/interrupted-work.ts";
import { filesOption } from "../../app/rewind/rewind-files.ts";
import {
  confirmRepeat,
  namesOf,
  previewLines,
  previewRewind,
  type RewindPreview,
  type RewindRequest,
  retriedBy,
  rewindFilesLines,
  understood,
} from "../../app/rewind/rewind-preview.ts";
import type { Recover } from "../../plan/plan.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { resumePlanJson } from "../../view/json/action-json.ts";
import { standingJson } from "../../view/json/run-json.ts";
import { why } from "../../view/why.ts";
import { runNamed } from "../named-run.ts";
import { print, printDiagnostics, printDocument, printError } from "../print.ts";
import { displayOf } from "../screen/display.ts";
import {
  confirmation,
  type OutputOptions,
  screenKind,
  stdoutWidth,
  wantsJson,
} from "../terminal.ts";

import { detach, endOfPart, gateOptions } from "./background.ts";
import type { AgreedUpdate } from "./update.ts";

interface ResumeOptions extends OutputOptions, ReadingOptions {
  readonly pipelineId?: string;
  readonly fromStep?: string;
  readonly dryRun?: boolean;
  readonly detach?: boolean;
  readonly takeOver?: boolean;
  /** Continue beside other runs in the same directory. */
  readonly beside?: boolean;
  /** False: does not check first whether agents and programs are installed. */
  readonly preflight?: boolean;
  /** Continue in a copy of the run's project. */
  readonly asCopy?: boolean;
  /** The addition to the budget. */
  readonly budget?: string;
  /** Variables that take new values: NAME, or NAME=value. */
  readonly env?: readonly string[];
  /** More turns for agents that have used up theirs. */
  readonly turns?: string;
  /** How interrupted work continues. */
  readonly recover?: string;
  /** Adopt the edit of the pipeline's file. */
  readonly update?: boolean;
  /** Agree, without being asked, to the update or to repeating a `once` step. */
  readonly yes?: boolean;
  /** Keep or restore the files. */
  readonly files?: string;
  readonly stay?: boolean;
  readonly autoApprove?: boolean;
  /** False: no step takes the result of an earlier run. */
  readonly cache?: boolean;
  /** Only runs of this pipeline file count as the last one. */
  readonly file?: string;
  /** With retry, of a fan-out: only its failed items. */
  readonly failed?: boolean;
  /** The directory that the run writes to, in place of its id. */
  readonly logs?: string;
}

/** Resumes the named run, or the one that was interrupted last. */
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
    const file = id ?? options.file;
    return runOfLogs(options.logs, file, readingOf(options, file ?? ".dot"));
  }
  if (id !== undefined && options.pipelineId !== undefined) {
    const message = `the run is named twice: ${id} and --pipeline-id ${options.pipelineId}`;
    throw new Refusal("bad-option", message, command("resume", id));
  }
  const given = id ?? options.pipelineId;
  const project = await openProject(process.cwd(), "read-write", given);
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
  given: readonly (string | undefined)[],
  options: ResumeOptions,
): Promise<ExitCode> {
  const project = await openProject(process.cwd(), "read-write", given[0]);
  const form = { needs: 1, takes: Number.POSITIVE_INFINITY, what: "a step" };
  const { runId, words: names } = await runNamed(project, given, form);
  const files = filesOption(options.files);
  const { failed } = options;
  const retried = retriedBy(names);
  const turns = options.turns === undefined ? undefined : parseTurns(options.turns);
  return continueRun(project, runId, { verb: "retry", ...retried, files, failed, turns }, options);
}

/**
 * Refuses a run that cannot be resumed, or not with these options, before it asks or changes
 * anything.
 */
async function refuse(
  project: Project,
  known: LoadedRun,
  wanted: RewindRequest | undefined,
  options: ResumeOptions,
): Promise<void> {
  if (options.budget !== undefined) parseBudget(options.budget);
  if (options.turns !== undefined) parseTurns(options.turns);
  checkRecover(options);
  // First: the journal of a copy knows nothing new about the owner.
  await refuseCopy(project.dir, known, options.asCopy === true);
  const refusal = wanted?.ofOwner === true ? undefined : unavailable(known, options);
  if (refusal !== undefined) throw refusal;
  if (wanted === undefined || options.update !== true) return;
  const message = "--update and --from-step cannot be combined: use one after the other";
  throw new Refusal("bad-option", message, command("resume", known.shortId, "--update"));
}

/** Continues a run, or asks its living owner. */
async function continueRun(
  project: Project,
  runId: string,
  asked: RewindRequest | undefined,
  options: ResumeOptions,
): Promise<ExitCode> {
  if (options.dryRun !== true) await askGitEarly(project);
  const known = await loadRun(project, runId);
  const wanted = asked && understood(known, { ...asked, step: stepNamed(known, asked.step) });
  if (!takesRequests(project, known)) return continueAlone(project, known, wanted, options);
  if (wanted?.verb === "retry" && options.dryRun === true) {
    return continueAlone(project, known, { ...wanted, ofOwner: true }, options);
  }
  const { askToContinue, resultLines } = await import("./ask-owner.ts");
  const result = await askToContinue(project, known, wanted, options);
  if (result === "declined") return nothingStarted();
  if (result === "resumed") return EXIT.done;
  if (result === undefined) return continueAlone(project, known, wanted, options);
  if (result.outcome === "owner-ended") {
    // The request is pending, and this process is the next owner.
    const { budget: _, files: __, ...rest } = options;
    return continueAlone(project, result.known, undefined, rest);
  }
  if (wantsJson(options)) printDocument("requested", { run_id: runId, request: result.outcome });
  else if (options.quiet !== true)
    for (const line of resultLines(result, wanted, options)) print(line);
  return EXIT.done;
}

async function continueAlone(
  project: Project,
  known: LoadedRun,
  wanted: RewindRequest | undefined,
  options: ResumeOptions,
): Promise<ExitCode> {
  await refuse(project, known, wanted, options);
  const request = wanted && (await confirmRepeat(known, wanted, options, confirmation(options)));
  if (wanted !== undefined && request === undefined) return nothingStarted();
  const agreed: AgreedUpdate =
    options.update === true
      ? await (await import("./update.ts")).agreeOnUpdate(project, known, options)
      : { kind: "same" };
  if (agreed.kind === "over") return agreed.exit;
  const update = agreed.kind === "update" ? agreed.update : undefined;
  const isOver = known.run.state.status === "completed" && !(await hasPending(project, known));
  if (isOver && request === undefined && update === undefined) {
    if (options.dryRun !== true) await completeFiles(project, known);
    const standing = whyInputOf(known, Date.now());
    if (wantsJson(options)) printDocument("standing", standingJson(standing));
    else print(`${why(standing).happened}\nThere is nothing to resume.`);
    return EXIT.done;
  }
  const preview = request && (await previewRewind(project, known, request));
  const kept = options.files === "keep" ? "continue" : undefined;
  const recover = recoverWord(options.recover) ?? kept;
  const interrupted = preview === undefined ? await partialWork(project, known, recover) : [];
  if (options.dryRun === true) return showPlan(known, { preview, interrupted }, options);
  const { run, plan, shortId } = known;
  const adopted = { run, plan: update?.plan ?? plan };
  const variables = givenVariables(options.env ?? [], adopted.plan);
  const typed = [...commandOf(shortId, request), ...(update === undefined ? [] : ["--update"])];
  requireVariables(adopted, shortId, { typed, given: variables, names: update?.envNames });
  const { preflight, turns, budget } = options;
  const hasTurns = await hasPendingTurns(project, known);
  const needs = { update, request, preview, recover, preflight, turns, budget, hasTurns, typed };
  const { priceLines, warnings } = await checkResume(known, needs);
  for (const line of warnings) printError(line);
  const worker = directoryUserOf(known);
  const { starts, beside } = await agreeOnSharing(project, worker, {
    beside: options.beside === true,
    confirm: confirmation(options),
    command: typed,
  });
  if (!starts) return nothingStarted();
  if (options.detach === true) {
    const forwarded = [...detachedOptions(options), ...gateOptions(options)];
    return detach(project, known, forwarded, options);
  }
  const recovery = await recoveryOf(interrupted, options.recover, known.shortId);
  const screen = screenKind(options);
  const executed = await execute(project, known, {
    display: displayOf(screen),
    ...resumeOptions(project, { request, preview }, { ...options, beside }),
    ...(update === undefined ? {} : { update }),
    ...recovery,
    variables,
    openingLines: async (now) => [
      ...greeting(now, preview?.rewind?.step),
      ...environmentLines(now, typed, variables),
      ...priceLines,
      ...(await sharingLines(project, worker)),
      ...(preview === undefined ? [] : previewLines(now, preview)),
      ...(options.recover === "ask" ? [] : await interruptedWorkLines(interrupted, known.shortId)),
    ],
  });
  return endOfPart(project, executed, options);
}

/** Says that the person chose to start nothing. */
export function nothingStarted(): ExitCode {
  print("Nothing was started.");
  return EXIT.interrupted;
}

/** The command that the person typed, without its options. */
function commandOf(shortId: string, request: RewindRequest | undefined): readonly string[] {
  if (request === undefined) return ["resume", shortId];
  if (request.verb === "retry") return ["retry", shortId, ...namesOf(request)];
  return ["resume", shortId, "--from-step", request.step];
}

/** The options for the process in the background. */
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
  const { kind, files } = pipelineFileState(known);
  if (kind === "same") return lines;
  const asItWas = "the run continues with its plan as it was";
  if (kind === "unreadable") {
    return [...lines, `${run.created?.file} cannot be read; ${asItWas}`];
  }
  const edited = `${files.join(" or ")} was edited since; ${asItWas}`;
  return [...lines, `${edited} (adopt the edit: perdure resume ${shortId} --update)`];
}

/** The interrupted work, and how it continues. Most resumes have none, and load nothing for it. */
async function interruptedWorkLines(
  interrupted: readonly InterruptedVisit[],
  shortId: string,
): Promise<readonly string[]> {
  if (interrupted.length === 0) return [];
  const { interruptedLines } = await import("../../view/preview/interrupted-work.ts");
  return interrupted.flatMap(({ work }) => interruptedLines(work, shortId));
}

/** `--dry-run`: shows what would happen to each step, and why; changes nothing. */
async function showPlan(
  known: LoadedRun,
  {
    preview,
    interrupted,
  }: {
    readonly preview: RewindPreview | undefined;
    readonly interrupted: readonly InterruptedVisit[];
  },
  options: ResumeOptions,
): Promise<ExitCode> {
  const { resumePlanLines } = await import("../../view/preview/resume-plan.ts");
  const steps = await planResume(known, preview, recoverWord(options.recover));
  if (wantsJson(options)) {
    printDocument("resumePlan", resumePlanJson(known.id, steps));
    return EXIT.done;
  }
  for (const line of resumePlanLines(steps, stdoutWidth())) print(line);
  for (const line of preview === undefined ? [] : rewindFilesLines(known, preview)) print(line);
  for (const line of await interruptedWorkLines(interrupted, known.shortId)) print(line);
  return EXIT.done;
}

const CHOICES: readonly string[] = ["continue", "restart", "ask"];

/** The person's choice: for all interrupted work, or for each visit (`fix@2`). */
interface Recovery {
  readonly recover?: Recover;
  readonly choices?: Readonly<Record<string, Recover>>;
}

/** Refuses an unknown value, and `ask` without a terminal. */
function checkRecover(options: { recover?: string; detach?: boolean }): void {
  const { recover } = options;
  if (recover === undefined) return;
  if (!CHOICES.includes(recover)) {
    const message = `--recover takes ${CHOICES.join(", ")}, not "${recover}"`;
    throw new Refusal("bad-option", message);
  }
  const terminal = process.stderr.isTTY === true && process.stdin.isTTY === true;
  if (recover !== "ask" || (terminal && options.detach !== true)) return;
  throw new Refusal("no-terminal", "--recover ask needs a terminal to ask on", {
    ...command("resume", "--recover", "continue"),
    note: "or restart",
  });
}

/** The choice for all interrupted work; undefined for `ask`, which is a question. */
function recoverWord(given: string | undefined): Recover | undefined {
  return given === "continue" || given === "restart" ? given : undefined;
}

/** The person's choice; asks only if work was interrupted. */
async function recoveryOf(
  interrupted: readonly InterruptedVisit[],
  given: string | undefined,
  shortId: string,
): Promise<Recovery> {
  const word = recoverWord(given);
  if (word !== undefined) return { recover: word };
  if (given !== "ask" || interrupted.length === 0) return {};
  const { interruptedLines } = await import("../../view/preview/interrupted-work.ts");
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  const choices: Record<string, Recover> = {};
  try {
    for (const { place, work } of interrupted) {
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
