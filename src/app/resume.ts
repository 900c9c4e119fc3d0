/**
 * Resumes a run, in this process or in the background.
 *
 * Owns: the choice of the run, the checks before it continues, and the preview of what would happen to
 * its steps.
 * Does not: drive it (drive.ts) or ask a person.
 * Invariants:
 * - resume/L1 A failed run, and a run older than a completed one, starts only if a person names it or
 *   agrees to it.
 */

import { spawn } from "node:child_process";
import { mkdirSync, openSync, realpathSync } from "node:fs";
import { join, resolve } from "node:path";
import { sessionWanted } from "../core/conversation/conversation.ts";
import type { ConversationOffer, FactOf } from "../core/fact.ts";
import { attemptOf, findRecord, isDone, type Visit, visitRef, waitingFor } from "../core/run.ts";
import { attemptText, ROOT_SCOPE } from "../core/step-path.ts";
import type { AgentSteps } from "../engine/agent/agent-steps.ts";
import { attemptDirOf, runDirOf } from "../engine/state-dir.ts";
import { pendingAmong } from "../journal/inbox.ts";
import type { Lease } from "../journal/leases.ts";
import type { RunSummary } from "../journal/run-log.ts";
import type { Recover } from "../plan/plan.ts";
import { textOf } from "../runner/file-text.ts";
import { lookAt } from "../runner/process/adopt.ts";
import { defined } from "../util/defined.ts";
import type { Evidence, ResumePlanInput, resumePlan } from "../view/preview/resume-plan.ts";
import { shownStatus } from "../view/run-table.ts";
import { utcText } from "../view/text.ts";
import type { ExecuteOptions } from "./drive/drive.ts";
import { openAgents, openAttractorLogs } from "./drive/loop-parts.ts";
import { throughOption } from "./drive/owner.ts";
import { runEnvironment } from "./drive/run-environment.ts";
import { completeRunFiles } from "./drive/run-files.ts";
import type { Confirm } from "./drive/screen.ts";
import type { LoadedRun } from "./loaded-run.ts";
import { configurationTexts, hashOfFiles } from "./pipeline/configuration-file.ts";
import { knownPipeline } from "./pipeline/pipeline-name.ts";
import { checkPricesOnResume, parseBudget, parseTurns, refuseWithoutTurns } from "./prices.ts";
import { livenessOf, type Project, shortIdOf } from "./project/project.ts";
import { command, type Next, Refusal } from "./refusal.ts";
import { type FilesOption, filesOption } from "./rewind/rewind-files.ts";
import {
  previewRewind,
  type RewindPreview,
  type RewindRequest,
  rewindFact,
} from "./rewind/rewind-preview.ts";
import { readiness } from "./start.ts";

interface ResumeSettings {
  readonly takeOver?: boolean;
  /** Shares the directory with other runs. */
  readonly beside?: boolean;
  /** Continues in a copy of the run's project. */
  readonly asCopy?: boolean;
  /** The directory of the run's files in the form of the DOT language. */
  readonly logs?: string;
  /** The addition to the run's budget. */
  readonly budget?: string;
  /** How many more turns an agent gets that has used up its turns. */
  readonly turns?: string;
  /** What to do with the files: keep or restore. */
  readonly files?: string;
  /** Waits for answers when nothing else can continue. */
  readonly stay?: boolean;
  /** Answers every question with the choice that approves. */
  readonly autoApprove?: boolean;
  /** False: no step takes the result of an earlier run. */
  readonly cache?: boolean;
}

/** True when the run has requests that it has not handled: a resume continues with them. */
export async function hasPending({ journal }: Project, { id, run }: LoadedRun): Promise<boolean> {
  return pendingAmong(await journal.inbox.after(id, 0), run).some(({ type }) => type !== "message");
}

/** True when a request that the run has not handled gives an agent more turns. */
export async function hasPendingTurns({ journal }: Project, known: LoadedRun): Promise<boolean> {
  const pending = pendingAmong(await journal.inbox.after(known.id, 0), known.run);
  return pending.some((request) => request.type === "retry" && request.turns !== undefined);
}

