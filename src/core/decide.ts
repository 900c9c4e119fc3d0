/**
 * Facts become events: from a report of the outside to what happened in the run.
 *
 * Owns: every choice of the engine (retry or fail, which edge, skip or start). It is made once and
 * written into the event, so that replay never chooses again.
 * Does not: change the run (evolve.ts) or act on the world (room `engine`).
 * Invariants:
 * - core/D1 A fact about an attempt that is not running gives no event and no error. Facts may be
 *   late or come twice; events may not.
 * - core/D2 A lost attempt never uses up the author's retries (operations/R2).
 */
import { refersTo } from "../plan/graph-index.ts";
import type { Plan, WorkOf } from "../plan/plan.ts";
import { unreachable } from "../util/assert.ts";
import { defined } from "../util/defined.ts";
import type { Json } from "../util/json.ts";
import { complete, endAttempt } from "./attempt/attempt-end.ts";
import { judgeOf } from "./attempt/check.ts";
import { effectOf } from "./attempt/effect.ts";
import { finalFailure } from "./attempt/failure.ts";
import { answerEvents, startPrompt, wakeEvents } from "./attempt/gate.ts";
import { notReusedEvents, recalledEvents } from "./attempt/reuse.ts";
import { simulatedResult } from "./attempt/simulated-result.ts";
import {
  afterProbe,
  afterVerdict,
  exitOnce,
  interruptedEvent,
  repeatedEvents,
  uncertainEnd,
} from "./attempt/uncertain.ts";
import { pickBranch } from "./built-in-keys.ts";
import { briefingFor } from "./conversation/briefing.ts";
import { conversationFor } from "./conversation/conversation.ts";
import { reportFor } from "./conversation/failure-report.ts";
import { messageEvents, messagesToSend } from "./conversation/message.ts";
import { permissionQuestion } from "./conversation/permission.ts";
import type { AttemptRef, EventOf, FailureReason, RunEvent } from "./event.ts";
import type { Ending, Fact, FactOf, ItemsFound } from "./fact.ts";
import { closeScopes } from "./graph/composite-end.ts";
import { withRestart } from "./graph/restart.ts";
import { grantFor, isWithin, itemGrants, resumeGrants, retryEvents } from "./graph/retry.ts";
import { refuseWhileFinishing, rewindEvent } from "./graph/rewind.ts";
import { instanceEvents } from "./graph/scope.ts";
import { updateEvents } from "./graph/update.ts";
import { skipEvent, skipEvents } from "./graph/visit-end.ts";
import { waitsFor } from "./graph/visit-state.ts";
import { requestEvents } from "./request.ts";
import {
  attemptOf,
  currentVisit,
  findStep,
  findVisit,
  type Run,
  stepOf,
  type Visit,
  visitRef,
} from "./run.ts";
import { endEvent, stop } from "./run-end.ts";
import { stepPath } from "./step-path.ts";
import { conditionOf, evaluateIn, renderIn, renderInput, selectItems, typeText } from "./values.ts";
import { filesFor } from "./workspace-files.ts";

/** What a visit that can start waits for. */
const STARTS_FROM = ["start", "slot", "retry"] as const;

/** The events that follow from a fact, in order. */
export function decide(plan: Plan, run: Run, fact: Fact, now: number): readonly RunEvent[] {
  return withRestart(run, eventsOf(plan, run, fact, now));
}

