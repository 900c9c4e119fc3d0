/**
 * Looks at runs without changing them: one that is shown, the story of a step, a replay.
 *
 * Owns: what is loaded for each look, and that secrets are masked before a text is cut.
 * Does not: make words of it (view).
 */
import { replay } from "../core/evolve.ts";
import { move } from "../core/move.ts";
import { type Replayed, replayTurns } from "../core/replay.ts";
import { fingerprintsOf } from "../plan/fingerprint.ts";
import type { Plan } from "../plan/plan.ts";
import { type Explained, explainStep } from "../view/explain.ts";
import { type KnownRun, openRun, parsePlan } from "./known-run.ts";
import { findRunId, openProject, type Project, shortIdOf } from "./project.ts";
import { command, Refusal } from "./refusal.ts";
import { hidesMarked, maskedJson } from "./secret-mask.ts";

/** A run that is only shown: the one that is named, or the newest one. */
export async function openShown(
  from: string,
  id: string | undefined,
): Promise<{ readonly project: Project; readonly known: KnownRun }> {
  const { project, known } = await openRun(from, "read-only", id);
  // A text that is cut within a secret has no mark any more.
  return { project, known: hidesMarked() ? maskedRun(known) : known };
}

/** The run as its events tell it without secrets. */
export function maskedRun(known: KnownRun): KnownRun {
  const events = maskedJson(known.events);
  const run = replay(known.planOf, known.id, events);
  if (known.moved !== undefined) move(run, known.moved);
  return { ...known, events, run };
}

/** Why a step was run, run again, or not run again. */
export function explain({ events, plan, shortId }: KnownRun, step: string): Explained {
  const explained = explainStep(events, step, fingerprintsOf(plan).get(step)?.hash);
  if (explained !== undefined) return explained;
  const message = `run ${shortId} has no step ${step}`;
  throw new Refusal("unknown-step", message, command("show", shortId));
}

/** Every recorded decision, made again by today's core. */
export interface ReplayedRun {
  readonly runId: string;
  readonly shortId: string;
  readonly pipeline: string;
  readonly replayed: Replayed;
}

/** Makes every recorded decision of a run again. */
export async function replayRun(from: string, id: string | undefined): Promise<ReplayedRun> {
  const project = await openProject(from, "read-only");
  const runId = await findRunId(project, id);
  // Not as a run that is known: that would have to be one whose every event is accepted.
  const { planText, plans, events } = await project.journal.log.load(runId);
  const plan = parsePlan(planText, runId);
  const planOf = (one: string): Plan => parsePlan(plans.get(one) ?? "", runId);
  const replayed = replayTurns(planOf, runId, events);
  const shortId = await shortIdOf(project.journal, runId);
  return { runId, shortId, pipeline: plan.name, replayed };
}
