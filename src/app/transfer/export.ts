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
import { takeLease } from "../../journal/journal.ts";
import { planFingerprints } from "../../journal/run-log.ts";
import { mayLive } from "../../runner/process/adopt.ts";
import type { JsonObject } from "../../util/json.ts";
import { type PartSource, writeArchive } from "../../workspace/archive.ts";
import { WorkspaceError } from "../../workspace/workspace-error.ts";
import { isOwnerAlive, ownerText, thisOwner } from "../drive/owner.ts";
import { refuseOfFleet } from "../drive/ownership.ts";
import { runEnvironment } from "../drive/run-environment.ts";
import { relinkWorktrees } from "../drive/run-workspace.ts";
import { type LoadedRun, reloadOwned, reloadRun } from "../loaded-run.ts";
import { masked } from "../output/secret-mask.ts";
import type { Project } from "../project/project.ts";
import { command, filesRefusal, Refusal, when } from "../refusal.ts";
import { packageVersion } from "../this-process.ts";
import {
  type ArchivedRun,
  artifactParts,
  BUNDLE_PART,
  carriedConversations,
  EVENTS_PART,
  folderParts,
  PLAN_PART,
} from "./run-archive.ts";

export interface ExportOptions {
  /** Leaves out the commits that the project's own repository has. */
  readonly withoutBase?: boolean;
  /** Copies the present state of a run that another process drives. */
  readonly force?: boolean;
}

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
  refuseOfFleet(project, known, "perdure export");
  refuse(known, options);
  const epoch = await acquire(project, known, options);
  try {
    const now =
      epoch === undefined
        ? await reloadRun(project, known)
        : await reloadOwned(project, known, { epoch });
    await relinkWorktrees(project, now);
    return await writeRun(project, now, file, options);
  } catch (error) {
    if (!(error instanceof WorkspaceError)) throw error;
    throw filesRefusal(error, undefined);
  } finally {
    if (epoch !== undefined) await project.journal.leases.release(known.id, epoch);
  }
}

/** Refuses a cleaned run, and without `force` also a run that a process may change. */
function refuse(known: LoadedRun, { force }: ExportOptions): void {
  const { shortId, cleanedAt, lease, liveness } = known;
  if (cleanedAt !== undefined) {
    const message = `the files of run ${shortId} were removed by perdure clean`;
    throw new Refusal("files-removed", message, command("show", shortId));
  }
  if (force === true) return;
  if (liveness === "owned" && lease?.owner !== undefined) {
    throw new Refusal("run-owned", `run ${shortId} is owned by ${ownerText(lease.owner)}`, [
      command("stop", shortId),
      when("a copy of it as it is now", "export", shortId, "--force"),
    ]);
  }
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

async function writeRun(
  project: Project,
  known: LoadedRun,
  file: string,
  options: ExportOptions,
): Promise<ExportedRun> {
  const { id, plan, run, dir, events } = known;
  const notes: string[] = [];
  mkdirSync(dir.root, { recursive: true, mode: 0o700 });
  const bundle = join(dir.root, `export-${process.pid}.bundle`);
  try {
    const exported = await saveFiles(project, known, bundle, options, notes);
    const conversations = openConversations({ plan, run, dir, env: runEnvironment(run) });
    for (const { why } of conversations) if (why !== undefined) notes.push(why);
    const carried = carriedConversations(conversations);
    const recorded = events.map(({ event }) => event);
    const artifacts = artifactParts(dir, recorded);
    const parts: readonly PartSource[] = [
      { path: EVENTS_PART, text: eventsText(id, events) },
      { path: PLAN_PART, text: plansText(known) },
      ...folderParts(dir.root, "", notes),
      ...artifacts,
      ...(exported === undefined ? [] : [{ path: BUNDLE_PART, file: bundle }]),
      ...carried.map((one) => ({ path: one.part, file: one.file })),
    ];
    const about: ArchivedRun = {
      perdure: packageVersion(),
      run: id,
      pipeline: plan.name,
      project: dirname(project.dir.root),
      exportedAt: new Date().toISOString(),
      ...(exported?.commit === undefined ? {} : { commit: exported.commit, own: exported.own }),
      base: exported?.base ?? [],
      conversations: carried,
      ...(known.answers.size === 0 ? {} : { answers: Object.fromEntries(known.answers) }),
    };
    await writeArchive(file, about as unknown as JsonObject, parts);
    return {
      bytes: statSync(file).size,
      events: events.length,
      snapshots: exported?.snapshots ?? 0,
      artifacts: artifacts.length,
      conversations: carried.length,
      holdsSecrets: holdsSecrets(known),
      notes,
    };
  } finally {
    rmSync(bundle, { force: true });
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
    const saved = await exportFiles({ plan: workspace, run, dir, stateDir, file, withoutBase });
    if (saved === undefined && run.workspace !== undefined && workspace.kind !== "here") {
      notes.push("the files in its workspace are not in it: the pipeline keeps no snapshots");
    }
    return saved;
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