function eventsOf(plan: Plan, run: Run, fact: Fact, now: number): readonly RunEvent[] {
  switch (fact.type) {
    case "opened":
      return open(run, fact);
    case "dispatched": {
      const visit = findVisit(run, fact.place);
      if (visit === undefined || !STARTS_FROM.some((one) => waitsFor(visit.state, one))) return [];
      return dispatch(plan, run, visit, fact, now);
    }
    case "scopes-closed": {
      const visit = findVisit(run, fact.place);
      return visit === undefined ? [] : closeScopes(run, visit, now);
    }
    case "placed":
      return run.workspace === undefined ? [{ type: "run.placed", workspace: fact.workspace }] : [];
    case "restored": {
      const { commit, aside } = fact;
      const restored = { type: "run.restored", commit } as const;
      if (run.restoring?.commit !== commit) return [];
      return [aside === undefined ? restored : { ...restored, aside }];
    }
    case "committed": {
      const steps = fact.steps.filter((step) => run.uncommitted.has(step));
      return steps.length === 0 ? [] : [{ ...fact, type: "run.committed", steps }];
    }
    case "scope-based":
    case "scope-merged":
      return instanceEvents(run, fact);
    case "exhausted":
      return [endEvent(plan, run)];
    case "probed":
      return afterProbe(run, fact, now);
    case "settled":
      refuseWhileFinishing(run);
      return afterVerdict(run, fact, now);
    case "answered":
      return answerEvents(run, fact.at, fact.answer, now);
    case "woken":
      return wakeEvents(run, findVisit(run, fact.place));
    case "stop-requested":
    case "halted":
      return stop(run, fact);
    case "funds-added":
      // A run that stops takes no more budget.
      return run.state.status === "running" ? [{ ...fact, type: "run.funded" }] : [];
    case "message-left":
      return messageEvents(run, fact);
    case "retry-requested":
    case "skip-requested":
    case "rewind-requested":
    case "restore-requested":
    case "update-requested":
      return askedEvents(plan, run, fact);
    case "requested":
      return requestEvents(run, fact, (asked) => eventsOf(plan, run, asked, now));
    case "looked-up":
    case "process-ended":
    case "files-ready":
    case "snapshotted":
    case "merged":
    case "spending":
      // These change only the activity (activity.ts).
      return [];
    default: {
      const visit = runningAt(run, fact.at);
      return visit === undefined ? [] : aboutAttempt(plan, run, visit, fact, now);
    }
  }
}

type AskedFact = FactOf<`${"retry" | "skip" | "rewind" | "restore" | "update"}-requested`>;

/** The events for what a person asked of the run. */
function askedEvents(plan: Plan, run: Run, fact: AskedFact): readonly RunEvent[] {
  switch (fact.type) {
    case "retry-requested":
      return retryEvents(plan, run, fact);
    case "skip-requested":
      return skipEvents(run, fact.step, fact.by);
    case "rewind-requested":
      return [rewindEvent(plan, run, fact)];
    case "restore-requested":
      return [{ type: "run.restoring", commit: fact.commit, of: fact.of }];
    case "update-requested":
      refuseWhileFinishing(run);
      return updateEvents(plan, run, fact);
  }
}

type AttemptFact = FactOf<
  "adopted" | "based" | "recalled" | "reused" | "saved" | "session-known" | "attempt-ended"
>;

/** The events for a fact about the running attempt of a visit. */
function aboutAttempt(
  plan: Plan,
  run: Run,
  visit: Visit,
  fact: AttemptFact,
  now: number,
): readonly RunEvent[] {
  const at = attemptOf(visit);
  switch (fact.type) {
    case "adopted":
      return [{ type: "step.adopted", ...at, found: fact.found }];
    case "based": {
      const based = { type: "step.based", ...at, base: fact.base } as const;
      return [fact.aside === undefined ? based : { ...based, aside: fact.aside }];
    }
    case "recalled":
      return recalledEvents(run, visit, fact);
    case "reused":
      return notReusedEvents(visit, fact);
    case "saved":
      return [{ type: "step.saved", ...at, snapshot: fact.snapshot }];
    case "session-known":
      // The conversation of a judge is not that of the work (judge/U2).
      if (visit.submitted !== undefined || visit.conversation?.session === fact.session) return [];
      return [{ type: "step.session", ...at, session: fact.session }];
    case "attempt-ended":
      return endAttemptOrAsk(plan, run, visit, fact.ending, now);
    default:
      return unreachable(fact);
  }
}

function open(run: Run, fact: FactOf<"opened">): readonly RunEvent[] {
  const { owner, epoch, recover, choices, files, cache, remembers } = fact;
  const opened = { type: "run.opened", owner, epoch } as const;
  const wanted = {
    ...(recover === undefined ? {} : { recover }),
    ...(choices === undefined ? {} : { choices }),
    ...defined({ files, cache }),
    ...remembers,
  };
  const granted = run.state.status === "failed" ? allowances(run, fact) : [];
  return [{ ...opened, ...wanted }, ...granted];
}

