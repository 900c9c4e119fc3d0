/** `perdure clean`: removes the files of runs and keeps their records. */
import { existsSync, lstatSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { type KnownRun, loadRun } from "../../app/known-run.ts";
import { isOwnerAlive } from "../../app/owner.ts";
import {
  livenessOf,
  openProject,
  type Project,
  resolveRunId,
  shortIdOf,
} from "../../app/project.ts";
import { Refusal } from "../../app/refusal.ts";
import { removeRun, storeOf } from "../../app/run-removal.ts";
import { outputsNamedBy } from "../../core/outputs.ts";
import { runDirOf } from "../../engine/state-dir.ts";
import type { RunSummary } from "../../journal/journal.ts";
import { formatBytes, parseBytes } from "../../util/bytes.ts";
import { parseDuration } from "../../util/duration.ts";
import { EXIT, type ExitCode } from "../../view/exit-code.ts";
import { shownStatus } from "../../view/run-table.ts";
import { print } from "../print.ts";

export interface CleanOptions {
  readonly olderThan?: string;
  readonly state?: string;
  readonly keepLast?: string;
  readonly maxSize?: string;
  readonly dryRun?: boolean;
  readonly all?: boolean;
  readonly force?: boolean;
}

const DAY_MS = 86_400_000;
const STATES = ["completed", "failed", "interrupted", "waiting"] as const;
type State = (typeof STATES)[number];

/** Cleans the runs that are named, or all finished ones; `--all` takes interrupted ones as well. */
export async function cleanCommand(
  ids: readonly string[],
  options: CleanOptions,
): Promise<ExitCode> {
  const project = openProject(process.cwd(), "read-write");
  const chosen = chooseRuns(project, ids, options);
  const forks = forksOf(project.journal.list({}));
  let freed = 0;
  let last: KnownRun | undefined;
  // Newest first, so a fork goes before the run that it was made of.
  for (const { runId, forkedFrom } of chosen) {
    const known = loadRun(project, runId);
    const bytes = sizeOf(known.dir.root);
    const [fork] = forks.get(runId) ?? [];
    if (fork !== undefined) {
      const [shortId, other] = [runId, fork].map((id) => shortIdOf(project.journal, id));
      print(`${shortId}  kept: run ${other} was forked from it and uses its files`);
      continue;
    }
    if (!(await cleanRun(project, known, options))) continue;
    forks.get(forkedFrom ?? "")?.delete(runId);
    freed += bytes;
    last = known;
  }
  if (chosen.length === 0) print("There is nothing to clean.");
  if (options.dryRun !== true) await tidy(project, last);
  else if (chosen.length > 0) print(`In all: ${formatBytes(freed)}, and their snapshots.`);
  return EXIT.done;
}

/** The forks of each run whose files are there: they name outputs in its folder. */
function forksOf(runs: readonly RunSummary[]): ReadonlyMap<string, Set<string>> {
  const forks = new Map<string, Set<string>>();
  for (const { runId, forkedFrom, cleanedAt } of runs) {
    if (forkedFrom === undefined || cleanedAt !== undefined) continue;
    forks.set(forkedFrom, (forks.get(forkedFrom) ?? new Set()).add(runId));
  }
  return forks;
}

function chooseRuns(
  project: Project,
  ids: readonly string[],
  options: CleanOptions,
): readonly RunSummary[] {
  const { journal, dir } = project;
  const named = new Set(ids.map((id) => resolveRunId(journal, id)));
  const before = Date.now() - ageOf(options.olderThan);
  const states = statesOf(options);
  const keepLast = countOf(options.keepLast);
  const isUnfinished = (run: RunSummary): boolean => existsSync(runDirOf(dir, run.runId).root);
  const all = journal.list({});
  const whole = all.filter(({ cleanedAt }) => cleanedAt === undefined);
  const kept = new Set(whole.slice(0, keepLast));
  const fits = fitting(project, whole, options.maxSize);
  return all.filter((run) => {
    if (named.size > 0 && !named.has(run.runId)) return false;
    // Its removal was killed half way.
    if (run.cleanedAt !== undefined) return isUnfinished(run);
    if (named.size > 0) return true;
    return run.updatedAt <= before && states.has(stateOf(run)) && !kept.has(run) && !fits.has(run);
  });
}

function ageOf(text: string | undefined): number {
  if (text === undefined) return 0;
  // Runs may be older than any step may take, which is what durations are limited by.
  const days = /^\s*(\d{1,5})d\s*$/.exec(text)?.[1];
  const age = days === undefined ? parseDuration(text) : Number(days) * DAY_MS;
  if (age === undefined) {
    throw new Refusal(
      "bad-option",
      `--older-than takes a duration such as 7d or 12h, not "${text}"`,
    );
  }
  return age;
}

/** The states that runs must be in; those of a runner at work are none of them. */
function statesOf({ state, all }: CleanOptions): ReadonlySet<string> {
  if (all === true) return new Set([...STATES, "queued", "running"]);
  const words = (state ?? "completed").split(",").map((word) => word.trim());
  const wrong = words.find((word) => !STATES.includes(word as State));
  if (wrong === undefined) return new Set(words);
  throw new Refusal("bad-option", `--state takes ${STATES.join(", ")}, not "${wrong}"`);
}

function countOf(text: string | undefined): number {
  if (text === undefined) return 0;
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new Refusal("bad-option", `--keep-last takes a whole number, not "${text}"`);
}

function stateOf(run: RunSummary): string {
  return shownStatus({ ...run, alive: livenessOf(run.lease) === "owned" });
}

/** The newest runs whose files fit into a size together; none when no size is given. */
function fitting(
  project: Project,
  runs: readonly RunSummary[],
  size: string | undefined,
): ReadonlySet<RunSummary> {
  const fits = new Set<RunSummary>();
  if (size === undefined) return fits;
  let left = parseBytes(size);
  if (left === undefined) {
    throw new Refusal("bad-option", `--max-size takes a size such as 500MB or 2GB, not "${size}"`);
  }
  const counted = new Set<string>();
  for (const run of runs) {
    left -= sizeOf(runDirOf(project.dir, run.runId).root);
    for (const [sha256, bytes] of outputsOf(project, run.runId)) {
      // Runs share artifacts: the newest one that names it pays for it.
      if (!counted.has(sha256)) left -= bytes;
      counted.add(sha256);
    }
    if (left < 0) break;
    fits.add(run);
  }
  return fits;
}

function outputsOf({ journal }: Project, runId: string): readonly (readonly [string, number])[] {
  return journal
    .load(runId)
    .events.flatMap(({ event }) =>
      outputsNamedBy(event).map(({ sha256, bytes }) => [sha256, bytes] as const),
    );
}

/** Cleans one run and tells it; true when its files go, or would go. */
async function cleanRun(
  project: Project,
  known: KnownRun,
  options: CleanOptions,
): Promise<boolean> {
  const shortId = shortIdOf(project.journal, known.id);
  const dryRun = options.dryRun === true;
  const kept = await removeRun(project, known, { force: options.force === true, dryRun });
  const done = `${dryRun ? "would remove" : "removed"} ${known.dir.root}`;
  print(`${shortId}  ${kept === undefined ? done : `kept: ${kept}`}`);
  return kept === undefined;
}

/** The bytes of the files in a folder. */
function sizeOf(folder: string): number {
  if (!existsSync(folder)) return 0;
  let sum = 0;
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) sum += sizeOf(path);
    else sum += lstatSync(path, { throwIfNoEntry: false })?.size ?? 0;
  }
  return sum;
}

/**
 * Artifacts that no run names any more go, also those that a clean which was killed had left, and
 * what remains of the snapshots is packed.
 */
async function tidy(project: Project, last: KnownRun | undefined): Promise<void> {
  const { artifacts } = runDirOf(project.dir, "");
  if (existsSync(artifacts)) {
    const { dropArtifacts } = await import("../../workspace/artifact-store.ts");
    const done = project.journal.whileUnowned(isOwnerAlive, (named) => {
      dropArtifacts(artifacts, named);
    });
    if (!done) print("What runs handed on is kept while a run is going on.");
  }
  const store = last === undefined ? undefined : await storeOf(project, last);
  if (store === undefined) return;
  const { tidyStore } = await import("../../workspace/store.ts");
  const others = !project.journal.whileUnowned(isOwnerAlive, () => undefined);
  await tidyStore(store, { others });
}
