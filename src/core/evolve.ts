/**
 * From one state of a run to the next: the only function that makes a Run from a Run.
 *
 * Owns: the meaning of every event.
 * Does not: read a clock, evaluate an expression or draw a random number: the events hold it all.
 * Invariants:
 * - C2 Only `evolve` makes a Run from a Run (and takes the old one over, see run.ts).
 * - C3 Recovery is replay: `replay` is a loop over `evolve`, and there is no second path.
 * - C5 An event that the transition tables do not allow is an error, never ignored.
 */
import { indexOf } from "../plan/graph-index.ts";
import type { Graph, Plan } from "../plan/plan.ts";
import { assert, unreachable } from "../util/assert.ts";
import type { Json } from "../util/json.ts";
import type {
  Place,
  Recorded,
  RunEvent,
  RunRewound,
  Spent,
  StepCompleted,
  StepFailed,
} from "./event.ts";
import {
  absorbFailures,
  childScopes,
  closeIfOver,
  draft,
  enter,
  goBack,
  LOSSES_MAX,
  leave,
  openInstances,
  openIteration,
  openScope,
  recordAt,
  reopenBehind,
  reopenScope,
  restart,
  touch,
  uncountInside,
  visitsOf,
} from "./flow.ts";
import { placeText, ROOT_SCOPE } from "./place.ts";
import {
  currentVisit,
  findVisit,
  isComposite,
  type Run,
  type RunState,
  type Scope,
  type SharedConversation,
  type StepRecord,
  stepOf,
  type Visit,
} from "./run.ts";
import { addBudget, addSpent, NOTHING_SPENT } from "./spending.ts";
import { talkAfter } from "./talk.ts";
import { mayMeetRun, mayMeetVisit, type RunEventType, type StepEventType } from "./transition.ts";

/** The run before its first event. */
export function emptyRun(id: string): Run {
  return {
    id,
    seq: 0,
    state: { status: "created" },
    updatedAt: 0,
    context: new Map<string, Json>(),
    scopes: new Map<string, Scope>(),
    ready: new Set<Visit>(),
    readyGaps: 0,
    running: new Set<Visit>(),
    waiting: new Set<Visit>(),
    interrupted: new Set<Visit>(),
    composites: new Set<Visit>(),
    closing: new Set<Visit>(),
    failed: new Set<Visit>(),
    spent: NOTHING_SPENT,
    conversations: new Map<string, Spent>(),
    shared: new Map<string, SharedConversation>(),
    workedMs: 0,
    funds: {},
    stepsTotal: 0,
    stepsDone: 0,
    changes: new Set<StepRecord>(),
  };
}

/** The run that these events add up to. */
export function replay(plan: Plan, id: string, events: Iterable<Recorded>): Run {
  let run = emptyRun(id);
  for (const recorded of events) run = evolve(plan, run, recorded);
  return run;
}

