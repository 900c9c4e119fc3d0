/**
 * The completed runs that the service cleans, as `perdure clean` does.
 *
 * Owns: which runs are stale, and that people hear of it a day before the first time.
 * Does not: remove files itself (clean.ts), or judge whether a branch is merged; what would lose work
 * is kept there.
 * Invariants:
 * - service/S3 The service removes nothing that exists nowhere else, and no run that is not completed.
 */
import { readConfiguration } from "../../pipeline/configuration.ts";
import { parseAge } from "../../util/duration.ts";
import { cleanRuns } from "../clean.ts";
import { type LoadedRun, loadRun } from "../loaded-run.ts";
import { configurationTexts } from "../pipeline/configuration-file.ts";
import { openLocalProject, type Project } from "../project/project.ts";
import { readCleanNote, writeCleanNote } from "./service-note.ts";

const STALE_AFTER = "7d";
/** How long people can say otherwise before the first clean. */
const NOTICE_MS = 24 * 3_600_000;
/** How many runs of a project one pass cleans; the next one continues. */
const CLEANED_MAX = 100;

/** Cleans the stale runs of a project; gives how many it cleaned. */
export async function cleanStale(
  project: Project,
  directory: string,
  now: number,
): Promise<number> {
  const age = staleAfter(directory);
  if (age === undefined) return 0;
  const stale = await staleRuns(project, now - age);
  if (stale.length === 0) return 0;
  const note = readCleanNote();
  if (note === undefined) writeCleanNote({ from: now + NOTICE_MS, runs: stale.length });
  if (note === undefined || now < note.from) return 0;
  let cleaned = 0;
  const writable = await openLocalProject(directory, "read-write");
  try {
    await cleanRuns(writable, stale, {}, ({ kept }) => {
      if (kept === undefined) cleaned++;
    });
  } finally {
    await writable.journal.close();
  }
  return cleaned;
}

/** The age from which runs of a project are cleaned; undefined for never. */
function staleAfter(directory: string): number | undefined {
  const { shape, diagnostics } = readConfiguration(configurationTexts(directory));
  // A file with a mistake may say `never`.
  if (diagnostics.some(({ severity }) => severity === "error")) return undefined;
  return parseAge(shape.service?.clean ?? STALE_AFTER);
}

async function staleRuns({ journal, dir }: Project, before: number): Promise<readonly string[]> {
  const completed = await journal.log.list({ status: ["completed"] });
  const old = completed.filter((run) => run.cleanedAt === undefined && run.updatedAt <= before);
  const stale: string[] = [];
  for (const { runId } of old.slice(-CLEANED_MAX)) {
    if (!holdsWork(await loadRun({ journal, dir }, runId))) stale.push(runId);
  }
  return stale;
}

/**
 * True when files of the user's or of steps may be in the run's folder and nowhere else: those of a
 * directory of its own, and those that a restore set aside. A worktree is checked when it is removed.
 */
function holdsWork({ plan, events }: LoadedRun): boolean {
  const { kind } = plan.workspace ?? {};
  if (kind === "directory" || kind === "copy") return true;
  return events.some(({ event }) => "aside" in event && event.aside !== undefined);
}
