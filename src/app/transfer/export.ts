/**
 * Writes a run to one file, so that another machine can continue it.
 *
 * Owns: the choice of the parts that the file contains.
 * Does not: export the environment. The file does contain the output of steps and the conversations of
 * agents, and these may quote it.
 */

import { mkdirSync, rmSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { attemptOf, visitRef } from "../../core/run.ts";
import { stepPath } from "../../core/step-path.ts";
import { openConversations } from "../../engine/agent/open-conversations.ts";
import { exportFiles, type FilesExport } from "../../engine/export-files.ts";
import { attemptDirOf } from "../../engine/state-dir.ts";
import { eventsText } from "../../journal/events-file.ts";
import { takeLease } from "../../journal/leases.ts";
import { planFingerprints } from "../../journal/run-log.ts";
import { mayLive } from "../../runner/process/adopt.ts";
import type { JsonObject } from "../../util/json.ts";
import { type PartSource, writeArchive } from "../../workspace/archive.ts";
import { WorkspaceError } from "../../workspace/workspace-error.ts";
import { isOwnerAlive, ownerText, thisOwner } from "../drive/owner.ts";
import { refuseMoved } from "../drive/ownership.ts";
import { runEnvironment } from "../drive/run-environment.ts";
import { relinkWorktrees } from "../drive/run-workspace.ts";
import { type LoadedRun, loadRun, reloadOwned, reloadRun } from "../loaded-run.ts";
import { masked } from "../output/secret-mask.ts";
import type { FleetWorkers, Project } from "../project/project.ts";
import { command, filesRefusal, Refusal, when } from "../refusal.ts";
import { packageVersion } from "../this-process.ts";
import {
  type ArchivedRun,
  artifactParts,
  BUNDLE_PART,
  carriedConversations,
  EVENTS_PART,
  type ExportParts,
  folderParts,
  PLAN_PART,
} from "./run-parts.ts";

export interface ExportOptions {
  /** Leaves out the commits that the project's own repository has. */
  readonly withoutBase?: boolean;
  /** Copies the present state of a run that another process drives. */
  readonly force?: boolean;
}

const NO_FILES = "the files in its workspace are not in it: the pipeline keeps no snapshots";

/** What an archive holds. */
interface ExportedRun {
  readonly bytes: number;
  readonly events: number;
  readonly snapshots: number;
  readonly artifacts: number;
  readonly conversations: number;
  /** True when the archive holds secrets: Perdure masks nothing in it. */
  readonly holdsSecrets: boolean;
  /** What the archive lacks, and why. */
  readonly notes: readonly string[];
}

/**
 * Writes a run to a file. Throws when a process may change the run, unless `force` accepts that.
 */
export async function exportRun(
  project: Project,
  known: LoadedRun,
  file: string,
  options: ExportOptions,
): Promise<ExportedRun> {
  refuseMoved(known);
  const { workers } = project;
  if (workers !== undefined) return exportOfFleet(project, workers, known, { file, ...options });
  refuseUnexportable(known, options);
  const epoch = await acquire(project, known, options);
  try {
    const now =
      epoch === undefined
        ? await reloadRun(project, known)
        : await reloadOwned(project, known, { epoch });
    await relinkWorktrees(project, now);
    return await writeRun(now, file, ({ bundle }) => partsHere(project, now, bundle, options));
  } catch (error) {
    if (!(error instanceof WorkspaceError)) throw error;
    throw filesRefusal(error, undefined);
  } finally {
    if (epoch !== undefined) await project.journal.leases.release(known.id, epoch);
  }
}

/**
 * The same for a run of a fleet, from the copy of its files. Nobody takes its lease: a run that nobody
 * owned before and after the store was read has not changed meanwhile.
 */
async function exportOfFleet(
  project: Project,
  workers: FleetWorkers,
  known: LoadedRun,
  options: ExportOptions & { readonly file: string },
): Promise<ExportedRun> {
  refuseUnavailable(known, options);
  const { seq } = known.run;
  const { fleetParts } = await import("../fleet/fleet-files.ts");
  return writeRun(known, options.file, async (place) => {
    const parts = await fleetParts(project, workers, known, { ...options, ...place });
    const now = await loadRun(project, known.id);
    refuseUnavailable(now, options);
    if (now.run.seq === seq || options.force === true) return parts;
    const message = `run ${known.shortId} has continued while it was read`;
    throw new Refusal("run-changed", message, command("export", known.shortId));
  });
}

/** Refuses a cleaned run, and without `force` also a run that a process may change. */
function refuseUnexportable(known: LoadedRun, options: ExportOptions): void {
  refuseUnavailable(known, options);
  if (options.force === true) return;
  const { shortId } = known;
  const living = [...known.run.running].find((visit) =>
    mayLive(attemptDirOf(known.dir, attemptOf(visit))),
  );
  if (living === undefined) return;
  throw new Refusal(
    "steps-alive",
    `step ${stepPath(visitRef(living))} of run ${shortId} still runs`,
    [
      { ...command("resume", shortId), note: "then stop it" },
      when("a copy", "export", shortId, "--force"),
    ],
  );
}

function refuseUnavailable(known: LoadedRun, { force }: ExportOptions): void {
  const { shortId, cleanedAt, lease, liveness } = known;
  if (cleanedAt !== undefined) {
    const message = `the files of run ${shortId} were removed by perdure clean`;
    throw new Refusal("files-removed", message, command("show", shortId));
  }
  if (force === true || liveness !== "owned" || lease?.owner === undefined) return;
  throw new Refusal("run-owned", `run ${shortId} is owned by ${ownerText(lease.owner)}`, [
    command("stop", shortId),
    when("a copy of it as it is now", "export", shortId, "--force"),
  ]);
}

/**
 * Takes the lease, so that the run does not change; undefined when `force` accepts a living owner.
 */
async function acquire(
  { journal }: Project,
  known: LoadedRun,
  { force }: ExportOptions,
): Promise<number | undefined> {
  const acquired = await takeLease(journal.leases, known.id, {
    owner: thisOwner(),
    isAlive: isOwnerAlive,
  });
  if (acquired.ok) return acquired.epoch;
  if (force === true) return undefined;
  const message = `run ${known.shortId} is owned by ${ownerText(acquired.owner)}`;
  throw new Refusal("run-owned", message, command("stop", known.shortId));
}

/** Where the parts of an export are written before the archive is. */
interface ExportPlace {
  readonly scratch: string;
  readonly bundle: string;
}

async function partsHere(
  project: Project,
  known: LoadedRun,
  bundle: string,
  options: ExportOptions,
): Promise<ExportParts> {
  const { plan, run, dir } = known;
  const notes: string[] = [];
  const files = await saveFiles(project, known, bundle, options, notes);
  const open = openConversations({ plan, run, dir, env: runEnvironment(run) });
  for (const { why } of open) if (why !== undefined) notes.push(why);
  const conversations = carriedConversations(open);
  const transcripts = conversations.map(({ part, file }) => ({ path: part, file }));
  const parts = [...folderParts(dir.root, "", notes), ...transcripts];
  return { project: dirname(project.dir.root), files, conversations, parts, notes };
}

/** Writes the archive with what the journal has, and with the other parts of the run. */
async function writeRun(
  known: LoadedRun,
  file: string,
  otherParts: (place: ExportPlace) => Promise<ExportParts>,
): Promise<ExportedRun> {
  const { id, plan, dir, events } = known;
  const scratch = join(dir.root, `export-${process.pid}`);
  mkdirSync(scratch, { recursive: true, mode: 0o700 });
  const bundle = join(scratch, BUNDLE_PART);
  try {
    const made = await otherParts({ scratch, bundle });
    const { project, files, conversations, parts: others, notes } = made;
    const { kind } = plan.workspace ?? {};
    const lacksFiles = files === undefined && known.run.workspace !== undefined && kind !== "here";
    const recorded = events.map(({ event }) => event);
    const artifacts = artifactParts(dir, recorded);
    const parts: readonly PartSource[] = [
      { path: EVENTS_PART, text: eventsText(id, events) },
      { path: PLAN_PART, text: plansText(known) },
      ...others,
      ...artifacts,
      ...(files === undefined ? [] : [{ path: BUNDLE_PART, file: bundle }]),
    ];
    const about: ArchivedRun = {
      perdure: packageVersion(),
      run: id,
      pipeline: plan.name,
      project,
      exportedAt: new Date().toISOString(),
      ...(files?.commit === undefined ? {} : { commit: files.commit, own: files.own }),
      base: files?.base ?? [],
      conversations,
      ...(known.answers.size === 0 ? {} : { answers: Object.fromEntries(known.answers) }),
    };
    await writeArchive(file, about as unknown as JsonObject, parts);
    return {
      bytes: statSync(file).size,
      events: events.length,
      snapshots: files?.snapshots ?? 0,
      artifacts: artifacts.length,
      conversations: conversations.length,
      holdsSecrets: holdsSecrets(known),
      notes: lacksFiles ? [NO_FILES, ...notes] : notes,
    };
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

async function saveFiles(
  project: Project,
  { plan, run, dir }: LoadedRun,
  file: string,
  { withoutBase = false }: ExportOptions,
  notes: string[],
): Promise<FilesExport | undefined> {
  const { workspace } = plan;
  if (workspace === undefined) return undefined;
  try {
    const stateDir = project.dir.root;
    return await exportFiles({ plan: workspace, run, dir, stateDir, file, withoutBase });
  } catch (error) {
    const optional = workspace.kind === "here" && run.snapshot === undefined;
    if (!(error instanceof WorkspaceError) || error.code !== "git-missing" || !optional)
      throw error;
    notes.push(`the project's files are not in it: ${error.message}`);
    return undefined;
  }
}

/** All plans that the run had, the first one first, each as one line of JSON. */
function plansText({ planTexts, planText, events }: LoadedRun): string {
  // The run itself knows only its current plan.
  const [first = ""] = planFingerprints(events);
  const others = [...planTexts].filter(([fingerprint]) => fingerprint !== first);
  return [planTexts.get(first) ?? planText, ...others.map(([, text]) => text)].join("\n");
}

/**
 * True when the events hold a secret. Another machine continues with the archive, so it has all
 * values.
 */
function holdsSecrets({ events }: LoadedRun): boolean {
  const text = JSON.stringify(events);
  return masked(text) !== text;
}