/** The options for `execute` that follow from those of `resume`. */
export function resumeOptions(
  project: Project,
  {
    request,
    preview,
  }: { readonly request: RewindRequest | undefined; readonly preview: RewindPreview | undefined },
  options: ResumeSettings,
): Omit<ExecuteOptions, "display"> {
  const turns = options.turns === undefined ? undefined : parseTurns(options.turns);
  return {
    takeOver: options.takeOver === true,
    asCopy: options.asCopy === true,
    logs: options.logs === undefined ? undefined : resolve(options.logs),
    beside: options.beside === true,
    stay: options.stay === true,
    autoApprove: options.autoApprove === true,
    ...(options.cache === false ? { cache: "off" } : {}),
    ...(request === undefined
      ? {}
      : {
          requested: async (now) => [
            await rewindFact(now, await previewRewind(project, now, request)),
          ],
        }),
    ...defined({ turns }),
    ...(request === undefined && options.files === "keep" ? { files: "keep" } : {}),
    ...foreignChoice(preview, options),
    ...(options.budget === undefined ? {} : { added: parseBudget(options.budget) }),
  };
}

/** What to do with changes by others: a restore sets them aside, otherwise `--files` decides. */
function foreignChoice(
  preview: RewindPreview | undefined,
  options: ResumeSettings,
): { foreign?: FilesOption } {
  if (preview?.files.request.restore !== undefined) return { foreign: "keep" };
  const foreign = filesOption(options.files);
  return foreign === undefined ? {} : { foreign };
}

/** Writes the files that a run lacks when a kill came between its last event and them. */
export async function completeFiles(project: Project, known: LoadedRun): Promise<void> {
  completeRunFiles(known);
  await openAttractorLogs(project, known);
}

/** How many runs a refusal names. */
const NAMED_MAX = 5;

interface LastRunOptions {
  /** Only runs of this pipeline file count. */
  readonly file?: string | undefined;
  /** Absent when no person is there to ask. */
  readonly confirm: Confirm | undefined;
  /** Takes a failed run without asking: the person said what to do with it, or only wants to look. */
  readonly failedToo: boolean;
}

/** The id of the run to resume; undefined when the person at the terminal declines it. */
export async function lastRun(
  project: Project,
  options: LastRunOptions,
): Promise<string | undefined> {
  const { file } = options;
  const path = file === undefined ? undefined : (knownPipeline(file) ?? resolve(file));
  const all = await project.journal.log.list(path === undefined ? {} : { file: path });
  const runs = all
    .filter((run) => run.cleanedAt === undefined || run.status === "completed")
    .toSorted((one, other) => other.updatedAt - one.updatedAt);
  const where = file === undefined ? "here" : `of ${file}`;
  const unfinished = runs.filter(({ status }) => status !== "completed");
  const unowned = unfinished.filter((run) => !isOwned(run));
  // If all unfinished runs are owned, the later refusal names the owner.
  const candidates = unowned.length === 0 ? unfinished : unowned;
  const [candidate] = candidates;
  if (candidate === undefined) {
    throw new Refusal(
      "no-unfinished-run",
      `there is no unfinished run ${where}`,
      command("list", "runs"),
    );
  }
  const last = runs.find((run) => !isOwned(run)) ?? candidate;
  const isUnexpected =
    last.status === "completed" || (last.status === "failed" && !options.failedToo);
  if (!isUnexpected) return candidate.runId;
  const lastRun = `run ${await nameOf(project, last)}, the last one ${where}, has ${last.status}`;
  if (options.confirm !== undefined) {
    const about = `${await nameOf(project, candidate)}: ${stateOf(candidate)}`;
    const agreed = await options.confirm(`R${lastRun.slice(1)}`, `resume ${about}`);
    return agreed ? candidate.runId : undefined;
  }
  const named = candidates.slice(0, NAMED_MAX);
  const commands = await Promise.all(named.map((run) => commandFor(project, run)));
  throw new Refusal("run-not-named", `${lastRun}: name the run to resume`, commands);
}

/** The id of the newest run of a pipeline, finished or not; `named` is its file or its name. */
export async function newestRunOf({ journal }: Project, named: string): Promise<string> {
  const file = knownPipeline(named);
  const ofFile = file === undefined ? [] : await journal.log.list({ file });
  const runs = ofFile.length > 0 ? ofFile : await journal.log.list({ pipeline: named });
  const newest = runs.find(({ cleanedAt }) => cleanedAt === undefined);
  if (newest !== undefined) return newest.runId;
  const message = `there is no run of ${named} whose steps could be taken as done`;
  throw new Refusal("no-runs", message, command("run", named));
}

