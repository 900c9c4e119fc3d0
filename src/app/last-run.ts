/**
 * The run that `resume` means when none is named: the one that was interrupted last.
 *
 * Owns: which run that is, and when a person has to say so.
 * Does not: resume it.
 * Invariants:
 * - L1 Nothing that has failed, and nothing older than a run that has completed, is started unless a
 *   person names it or agrees to it.
 */
import { resolve } from "node:path";
import type { RunSummary } from "../journal/journal.ts";
import { shownStatus } from "../view/run-table.ts";
import { utcText } from "../view/time-text.ts";
import { livenessOf, type Project, shortIdOf } from "./project.ts";
import { command, type Next, Refusal } from "./refusal.ts";
import type { Confirm } from "./screen.ts";

/** How many runs a refusal names. */
const NAMED_MAX = 5;

export interface LastRunOptions {
  /** Only runs of this pipeline file count. */
  readonly file?: string | undefined;
  /** Absent when nobody can be asked. */
  readonly confirm: Confirm | undefined;
  /** The person says what is to become of a failed run, or only wants to look. */
  readonly failedToo: boolean;
}

/** The id of that run; undefined when the person at the terminal does not want it. */
export async function lastRun(
  project: Project,
  options: LastRunOptions,
): Promise<string | undefined> {
  const { file } = options;
  const runs = [...project.journal.list(file === undefined ? {} : { file: resolve(file) })]
    .filter((run) => run.cleanedAt === undefined || run.status === "completed")
    .sort((one, other) => other.updatedAt - one.updatedAt);
  const where = file === undefined ? "here" : `of ${file}`;
  const unfinished = runs.filter(({ status }) => status !== "completed");
  const unowned = unfinished.filter((run) => !isOwned(run));
  // The only ones that are left are owned: whoever looks at the lease says by whom.
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
  const surprise = last.status === "completed" || (last.status === "failed" && !options.failedToo);
  if (!surprise) return candidate.runId;
  const told = `run ${nameOf(project, last)}, the last one ${where}, has ${last.status}`;
  if (options.confirm !== undefined) {
    const about = `${nameOf(project, candidate)}: ${stateOf(candidate)}`;
    const agreed = await options.confirm(`R${told.slice(1)}`, `resume ${about}`);
    return agreed ? candidate.runId : undefined;
  }
  const commands = candidates.slice(0, NAMED_MAX).map((run) => commandFor(project, run));
  throw new Refusal("run-not-named", `${told}: name the run to resume`, commands);
}

function commandFor(project: Project, run: RunSummary): Next {
  const shortId = shortIdOf(project.journal, run.runId);
  return { ...command("resume", shortId), note: `${run.pipeline}: ${stateOf(run)}` };
}

function stateOf(run: RunSummary): string {
  const done = `${run.stepsCompleted} of ${run.stepsTotal} steps done`;
  return `${shownStatus({ ...run, alive: isOwned(run) })}, ${done}, ${utcText(run.updatedAt)} UTC`;
}

function nameOf({ journal }: Project, { runId, pipeline }: RunSummary): string {
  return `${shortIdOf(journal, runId)} (${pipeline})`;
}

function isOwned({ lease }: RunSummary): boolean {
  return livenessOf(lease) === "owned";
}
