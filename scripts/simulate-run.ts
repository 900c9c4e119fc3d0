/**
 * Runs a plan in memory, with all work simulated and every gate approved, so that no step needs a
 * process.
 */

import type { Operation } from "../src/core/action.ts";
import { newActivity } from "../src/core/activity.ts";
import { advance } from "../src/core/advance.ts";
import { approvingChoice } from "../src/core/attempt/gate.ts";
import { EVENT_VERSION, type Owner, type RunEvent } from "../src/core/event.ts";
import { emptyRun, evolve } from "../src/core/evolve.ts";
import type { Fact } from "../src/core/fact.ts";
import { waitsFor } from "../src/core/graph/visit-state.ts";
import { attemptOf, type Run, stepOf, visitRef } from "../src/core/run.ts";
import { stepPath } from "../src/core/step-path.ts";
import type { Plan } from "../src/plan/plan.ts";

/** How many turns a run may take. */
const TURNS_MAX = 100_000;
/** How many events a run may have. */
const EVENTS_MAX = 200_000;
const OWNER: Owner = { pid: 1, started: "1", boot: "b", host: "h", user: "u" };

/** How a simulated run ended. */
export interface SimulatedRun {
  readonly end: "completed" | "failed" | "endless";
  /** The kind of reason, for counting. */
  readonly why: string;
  /** Where it ended, for a closer look. */
  readonly at: string;
  /** The step that failed. */
  readonly failed?: string;
  /** How often each step was visited, in branches and sub-pipelines too. */
  readonly visits: ReadonlyMap<string, number>;
}

type End = Omit<SimulatedRun, "visits">;

/** Runs a plan to its end. */
export function simulateRun(plan: Plan): SimulatedRun {
  let now = 1_000;
  let run = created(plan, now);
  const activity = newActivity({ env: {}, keepsFiles: false });
  let facts: readonly Fact[] = [{ type: "opened", owner: OWNER, epoch: 1 }];
  let events = 0;
  const visits = new Map<string, number>();
  for (let turns = 0; turns < TURNS_MAX && events < EVENTS_MAX; turns++) {
    const turn = advance(plan, run, activity, facts, now);
    run = turn.run;
    events += turn.events.length;
    for (const event of turn.events) {
      if (event.type !== "step.completed" && event.type !== "step.failed") continue;
      visits.set(event.step, (visits.get(event.step) ?? 0) + 1);
    }
    const { status } = run.state;
    if (status === "completed") return { end: status, why: "", at: "", visits };
    if (status === "failed") return { ...failed(run), visits };
    facts = [...approvals(run, now), ...turn.operations.flatMap(lookedUp)];
    if (turn.more || facts.length > 0) continue;
    if (turn.wakeAt === undefined) break;
    now = turn.wakeAt;
  }
  const at = [...run.running].map(pathOf).join(", ");
  return { end: "endless", why: "it does not end", at, visits };
}

/** Finds nothing outside of the run. */
function lookedUp(operation: Operation): readonly Fact[] {
  return operation.type === "look-up" ? [{ type: "looked-up", place: operation.place }] : [];
}

function created(plan: Plan, now: number): Run {
  const event: RunEvent = {
    type: "run.created",
    pipeline: plan.name,
    file: "/flow.dot",
    fingerprint: "f",
    input: null,
    args: [],
    cwd: "/",
    envNames: [],
  };
  return evolve(plan, emptyRun("simulated"), { seq: 1, time: now, version: EVENT_VERSION, event });
}

/** Approves every open question. */
function approvals(run: Run, given: number): readonly Fact[] {
  return [...run.waiting.person].flatMap((visit) => {
    const choices = waitsFor(visit.state, "person") ? visit.state.choices : [];
    const choice = approvingChoice(choices)?.key ?? "";
    const answer = { choice, by: "nobody", from: "auto-approve", given } as const;
    return [{ type: "answered", at: attemptOf(visit), answer } as const];
  });
}

function failed(run: Run): End {
  const [visit] = run.failed;
  if (visit === undefined || visit.state.status !== "failed") {
    const message = run.state.status === "failed" ? run.state.message : "";
    return { end: "failed", why: message.replaceAll(/\b\S*_\S*\b/g, "..."), at: message };
  }
  const { reason, message } = visit.state;
  const at = `${pathOf(visit)}: ${message}`;
  return { end: "failed", why: reason, at, failed: stepOf(visit).id };
}

function pathOf(visit: Parameters<typeof visitRef>[0]): string {
  return stepPath(visitRef(visit));
}
