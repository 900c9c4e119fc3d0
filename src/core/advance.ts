/**
 * One turn of the engine, as a pure function: facts in; events, and what is left to do, out.
 *
 * Owns: the order facts -> events -> reactions, until nothing follows by itself.
 * Does not: append or start anything. The caller makes the events durable before any effect (J1).
 */
import type { Plan } from "../plan/plan.ts";
import { sessionWanted } from "./conversation.ts";
import { decide } from "./decide.ts";
import type { AttemptRef, RunEvent } from "./event.ts";
import { EVENT_VERSION } from "./event.ts";
import { evolve } from "./evolve.ts";
import type { Fact, Surroundings } from "./fact.ts";
import { type Action, attemptOf, type Cancel, nextActions } from "./next-actions.ts";
import { findVisit, type Run } from "./run.ts";

/** How a stop for lack of funds begins to be told. */
export const BUDGET_STOP = "the budget";

/** How a stop for work that does not fit begins to be told. */
export const MERGE_STOP = "a merge conflict";

/** One turn makes about this many events at most; the rest follows in the next. */
export const EVENTS_PER_TURN = 512;

export interface Turn {
  readonly run: Run;
  readonly events: readonly RunEvent[];
  /** Attempts that were started in this turn and are to be given a process. */
  readonly launches: readonly AttemptRef[];
  /** Attempts whose process is to be ended, now or when its agent has finished its tools. */
  readonly cancels: readonly Cancel[];
  /** Attempts whose probe is to be asked, once. */
  readonly probes: readonly AttemptRef[];
  /** Attempts whose question has stood long enough. */
  readonly expired: readonly AttemptRef[];
  /** The snapshot to which the files are to be put back before anything else. */
  readonly restore?: string;
  /** When to come back although no fact has arrived. */
  readonly wakeAt?: number;
  /** There is more to do at once. */
  readonly more: boolean;
}

/** Takes the run over and gives it back after one turn. */
export function advance(
  plan: Plan,
  before: Run,
  facts: readonly Fact[],
  now: number,
  around: Surroundings,
): Turn {
  let run = before;
  const events: RunEvent[] = [];
  const take = (fact: Fact): void => {
    for (const event of decide(plan, run, fact, now)) {
      run = evolve(plan, run, { seq: run.seq + 1, time: now, version: EVENT_VERSION, event });
      events.push(event);
    }
  };
  for (const fact of facts) take(fact);
  let actions = nextActions(plan, run, now);
  for (;;) {
    const reactions = actions.flatMap((action) => reactionTo(plan, run, action, around));
    if (reactions.length === 0 || events.length >= EVENTS_PER_TURN) break;
    for (const fact of reactions) take(fact);
    actions = nextActions(plan, run, now);
  }
  return { run, events, ...outlook(run, actions, events) };
}

function outlook(
  run: Run,
  actions: readonly Action[],
  events: readonly RunEvent[],
): Omit<Turn, "run" | "events"> {
  const launches = events.flatMap((event) => {
    if (event.type !== "step.started") return [];
    const visit = findVisit(run, event);
    const lives = visit !== undefined && run.running.has(visit) && visit.attempts === event.attempt;
    return lives ? [attemptOf(visit)] : [];
  });
  const cancels = actions.flatMap((action) => (action.type === "cancel" ? [action] : []));
  const probes = actions.flatMap((action) => (action.type === "probe" ? [action.at] : []));
  const expired = actions.flatMap((action) => (action.type === "expire" ? [action.at] : []));
  const wake = actions.find((action) => action.type === "wake-at");
  const restore = actions.find((action) => action.type === "restore");
  const more = actions.some(
    ({ type }) => !["cancel", "wake-at", "restore", "probe", "expire"].includes(type),
  );
  return {
    launches,
    cancels,
    probes,
    expired,
    more,
    ...(restore === undefined ? {} : { restore: restore.commit }),
    ...(wake === undefined ? {} : { wakeAt: wake.time }),
  };
}

/** Actions that are decisions, not effects, come back as facts at once. */
function reactionTo(plan: Plan, run: Run, action: Action, around: Surroundings): readonly Fact[] {
  switch (action.type) {
    case "start": {
      const { place } = action;
      const visit = findVisit(run, place);
      const offer = visit && around.offer(place, sessionWanted(plan, run, visit));
      const base = around.base?.();
      const items = around.items?.(place);
      return [
        {
          type: "dispatched",
          place,
          env: around.env,
          ...(offer === undefined ? {} : { offer }),
          ...(base === undefined ? {} : { base }),
          ...(items === undefined ? {} : { items }),
        },
      ];
    }
    case "close":
      return [{ type: "scopes-closed", place: action.place }];
    case "wake":
      return [{ type: "woken", place: action.place }];
    case "finish":
      return [{ type: "exhausted" }];
    case "halt":
      return [{ type: "stop-requested", mode: action.mode, by: `${BUDGET_STOP}: ${action.why}` }];
    default:
      return [];
  }
}
