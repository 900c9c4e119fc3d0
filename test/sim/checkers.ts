/** What must hold in every simulated run, whatever happens to it. */
import { isDeepStrictEqual } from "node:util";
import { EVENTS_PER_TURN } from "../../src/core/advance.ts";
import { missingJudge } from "../../src/core/attempt/check.ts";
import { contextOwner } from "../../src/core/context.ts";
import type { Recorded } from "../../src/core/event.ts";
import type { AttemptRef } from "../../src/core/event-parts.ts";
import { replay } from "../../src/core/evolve.ts";
import type { PlanUpdate } from "../../src/core/graph/update.ts";
import { statusWord } from "../../src/core/graph/visit-state.ts";
import { waitsForPerson } from "../../src/core/next-actions.ts";
import {
  currentVisit,
  findStep,
  findVisit,
  isIdle,
  type Run,
  stepOf,
  visitRef,
} from "../../src/core/run.ts";
import { missedInRun } from "../../src/core/run-end.ts";
import { attemptText, visitText } from "../../src/core/step-path.ts";
import { fullSummary } from "../../src/core/summary.ts";
import type { MemoryJournal } from "../../src/journal/memory.ts";
import type { Plan } from "../../src/plan/plan.ts";
import type { Json, JsonObject } from "../../src/util/json.ts";
import { TalkCheckers, Violation } from "./conversation-checkers.ts";
import type { FakeFiles } from "./fake-files.ts";
import { FinallyCheckers } from "./finally-checkers.ts";
import { PeopleCheckers } from "./gate-checkers.ts";
import { MessageCheckers } from "./message-checkers.ts";
import { RequestCheckers } from "./request-checkers.ts";
import { type RunSnapshot, snapshot } from "./snapshot.ts";
import { replayChecked } from "./state-checkers.ts";
import { checkTrace } from "./trace-checker.ts";
import { endedWell, type World } from "./world.ts";

/** The plans that a journal holds, by fingerprint; each is read once. */
export function plansIn(journal: MemoryJournal): (fingerprint: string) => Plan {
  const known = new Map<string, Plan>();
  return (fingerprint) => {
    const plan = known.get(fingerprint) ?? (JSON.parse(journal.contents.plan(fingerprint)) as Plan);
    known.set(fingerprint, plan);
    return plan;
  };
}

/** Keys that the core adds to what a step hands on. */
const BUILT_IN = /^(outcome|preferred_label|current_node|last_stage|last_response)$|^internal[.]/;

/** What is checked of the files of a run. */
type FilesChecks = Pick<
  FakeFiles,
  "expectSaved" | "expectReused" | "expectBystanders" | "expectCommitted" | "expectKept"
>;

export class Checkers {
  readonly requests = new RequestCheckers();
  /** An update may take room away from steps that run; they continue. */
  #roomMax: number;
  readonly #hasFinally: boolean;
  readonly #runId: string;
  readonly #journal: MemoryJournal;
  readonly #planOf: (fingerprint: string) => Plan;
  readonly #world: World;
  readonly #files: FilesChecks;
  readonly #conversationsOf: TalkCheckers;
  readonly #people: PeopleCheckers;
  readonly #messages = new MessageCheckers();
  readonly #completed = new Set<string>();
  readonly #started = new Set<string>();
  readonly #spawned = new Set<string>();
  /** Visits that must not happen twice. */
  readonly #once = new Set<string>();
  /** Attempts that failed although their process succeeded: no edge could be chosen. */
  readonly #misrouted = new Set<string>();
  /** Attempts whose conversation continued with a message. */
  readonly #continued = new Set<string>();
  /** What was committed since a person last had files restored. */
  readonly #committed: Extract<Recorded["event"], { type: "run.committed" }>[] = [];
  #wasRestored = false;
  /** The last snapshot of the run's files that an event names. */
  #snapshot: string | undefined;

