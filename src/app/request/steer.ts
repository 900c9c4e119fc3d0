/**
 * Changes runs for faces that serve many runs: `perdure mcp` and the dashboard.
 *
 * Owns: one rule for all changes. A run with a living owner gets a request, which its owner handles. If
 * nobody drives the run, a runner is started in the background and finds the request; it belongs to no
 * server.
 * Does not: drive a run in this process, except for the moment in which it records a verdict, a skip, a
 * rewind or a stop; ask a person: `agreed` says that a person has agreed.
 */
import { dirname } from "node:path";
import type { Json } from "../../util/json.ts";
import { forkJson, rewindJson } from "../../view/json/action-json.ts";
import type { DocumentJson } from "../../view/json/documents.ts";
import { changeLines } from "../../view/preview/resume-plan.ts";
import type { RestorePreview } from "../../workspace/snapshot/restore-plan.ts";
import { unavailable } from "../drive/ownership.ts";
import { storeAddress } from "../fleet/fleet-access.ts";
import { type LoadedRun, loadRun } from "../loaded-run.ts";
import { checkPricesOnResume, parseBudget } from "../prices.ts";
import { stepNamed } from "../project/names.ts";
import type { Project } from "../project/project.ts";
import { Refusal } from "../refusal.ts";
import { checkResume } from "../resume.ts";
import { forkRun, planFork } from "../rewind/fork.ts";
import {
  filesSetAside,
  previewRestore,
  restoreWorkspace,
  rewindRun,
  snapshotNamed,
} from "../rewind/rewind.ts";
import type { FilesOption } from "../rewind/rewind-files.ts";
import {
  confirmRepeat,
  previewLines,
  previewRewind,
  type RewindPreview,
  type RewindRequest,
  retriedBy,
  rewindFilesLines,
  understood,
} from "../rewind/rewind-preview.ts";
import { answerGate } from "./answer.ts";
import {
  type AskResult,
  askForBudget,
  askForRewind,
  refuseOptions,
  resumeByWorkers,
  takesRequests,
} from "./ask-owner.ts";
import { runOwnCommand } from "./own-command.ts";
import { type StepDecision, settleStep, skipStep } from "./step-decision.ts";

/** A run that a process in the background drives, or that has ended already. */
type BackgroundRun = DocumentJson<"detached">;

interface StartWanted {
  /** A name in `pipelines/`, or the path of a file. */
  readonly pipeline: string;
  /** The whole input; absent for none. */
  readonly input?: Json | undefined;
  /** Starts beside other runs with agents in the same directory. */
  readonly beside?: boolean | undefined;
  /** Its id, for a schedule: each of its times has one run. */
  readonly runId?: string | undefined;
}

/** Starts a run of a pipeline of a directory, in the background. */
export async function startRun(
  directory: string,
  { pipeline, input, beside, runId }: StartWanted,
): Promise<BackgroundRun> {
  const id = runId === undefined ? [] : ["--scheduled", runId];
  const here = ["run", "--detach", ...id, ...(beside === true ? ["--beside"] : [])];
  // The runs of a fleet are driven by its workers.
  const words = (await storeAddress(directory)) === undefined ? here : ["submit"];
  const given = input === undefined ? [] : ["--input-json", "-"];
  const stdin = input === undefined ? undefined : JSON.stringify(input);
  const options = { cwd: directory, stdin };
  return backgroundRun(await runOwnCommand([...words, ...given, "--", pipeline], options));
}

interface ResumeWanted {
  /** How interrupted work continues. */
  readonly recover?: "continue" | "restart" | undefined;
  readonly files?: FilesOption | undefined;
  /** More turns for agents that have used up theirs. */
  readonly turns?: number | undefined;
  readonly beside?: boolean | undefined;
}

/** Continues a run that nobody drives, in the background. */
export async function resumeRun(
  project: Project,
  known: LoadedRun,
  { recover, files, turns, beside }: ResumeWanted = {},
): Promise<BackgroundRun> {
  const { id } = known;
  if (project.workers !== undefined) {
    refuseOptions(project, known, { recover, files, turns, beside });
    await resumeByWorkers(project, known);
    return { run_id: id, pid: null, alive: true };
  }
  const words = [
    ...["resume", id, "--detach"],
    ...(recover === undefined ? [] : ["--recover", recover]),
    ...(files === undefined ? [] : ["--files", files]),
    ...(turns === undefined ? [] : ["--turns", `+${turns}`]),
    ...(beside === true ? ["--beside"] : []),
  ];
  return backgroundRun(await runOwnCommand(words, { cwd: dirname(project.dir.root) }));
}

/** The run in the document of a command; a run that has nothing left to do has no process. */
function backgroundRun(printed: Readonly<Record<string, unknown>>): BackgroundRun {
  const { run_id: id, pid, alive } = printed;
  return {
    run_id: String(id),
    pid: typeof pid === "number" ? pid : null,
    alive: alive === true,
  };
}

