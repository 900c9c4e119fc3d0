/**
 * From one state of a run to the next: the only function that makes a Run from a Run.
 *
 * Owns: the meaning of every event.
 * Does not: read a clock, or evaluate or draw anything: the events hold everything.
 * Invariants:
 * - evolve/C2 Only `evolve` makes a Run from a Run (and takes over the old one, see run.ts).
 * - core/C3 Recovery is replay: `replay` is a loop over `evolve`, and there is no second path.
 * - core/C5 An event that the transition tables do not allow is an error, never ignored.
 */

import type { Plan, Work } from "../plan/plan.ts";
import { assert, unreachable } from "../util/assert.ts";
import { defined } from "../util/defined.ts";
import type { Json } from "../util/json.ts";
import { dropJudged, keepSubmission, noteJudge } from "./attempt/check.ts";
import { noteEffect } from "./attempt/effect.ts";
import { applyQuestion, shortenWaits } from "./attempt/gate.ts";
import { endRecall, forgetKeys, noteRecall, restartRecall } from "./attempt/reuse.ts";
import { applyUncertainty, askProbesAgain } from "./attempt/uncertain.ts";
import { applyPlanContext } from "./context.ts";
import { conversationAfter, noteBriefing } from "./conversation/conversation.ts";
import { leaveMessage, noteDelivered, noteSent } from "./conversation/message.ts";
import { noteDenial } from "./conversation/permission.ts";
import type {
  EventOf,
  Recorded,
  RememberedEnvironment,
  Retry,
  RunEvent,
  Spent,
  StepEvent,
} from "./event.ts";
import { restartScope } from "./graph/restart.ts";
import {
  chooseFor,
  chooseForFailed,
  forgetChoices,
  fork,
  keepFiles,
  rewind,
} from "./graph/rewind.ts";
import {
  applyEnd,
  applyToScope,
  closeIfOver,
  forgetFinally,
  grant,
  openInstances,
  openIteration,
  openScope,
} from "./graph/scope.ts";
import { adoptPlan } from "./graph/update.ts";
import { absorbFailures, enter, requeue, uncountInside } from "./graph/visit.ts";
import { complete, fail, skip, waitForRetry } from "./graph/visit-end.ts";
import { stateName } from "./graph/visit-state.ts";
import { move } from "./move.ts";
import {
  draft,
  type Effect,
  findVisit,
  hasProcess,
  isComposite,
  type LeftMessage,
  type Run,
  type Scope,
  type SharedConversation,
  type StepRecord,
  stepOf,
  type Visit,
  type WorkspaceFiles,
} from "./run.ts";
import { returnToStep } from "./run-end.ts";
import { addBudget, addSpent, NOTHING_SPENT, withLateCost } from "./spending.ts";
import { ROOT_SCOPE, stepPath, visitText } from "./step-path.ts";
import { runAllows, visitAllows } from "./transition.ts";
import {
  applyToFiles,
  markFilesUncertain,
  noteBase,
  noteSnapshot,
  noteStart,
  restoreFirst,
} from "./workspace-files.ts";

/** The run before its first event. */
export function emptyRun(id: string): Run {
  return {
    id,
    seq: 0,
    state: { status: "created" },
    updatedAt: 0,
    context: new Map<string, Json>(),
    given: {},
    scopes: new Map<string, Scope>(),
    files: new Map<string, WorkspaceFiles>(),
    unmade: new Set<Scope>(),
    merging: new Set<Scope>(),
    uncommitted: new Set<string>(),
    gone: new Map<string, StepRecord>(),
    waiting: {
      start: new Set<Visit>(),
      slot: new Set<Visit>(),
      retry: new Set<Visit>(),
      owner: new Set<Visit>(),
      probe: new Set<Visit>(),
      person: new Set<Visit>(),
      time: new Set<Visit>(),
      close: new Set<Visit>(),
    },
    slotGaps: 0,
    running: new Set<Visit>(),
    composites: new Set<Visit>(),
    failed: new Set<Visit>(),
    effects: new Map<string, Effect>(),
    spent: NOTHING_SPENT,
    conversations: new Map<string, Spent>(),
    shared: new Map<string, SharedConversation>(),
    variables: new Map<string, string>(),
    secrets: [],
    messages: new Map<string, readonly LeftMessage[]>(),
    handled: new Set<string>(),
    skips: new Map<string, string>(),
    workedMs: 0,
    funds: {},
    added: {},
    stepsTotal: 0,
    stepsDone: 0,
    stepsCompleted: 0,
    changes: new Set<StepRecord>(),
  };
}

