/**
 * What a person chose for a run: a life of its own (a fork), the files that it goes on with, and what
 * becomes of single visits that were cut off.
 *
 * Owns: what `run.forked` means, and the marks that hold for the next attempt of a visit.
 * Does not: copy events or files; the one who forks does, before the event is written.
 * Invariants:
 * - K3 Nothing of the other run is touched by its fork: no process is adopted, no conversation goes
 *   on, no workspace is shared. What was spent still counts.
 */
import type { Recover } from "../plan/plan.ts";
import { withoutSession } from "./conversation-state.ts";
import { draft } from "./draft.ts";
import { takeEffects } from "./effect.ts";
import type { RunForked } from "./event.ts";
import { enter, isOver } from "./flow.ts";
import { placeText } from "./place.ts";
import { placeOf, type Run, type Visit } from "./run.ts";

/** Cuts a run loose from the one whose events it has. */
export function fork(run: Run, event: RunForked): void {
  takeEffects(run, event.from.run, event.effects ?? []);
  for (const visit of [...run.running, ...run.asked]) enter(run, visit, { status: "ready" });
  for (const { steps } of run.scopes.values()) {
    for (const record of steps) for (const visit of record?.visits ?? []) forgetTalk(visit);
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
  if (event.restore !== undefined) {
    draft(run).restoring = { commit: event.restore, since: run.seq + 1 };
  }
  draft(run).state = { status: "stopped", reason: { code: "forked" } };
}

/** What was said stays with the other run, and so does the run that it was told of. */
function forgetTalk(visit: Visit): void {
  if (visit.talk !== undefined) draft(visit).talk = withoutSession(visit.talk);
  if (!isOver(visit.state)) delete draft(visit).telling;
}

/** The files are as a person wants them: what was begun goes on with them. */
export function keepFiles(run: Run): void {
  for (const visit of [...unfinished(run), ...run.running]) {
    if (visit.attempts > 0) draft(visit).files = "keep";
  }
}

/** Notes what a person wants for the next attempts of visits that have failed. */
export function chooseForFailed(run: Run, recover: Recover | undefined): void {
  for (const visit of [...run.failed, ...run.waiting]) {
    if (recover === undefined) delete draft(visit).recover;
    else draft(visit).recover = recover;
  }
}

/** Notes what a person wants for single visits. */
export function chooseFor(run: Run, choices: Readonly<Record<string, Recover>>): void {
  if (Object.keys(choices).length === 0) return;
  for (const visit of [...unfinished(run), ...run.running]) {
    const choice = choices[placeText(placeOf(visit))];
    if (choice !== undefined) draft(visit).recover = choice;
  }
}

/** A new attempt has taken the choices up. */
export function forgetChoices(visit: Visit): void {
  delete draft(visit).cut;
  delete draft(visit).recover;
  delete draft(visit).files;
}

function unfinished(run: Run): readonly Visit[] {
  return [...run.ready, ...run.waiting, ...run.interrupted];
}
