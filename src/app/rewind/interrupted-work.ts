/**
 * Work that a stop or a loss interrupted, for a person to see before it continues.
 *
 * Owns: the list of interrupted visits, and the evidence of their unfinished work.
 * Does not: decide how it continues (core/decide.ts) or change anything.
 */

import { join } from "node:path";
import { attemptOf, recoverFor, stepOf, type Visit, visitRef, waitingFor } from "../../core/run.ts";
import { attemptText, visitText } from "../../core/step-path.ts";
import { startsOver, workedAlone } from "../../core/workspace-files.ts";
import { attemptDirOf } from "../../engine/state-dir.ts";
import type { Recover } from "../../plan/plan.ts";
import { linesFromEnd } from "../../runner/agents/transcript.ts";
import { errorCode } from "../../runner/file-text.ts";
import { lookAt } from "../../runner/process/adopt.ts";
import { spentText } from "../../view/cost-text.ts";
import type { InterruptedWork } from "../../view/preview/interrupted-work.ts";
import { type AttemptWork, workHistory } from "../../view/work-history.ts";
import { WorkspaceError } from "../../workspace/workspace-error.ts";
import { keepsFiles, openRunWorkspace, type RunWorkspace } from "../drive/run-workspace.ts";
import type { LoadedRun } from "../loaded-run.ts";
import { outputReaders, printedAttempt } from "../output/output.ts";
import type { Project } from "../project/project.ts";

const OUTPUT_LINES = 3;
/** How many bytes at the end of an output may hold its last lines. */
const OUTPUT_BYTES_MAX = 64 * 1024;

/** An interrupted visit, with its unfinished work. */
export interface InterruptedVisit {
  readonly visit: Visit;
  /** `fix@2`. */
  readonly place: string;
  readonly work: InterruptedWork;
}

/** The interrupted visits that left changed files or a conversation. */
export async function partialWork(
  project: Project,
  known: LoadedRun,
  recover?: Recover,
): Promise<readonly InterruptedVisit[]> {
  const visits = interruptedVisits(known);
  if (visits.length === 0) return [];
  const files = await filesOf(project, known);
  const history = new Map(workHistory(known.events).map((work) => [attemptText(work.at), work]));
  const found: InterruptedVisit[] = [];
  for (const visit of visits) {
    const work = history.get(attemptText(attemptOf(visit)));
    const partial = work && (await describe(known, visit, { work, files, recover }));
    if (partial === undefined) continue;
    if ((partial.files?.length ?? 0) === 0 && partial.conversation === undefined) continue;
    found.push({ visit, place: visitText(visitRef(visit)), work: partial });
  }
  return found;
}

/** The visits whose last attempt was interrupted and that will continue. */
function interruptedVisits({ run, dir, liveness }: LoadedRun): readonly Visit[] {
  if (liveness === "owned") return [];
  const dead = [...run.running].filter(
    (visit) => lookAt(attemptDirOf(dir, attemptOf(visit))) === "dead",
  );
  const waiting = waitingFor(run, "retry", "slot").filter(
    ({ interrupted }) => interrupted === true,
  );
  const all = [...run.waiting.owner, ...waiting, ...dead];
  return all.filter(
    (visit) =>
      visit.instances === undefined &&
      visit.attempts > 0 &&
      // Work that waits for its judge is complete.
      visit.submitted === undefined &&
      !stepOf(visit).once,
  );
}

/** The snapshots and the workspace of the run; undefined when they cannot be opened. */
async function filesOf(project: Project, known: LoadedRun): Promise<RunWorkspace | undefined> {
  if (!keepsFiles(known)) return undefined;
  try {
    return await openRunWorkspace(project, known);
  } catch (error) {
    return unknownFor(error);
  }
}

/** A command that only shows a run must also work without git and on a full or read-only disk. */
function unknownFor(error: unknown): undefined {
  if (error instanceof WorkspaceError || errorCode(error) !== "") return undefined;
  throw error;
}

async function describe(
  known: LoadedRun,
  visit: Visit,
  about: {
    readonly work: AttemptWork;
    readonly files: RunWorkspace | undefined;
    readonly recover: Recover | undefined;
  },
): Promise<InterruptedWork> {
  const { plan, run } = known;
  const { work, recover } = about;
  const end = work.end?.event;
  const session = visit.conversation?.session;
  const wanted = recover ?? recoverFor(run, visit);
  const continues = session !== undefined && wanted !== "restart";
  const over = startsOver(plan, run, visit, { wanted, continues });
  const used = visit.spent === undefined ? undefined : spentText(visit.spent);
  return {
    attempt: attemptText(work.at),
    files: await filesDone(known, visit, about),
    output: await lastOutput(known, visit),
    tool: end !== undefined && "tool" in end ? end.tool : undefined,
    conversation:
      session === undefined ? undefined : `${session}${used === undefined ? "" : `, ${used}`}`,
    overwrites: over ? await ownFiles(known, visit, about.files) : undefined,
    fate: over || (session !== undefined && !continues) ? "restart" : "continue",
  };
}

/** What a restore would change in the project's own directory. */
async function ownFiles(
  { plan }: LoadedRun,
  { base }: Visit,
  files: RunWorkspace | undefined,
): Promise<InterruptedWork["overwrites"]> {
  const { workspace } = files ?? {};
  if (plan.workspace?.kind !== "here" || workspace === undefined || base === undefined) {
    return undefined;
  }
  try {
    const { planRestore, shownPlan } = await import("../../workspace/snapshot/restore-plan.ts");
    return shownPlan(await planRestore(workspace, base));
  } catch (error) {
    return unknownFor(error);
  }
}

/** The changes from the base of the attempt to its last snapshot, or else to the present files. */
async function filesDone(
  { run }: LoadedRun,
  visit: Visit,
  { work, files }: { readonly work: AttemptWork; readonly files: RunWorkspace | undefined },
): Promise<InterruptedWork["files"]> {
  const now = workedAlone(run, visit) ? files?.workspace : undefined;
  const left = work.end === undefined ? (now ?? work.snapshot) : work.snapshot;
  if (files === undefined || work.base === undefined || left === undefined) return undefined;
  try {
    const { differences } = await import("../../workspace/snapshot/difference.ts");
    return await differences(files.store, work.base, left);
  } catch (error) {
    return unknownFor(error);
  }
}

async function lastOutput({ plan, dir }: LoadedRun, visit: Visit): Promise<readonly string[]> {
  const [output] = (await outputReaders(plan))(printedAttempt(visit)).files;
  if (output === undefined) return [];
  const path = join(attemptDirOf(dir, attemptOf(visit)), output.name);
  const lines = [...linesFromEnd(path, OUTPUT_BYTES_MAX)].toReversed();
  const shown = lines.flatMap((line) => output.lines(line).map(({ text }) => text));
  return shown.filter((line) => line.trim() !== "").slice(-OUTPUT_LINES);
}