/** The run that these events add up to. */
export function replay(plans: Plans, id: string, events: Iterable<Recorded>): Run {
  let run = emptyRun(id);
  for (const recorded of events) run = evolve(plans, run, recorded);
  return run;
}

/** The plan of a run, or a function that finds the plans of a run that was updated. */
export type Plans = Plan | ((fingerprint: string) => Plan);

/** Takes over a run and returns it with one more event. */
export function evolve(plans: Plans, run: Run, recorded: Recorded): Run {
  const { event, seq, time } = recorded;
  assert(seq === run.seq + 1, () => `event ${seq} cannot follow event ${run.seq}`);
  const { status } = run.state;
  assert(runAllows(status, event.type), `illegal event: ${event.type} while the run is ${status}`);
  apply(plans, run, event, time);
  draft(run).seq = seq;
  draft(run).updatedAt = time;
  return run;
}

/** The steps whose summary has changed since the last call. */
export function takeChanges(run: Run): readonly StepRecord[] {
  const taken = [...run.changes];
  draft(run).changes.clear();
  return taken;
}

function currentPlan(plans: Plans, { created }: Run): Plan {
  return typeof plans === "function" ? plans(created?.fingerprint ?? "") : plans;
}

/** Remembers variables and secrets of an environment; the last value of a variable counts. */
function remember(run: Run, { variables = {}, secrets }: RememberedEnvironment): void {
  for (const [name, value] of Object.entries(variables)) draft(run).variables.set(name, value);
  if (secrets !== undefined) draft(run).secrets.push(secrets);
}

function addFunds(run: Run, event: EventOf<"run.funded">): void {
  draft(run).funds = addBudget(run.funds, event.added);
  draft(run).added = addBudget(run.added, event.added);
  const late = event.lateCostUsd;
  if (late !== undefined) draft(run).spent = withLateCost(run.spent, late);
}

function apply(plans: Plans, run: Run, event: RunEvent, time: number): void {
  switch (event.type) {
    case "run.created": {
      assert(run.created === undefined, "a run is created once");
      const plan = typeof plans === "function" ? plans(event.fingerprint) : plans;
      draft(run).created = { ...event, time };
      draft(run).funds = plan.budget ?? {};
      remember(run, event);
      applyPlanContext(run, plan);
      openScope(run, plan.graph, { id: ROOT_SCOPE, index: 0 });
      return;
    }
    case "run.updated":
      assert(typeof plans === "function", "the plan of an update is found by its fingerprint");
      return adoptPlan(run, event, plans(event.fingerprint), time);
    case "run.opened":
      if (event.recover === undefined) delete draft(run).recover;
      else draft(run).recover = event.recover;
      chooseForFailed(run, event.recover);
      chooseFor(run, event.choices ?? {});
      if (event.cache !== undefined) draft(run).cache = event.cache;
      remember(run, event);
      open(run, time);
      return event.files === undefined ? undefined : keepFiles(run);
    case "run.forked":
      return fork(run, event);
    case "run.restoring":
      restoreFirst(run, event.commit);
      return keepFiles(run);
    case "run.rewound":
      return rewind(run, event, time);
    case "run.funded":
      return addFunds(run, event);
    case "run.messaged":
      return leaveMessage(run, event);
    case "run.skipping":
      draft(run).skips.set(stepPath(event), event.by);
      return;
    case "request.handled":
      draft(run).handled.add(event.request);
      return;
    case "run.moved":
      return move(run, event);
    case "run.placed":
    case "run.restored":
    case "run.committed":
      return applyToFiles(run, event);
    case "run.stopping":
    case "run.finishing":
    case "run.stopped":
    case "run.completed":
    case "run.failed":
      return applyEnd(run, event, () => currentPlan(plans, run).finally);
    case "run.returned":
      return returnToStep(run, event);
    case "run.restarted":
      return restartScope(run, event, time);
    case "scope.based":
    case "scope.merged":
    case "scope.conflicted":
      return applyToScope(run, event);
    default:
      return applyToVisit(run, event, time);
  }
}