async function commandFor(project: Project, run: RunSummary): Promise<Next> {
  const shortId = await shortIdOf(project.journal, run.runId);
  return { ...command("resume", shortId), note: `${run.pipeline}: ${stateOf(run)}` };
}

function stateOf(run: RunSummary): string {
  const done = `${run.stepsCompleted} of ${run.stepsTotal} steps completed`;
  return `${shownStatus({ ...run, alive: isOwned(run) })}, ${done}, ${utcText(run.updatedAt)} UTC`;
}

async function nameOf({ journal }: Project, { runId, pipeline }: RunSummary): Promise<string> {
  return `${await shortIdOf(journal, runId)} (${pipeline})`;
}

function isOwned({ lease }: RunSummary): boolean {
  return livenessOf(lease) === "owned";
}

/** The evidence for each attempt that the journal has as running. */
export function evidenceOf({ run, dir }: LoadedRun): ReadonlyMap<string, Evidence> {
  const evidence = new Map<string, Evidence>();
  for (const visit of run.running) {
    const at = attemptOf(visit);
    evidence.set(attemptText(at), lookAt(attemptDirOf(dir, at)));
  }
  return evidence;
}

/**
 * The evidence for running attempts, and what the agents offer to continue unfinished
 * conversations.
 */
async function resumeEvidence(
  known: LoadedRun,
): Promise<Pick<ResumePlanInput, "evidence" | "offers">> {
  const { plan, run, dir } = known;
  const agents = await openAgents(known, () => ({ plan, run, dir, env: runEnvironment(run) }));
  const evidence = new Map<string, Evidence>();
  for (const visit of run.running) {
    evidence.set(attemptText(attemptOf(visit)), await found(known, visit, agents));
  }
  const offers = new Map<string, ConversationOffer>();
  const waiting = waitingFor(run, "retry", "owner", "slot");
  for (const visit of [...run.running, ...waiting, ...run.failed]) {
    const offer =
      visit.conversation === undefined
        ? undefined
        : agents?.offer(visitRef(visit), sessionWanted(plan, run, visit));
    if (offer !== undefined) offers.set(attemptText(attemptOf(visit)), offer);
  }
  return { evidence, offers };
}

async function found(
  { dir }: LoadedRun,
  visit: Visit,
  agents: AgentSteps | undefined,
): Promise<Evidence> {
  const at = attemptOf(visit);
  const seen = lookAt(attemptDirOf(dir, at));
  if (seen !== "dead" || agents?.serves(visit) !== true) return seen;
  return (await agents.hasAnswered(visit, at)) ? "answered" : seen;
}

/** The options of a resume that decide what the steps ahead need. */
interface ResumeRequest {
  readonly update?: FactOf<"update-requested"> | undefined;
  readonly request?: RewindRequest | undefined;
  readonly preview?: RewindPreview | undefined;
  readonly recover?: Recover | undefined;
  readonly preflight?: boolean | undefined;
  readonly turns?: string | undefined;
  readonly budget?: string | undefined;
  /** A pending request gives an agent more turns. */
  readonly hasTurns?: boolean | undefined;
  /** The command that asked for the resume. */
  readonly typed: readonly string[];
}

/** Checks what the steps ahead need: turns, prices, programs. Throws when something is missing. */
export async function checkResume(
  known: LoadedRun,
  { update, request, preview, recover, preflight, turns, budget, hasTurns, typed }: ResumeRequest,
): Promise<{ readonly priceLines: readonly string[]; readonly warnings: readonly string[] }> {
  const { run, plan } = known;
  const given = turns !== undefined || hasTurns === true;
  const raised = given || update !== undefined || recover === "restart";
  if (!raised && request?.verb !== "from-step") refuseWithoutTurns(known);
  const priceLines = await checkPricesOnResume(known, update?.plan, budget);
  // After an update, all steps count: the update decides later which of them stay completed.
  const root = update === undefined ? run.scopes.get(ROOT_SCOPE) : undefined;
  const again = new Set(preview?.rewind?.reopened);
  const done = (id: string): boolean =>
    root !== undefined && !again.has(id) && isDone(findRecord(root, id));
  const looked = { ...defined({ preflight }), isDone: done };
  const warnings = await readiness(update?.plan ?? plan, looked, typed);
  return { priceLines, warnings };
}