  constructor(plan: Plan, runId: string, journal: MemoryJournal, world: World, files: FilesChecks) {
    this.#files = files;
    this.#hasFinally = plan.finally !== undefined;
    this.#roomMax = plan.maxParallel;
    this.#runId = runId;
    this.#journal = journal;
    this.#planOf = plansIn(journal);
    this.#world = world;
    this.#conversationsOf = new TalkCheckers(plan, world);
    this.#people = new PeopleCheckers(journal, runId);
  }

  /** A kept step is what it was; what begins anew is not done; nothing is left of what is gone. */
  afterUpdate(plan: Plan, before: RunSnapshot, changes: PlanUpdate): void {
    this.#conversationsOf.afterUpdate(plan);
    this.#roomMax = Math.max(this.#roomMax, plan.maxParallel);
    const { events } = this.#journal.contents.load(this.#runId);
    const run = replay(this.#planOf, this.#runId, events);
    const steps = snapshot(run).scopes[0]?.steps ?? [];
    for (const id of changes.kept) {
      const was = before.scopes[0]?.steps.find((step) => step?.step === id);
      const is = steps.find((step) => step?.step === id);
      const states = (step: typeof was): unknown => step?.visits.map(({ number }) => number);
      // What no edge could reach is looked at anew: a person may have declared done what leads to
      // it.
      const reached = was?.unreachable === false;
      if (reached && !isDeepStrictEqual(states(was) ?? [], states(is) ?? [])) {
        fail(`${id} was kept, but it was visited again`);
      }
      const done = (step: typeof was): unknown =>
        step?.visits.map(({ state }) => state).filter(({ status }) => status === "completed");
      if (!isDeepStrictEqual(done(was) ?? [], done(is) ?? [])) fail(`${id} lost its result`);
    }
    for (const { step } of changes.rerun) {
      const record = [...run.scopes.values()][0]?.steps.find(
        (one) => one && stepOf(one).id === step,
      );
      const visit = currentVisit(record);
      const status = visit === undefined ? "ready" : statusWord(visit.state);
      if (status !== "ready") fail(`${step} begins anew, but it is ${status}`);
    }
    this.#sameRows(run);
  }

  /** A visit ends once, and what it handed over is what its process wrote. */
  afterAppend(recorded: readonly Recorded[], run: Run): void {
    this.#conversationsOf.afterAppend(recorded);
    for (const { event } of recorded) this.#messages.afterEvent(event);
    this.requests.afterAppend(recorded, run);
    for (const { event } of recorded) {
      if (event.type === "step.started") this.#noteStart(event, run);
      this.#people.afterEvent(event);
      if (event.type === "step.continued" && event.ask.kind === "message") {
        this.#continued.add(attemptText(event));
      }
      // Where no edge could be chosen again and again, that is what has stalled.
      if (
        event.type === "step.failed" &&
        ["expression", "no-edge", "restart", "stall"].includes(event.reason)
      ) {
        this.#misrouted.add(attemptText(event));
      }
      // A judge has rejected what an earlier attempt did.
      if (event.type === "step.failed" && event.check?.kind === "judge") {
        this.#misrouted.add(attemptText(event));
      }
      // A fan-out whose items run again ends again; the others of its items do not (retry/I1).
      if (event.type === "run.rewound" && event.items !== undefined) {
        const fanOut = currentVisit(findStep(run, event.step));
        if (fanOut !== undefined) this.#completed.delete(visitText(visitRef(fanOut)));
      }
      if (event.type !== "step.completed") continue;
      if (this.#completed.has(visitText(event))) fail(`${visitText(event)} completed twice`);
      this.#completed.add(visitText(event));
      const visit = findVisit(run, event);
      const judged = visit === undefined || missingJudge(stepOf(visit), event) === undefined;
      if (!judged && !event.settledBy) fail(`${visitText(event)} completed without its judge`);
      this.#checkSnapshot(event, run);
      this.#checkResult(event, event.context);
    }
    this.#checkFiles(recorded, run);
    this.#people.afterAppend(run);
    if (run.running.size > this.#roomMax) fail("more steps run than there is room for");
    if (recorded.length > EVENTS_PER_TURN * 2) fail(`one turn made ${recorded.length} events`);
  }

  /** What completed steps left stays in the files of the run, unless a person has them restored. */
  #checkFiles(recorded: readonly Recorded[], run: Run): void {
    for (const { event } of recorded) {
      if (event.type === "run.committed") this.#committed.push(event);
      if (event.type !== "run.restored") continue;
      // The branch goes back with the files.
      this.#snapshot = run.snapshot;
      this.#committed.length = 0;
      this.#wasRestored = true;
    }
    this.#files.expectKept(this.#snapshot, run.snapshot);
    this.#snapshot = run.snapshot;
  }

  /** On another machine the run has its files and its commits. */
  afterMove(recorded: readonly Recorded[], run: Run): void {
    this.afterAppend(recorded, run);
    for (const event of this.#committed) this.#files.expectCommitted(event);
  }

  /** What a completed step left is in its snapshot; its work apart was merged into that. */
  #checkSnapshot(event: Extract<Recorded["event"], { type: "step.completed" }>, run: Run): void {
    const visit = findVisit(run, event);
    if (visit === undefined || event.settledBy) return;
    const commit = event.snapshot?.commit;
    if (event.from !== undefined) return this.#files.expectReused(event, commit);
    // Work that did not fit is merged by a later attempt, which has no process.
    let worked: AttemptRef = event;
    while (worked.attempt > 1 && !this.#world.processes.has(attemptText(worked))) {
      worked = { ...worked, attempt: worked.attempt - 1 };
    }
    // A person may have taken out what a merge had brought before it was recorded.
    if (worked !== event && this.#wasRestored) return;
    const process = this.#world.processes.get(attemptText(worked));
    if (process !== undefined && !process.killed) this.#files.expectSaved(worked, commit);
  }

  #noteStart(at: AttemptRef, run: Run): void {
    this.#started.add(attemptText(at));
    const visit = findVisit(run, at);
    if (visit !== undefined && stepOf(visit).once) this.#once.add(visitText(at));
  }

  #checkResult(at: AttemptRef, context: JsonObject): void {
    const process = this.#world.processes.get(attemptText(at));
    if (process?.ending.how !== "exited") return;
    const handed = Object.entries(process.ending.context);
    const kept = Object.entries(context).filter(([key]) => !BUILT_IN.test(key));
    if (!isDeepStrictEqual(handed, kept)) fail(`${attemptText(at)} lost its result`);
  }

  /** Nothing is started that the journal does not know, twice, or after it was completed. */
  afterSpawn(at: AttemptRef, judges: boolean): void {
    const key = attemptText(at);
    if (!this.#started.has(key)) fail(`${key} was spawned but is not in the journal`);
    if (this.#spawned.has(key)) fail(`${key} was spawned twice`);
    if (this.#completed.has(visitText(at))) fail(`${visitText(at)} is complete and ran again`);
    this.#spawned.add(key);
    this.#conversationsOf.afterSpawn(at);
    const alive = this.#world.alive();
    if (alive.length > this.#roomMax) fail("more processes live than there is room for");
    const twins = alive.filter((process) => visitText(process.at) === visitText(at));
    if (twins.length > 1) fail(`two processes of ${visitText(at)} live at once`);
    // A judge does nothing of the work again.
    if (judges) return;
    this.#checkPaidWork(at);
    this.#checkOnce(at);
  }

  /** What must not happen twice is not begun again when it has happened. */
  #checkOnce(at: AttemptRef): void {
    if (!this.#once.has(visitText(at))) return;
    for (let attempt = 1; attempt < at.attempt; attempt++) {
      const earlier = { ...at, attempt };
      if (this.#world.happened(earlier))
        fail(`${attemptText(earlier)} happened, and is done again`);
    }
  }

  /** A visit is not started again when an earlier attempt of it has already succeeded. */
  #checkPaidWork(at: AttemptRef): void {
    // From the last on: what was merged in a later attempt is judged by that one.
    for (let attempt = at.attempt - 1; attempt > 0; attempt--) {
      const key = attemptText({ ...at, attempt });
      if (this.#misrouted.has(key)) return;
      // A message came before its end was recorded: the conversation continues, nothing is redone.
      if (this.#continued.has(key)) continue;
      const process = this.#world.processes.get(key);
      if (process === undefined || process.killed || this.#world.isAlive(process)) continue;
      if (endedWell(process.ending)) {
        fail(`${key} had succeeded, and its result was thrown away`);
      }
    }
  }

  /** An owner that is done leaves nothing alive, and its run is what its events say. */
  afterOwner(run: Run, status: string): void {
    this.#conversationsOf.afterOwner(run, status, this.#journal.contents.load(this.#runId).events);
    if (this.#world.alive().length > 0) fail(`the run is ${status}, but a process lives`);
    this.#files.expectBystanders();
    for (const event of this.#committed) this.#files.expectCommitted(event);
    this.#sameAfterReplay(run);
    if (status === "stopped") return;
    if (waitsForPerson(run)) return;
    if (!isIdle(run)) fail(`the run is ${status}, but it has work left`);
    const missed = run.failed.size === 0 ? missedInRun(run) : undefined;
    const mustFail = run.failed.size > 0 || missed !== undefined;
    if (mustFail !== (status === "failed")) fail(`${run.failed.size} failures: ${status}`);
    if (missed?.back !== undefined) fail(`the run ended before it went back: ${missed.message}`);
    if (status === "completed") this.#nothingPending(run);
    const [left] = run.uncommitted;
    if (left !== undefined) fail(`the work of ${left} was not committed`);
  }

  #sameAfterReplay(run: Run): void {
    const { events } = this.#journal.contents.load(this.#runId);
    const again = replayChecked(this.#planOf, this.#runId, events);
    if (!isDeepStrictEqual(snapshot(again), snapshot(run)))
      fail("replay differs from the live run");
    this.#sameRows(run);
    // branches/N4: what branches hand on stays in them, and a restart forgets what it does not
    // keep.
    const folded = contextFrom(run, events);
    if (folded !== undefined && !isDeepStrictEqual(folded, new Map(run.context))) {
      fail("the context is not what the steps outside of branches handed on");
    }
  }

  #sameRows(run: Run): void {
    const rows = new Map(
      this.#journal.contents.stepsOf(this.#runId).map((row) => [row.stepId, row]),
    );
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
    const { events } = this.#journal.contents.load(this.#runId);
    const run = replay(this.#planOf, this.#runId, events);
    const ends = new FinallyCheckers(this.#hasFinally);
    for (const { event } of events) ends.afterEvent(event);
    if (!["completed", "failed", "stopped"].includes(status)) fail(`the run ended as "${status}"`);
    if (run.state.status !== status) fail(`the journal says ${run.state.status}, not ${status}`);
    for (const key of this.#spawned) {
      if (!this.#started.has(key)) fail(`${key} was spawned but is not in the journal`);
    }
    checkTrace(this.#planOf, this.#runId, events);
  }
}

/** The context by its own rules; undefined where scopes that count are gone with their steps. */
function contextFrom(run: Run, events: readonly Recorded[]): Map<string, Json> | undefined {
  const begun = Object.entries(run.given);
  let context = new Map<string, Json>(begun);
  for (const { event } of events) {
    if (event.type === "run.updated" && event.gone.length > 0) return undefined;
    if (event.type === "run.restarted" && event.scope === "") {
      const kept = [...context].filter(([key]) => event.keep.includes(key));
      context = new Map([...begun, ...kept]);
    }
    if (event.type !== "step.completed" && event.type !== "step.failed") continue;
    if (contextOwner(run, event.scope) !== "") continue;
    for (const [key, value] of Object.entries(event.context ?? {})) context.set(key, value);
  }
  return context;
}

function fail(message: string): never {
  throw new Violation(message);
}