/** Takes a run over and gives it back with one more event in it. */
export function evolve(plan: Plan, run: Run, recorded: Recorded): Run {
  const { event, seq, time } = recorded;
  assert(seq === run.seq + 1, () => `event ${seq} cannot follow event ${run.seq}`);
  if (event.type.startsWith("run.")) {
    const legal = mayMeetRun(run.state.status, event.type as RunEventType);
    assert(legal, `illegal event: ${event.type} while the run is ${run.state.status}`);
  }
  apply(plan, run, event, time);
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

function apply(plan: Plan, run: Run, event: RunEvent, time: number): void {
  switch (event.type) {
    case "run.created":
      assert(run.created === undefined, "a run is created once");
      draft(run).created = { ...event, time };
      draft(run).funds = plan.budget ?? {};
      openScope(run, plan.graph, { id: ROOT_SCOPE, index: 0 });
      return;
    case "run.opened":
      if (event.recover === undefined) delete draft(run).recover;
      else draft(run).recover = event.recover;
      return open(run, time);
    case "run.rewound":
      return rewind(run, event, time);
    case "run.funded":
      draft(run).funds = addBudget(run.funds, event.added);
      return;
    case "run.stopping":
      return become(run, { status: "stopping", mode: event.mode, by: event.by });
    case "run.stopped":
      return become(run, { status: "stopped", by: event.by });
    case "run.completed":
      return become(run, { status: "completed" });
    case "run.returned":
      return goBack(run, event);
    case "run.failed": {
      const { type: _, ...words } = event;
      return become(run, { status: "failed", ...words });
    }
    default:
      return applyToVisit(run, event, time);
  }
}

type StepEvent = Extract<RunEvent, { type: StepEventType }>;

function applyToVisit(run: Run, event: StepEvent, time: number): void {
  const visit = meet(run, event, event.type);
  if ("attempt" in event) meetAttempt(visit, event);
  if ("spent" in event) spend(run, visit, event.spent);
  if (ENDS.has(event.type)) work(run, visit, time);
  const talk = talkAfter(visit.talk, event);
  if (talk !== undefined) draft(visit).talk = talk;
  switch (event.type) {
    case "step.started":
      delete draft(visit).cut;
      return start(run, visit, event, time);
    case "step.iterated":
      return openIteration(run, visit);
    case "step.session":
    case "step.adopted":
      return;
    case "step.continued":
    case "step.relayed":
      return goOnLater(run, visit, "its conversation goes on");
    case "step.completed":
      return complete(run, visit, event, time);
    case "step.failed":
      return fail(run, visit, event, time);
    case "step.lost":
      draft(visit).losses++;
      draft(visit).cut = true;
      if (event.retry !== undefined) return wait(run, visit, event.retry, event.message);
      enter(run, visit, {
        status: "failed",
        at: time,
        reason: "lost",
        message: event.message,
        handled: false,
      });
      return closeIfOver(run, visit.record.scope);
    case "step.paused":
      draft(visit).pauses++;
      if (event.retry !== undefined) return wait(run, visit, event.retry, event.message);
      enter(run, visit, {
        status: "failed",
        at: time,
        reason: "paused",
        message: event.message,
        handled: false,
      });
      return closeIfOver(run, visit.record.scope);
    case "step.interrupted":
      draft(visit).cut = true;
      return goOnLater(run, visit, event.message);
    case "step.skipped":
      enter(run, visit, { status: "skipped", at: time });
      leave(run, visit.record, event.arrows);
      return closeIfOver(run, visit.record.scope);
    case "step.granted":
      return grant(run, visit, event.attempts);
    default:
      return unreachable(event);
  }
}

/** Not while the run is being stopped; an owner that is not stopping it goes on at once. */
function goOnLater(run: Run, visit: Visit, message: string): void {
  const stopping = run.state.status === "stopping";
  enter(run, visit, stopping ? { status: "interrupted", message } : { status: "ready" });
}

function spend(run: Run, visit: Visit, spent: Spent | undefined): void {
  if (spent === undefined) return;
  draft(visit).spent = addSpent(visit.spent ?? NOTHING_SPENT, spent);
  const session = visit.talk?.session;
  if (session !== undefined) {
    const before = run.conversations.get(session) ?? NOTHING_SPENT;
    draft(run).conversations.set(session, addSpent(before, spent));
  }
  draft(run).spent = addSpent(run.spent, spent);
}

/** Events that end an attempt. */
const ENDS: ReadonlySet<StepEventType> = new Set<StepEventType>([
  "step.completed",
  "step.failed",
  "step.lost",
  "step.paused",
  "step.interrupted",
  "step.continued",
  "step.relayed",
]);

/** Counts the time of an attempt; a composite has none of its own, and clocks may go back. */
function work(run: Run, visit: Visit, time: number): void {
  if (visit.state.status !== "running" || visit.instances !== undefined) return;
  draft(run).workedMs += Math.max(0, time - visit.state.uncounted);
}

function become(run: Run, state: RunState): void {
  draft(run).state = state;
}

/** The visit that an event is about; it must be in a state in which that can happen (C5). */
function meet(run: Run, place: Place, type: StepEventType): Visit {
  const visit = findVisit(run, place);
  const text = (): string => `illegal event: ${type} for ${placeText(place)}, which is`;
  assert(visit !== undefined, () => `${text()} not there`);
  const { status } = visit.state;
  assert(mayMeetVisit(status, type), () => `${text()} ${status}`);
  return visit;
}

function meetAttempt(visit: Visit, event: { type: StepEventType; attempt: number }): void {
  const expected = event.type === "step.started" ? visit.attempts + 1 : visit.attempts;
  const { attempt } = event;
  assert(attempt === expected, () => `illegal event: attempt ${attempt} is not ${expected}`);
}

/**
 * A new owner: interrupted work is ready again, no wait is longer than it was meant to be, and the
 * time in which nobody watched is no working time.
 */
function open(run: Run, time: number): void {
  become(run, { status: "running" });
  for (const visit of run.running) {
    if (visit.state.status !== "running") continue;
    work(run, visit, run.updatedAt);
    draft(visit).state = { ...visit.state, uncounted: time };
  }
  for (const visit of [...run.interrupted]) enter(run, visit, { status: "ready" });
  for (const visit of run.waiting) {
    const { state } = visit;
    if (state.status !== "waiting") continue;
    draft(visit).state = { ...state, until: Math.min(state.until, time + state.delayMs) };
  }
}

type StepStarted = Extract<RunEvent, { type: "step.started" }>;

function start(run: Run, visit: Visit, { items, input }: StepStarted, time: number): void {
  uncountInside(run, visit);
  draft(visit).attempts++;
  draft(visit).startedAt ??= time;
  const composite = isComposite(stepOf(visit));
  if (composite) {
    const total = stepOf(visit).work.kind === "each" ? (items?.length ?? 0) : 1;
    draft(visit).instances = {
      ...(items === undefined ? {} : { items }),
      ...(input === undefined ? {} : { input }),
      ...{ total, opened: 0, ended: 0, failed: 0 },
    };
  }
  enter(run, visit, { status: "running", since: time, uncounted: time });
  if (composite) openInstances(run, visit);
}

function complete(run: Run, visit: Visit, event: StepCompleted, time: number): void {
  for (const [key, value] of Object.entries(event.context)) draft(run).context.set(key, value);
  const { exit, outputs, answer } = event;
  draft(run).closing.delete(visit);
  absorbFailures(run, visit);
  share(run, visit);
  const told = answer === undefined ? {} : { answer };
  enter(run, visit, { status: "completed", at: time, exit, outputs, ...told, assumed: false });
  leave(run, visit.record, event.arrows);
  closeIfOver(run, visit.record.scope);
}

/** Leaves its conversation to the steps that share it. */
function share(run: Run, visit: Visit): void {
  const { work, id: step } = stepOf(visit);
  const session = visit.talk?.session;
  if (work.kind !== "agent" || work.session === undefined || session === undefined) return;
  draft(run).shared.set(work.session, { session, step });
}

function fail(run: Run, visit: Visit, event: StepFailed, time: number): void {
  draft(visit).failures++;
  draft(run).closing.delete(visit);
  const { opened = 0, ended = 0 } = visit.instances ?? {};
  // It failed at its start, before anything in it could run.
  if (opened > ended) abandonInside(run, visit, time);
  const handled = event.handled === true || event.arrows.length > 0;
  // Only failures that made this one are worth another try of their own.
  const superseded = handled || event.retry !== undefined || event.reason !== "items";
  if (superseded) absorbFailures(run, visit);
  if (event.retry !== undefined) return wait(run, visit, event.retry, event.message);
  const { reason, message, exit, signature } = event;
  enter(run, visit, {
    status: "failed",
    ...{ at: time, reason, message, handled },
    ...(exit === undefined ? {} : { exit }),
    ...(signature === undefined ? {} : { signature }),
  });
  if (handled) leave(run, visit.record, event.arrows);
  closeIfOver(run, visit.record.scope);
}

function wait(
  run: Run,
  visit: Visit,
  retry: { at: number; delayMs: number },
  message: string,
): void {
  const { at: until, delayMs } = retry;
  enter(run, visit, { status: "waiting", until, delayMs, message });
}

function grant(run: Run, visit: Visit, attempts: number): void {
  const closed = visit.record.scope.active === 0;
  draft(visit).failuresMax = visit.failures + attempts;
  draft(visit).lossesMax = visit.losses + LOSSES_MAX;
  draft(visit).pauses = 0;
  enter(run, visit, { status: "ready" });
  if (closed) reopenScope(run, visit.record.scope, "failed");
}

/** Opens a step and all that lies behind it again; what was there stays as history. */
function rewind(run: Run, event: RunRewound, time: number): void {
  const scope = run.scopes.get(ROOT_SCOPE);
  assert(scope !== undefined, "a run that can be rewound has a root scope");
  const { byId } = indexOf(scope.graph);
  const start = byId.get(event.step);
  assert(start !== undefined, `illegal event: no step ${event.step}`);
  for (const position of reopenBehind(run, scope, start)) {
    const record = scope.steps[position];
    if (record !== undefined) makePast(run, record, time);
  }
  for (const id of event.assumed) assume(run, scope, byId.get(id), time);
  const startRecord = recordAt(scope, start);
  if (currentVisit(startRecord) === undefined) restart(run, scope, start);
}

function makePast(run: Run, record: StepRecord, time: number): void {
  for (const old of record.visits.slice(record.past)) {
    abandon(run, old, time);
    uncountInside(run, old);
  }
  draft(record).past = record.visits.length;
  touch(run, record);
}

function abandon(run: Run, visit: Visit, time: number): void {
  const { status } = visit.state;
  assert(status !== "running" || visit.instances !== undefined, "a rewind meets no live process");
  if (status === "completed" || status === "skipped" || status === "abandoned") return;
  abandonInside(run, visit, time);
  enter(run, visit, { status: "abandoned", at: time });
}

function abandonInside(run: Run, visit: Visit, time: number): void {
  draft(run).closing.delete(visit);
  for (const scope of childScopes(run, visit)) {
    for (const inner of visitsOf(scope)) abandon(run, inner, time);
  }
}

/** Declares a step done without having run it; arrows that ask for nothing are followed. */
function assume(run: Run, scope: Scope, position: number | undefined, time: number): void {
  assert(position !== undefined, "an assumed step is in the plan");
  const record = recordAt(scope, position);
  if (currentVisit(record) === undefined) restart(run, scope, position);
  const visit = currentVisit(record);
  assert(visit !== undefined, "a restarted step has a visit");
  abandonInside(run, visit, time);
  enter(run, visit, { status: "completed", at: time, exit: 0, outputs: {}, assumed: true });
  leave(run, record, unconditionalArrows(scope.graph, position));
}

function unconditionalArrows(graph: Graph, position: number): readonly number[] {
  return (indexOf(graph).outgoing[position] ?? []).filter((index) => {
    const arrow = graph.arrows[index];
    return arrow?.on === "completed" && arrow.condition === undefined && !arrow.back;
  });
}