/** The visit whose current attempt this is, if it is running (core/D1). */
function runningAt(run: Run, at: AttemptRef): Visit | undefined {
  const visit = findVisit(run, at);
  return visit?.state.status === "running" && visit.attempts === at.attempt ? visit : undefined;
}

/** The attempts that `resume` grants to the failures of a run, where the author allows that. */
function allowances(run: Run, { retried, files, turns }: FactOf<"opened">): readonly RunEvent[] {
  const named = [retried ?? []].flat().map((path) => currentVisit(findStep(run, path)));
  const isNamed = (visit: Visit): boolean =>
    named.some((one) => one !== undefined && isWithin(visit, one));
  // The failures of `finally` steps are history: these steps run again at the next end.
  const left = [...run.failed].filter(
    (visit) => !isNamed(visit) && visit.record.scope !== run.finally,
  );
  return left.filter(resumeGrants).map((visit) => {
    const granted = grantFor(run, visit, turns);
    return files === undefined ? granted : { ...granted, files };
  });
}

type Dispatched = FactOf<"dispatched">;

/** The events of a visit that can start. */
function dispatch(
  plan: Plan,
  run: Run,
  visit: Visit,
  fact: Dispatched,
  now: number,
): readonly RunEvent[] {
  const at: AttemptRef = { ...visitRef(visit), attempt: visit.attempts + 1 };
  const instead = insteadOfWork(plan, run, visit, at, fact);
  if (instead !== undefined) return instead;
  const started = { type: "step.started", ...at } as const;
  const cannotStart = (message: string): readonly RunEvent[] =>
    failAtStart(run, visit, at, "expression", message);
  const { work } = stepOf(visit);
  switch (work.kind) {
    case "gate":
    case "wait": {
      const begun = startPrompt({ run, visit, at, now }, work, fact.material);
      return begun.ok ? begun.events : cannotStart(begun.message);
    }
    case "each": {
      const found = selectItems(run, visit, work, itemsOf(run, visit, work, fact.items));
      return found.ok ? [{ ...started, items: found.items }] : cannotStart(found.message);
    }
    case "pipeline": {
      if (work.input === undefined) break;
      const input = renderInput(run, visit, work.input);
      return input.ok ? [{ ...started, input: input.value }] : cannotStart(input.message);
    }
    case "pass":
      return [started, pass(run, visit, work, at)];
    case "pick":
      return [started, pick(run, visit, at)];
    case "fail": {
      const text = renderIn(run, visit, work.message);
      if (!text.ok) return cannotStart(text.message);
      return failAtStart(run, visit, at, "declared", text.text);
    }
    default:
  }
  return [{ ...started, ...workStart(plan, run, visit, fact) }];
}

/** What happens in place of the work: the visit is skipped, fails, asks somebody, or is judged. */
function insteadOfWork(
  plan: Plan,
  run: Run,
  visit: Visit,
  at: AttemptRef,
  fact: Dispatched,
): readonly RunEvent[] | undefined {
  const step = stepOf(visit);
  if (visit.attempts === 0) {
    const by = run.skips.get(stepPath(at));
    if (by !== undefined) return skip(run, visit, at, by);
    if (visit.number - visit.record.past > step.visitsMax) {
      const message = `it was visited more than ${step.visitsMax} times`;
      return failAtStart(run, visit, at, "visits", message);
    }
  }
  if (step.when !== undefined && visit.attempts === (visit.failedAtStart ?? 0)) {
    const held = fact.when ?? conditionOf(plan, run, visit, {});
    if (!held.ok) return failAtStart(run, visit, at, "expression", held.message);
    if (!held.value) return skip(run, visit, at);
  }
  const judge = judgeOf(visit);
  if (judge !== undefined) return [{ type: "step.started", ...at, judge: judge.agent }];
  const effect = visit.held === undefined ? effectOf(run, visit) : undefined;
  if (effect !== undefined) return repeatedEvents(at, visit, effect);
  const permission = permissionQuestion(visit, at);
  if (permission !== undefined) return permission;
  const again = waitsFor(visit.state, "retry") ? itemGrants(run, visit) : [];
  return again.length > 0 ? again : undefined;
}

