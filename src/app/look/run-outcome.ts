/** What a run leaves for its user: changed files, its branch, and the output of the step that failed. */

import { snapshotAt } from "../../view/work-history.ts";
import { differences, type FileDifference } from "../../workspace/snapshot/difference.ts";
import { hasCommit } from "../../workspace/snapshot/store.ts";
import { keepsFiles, openRunWorkspace } from "../drive/run-workspace.ts";
import type { LoadedRun } from "../loaded-run.ts";
import { failedOutput } from "../output/output-tail.ts";
import type { Project } from "../project/project.ts";
import { asRefusal } from "../refusal.ts";
import { resultOf } from "../take.ts";
import { firstBase } from "./inspect.ts";

/** How many changed files are named. */
const FILES_MAX = 2_000;

/** What a run leaves. */
export interface RunOutcome {
  /** Undefined when nothing is known about its files. */
  readonly result: RunLeft | undefined;
  readonly failedOutput: readonly string[];
}

/** The files and the branch of a run. */
interface RunLeft {
  readonly branch: string | undefined;
  readonly directory: string | undefined;
  readonly base: string | undefined;
  /** How many commits the user's branch has that the run did not start from. */
  readonly baseMoved: number | undefined;
  readonly commits: number;
  readonly files: readonly FileDifference[];
}

/** Changes when the outcome has to be looked at again. */
export function outcomeKey({ run, events, cleanedAt }: LoadedRun): string {
  const over = run.state.status === "completed" || run.state.status === "failed";
  const snapshot = run.snapshot ?? "";
  return [snapshot, over ? `${run.state.status} ${events.length}` : "", cleanedAt ?? ""].join("/");
}

/** Looks at what a run leaves. A run is not worse because its files cannot be looked at. */
export async function outcomeOf(project: Project, known: LoadedRun): Promise<RunOutcome> {
  const files = await unlessRefused(() => changedFiles(project, known));
  const branch = await unlessRefused(() => resultOf(project, known));
  const output = await unlessRefused(() => failedOutput(known));
  const isKnown = files !== undefined || branch !== undefined;
  return {
    result: isKnown ? leftBy(known, files ?? [], branch) : undefined,
    failedOutput: output?.lines ?? [],
  };
}

function leftBy(
  { run, cleanedAt }: LoadedRun,
  files: readonly FileDifference[],
  branch: Awaited<ReturnType<typeof resultOf>>,
): RunLeft {
  const directory = run.workspace?.path ?? run.created?.cwd;
  return {
    branch: branch?.branch,
    directory: cleanedAt === undefined ? (branch?.place.worktree ?? directory) : undefined,
    base: branch?.target ?? branch?.place.base,
    baseMoved: branch?.newOnTarget,
    commits: branch?.commits ?? 0,
    files: files.slice(0, FILES_MAX),
  };
}

/** The files that differ between the first and the last snapshot of a run. */
async function changedFiles(
  project: Project,
  known: LoadedRun,
): Promise<readonly FileDifference[] | undefined> {
  const { events, cleanedAt } = known;
  const first = firstBase(events);
  const last = snapshotAt(events, Number.POSITIVE_INFINITY);
  if (!keepsFiles(known) || cleanedAt !== undefined) return undefined;
  if (first === undefined || last === undefined) return undefined;
  const { store } = await openRunWorkspace(project, known);
  const areThere = (await hasCommit(store, first)) && (await hasCommit(store, last));
  return areThere ? differences(store, first, last) : undefined;
}

async function unlessRefused<T>(look: () => Promise<T>): Promise<T | undefined> {
  try {
    return await look();
  } catch (error) {
    if (asRefusal(error) === undefined) throw error;
    return undefined;
  }
}