interface RetryWanted {
  /** A step, a visit, or items of one fan-out (`map[3]`). */
  readonly steps: readonly string[];
  readonly files?: FilesOption | undefined;
  /** Of a fan-out: only its failed items. */
  readonly failed?: boolean | undefined;
  readonly turns?: number | undefined;
  /** A person agrees that effects which must happen once happen again. */
  readonly agreed?: boolean | undefined;
}

/** Works out what a retry would do. Changes nothing. */
export async function previewRetry(
  project: Project,
  known: LoadedRun,
  wanted: RetryWanted,
): Promise<RewindPreview> {
  return previewRewind(project, known, retryRequest(project, known, wanted));
}

/** Runs a step again, and every step after it; continues the run if nobody drives it. */
export async function retryStep(
  project: Project,
  known: LoadedRun,
  wanted: RetryWanted,
): Promise<AskResult> {
  const agreed = await confirmed(known, retryRequest(project, known, wanted), wanted);
  if (!takesRequests(project, known)) {
    refuseUnavailable(known);
    const preview = await previewRewind(project, known, agreed);
    const turns = agreed.turns === undefined ? undefined : `+${agreed.turns}`;
    const typed = ["retry", known.shortId, ...wanted.steps];
    await checkResume(known, { request: agreed, preview, preflight: false, turns, typed });
  }
  return askForRewind(project, known, agreed, (now) => resumeRun(project, now));
}

function retryRequest(
  project: Project,
  known: LoadedRun,
  { steps, files, failed, turns }: RetryWanted,
): RewindRequest {
  const { step, items } = retriedBy(steps);
  const request = { step: stepNamed(known, step), items, files, failed, turns };
  const ofOwner = !takesRequests(project, known) ? {} : ({ ofOwner: true } as const);
  return understood(known, { verb: "retry", ...request, ...ofOwner });
}

/** The request with a person's agreement. Throws when it is needed and absent. */
async function confirmed(
  known: LoadedRun,
  request: RewindRequest,
  { agreed, dryRun }: Pick<RewindWanted, "agreed" | "dryRun">,
): Promise<RewindRequest> {
  const answers = { yes: agreed === true, dryRun: dryRun === true };
  return (await confirmRepeat(known, request, answers, undefined)) ?? request;
}

function refuseUnavailable(known: LoadedRun): void {
  const refusal = unavailable(known);
  if (refusal !== undefined) throw refusal;
}

/** Adds to the budget (`+5usd`); continues the run if nobody drives it. */
export async function addToBudget(
  project: Project,
  known: LoadedRun,
  budget: string,
  wanted?: ResumeWanted,
): Promise<AskResult> {
  const added = parseBudget(budget);
  await checkPricesOnResume(known, undefined, budget);
  if (!takesRequests(project, known)) refuseUnavailable(known);
  return askForBudget(project, known, added, (now) => resumeRun(project, now, wanted));
}

/** Whether a run continues with what was recorded. */
interface Continued {
  /** A process drives the run. */
  readonly continues: boolean;
  /** Why no process could be started for it. What was recorded stays recorded. */
  readonly problem?: Refusal;
}

/** Continues a run that nobody drives. */
async function continued(
  project: Project,
  known: LoadedRun,
  wanted: boolean,
  isOwned: boolean,
): Promise<Continued> {
  if (isOwned || !wanted) return { continues: isOwned };
  try {
    // A short run may have ended already.
    const { alive, pid } = await resumeRun(project, known);
    return { continues: alive || pid !== null };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    // The runner of a faster answer reads this one, too.
    return error.code === "run-owned" ? { continues: true } : { continues: false, problem: error };
  }
}

interface AnswerWanted {
  /** The key or the label of a choice. */
  readonly choice: string;
  readonly text?: string | undefined;
  /** False: a run that nobody drives stays as it is. */
  readonly resume?: boolean | undefined;
}

/** An answer that was recorded, and whether the run continues with it. */
type AnsweredQuestion = Awaited<ReturnType<typeof answerGate>> & Continued;

/** Answers a question of a run, and continues the run if nobody drives it. */
export async function answerQuestion(
  project: Project,
  known: LoadedRun,
  gate: string,
  { choice, text, resume = true }: AnswerWanted,
): Promise<AnsweredQuestion> {
  const given = await answerGate(project, known, gate, { choice, text, from: "command" });
  return { ...given, ...(await continued(project, known, resume, given.isOwned)) };
}

interface SettleWanted {
  readonly step: string;
  /** What happened: done, redo or abort. */
  readonly verdict: string;
  readonly identity?: string | undefined;
  readonly resume?: boolean | undefined;
}