/** What the work of a visit starts with: its files, its conversation, its messages. */
function workStart(
  plan: Plan,
  run: Run,
  visit: Visit,
  { offer, base }: Dispatched,
): Partial<EventOf<"step.started">> {
  const conversation = offer === undefined ? undefined : conversationFor(plan, run, visit, offer);
  const messages = messagesToSend(run, visit, conversation, offer);
  return {
    ...filesFor(plan, run, visit, conversation, base),
    ...defined({
      conversation,
      messages: messages.length === 0 ? undefined : messages,
      fidelity: briefingFor(plan, run, visit, conversation),
      report: reportFor(run, visit, conversation),
    }),
  };
}

/** The event that completes a step which does nothing, with its simulated result if it has one. */
function pass(run: Run, visit: Visit, work: WorkOf<"pass">, at: AttemptRef): RunEvent {
  const { simulates, continuesFrom } = work;
  if (simulates === undefined) {
    const { context = {}, label, next } = continuesFrom ?? {};
    const known = defined({ label, next });
    const chosen = Object.keys(known).length === 0 ? {} : { reported: known };
    return complete(run, visit, 0, { outputs: {}, context, ...chosen }, at);
  }
  const { answer, context, reported } = simulatedResult(run, visit, simulates);
  const words = reported === undefined ? {} : { reported };
  if (reported?.outcome === "fail") {
    const evidence = { exit: 0, context, ...words };
    return finalFailure(run, visit, at, "reported", "it is simulated to fail", evidence);
  }
  return complete(run, visit, 0, { outputs: {}, context, answer, ...words }, at);
}

/** The event that completes a step which picks a branch; it needs no process. */
function pick(run: Run, visit: Visit, at: AttemptRef): RunEvent {
  const picked = pickBranch(run, visit);
  if (!picked.ok) return finalFailure(run, visit, at, "pick", picked.message);
  return complete(run, visit, 0, { outputs: {}, ...picked }, at);
}

/**
 * The items of a fan-out: the value of an expression, or the result of a lookup. The journal keeps
 * them, so they cannot read the environment, which may hold secrets.
 */
function itemsOf(
  run: Run,
  visit: Visit,
  work: WorkOf<"each">,
  items: ItemsFound | undefined,
): ItemsFound {
  if (typeof work.items !== "string") {
    if ("list" in work.items) return { ok: true, items: work.items.list };
    return items ?? { ok: false, message: "its items were not looked up" };
  }
  const held = evaluateIn(run, visit, work.items, {});
  if (!held.ok) return held;
  if (Array.isArray(held.value)) return { ok: true, items: held.value as readonly Json[] };
  const message = `\`${work.items}\` must be a list, but it is ${typeText(held.value)}`;
  return { ok: false, message };
}

/** Skips a step. If no edge can be followed after it, the step fails instead. */
function skip(run: Run, visit: Visit, at: AttemptRef, by?: string): readonly RunEvent[] {
  const skipped = skipEvent(run, visit, by);
  if (skipped.ok) return [skipped.event];
  return failAtStart(run, visit, at, skipped.reason, skipped.message);
}

/** Fails a step that cannot start. Another attempt would not help, so it uses no retries. */
function failAtStart(
  run: Run,
  visit: Visit,
  at: AttemptRef,
  reason: FailureReason,
  message: string,
): readonly RunEvent[] {
  return [{ type: "step.started", ...at }, finalFailure(run, visit, at, reason, message)];
}

function endAttemptOrAsk(
  plan: Plan,
  run: Run,
  visit: Visit,
  ending: Ending,
  now: number,
): readonly RunEvent[] {
  const interrupted = uncertainEnd(visit, ending);
  if (interrupted !== undefined) return [interruptedEvent(visit, interrupted)];
  const events = endAttempt(run, visit, ending, now);
  const end = events.at(-1);
  if (ending.how !== "exited" || end === undefined) return events;
  const wantsIdentity = refersTo(plan, stepOf(visit).id, "identity");
  return [...events.slice(0, -1), exitOnce(visit, ending, end, wantsIdentity)];
}