function applyToVisit(run: Run, event: StepEvent, time: number): void {
  const visit = visitFor(run, event);
  if ("spent" in event) spend(run, visit, event.spent);
  if (ENDS.has(event.type)) endAttempt(run, visit, event, time);
  if ("snapshot" in event && visit.state.status === "running") noteSnapshot(run, visit, event);
  const conversation = conversationAfter(visit, event);
  if (conversation !== undefined) draft(visit).conversation = conversation;
  switch (event.type) {
    case "step.started":
      forgetChoices(visit);
      if (event.base !== undefined) draft(visit).base = event.base;
      else if (event.keep === true) delete draft(visit).base;
      if (event.restore === undefined) delete draft(visit).restore;
      else draft(visit).restore = event.restore;
      noteBriefing(visit, event.fidelity);
      if (event.judge !== undefined) noteJudge(visit, event.attempt);
      noteSent(run, visit, event);
      if (event.report !== undefined) draft(visit).report = event.report;
      return start(run, visit, event, time);
    case "step.iterated":
      return openIteration(run, visit);
    case "step.session":
    case "step.adopted":
    case "step.saved":
      return;
    case "step.based":
      draft(visit).base = event.base;
      return noteBase(run, visit, event.base);
    case "step.recalled":
      return noteRecall(visit, event);
    case "step.continued":
    case "step.relayed":
      return attemptAgain(run, visit, "its conversation continues");
    case "step.submitted":
    case "step.conflicted":
      noteEffect(run, visit, "done");
      return keepFinishedWork(run, visit, event);
    case "step.completed":
      return complete(run, visit, event, time);
    case "step.failed":
      return fail(run, visit, event, time);
    case "step.lost":
      draft(visit).losses++;
      draft(visit).interrupted = true;
      return waitOrFail(run, visit, event, "lost", time);
    case "step.paused":
      draft(visit).pauses++;
      return waitOrFail(run, visit, event, "paused", time);
    case "step.interrupted":
      draft(visit).interrupted = true;
      return attemptAgain(run, visit, event.message);
    case "step.uncertain":
    case "step.probed":
    case "step.settled":
      return applyUncertainty(run, visit, event, time);
    case "step.asked":
    case "step.answered":
      return applyQuestion(run, visit, event, time);
    case "step.skipped":
      return skip(run, visit, event, time);
    case "step.granted":
      if (event.files !== undefined) draft(visit).files = event.files;
      return grant(run, visit, event.attempts);
    default:
      return unreachable(event);
  }
}

/** Counts an attempt that ends, and what it leaves for the next one. */
function endAttempt(run: Run, visit: Visit, event: StepEvent, time: number): void {
  countTime(run, visit, time);
  noteDelivered(run, visit, event);
  noteDenial(visit, event);
  endRecall(visit, event);
}

/** Keeps finished work until it is judged or merged. */
function keepFinishedWork(
  run: Run,
  visit: Visit,
  event: EventOf<"step.submitted" | "step.conflicted">,
): void {
  if (event.type === "step.submitted") {
    keepSubmission(visit, event);
    return attemptAgain(run, visit, "its judge is to be asked");
  }
  dropJudged(visit);
  Object.assign(draft(visit), { held: event.held, conflicts: [...event.paths], base: event.base });
  // A person resolves the conflict first; the next owner merges again.
  enter(run, visit, { status: "waiting", for: "owner", message: event.message });
}

/** Waits for the time of the next attempt, or fails the visit when no attempts are left. */
function waitOrFail(
  run: Run,
  visit: Visit,
  { retry, message }: { readonly retry?: Retry; readonly message: string },
  reason: "lost" | "paused",
  time: number,
): void {
  if (retry !== undefined) return waitForRetry(run, visit, retry, message);
  enter(run, visit, { status: "failed", at: time, reason, message, handled: false });
  closeIfOver(run, visit.record.scope);
}