/** Records a verdict on an uncertain effect, and continues the run if nobody drives it. */
export async function settleEffect(
  project: Project,
  known: LoadedRun,
  { step, verdict, identity, resume = true }: SettleWanted,
): Promise<Awaited<ReturnType<typeof settleStep>> & Continued> {
  const settled = await settleStep({ project, known }, step, { verdict, identity });
  const isOwned = takesRequests(project, settled.known);
  return { ...settled, ...(await continued(project, settled.known, resume, isOwned)) };
}

/** Skips a step, and continues the run if nobody drives it. */
export async function skipAndContinue(
  project: Project,
  known: LoadedRun,
  { step, resume = true }: { readonly step: string; readonly resume?: boolean | undefined },
): Promise<StepDecision & Continued> {
  const skipped = await skipStep({ project, known }, step);
  const isOwned = takesRequests(project, skipped.known);
  return { ...skipped, ...(await continued(project, skipped.known, resume, isOwned)) };
}

interface RewindWanted {
  /** A step, a visit (`fix@2`), or a snapshot, which has only files. */
  readonly to: string;
  readonly files?: FilesOption | undefined;
  readonly dryRun?: boolean | undefined;
  readonly agreed?: boolean | undefined;
}

/** What a rewind did or would do, and the same in words. */
interface Rewound {
  readonly document: DocumentJson<"rewind">;
  readonly lines: readonly string[];
  /** What it would change in the present files. */
  readonly changes?: RestorePreview | undefined;
  /** Effects that must not happen twice, among the steps that run again. */
  readonly repeats?: readonly string[];
}

/** Rewinds a run to the start of a step or of a visit, or its files to a snapshot. */
export async function rewindTo(
  project: Project,
  known: LoadedRun,
  { to, files, dryRun = false, agreed }: RewindWanted,
): Promise<Rewound> {
  const snapshot = snapshotNamed(known, to);
  if (snapshot !== undefined) return rewindFiles(project, known, snapshot, { files, dryRun });
  const isAsked = takesRequests(project, known);
  if (!isAsked) refuseUnavailable(known);
  const wanted: RewindRequest = { verb: "rewind", step: to, files };
  const asked: RewindRequest = isAsked ? { ...wanted, ofOwner: true } : wanted;
  const request = await confirmed(known, asked, { agreed, dryRun });
  const preview = await previewRewind(project, known, request);
  const lines = previewLines(known, preview);
  const { again, kept, assumed } = preview.steps;
  const document = rewindJson(known.id, to, { runs_again: again, kept, assumed, dry_run: dryRun });
  if (dryRun) {
    const { changes } = preview.files;
    // The document names the steps, so the lines are only about files.
    const filesLines = rewindFilesLines(known, preview);
    return { document, lines: filesLines, changes, repeats: preview.steps.repeats };
  }
  if (isAsked) {
    const { outcome, reopened = [] } = await askForRewind(project, known, request);
    return { document: { ...document, runs_again: reopened, request: outcome }, lines };
  }
  return { document: { ...document, set_aside: await setAside(project, known, request) }, lines };
}

async function setAside(
  project: Project,
  known: LoadedRun,
  request: RewindRequest,
): Promise<string | null> {
  await rewindRun(project, await loadRun(project, known.id), request);
  return filesSetAside(known, await loadRun(project, known.id)) ?? null;
}

async function rewindFiles(
  project: Project,
  known: LoadedRun,
  snapshot: NonNullable<ReturnType<typeof snapshotNamed>>,
  { files, dryRun }: { readonly files: FilesOption | undefined; readonly dryRun: boolean },
): Promise<Rewound> {
  const changes = await previewRestore(project, known, snapshot);
  const lines = changes === undefined ? [] : changeLines(changes);
  const document = rewindJson(known.id, snapshot.name, { dry_run: dryRun });
  if (dryRun || (changes !== undefined && lines.length === 0)) return { document, lines, changes };
  await restoreWorkspace(project, await loadRun(project, known.id), snapshot, files);
  const set_aside = filesSetAside(known, await loadRun(project, known.id)) ?? null;
  return { document: { ...document, set_aside }, lines };
}

interface ForkWanted {
  /** The step or visit before which the fork begins; absent: after the last completed step. */
  readonly at?: string | undefined;
  /** Another input. */
  readonly input?: Json | undefined;
  readonly files?: FilesOption | undefined;
  readonly dryRun?: boolean | undefined;
  /** Starts the fork in the background. */
  readonly start?: boolean | undefined;
}

/** Creates a new run that shares the past of another one up to a point. */
export async function forkAt(
  project: Project,
  known: LoadedRun,
  { at, input, files, dryRun, start }: ForkWanted,
): Promise<DocumentJson<"fork">> {
  const plan = await planFork(project, known, {
    ...(at === undefined ? {} : { at }),
    ...(input === undefined ? {} : { value: input }),
    files,
  });
  if (dryRun === true) return forkJson(null, known.id, plan);
  const fork = await forkRun(project, known, plan);
  if (start === true) await resumeRun(project, fork);
  return forkJson(fork.id, known.id, plan);
}
