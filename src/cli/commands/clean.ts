/** `perdure clean`: removes the files of runs and keeps their records. */
import { existsSync, rmSync } from "node:fs";
import { attemptOf } from "../../core/next-actions.ts";
import { stepPath } from "../../core/place.ts";
import { placeOf } from "../../core/run.ts";
import { attemptDirOf, runDirOf } from "../../engine/state-dir.ts";
import type { RunSummary } from "../../journal/journal.ts";
import { lookAt } from "../../runner/adopt.ts";
import { parseDuration } from "../../util/duration.ts";
import { shownStatus } from "../../view/run-table.ts";
import { CliError } from "../cli-error.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { print } from "../print.ts";
import {
  livenessOf,
  loadRun,
  openProject,
  type Project,
  resolveRunId,
  shortIdOf,
} from "../project.ts";

export interface CleanOptions {
  readonly olderThan?: string;
  readonly dryRun?: boolean;
  readonly all?: boolean;
}

const DAY_MS = 86_400_000;

/** Cleans the runs that are named, or all finished ones; `--all` takes interrupted ones as well. */
export async function cleanCommand(
  ids: readonly string[],
  options: CleanOptions,
): Promise<ExitCode> {
  const project = openProject(process.cwd(), "read-write");
  const { journal } = project;
  const named = new Set(ids.map((id) => resolveRunId(journal, id)));
  const before = Date.now() - ageOf(options.olderThan);
  const all = journal.list({});
  const chosen = all.filter((run) => {
    if (run.cleanedAt !== undefined) return false;
    if (named.size > 0) return named.has(run.runId);
    return run.updatedAt <= before && (options.all === true || isFinished(run));
  });
  const forks = forksOf(all);
  // Newest first, so a fork goes before the run that it was made of.
  for (const run of chosen) cleanRun(project, run, forks, options);
  if (chosen.length === 0) print("There is nothing to clean.");
  return EXIT.done;
}

function ageOf(text: string | undefined): number {
  if (text === undefined) return 0;
  // Runs may be older than any step may take, which is what durations are limited by.
  const days = /^\s*(\d{1,5})d\s*$/.exec(text)?.[1];
  const age = days === undefined ? parseDuration(text) : Number(days) * DAY_MS;
  if (age === undefined) {
    throw new CliError(
      EXIT.usage,
      `--older-than takes a duration such as 7d or 12h, not "${text}"`,
    );
  }
  return age;
}

function isFinished(run: RunSummary): boolean {
  const alive = livenessOf(run.lease) === "owned";
  return shownStatus({ ...run, alive }) === "completed";
}

/** The forks of each run whose files are there: they name outputs in its folder. */
type Forks = ReadonlyMap<string, Set<string>>;

function forksOf(runs: readonly RunSummary[]): Forks {
  const forks = new Map<string, Set<string>>();
  for (const { runId, forkedFrom, cleanedAt } of runs) {
    if (forkedFrom === undefined || cleanedAt !== undefined) continue;
    forks.set(forkedFrom, (forks.get(forkedFrom) ?? new Set()).add(runId));
  }
  return forks;
}

function cleanRun(project: Project, run: RunSummary, forks: Forks, options: CleanOptions): void {
  const { journal, dir } = project;
  const shortId = shortIdOf(journal, run.runId);
  const [fork] = forks.get(run.runId) ?? [];
  if (fork !== undefined) {
    print(
      `${shortId}  kept: run ${shortIdOf(journal, fork)} was forked from it and uses its files`,
    );
    return;
  }
  if (livenessOf(run.lease) === "owned") {
    print(`${shortId}  kept: it is running`);
    return;
  }
  const living = livingStep(project, run.runId);
  if (living !== undefined) {
    print(`${shortId}  kept: its step ${living} still runs; go on with: perdure resume ${shortId}`);
    return;
  }
  forks.get(run.forkedFrom ?? "")?.delete(run.runId);
  const { root } = runDirOf(dir, run.runId);
  if (options.dryRun === true) {
    print(`${shortId}  would remove ${root}`);
    return;
  }
  // First the note, then the files: a crash in between leaves files to remove, never a run that
  // looks as if it could be resumed.
  journal.markCleaned(run.runId, Date.now());
  if (existsSync(root)) rmSync(root, { recursive: true });
  print(`${shortId}  removed ${root}`);
}

/** A step that outlived its runner still writes into the run's files. */
function livingStep(project: Project, runId: string): string | undefined {
  const { run, dir } = loadRun(project, runId);
  const living = [...run.running].find(
    (visit) => lookAt(attemptDirOf(dir, attemptOf(visit))) === "alive",
  );
  return living && stepPath(placeOf(living));
}
