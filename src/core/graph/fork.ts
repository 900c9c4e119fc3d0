/**
 * Choices of a person about a run: to continue it as a run of its own (a fork), which files to
 * keep, and how to recover single visits that were interrupted.
 *
 * Owns: the meaning of `run.forked`, and the choices for the next attempt of a visit. For evolve.ts
 * alone (run/C2).
 * Does not: copy events or files; that happens before the event is written.
 * Invariants:
 * - core/K3 A fork changes nothing of the other run: it adopts no process, continues no
 *   conversation and shares no workspace. The spending so far still counts.
 */
import type { Recover } from "../../plan/plan.ts";
import { takeEffects } from "../attempt/effect.ts";
import { withoutSession } from "../conversation/conversation-state.ts";
import type { RunForked } from "../event.ts";
import { draft, type Run, type Visit, visitRef, waitingFor } from "../run.ts";
import { visitText } from "../step-path.ts";
import { restoreFirst } from "../workspace-files.ts";
import { requeue } from "./visit.ts";
import { isOver } from "./visit-state.ts";

/** Separates a run from the one whose events it has. */
export function fork(run: Run, event: RunForked): void {
  takeEffects(run, event.from.run, event.effects ?? []);
  for (const visit of [...run.running, ...run.waiting.person]) requeue(run, visit);
  for (const { steps } of run.scopes.values()) {
    for (const record of steps) for (const visit of record?.visits ?? []) forgetConversation(visit);
  }
  keepFiles(run);
  const base = run.workspace?.base;
  draft(run).origin = base === undefined ? event.from : { ...event.from, base };
  for (const [name, one] of run.shared) draft(run).shared.set(name, { ...one, left: true });
  delete draft(run).workspace;
  delete draft(run).snapshot;
  draft(run).files.clear();
  delete draft(run).recover;
  delete draft(run).restoring;
  restoreFirst(run, event.restore);
  draft(run).state = { status: "stopped", reason: { code: "forked" } };
}

/** Conversations stay with the other run. */
function forgetConversation(visit: Visit): void {
  if (visit.conversation !== undefined)
    draft(visit).conversation = withoutSession(visit.conversation);
  if (!isOver(visit.state)) delete draft(visit).briefing;
}

/** Keeps the current files for unfinished visits, because a person chose them. */
export function keepFiles(run: Run): void {
  for (const visit of [...unfinished(run), ...run.running]) {
    if (visit.attempts > 0) draft(visit).files = "keep";
  }
}

/** Records a person's choice for the next attempts of visits that have failed. */
export function chooseForFailed(run: Run, recover: Recover | undefined): void {
  for (const visit of [...run.failed, ...run.waiting.retry]) {
    if (recover === undefined) delete draft(visit).recover;
    else draft(visit).recover = recover;
  }
}

/** Records a person's choices for single visits. */
export function chooseFor(run: Run, choices: Readonly<Record<string, Recover>>): void {
  if (Object.keys(choices).length === 0) return;
  for (const visit of [...unfinished(run), ...run.running]) {
    const choice = choices[visitText(visitRef(visit))];
    if (choice !== undefined) draft(visit).recover = choice;
  }
}

/** Drops the choices, which a new attempt has used. */
export function forgetChoices(visit: Visit): void {
  delete draft(visit).interrupted;
  delete draft(visit).recover;
  delete draft(visit).files;
}

function unfinished(run: Run): readonly Visit[] {
  return waitingFor(run, "start", "slot", "retry", "owner");
}
