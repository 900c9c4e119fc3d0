/** What must hold in every simulated run, whatever happens to it. */
import { isDeepStrictEqual } from "node:util";
import type { AttemptRef, Recorded } from "../../src/core/event.ts";
import { replay } from "../../src/core/evolve.ts";
import { missedGoal } from "../../src/core/goal.ts";
import { isIdle } from "../../src/core/next-actions.ts";
import { attemptText, placeText } from "../../src/core/place.ts";
import { currentVisit, type Run } from "../../src/core/run.ts";
import { fullSummary } from "../../src/core/summary.ts";
import type { Journal } from "../../src/journal/journal.ts";
import type { Plan } from "../../src/plan/plan.ts";
import { snapshot } from "./snapshot.ts";
import type { World } from "./world.ts";

/** Something that must never happen has happened. */
export class Violation extends Error {
  override readonly name = "Violation";
}

export class Checkers {
  readonly #plan: Plan;
  readonly #runId: string;
  readonly #journal: Journal;
  readonly #world: World;
  readonly #completed = new Set<string>();
  readonly #started = new Set<string>();
  readonly #spawned = new Set<string>();
  /** Attempts that failed although their process succeeded: no arrow could be chosen. */
  readonly #misrouted = new Set<string>();

  constructor(plan: Plan, runId: string, journal: Journal, world: World) {
    this.#plan = plan;
    this.#runId = runId;
    this.#journal = journal;
    this.#world = world;
  }

  /** A visit ends once, and what it handed over is what its process wrote. */
  afterAppend(recorded: readonly Recorded[], run: Run): void {
    for (const { event } of recorded) {
      if (event.type === "step.started") this.#started.add(attemptText(event));
      // Where no arrow could be chosen again and again, that is what has stalled.
      if (event.type === "step.failed" && ["expression", "stall"].includes(event.reason)) {
        this.#misrouted.add(attemptText(event));
      }
      if (event.type !== "step.completed") continue;
      if (this.#completed.has(placeText(event))) fail(`${placeText(event)} completed twice`);
      this.#completed.add(placeText(event));
      this.#checkResult(event, event.context);
    }
    if (run.running.size > this.#plan.maxParallel) fail("more steps run than there is room for");
  }

  #checkResult(at: AttemptRef, context: unknown): void {
    const process = this.#world.processes.get(attemptText(at));
    if (process?.ending.how !== "exited") return;
    if (!isDeepStrictEqual(process.ending.context, context))
      fail(`${attemptText(at)} lost its result`);
  }

  /** Nothing is started that the journal does not know, twice, or after it was completed. */
  afterSpawn(at: AttemptRef): void {
    const key = attemptText(at);
    if (!this.#started.has(key)) fail(`${key} was spawned but is not in the journal`);
    if (this.#spawned.has(key)) fail(`${key} was spawned twice`);
    if (this.#completed.has(placeText(at))) fail(`${placeText(at)} is complete and ran again`);
    this.#spawned.add(key);
    const alive = this.#world.alive();
    if (alive.length > this.#plan.maxParallel) fail("more processes live than there is room for");
    const twins = alive.filter((process) => placeText(process.at) === placeText(at));
    if (twins.length > 1) fail(`two processes of ${placeText(at)} live at once`);
    this.#checkPaidWork(at);
  }

  /** A visit is not started again when an earlier attempt of it has already succeeded. */
  #checkPaidWork(at: AttemptRef): void {
    for (let attempt = 1; attempt < at.attempt; attempt++) {
      const key = attemptText({ ...at, attempt });
      const process = this.#world.processes.get(key);
      if (this.#misrouted.has(key)) continue;
      if (process === undefined || process.killed || this.#world.isAlive(process)) continue;
      if (process.ending.how === "exited" && process.ending.exit === 0) {
        fail(`${key} had succeeded, and its result was thrown away`);
      }
    }
  }

  /** An owner that is done leaves nothing alive, and its run is what its events say. */
  afterOwner(run: Run, status: string): void {
    if (this.#world.alive().length > 0) fail(`the run is ${status}, but a process lives`);
    this.#sameAfterReplay(run);
    if (status === "stopped") return;
    if (!isIdle(run)) fail(`the run is ${status}, but it has work left`);
    const root = run.scopes.get("");
    const missed = root && run.failed.size === 0 ? missedGoal(root) : undefined;
    const mustFail = run.failed.size > 0 || missed !== undefined;
    if (mustFail !== (status === "failed")) fail(`${run.failed.size} failures: ${status}`);
    if (missed?.back !== undefined) fail(`the run ended before it went back: ${missed.message}`);
    if (status === "completed") this.#nothingPending(run);
  }

  #sameAfterReplay(run: Run): void {
    const { events } = this.#journal.load(this.#runId);
    const again = replay(this.#plan, this.#runId, events);
    if (!isDeepStrictEqual(snapshot(again), snapshot(run)))
      fail("replay differs from the live run");
    const rows = new Map(this.#journal.stepsOf(this.#runId).map((row) => [row.stepId, row]));
    for (const row of fullSummary(run).steps) {
      const stored = rows.get(row.stepId) ?? { ...row, state: "missing" };
      if (row.state === "pending" && stored.state === "missing") continue;
      if (stored.state !== row.state)
        fail(`summary of ${row.stepId}: ${stored.state}, not ${row.state}`);
    }
  }

  #nothingPending(run: Run): void {
    for (const scope of run.scopes.values()) {
      if (scope.active > 0) fail(`scope ${scope.id} is still active in a completed run`);
      scope.graph.steps.forEach((step, position) => {
        const record = scope.steps[position];
        const past = scope.parent !== undefined;
        if (past || record?.unreachable === true) return;
        if (currentVisit(record) === undefined) fail(`${step.id} is pending in a completed run`);
      });
    }
    const { stepsDone, stepsTotal } = run;
    const allDone = run.scopes.size > 1 ? stepsDone <= stepsTotal : stepsDone === stepsTotal;
    if (!allDone) fail(`${stepsDone} of ${stepsTotal} steps are done in a completed run`);
  }

  /** The last word: the journal is readable and the run is over. */
  atTheEnd(status: string): void {
    const { events } = this.#journal.load(this.#runId);
    const run = replay(this.#plan, this.#runId, events);
    if (!["completed", "failed", "stopped"].includes(status)) fail(`the run ended as "${status}"`);
    if (run.state.status !== status) fail(`the journal says ${run.state.status}, not ${status}`);
    for (const key of this.#spawned) {
      if (!this.#started.has(key)) fail(`${key} was spawned but is not in the journal`);
    }
  }
}

function fail(message: string): never {
  throw new Violation(message);
}
