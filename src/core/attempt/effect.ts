/**
 * Effects that must happen once: which of them have happened in a run, or may have.
 *
 * Owns: the name of an effect, and the record of effects, for evolve.ts alone (run/C2).
 * Does not: decide what follows; decide.ts asks a probe or a person before an effect is repeated.
 * Invariants:
 * - core/O3 The name of an effect stays the same when a person or a retry runs its step again. A
 *   new round of a loop, the next iteration and a restarted scope are other effects.
 * - core/O4 A back edge to a step whose last visit may have had its effect would repeat that
 *   effect: the effect is uncertain for the new visit too, and keeps its key.
 */

import type { KnownEffect } from "../event.ts";
import {
  draft,
  type Effect,
  hasProcess,
  type Run,
  stepOf,
  type Visit,
  visitRef,
  visitsOf,
} from "../run.ts";
import { visitText } from "../step-path.ts";

/** True for a step with a process. The effects of a composite step are those of its steps. */
function hasEffect(visit: Visit): boolean {
  const step = stepOf(visit);
  return step.once && hasProcess(step);
}

/** The name of a visit's effect: its step, round and items, without attempts (core/O3). */
function effectName(visit: Visit): string {
  const { scope, past } = visit.record;
  const outer = scope.parent === undefined ? "" : `${effectName(scope.parent)}[${scope.index}]/`;
  const begun = scope.restarts === undefined ? "" : `~${scope.restarts}`;
  return `${outer}${stepOf(visit).id}${begun}#${visit.number - past}`;
}

/** The effect that a visit would repeat; undefined when it has not happened. */
export function effectOf(run: Run, visit: Visit): Effect | undefined {
  if (!hasEffect(visit)) return undefined;
  return run.effects.get(effectName(visit)) ?? uncertainBefore(run, visit);
}

/** The effect of the visit before, if it is uncertain (core/O4). */
function uncertainBefore(run: Run, { record, number }: Visit): Effect | undefined {
  const before = number - 1 > record.past ? record.visits[number - 2] : undefined;
  const effect = before && run.effects.get(effectName(before));
  return effect?.done === true ? undefined : effect;
}

/**
 * The key that every attempt at an effect passes on, so that the receiver can recognise a
 * repetition.
 */
export function effectKey(run: Run, visit: Visit): string {
  const { run: id = run.id, place } = effectOf(run, visit) ?? attemptedAt(visit);
  return `${id}/${place}`;
}

function attemptedAt(visit: Visit): Pick<KnownEffect, "place" | "run"> {
  return visit.attemptedAt ?? { place: visitText(visitRef(visit)) };
}

/** Notes that the effect of a visit has happened, or may have. */
export function noteEffect(run: Run, visit: Visit, how: "done" | "uncertain"): void {
  if (!hasEffect(visit)) return;
  const name = effectName(visit);
  const before = effectOf(run, visit);
  const { run: other, place } = before ?? attemptedAt(visit);
  const done = how === "done" ? ({ done: true } as const) : {};
  const known = { place, ...(other === undefined ? {} : { run: other }), ...done, visit };
  // An uncertain effect of the visit before is the same effect (core/O4).
  for (const one of new Set([name, before?.name ?? name])) {
    draft(run).effects.set(one, { name: one, ...known });
  }
}

/** Records that the effect may happen. An effect that was never confirmed keeps its key. */
export function forgetEffect(run: Run, visit: Visit): void {
  const effect = effectOf(run, visit);
  if (effect === undefined) return;
  const { place, run: other, done } = effect;
  if (done !== true) draft(visit).attemptedAt = { place, ...(other && { run: other }) };
  draft(run).effects.delete(effect.name);
}

/** Lets the effects of a step happen again, because a person asked for it. Uncertain ones stay. */
export function repeatEffects(run: Run, step: string): void {
  for (const { name, done } of effectsWithin(run, step)) {
    if (done === true) draft(run).effects.delete(name);
  }
}

/** In a fork: records the effects of the other run, including those after the checkpoint. */
export function takeEffects(run: Run, other: string, later: readonly KnownEffect[]): void {
  for (const visit of run.running) noteEffect(run, visit, "uncertain");
  for (const scope of run.scopes.values()) {
    for (const visit of visitsOf(scope)) {
      const before = visit.attemptedAt;
      if (before !== undefined) draft(visit).attemptedAt = { run: other, ...before };
    }
  }
  for (const [name, effect] of run.effects) {
    draft(run).effects.set(name, { ...effect, run: effect.run ?? other });
  }
  for (const effect of later) {
    if (!run.effects.has(effect.name)) draft(run).effects.set(effect.name, effect);
  }
}

/** The effects of a run, for a fork of it. The effect of a running step may happen. */
export function effectsOf(run: Run): readonly KnownEffect[] {
  const known = Array.from(run.effects.values(), knownOf);
  const names = new Set(known.map(({ name }) => name));
  const running = [...run.running]
    .filter((visit) => hasEffect(visit) && !names.has(effectName(visit)))
    .map((visit) => ({ name: effectName(visit), place: visitText(visitRef(visit)) }));
  return [...known, ...running].map((effect) => ({ run: run.id, ...effect }));
}

function knownOf({ name, place, run, done }: Effect): KnownEffect {
  return { name, place, ...(run && { run }), ...(done && { done }) };
}

/** The effects of a step of the pipeline itself, and of the steps inside it. */
export function effectsWithin(run: Run, step: string): readonly Effect[] {
  return [...run.effects.values()].filter(({ name }) => /^[^~#]*/.exec(name)?.[0] === step);
}
