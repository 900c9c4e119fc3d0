/**
 * Other runs that are at work in the directory of a run, when both work in the project itself.
 *
 * Owns: finding them, and what a person is told, asked and refused about them.
 * Does not: keep their files apart; `workspace: worktree` does.
 * Invariants:
 * - Q1 Two runs with agents work in one directory only when a person wants that. Each looks after it
 *   has taken its lease, so of two that start together at least one finds the other.
 */

import type { Plan } from "../plan/plan.ts";
import { type KnownRun, loadRun } from "./known-run.ts";
import { livenessOf, type Project } from "./project.ts";
import { command, Refusal, when } from "./refusal.ts";
import type { Confirm } from "./screen.ts";

/** A run that works, or is about to work, in a directory. */
export interface Worker {
  /** Absent before the run is created. */
  readonly id?: string;
  readonly plan: Plan;
  readonly cwd: string;
}

/** A run that was loaded, as one that works in a directory. */
export function workerOf({ id, plan, run }: KnownRun): Worker {
  return { id, plan, cwd: run.created?.cwd ?? "" };
}

/** The runs that others drive in the directory of this one. */
export async function runsBeside(project: Project, own: Worker): Promise<readonly KnownRun[]> {
  if (!worksHere(own.plan)) return [];
  const open = await project.journal.log.list({ status: ["queued", "running", "waiting"] });
  const beside: KnownRun[] = [];
  for (const { runId, lease } of open) {
    if (runId === own.id || livenessOf(lease) !== "owned") continue;
    // A step of a run may well start another run.
    if (runId === process.env.PERDURE_RUN_ID) continue;
    const known = await loadRun(project, runId);
    if (worksHere(known.plan) && known.run.created?.cwd === own.cwd) beside.push(known);
  }
  return beside;
}

/** What a person is told about the runs beside one. */
export async function besideLines(project: Project, own: Worker): Promise<readonly string[]> {
  return (await runsBeside(project, own)).map(
    (other) => `R${nameOf(other).slice(1)} is also working in this directory`,
  );
}

/** Refuses a run with agents beside another run with agents (Q1); `typed` would start it. */
export async function refuseBeside(
  project: Project,
  own: Worker,
  typed: readonly string[],
): Promise<void> {
  const other = await rivalOf(project, own);
  if (other !== undefined) throw besideError(other, typed);
}

function besideError(other: KnownRun, typed: readonly string[]): Refusal {
  return new Refusal(
    "directory-shared",
    `${rivalText(other)}; \`workspace: worktree\` keeps them apart`,
    [command("attach", other.shortId), when("to start it anyway", ...typed, "--beside")],
  );
}

/** What a person wants of a run that may meet another one in its directory. */
export interface BesideOptions {
  readonly beside: boolean;
  /** Absent when nobody can be asked. */
  readonly confirm: Confirm | undefined;
  /** The command that starts the run. */
  readonly command: readonly string[];
}

/** Whether a run may start, and whether the person accepts the runs beside it; may refuse (Q1). */
export async function startsBeside(
  project: Project,
  own: Worker,
  { beside, confirm, command: typed }: BesideOptions,
): Promise<{ readonly starts: boolean; readonly beside: boolean }> {
  const other = beside ? undefined : await rivalOf(project, own);
  if (other === undefined) return { starts: true, beside };
  if (confirm === undefined) throw besideError(other, typed);
  const agreed = await confirm(`R${rivalText(other).slice(1)}`, "start it anyway");
  return { starts: agreed, beside: agreed };
}

async function rivalOf(project: Project, own: Worker): Promise<KnownRun | undefined> {
  if (!hasAgents(own.plan)) return undefined;
  return (await runsBeside(project, own)).find(({ plan }) => hasAgents(plan));
}

function rivalText(other: KnownRun): string {
  const [name, cwd] = [nameOf(other), other.run.created?.cwd];
  return `${name} has agents working in ${cwd}: the two runs would change each other's files`;
}

function nameOf({ shortId, plan }: KnownRun): string {
  return `run ${shortId} (${plan.name})`;
}

function worksHere({ workspace }: Plan): boolean {
  return workspace === undefined || workspace.kind === "here";
}

function hasAgents({ agents, reading }: Plan): boolean {
  return Object.keys(agents).length > 0 && reading?.simulate === undefined;
}
