/**
 * Finds other runs that work in the same directory as a run, when both work in the project itself.
 *
 * Owns: the search, and the note, the question and the refusal that follow from it.
 * Does not: keep their files apart; `workspace: worktree` does.
 * Invariants:
 * - app/Q1 Two runs with agents work in one directory only when a person wants that. Each run
 *   searches after it has taken its lease, so of two that start together at least one finds the
 *   other.
 */
import type { Plan } from "../../plan/plan.ts";
import type { Confirm } from "../drive/screen.ts";
import { type LoadedRun, loadRun } from "../loaded-run.ts";
import { command, Refusal, when } from "../refusal.ts";
import { livenessOf, type Project } from "./project.ts";

/** A run that works, or is about to work, in a directory. */
interface DirectoryUser {
  /** Absent before the run exists. */
  readonly id?: string;
  readonly plan: Plan;
  readonly cwd: string;
}

/** The directory user that a loaded run is. */
export function directoryUserOf({ id, plan, run }: LoadedRun): DirectoryUser {
  return { id, plan, cwd: run.created?.cwd ?? "" };
}

/** The runs that other processes drive in the same directory. */
async function runsInDirectory(
  project: Project,
  own: DirectoryUser,
): Promise<readonly LoadedRun[]> {
  if (!worksHere(own.plan)) return [];
  const open = await project.journal.log.list({ status: ["queued", "running", "waiting"] });
  const beside: LoadedRun[] = [];
  for (const { runId, lease } of open) {
    if (runId === own.id || livenessOf(lease) !== "owned") continue;
    // A step of a run may start another run.
    if (runId === process.env.PERDURE_RUN_ID) continue;
    const known = await loadRun(project, runId);
    if (worksHere(known.plan) && known.run.created?.cwd === own.cwd) beside.push(known);
  }
  return beside;
}

/** Lines for a person about the other runs in the directory. */
export async function sharingLines(
  project: Project,
  own: DirectoryUser,
): Promise<readonly string[]> {
  return (await runsInDirectory(project, own)).map(
    (other) => `R${nameOf(other).slice(1)} is also working in this directory`,
  );
}

/** Refuses a run with agents beside another run with agents (app/Q1); `typed` would start it. */
export async function refuseSharing(
  project: Project,
  own: DirectoryUser,
  typed: readonly string[],
): Promise<void> {
  const other = await conflictingRun(project, own);
  if (other !== undefined) throw sharingRefusal(other, typed);
}

function sharingRefusal(other: LoadedRun, typed: readonly string[]): Refusal {
  return new Refusal(
    "directory-shared",
    `${conflictText(other)}; \`workspace: worktree\` keeps them apart`,
    [command("attach", other.shortId), when("to start it anyway", ...typed, "--beside")],
  );
}

/** How to treat other runs in the directory. */
interface SharingOptions {
  readonly beside: boolean;
  /** Absent when no person is there to ask. */
  readonly confirm: Confirm | undefined;
  /** The command that starts the run. */
  readonly command: readonly string[];
}

/**
 * Returns whether a run may start, and whether the person accepts other runs in its directory.
 * Throws a refusal (app/Q1).
 */
export async function agreeOnSharing(
  project: Project,
  own: DirectoryUser,
  { beside, confirm, command: typed }: SharingOptions,
): Promise<{ readonly starts: boolean; readonly beside: boolean }> {
  const other = beside ? undefined : await conflictingRun(project, own);
  if (other === undefined) return { starts: true, beside };
  if (confirm === undefined) throw sharingRefusal(other, typed);
  const agreed = await confirm(`R${conflictText(other).slice(1)}`, "start it anyway");
  return { starts: agreed, beside: agreed };
}

async function conflictingRun(
  project: Project,
  own: DirectoryUser,
): Promise<LoadedRun | undefined> {
  if (!hasAgents(own.plan)) return undefined;
  return (await runsInDirectory(project, own)).find(({ plan }) => hasAgents(plan));
}

function conflictText(other: LoadedRun): string {
  const [name, cwd] = [nameOf(other), other.run.created?.cwd];
  return `${name} has agents working in ${cwd}: the two runs would change each other's files`;
}

function nameOf({ shortId, plan }: LoadedRun): string {
  return `run ${shortId} (${plan.name})`;
}

function worksHere({ workspace }: Plan): boolean {
  return workspace === undefined || workspace.kind === "here";
}

function hasAgents({ agents, reading }: Plan): boolean {
  return Object.keys(agents).length > 0 && reading?.simulate === undefined;
}
