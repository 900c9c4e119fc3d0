/**
 * One turn of the engine as a pure function: it takes facts and returns events and the operations
 * that may start.
 *
 * Owns: the order facts -> events -> decisions, until there is nothing more to decide.
 * Does not: append or start anything. The caller makes the events durable before any operation
 * starts (run-log/J1).
 */

import type { Plan } from "../plan/plan.ts";
import { assert } from "../util/assert.ts";
import { defined } from "../util/defined.ts";
import type { Action, Decision, Operation } from "./action.ts";
import { type Activity, observe, takeReport } from "./activity.ts";
import { decide } from "./decide.ts";
import { EVENT_VERSION, type RunEvent } from "./event.ts";
import { evolve, type Plans } from "./evolve.ts";
import type { Condition, Environment, Fact } from "./fact.ts";
import { lookupKey, nextActions, nextDecisions } from "./next-actions.ts";
import { startsBesideOthers } from "./operations.ts";
import { findVisit, type Run, stepOf, type Visit, visitRef } from "./run.ts";
import { visitText } from "./step-path.ts";
import { conditionOf } from "./values.ts";
import { filesIn, knownBase, workspaceOfScope } from "./workspace-files.ts";

/** One turn makes about this many events at most; the next turn makes the rest. */
export const EVENTS_PER_TURN = 512;

export interface Turn {
  readonly run: Run;
  readonly events: readonly RunEvent[];
  /** The operations to start once the events are durable; each is offered once. */
  readonly operations: readonly Operation[];
  /** The time of the next turn if no fact arrives before. */
  readonly wakeAt?: number;
  /** There is more to decide now. */
  readonly more: boolean;
}

/** Runs one turn. It takes over the run and the activity, and returns the run after the turn. */
export function advance(
  plan: Plan,
  before: Run,
  activity: Activity,
  facts: readonly Fact[],
  now: number,
): Turn {
  let run = before;
  const events: RunEvent[] = [];
  const take = (reported: Fact): void => {
    for (const fact of takeReport(run, activity, reported, now)) {
      for (const event of decide(plan, run, fact, now)) {
        run = evolve(plan, run, { seq: run.seq + 1, time: now, version: EVENT_VERSION, event });
        observe(activity, run, event, now);
        events.push(event);
      }
    }
  };
  for (const fact of facts) take(fact);
  let decisions = nextDecisions(plan, run, now, activity);
  while (decisions.length > 0 && events.length < EVENTS_PER_TURN) {
    const decided = events.length;
    for (const decision of decisions) {
      if (events.length >= EVENTS_PER_TURN) break;
      take(factOf(plan, run, activity, decision));
    }
    assert(events.length > decided, () => `nothing follows from ${JSON.stringify(decisions)}`);
    decisions = nextDecisions(plan, run, now, activity);
  }
  const actions = nextActions(plan, run, now, activity);
  const wake = actions.find((action) => action.type === "wake-at");
  return {
    run,
    events,
    operations: actions.filter(isOperation),
    more: decisions.length > 0,
    ...(wake === undefined ? {} : { wakeAt: wake.time }),
  };
}

/**
 * Makes events from facts and decides nothing that follows from them: for requests that are
 * recorded while nothing drives the run. It takes over the run.
 */
export function decideAlone(
  plans: Plans,
  plan: Plan,
  before: Run,
  facts: readonly Fact[],
  now: number,
): Pick<Turn, "run" | "events"> {
  let run = before;
  const events: RunEvent[] = [];
  for (const fact of facts) {
    for (const event of decide(plan, run, fact, now)) {
      run = evolve(plans, run, { seq: run.seq + 1, time: now, version: EVENT_VERSION, event });
      events.push(event);
    }
  }
  return { run, events };
}

function isOperation(action: Action): action is Operation {
  return "needs" in action;
}

/** The fact that a decision leads to, with the results of its lookups. */
function factOf(plan: Plan, run: Run, activity: Activity, decision: Decision): Fact {
  switch (decision.type) {
    case "start": {
      const { place } = decision;
      const { items, offer, material } = activity.lookups.get(lookupKey(place)) ?? {};
      const visit = findVisit(run, place);
      const base = visit && activity.keepsFiles ? baseFor(run, visit) : undefined;
      const when = visit && conditionFor(plan, run, activity, visit);
      return {
        type: "dispatched",
        place,
        ...defined({ when, offer, base, items, material }),
      };
    }
    case "close":
      return { type: "scopes-closed", place: decision.place };
    case "steer": {
      const { place, message } = decision;
      return { type: "message-left", scope: place.scope, step: place.step, message };
    }
    case "wake":
      return { type: "woken", place: decision.place };
    case "base-scope":
      return { type: "scope-based", scope: decision.scope, base: decision.base };
    case "finish":
      return { type: "exhausted" };
    case "halt": {
      const { mode, limit } = decision;
      return { type: "halted", mode, reason: { code: "budget", limit } };
    }
    case "withdraw": {
      const visit = findVisit(run, decision.at);
      const message = "the run was stopped before it started";
      // For an effect that must happen once, it must stay certain that nothing of it ran.
      const once = visit !== undefined && stepOf(visit).once;
      const ending = once
        ? ({ how: "lost", started: false, message } as const)
        : ({ how: "stopped", started: false, message } as const);
      return { type: "attempt-ended", at: decision.at, ending };
    }
  }
}

/**
 * Whether the condition of a step holds at its first attempt. A condition may read variables that
 * the run does not remember. They may be secrets, so the turn records the answer and not the values
 * (turn.ts).
 */
function conditionFor(
  plan: Plan,
  run: Run,
  activity: Activity,
  visit: Visit,
): Condition | undefined {
  if (visit.attempts > 0 || stepOf(visit).when === undefined) return undefined;
  const path = visitText(visitRef(visit));
  const known = activity.conditions.get(path);
  if (known !== undefined) return known;
  const env: Environment = activity.env ?? Object.fromEntries(run.variables);
  let remembered = true;
  const watched = new Proxy(env, {
    get: (target, name: string) => {
      remembered &&= target[name] === run.variables.get(name);
      return target[name];
    },
  });
  const held = conditionOf(plan, run, visit, watched);
  if (!remembered) activity.conditions.set(path, held);
  return held;
}

/**
 * The snapshot that an attempt starts from, if it is known without taking one. An attempt that
 * starts beside others shares their files, so no moment is its own start: the last snapshot is
 * used.
 */
function baseFor(run: Run, visit: Visit): string | undefined {
  const workspace = workspaceOfScope(visit.record.scope);
  if (startsBesideOthers(run, visit)) return filesIn(run, workspace).snapshot;
  return knownBase(run, workspace);
}