/** Starts the next attempt at once, unless the run is stopping: then the next owner does. */
function attemptAgain(run: Run, visit: Visit, message: string): void {
  if (run.state.status !== "stopping") return requeue(run, visit);
  enter(run, visit, { status: "waiting", for: "owner", message });
}

function spend(run: Run, visit: Visit, spent: Spent | undefined): void {
  if (spent === undefined) return;
  draft(visit).spent = addSpent(visit.spent ?? NOTHING_SPENT, spent);
  // The tokens of a judge do not count for the conversation of the work (judge/U2).
  const session = visit.submitted === undefined ? visit.conversation?.session : undefined;
  if (session !== undefined) {
    const before = run.conversations.get(session) ?? NOTHING_SPENT;
    draft(run).conversations.set(session, addSpent(before, spent));
  }
  draft(run).spent = addSpent(run.spent, spent);
}

/** Events that end an attempt. */
const ENDS: ReadonlySet<StepEvent["type"]> = new Set<StepEvent["type"]>([
  "step.completed",
  "step.failed",
  "step.lost",
  "step.paused",
  "step.interrupted",
  "step.uncertain",
  "step.continued",
  "step.relayed",
  "step.submitted",
  "step.conflicted",
]);

/** Counts the time of an attempt. A composite visit has none of its own, and clocks may go back. */
function countTime(run: Run, visit: Visit, time: number): void {
  if (visit.state.status !== "running" || visit.instances !== undefined) return;
  draft(run).workedMs += Math.max(0, time - visit.state.uncounted);
}

/** The visit of an event. Its state must allow the event (core/C5), and the attempt must be its own. */
function visitFor(run: Run, event: StepEvent): Visit {
  const visit = findVisit(run, event);
  const text = (): string => `illegal event: ${event.type} for ${visitText(event)}, which is`;
  assert(visit !== undefined, () => `${text()} not there`);
  const name = stateName(visit.state);
  assert(visitAllows(name, event.type), () => `${text()} ${name}`);
  if (!("attempt" in event)) return visit;
  const { attempt } = event;
  const expected = event.type === "step.started" ? visit.attempts + 1 : visit.attempts;
  assert(attempt === expected, () => `illegal event: attempt ${attempt} is not ${expected}`);
  return visit;
}

/** Opens the run for a new owner; the time without an owner is no working time. */
function open(run: Run, time: number): void {
  draft(run).state = { status: "running" };
  forgetFinally(run);
  markFilesUncertain(run);
  forgetKeys(run);
  for (const visit of run.running) {
    if (visit.state.status !== "running") continue;
    countTime(run, visit, run.updatedAt);
    draft(visit).state = { ...visit.state, uncounted: time };
  }
  for (const visit of run.composites) {
    draft(visit).unownedMs = (visit.unownedMs ?? 0) + Math.max(0, time - run.updatedAt);
  }
  for (const visit of [...run.waiting.owner]) requeue(run, visit);
  if (run.finishing === undefined) askProbesAgain(run);
  shortenWaits(run, time);
}

function start(run: Run, visit: Visit, event: EventOf<"step.started">, time: number): void {
  const { items, input, wake } = event;
  uncountInside(run, visit);
  absorbFailures(run, visit);
  restartRecall(visit, event);
  draft(visit).attempts++;
  draft(visit).startedAt ??= time;
  delete draft(visit).unownedMs;
  if (wake !== undefined) {
    return enter(run, visit, { status: "waiting", for: "time", since: time, wake });
  }
  const composite = isComposite(stepOf(visit));
  if (composite) {
    const total = instancesTotal(stepOf(visit).work, items);
    draft(visit).instances = {
      ...defined({ items, input }),
      ...{ total, opened: 0, ended: 0, failed: 0 },
    };
  }
  if (hasProcess(stepOf(visit))) noteStart(run, visit);
  enter(run, visit, { status: "running", since: time, uncounted: time });
  if (composite) openInstances(run, visit);
}

function instancesTotal(work: Work, items: readonly Json[] = []): number {
  if (work.kind === "branches") return work.branches.length;
  return work.kind === "each" ? items.length : 1;
}