/** Works out what a resume would do with each step, and why. Changes nothing. */
export async function planResume(
  known: LoadedRun,
  preview: RewindPreview | undefined,
  recover: Recover | undefined,
): Promise<ReturnType<typeof resumePlan>> {
  const { resumePlan: planOf } = await import("../view/preview/resume-plan.ts");
  const { plan, run } = known;
  const evidence = await resumeEvidence(known);
  const { rewind, fact } = preview ?? {};
  const { step: retried, items } = fact?.type === "retry-requested" ? fact : {};
  return planOf({ plan, run, ...evidence, rewind, retried, items, recover, now: Date.now() });
}

/** The step that a run continues with: its position in the pipeline, from 1. */
export function firstStep(
  { run, plan }: LoadedRun,
  fromStep: string | undefined,
): { readonly position: number; readonly total: number; readonly step: string } {
  const { steps } = plan.graph;
  const records = run.scopes.get(ROOT_SCOPE)?.steps ?? [];
  const first = steps.findIndex(({ id }, position) =>
    fromStep === undefined ? !isDone(records[position]) : id === fromStep,
  );
  const at = first === -1 ? steps.length - 1 : first;
  return { position: at + 1, total: steps.length, step: steps[at]?.id ?? "" };
}

/** Refuses a run of another pipeline than the one that the person named, by file or by name. */
export function refuseOtherFile(
  { run, plan, shortId }: LoadedRun,
  file: string,
  fromStep: string | undefined,
): void {
  const own = run.created?.file ?? "";
  const meant = knownPipeline(file) ?? resolve(file);
  if (file === plan.name || realPath(meant) === realPath(own)) return;
  const message = `run ${shortId} is a run of ${own}, not of ${file}`;
  const from = fromStep === undefined ? [] : ["--from-step", fromStep];
  throw new Refusal("wrong-pipeline", message, command("resume", shortId, ...from));
}

/** A path without links; unchanged if it does not exist. */
function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === undefined) throw error;
    return path;
  }
}

/** Compares the pipeline file of a run, and the configuration, with what the run started with. */
export function pipelineFileState({ run }: LoadedRun): {
  readonly kind: "same" | "edited" | "unreadable";
  /** The files that may have been edited. */
  readonly files: readonly string[];
} {
  const { file, fileSha256, project = "" } = run.created ?? {};
  if (file === undefined || fileSha256 === undefined) return { kind: "same", files: [] };
  const text = textOf(file);
  const configuration = configurationTexts(project);
  const files = [file, ...configuration.map(({ path }) => path)];
  if (text === undefined) return { kind: "unreadable", files };
  return { kind: hashOfFiles(text, configuration) === fileSha256 ? "same" : "edited", files };
}

/** The process that drives a run in the background. */
interface BackgroundRun {
  readonly pid: number | undefined;
  /** False when the run has already ended. */
  readonly isAlive: boolean;
}

/** Starts `perdure resume` in the background and returns once it owns the run. */
export async function resumeInBackground(
  project: Project,
  runId: string,
  shortId: string,
  options: readonly string[] = [],
): Promise<BackgroundRun> {
  const { root } = runDirOf(project.dir, runId);
  mkdirSync(root, { recursive: true, mode: 0o700 });
  const log = join(root, "runner.log");
  const output = openSync(log, "a", 0o600);
  const program = process.argv[1] ?? "perdure";
  const args = [program, "resume", runId, "--plain", ...throughOption(), ...options];
  const before = (await project.journal.leases.of(runId))?.epoch ?? 0;
  const subscription = project.journal.log.subscribe(runId);
  const child = spawn(process.execPath, args, {
    detached: true,
    stdio: ["ignore", output, output],
  });
  child.on("exit", () => subscription.close());
  child.unref();
  let lease: Lease | undefined;
  do {
    lease = await project.journal.leases.of(runId);
  } while ((lease?.epoch ?? 0) === before && (await subscription.changed()));
  subscription.close();
  lease = await project.journal.leases.of(runId);
  if ((lease?.epoch ?? 0) === before) {
    throw new Refusal(
      "not-started",
      `the run could not be started; see ${log}`,
      command("resume", shortId),
    );
  }
  return { pid: child.pid, isAlive: livenessOf(lease) === "owned" };
}
