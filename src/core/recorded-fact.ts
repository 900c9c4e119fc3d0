/**
 * From an event back to the facts that may have led to it: the journal holds what happened, not
 * what the outside said, but an event holds enough of the fact to ask `decide` again.
 *
 * Owns: this way back, for every type of event and every reason of a failure.
 * Does not: decide again or compare (redecide.ts).
 * Invariants:
 * - G1 Where the journal does not tell which of several facts it was, all of them are given: today's
 *   core decides as it did then when one of them leads to the same event.
 * - G2 What hangs on something that is not in the journal (the environment, what agents were using
 *   at that moment) is named, never guessed.
 */
import type { Step } from "../plan/plan.ts";
import { unreachable } from "../util/assert.ts";
import { parseExpression } from "../util/expression.ts";
import type { Action } from "./action.ts";
import { BUDGET_STOP } from "./advance.ts";
import type {
  Answer,
  AttemptEnd,
  AttemptRef,
  Place,
  Recorded,
  RunEvent,
  StepFailed,
} from "./event.ts";
import type { ConversationOffer, Ending, Fact } from "./fact.ts";
import { messagesFor } from "./message.ts";
import { stepPath } from "./place.ts";
import { endingsOf } from "./recorded-ending.ts";
import { withRestart } from "./restart.ts";
import { findVisit, isComposite, isPrompt, placeOf, type Run, stepOf, type Visit } from "./run.ts";
import type { StepEventType } from "./transition.ts";
import { waitsFor } from "./visit-state.ts";

export type Cause =
  /** It is no decision. */
  | { readonly kind: "given" }
  /** One of these facts; none when no fact that the core knows leads to such an event. */
  | {
      readonly kind: "facts";
      readonly facts: readonly Fact[];
      /** The kind of action that the fact answers; absent when the outside spoke first. */
      readonly action?: Action["type"];
    }
  /** It cannot be decided again without this. */
  | { readonly kind: "unknown"; readonly needs: string };

/** Nothing was left to do. */
const AT_THE_END: Cause = { kind: "facts", facts: [{ type: "exhausted" }], action: "finish" };

/** What led to the event at this index; `run` is the run before it. */
export function causeOf(run: Run, events: readonly Recorded[], index: number): Cause {
  const event = events[index]?.event;
  if (event === undefined) return { kind: "given" };
  switch (event.type) {
    case "run.created":
    case "run.forked":
    case "run.moved":
    case "run.updated":
    case "scope.based":
    case "scope.merged":
    case "scope.conflicted":
      return { kind: "given" };
    case "run.restoring":
      return said(
        { type: "restore-requested", commit: event.commit, of: event.of },
        { type: "retry-requested", step: event.of.replace(/@\d+$/, ""), restore: event.commit },
      );
    case "run.opened":
      return openingOf(run, events, index, wishOf(event));
    case "run.rewound":
      return said(...(event.items === undefined ? [wishOf(event)] : itemWishes(event)));
    case "run.funded":
      return said(wishOf(event));
    case "run.messaged": {
      const { scope, step, message } = event;
      return said({ type: "message-left", scope, step, message });
    }
    case "run.placed":
    case "run.restored":
      return said(filesOf(event));
    case "run.stopping":
      return event.by.startsWith(BUDGET_STOP)
        ? { kind: "unknown", needs: "what agents were using at that moment" }
        : said({ type: "stop-requested", mode: event.mode, by: event.by });
    case "run.stopped":
    case "run.completed":
    case "run.failed":
      return AT_THE_END;
    case "run.returned": {
      const inside = run.scopes.get(event.scope)?.parent;
      return inside === undefined ? AT_THE_END : closingOf(placeOf(inside));
    }
    case "run.restarted":
      return restartOf(run, events[index - 1]);
    default:
      return causeOfStep(run, events, index, event);
  }
}

function causeOfStep(
  run: Run,
  events: readonly Recorded[],
  index: number,
  event: Extract<RunEvent, { type: StepEventType }>,
): Cause {
  switch (event.type) {
    // It comes with the start of its attempt, and is compared with that.
    case "step.asked":
      return { kind: "given" };
    case "step.started":
    case "step.skipped":
      return dispatchOf(run, event);
    case "step.session":
    case "step.based":
    case "step.saved":
    case "step.answered":
      return said(newsOf(event));
    case "step.adopted":
      return adoptionOf(run, event, events[index + 1]);
    case "step.completed":
    case "step.failed":
    case "step.lost":
    case "step.paused":
    case "step.interrupted":
    case "step.continued":
    case "step.relayed":
    case "step.submitted":
    case "step.conflicted":
      return endOf(run, event);
    case "step.unsettled":
      return doubtOf(event);
    case "step.probed":
    case "step.settled":
      return { kind: "unknown", needs: DOUBT_NEEDS };
    case "step.iterated":
      return closingOf(event);
    case "step.granted":
      return grantOf(run, event, events[index]?.time ?? 0);
    default:
      return unreachable(event);
  }
}

type EventOf<T extends RunEvent["type"]> = Extract<RunEvent, { type: T }>;

function said(...facts: readonly Fact[]): Cause {
  return { kind: "facts", facts };
}

function refOf({ scope, step, visit, attempt }: AttemptRef): AttemptRef {
  return { scope, step, visit, attempt };
}

function answerIn({ choice, text, by, from, given }: EventOf<"step.answered">): Answer {
  return {
    ...(choice === undefined ? {} : { choice }),
    ...(text === undefined ? {} : { text }),
    ...{ by, from, given },
  };
}

function wishOf(event: EventOf<"run.opened" | "run.rewound" | "run.funded">): Fact {
  switch (event.type) {
    case "run.opened": {
      const { owner, epoch, recover, files } = event;
      const wanted = { ...(recover && { recover }), ...(files && { files }) };
      return { type: "opened", owner, epoch, ...wanted };
    }
    case "run.rewound":
      return {
        type: "rewind-requested",
        step: event.step,
        ...(event.visit === undefined ? {} : { visit: event.visit }),
        ...(event.restore === undefined ? {} : { restore: event.restore }),
        ...(event.outputs === undefined ? {} : { outputs: event.outputs }),
        ...(event.repeat === undefined ? {} : { repeat: event.repeat }),
      };
    case "run.funded":
      return { ...event, type: "funds-added" };
    default:
      return unreachable(event);
  }
}

/** A person asked for all failed items of a fan-out, or for one of them. */
function itemWishes({ step, items = [] }: EventOf<"run.rewound">): readonly Fact[] {
  const all = { type: "retry-requested", step, failed: true } as const;
  return [all, ...items.map((item) => ({ type: all.type, step: item.replace(/@\d+$/, "") }))];
}

/** It is decided with the event whose arrow it follows from, unless that cannot be decided again. */
function restartOf(run: Run, before: Recorded | undefined): Cause {
  const follows = before !== undefined && withRestart(run, [before.event]).length > 1;
  return follows ? { kind: "given" } : said();
}

type News = EventOf<"step.session" | "step.based" | "step.saved" | "step.answered">;

/** What was told about a running attempt. */
function newsOf(event: News): Fact {
  const at = refOf(event);
  switch (event.type) {
    case "step.session":
      return { type: "session-known", at, session: event.session };
    case "step.based": {
      const { base, aside } = event;
      return { type: "based", at, base, ...(aside === undefined ? {} : { aside }) };
    }
    case "step.saved":
      return { type: "saved", at, snapshot: event.snapshot };
    case "step.answered":
      return { type: "answered", at, answer: answerIn(event) };
    default:
      return unreachable(event);
  }
}

function filesOf(event: EventOf<"run.placed" | "run.restored">): Fact {
  if (event.type === "run.placed") return { type: "placed", workspace: event.workspace };
  const { commit, aside } = event;
  return { type: "restored", commit, ...(aside === undefined ? {} : { aside }) };
}

/** All instances of a composite visit had ended. */
function closingOf({ scope, step, visit }: Place): Cause {
  const facts = [{ type: "scopes-closed", place: { scope, step, visit } } as const];
  return { kind: "facts", facts, action: "close" };
}

function dispatchOf(run: Run, event: EventOf<"step.started" | "step.skipped">): Cause {
  const { scope, step, visit: number } = event;
  const visit = findVisit(run, event);
  const needs = visit === undefined ? undefined : envNeeded(stepOf(visit), visit.attempts);
  if (needs !== undefined) return { kind: "unknown", needs };
  const { base, items } = event.type === "step.started" ? event : {};
  const fact = {
    type: "dispatched",
    place: { scope, step, visit: number },
    env: {},
    ...(base === undefined ? {} : { base }),
    ...(items === undefined ? {} : { items: { ok: true, items } as const }),
  } as const;
  const heard = messagesFor(run, event).map(({ id }) => id);
  const offers = event.type === "step.started" ? offersOf(event, heard) : [];
  const facts = offers.length === 0 ? [fact] : offers.map((offer) => ({ ...fact, offer }));
  return { kind: "facts", facts, action: "start" };
}

/**
 * What may have been on offer: a conversation that was begun may be there or not (G1). Messages that
 * were not told again stood in its transcript.
 */
function offersOf(
  { conversation, messages = [] }: EventOf<"step.started">,
  left: readonly string[],
): readonly ConversationOffer[] {
  if (conversation === undefined) return [];
  const { session, kind, used } = conversation;
  const fresh = session === undefined ? {} : { fresh: session };
  const heard = left.filter((id) => !messages.includes(id));
  const before = used === undefined ? {} : { used };
  const continued = { ...fresh, found: true, heard, ...before };
  return kind === "continue" ? [continued] : [{ ...fresh, found: false }, continued];
}

/** What the conditions at the start of a visit need of the environment. */
function envNeeded(step: Step, attempts: number): string | undefined {
  const sources = [
    ...(attempts === 0 && step.when !== undefined ? [step.when] : []),
    ...(step.work.kind === "each" && typeof step.work.items === "string" ? [step.work.items] : []),
  ];
  const names = new Set<string>();
  for (const source of sources) {
    const parsed = parseExpression(source);
    for (const { variable, keys } of parsed.ok ? parsed.expression.references : []) {
      if (variable === "env") names.add(keys[0]?.name ?? "(a computed name)");
    }
  }
  return names.size === 0 ? undefined : `env ${[...names].sort().join(", ")}`;
}

/** The path of a visit, and of all that it lies in. */
function pathsAround(run: Run, place: Place): readonly string[] {
  const paths = [stepPath(place)];
  for (let at = findVisit(run, place)?.record.scope.parent; at; at = at.record.scope.parent) {
    paths.push(stepPath(placeOf(at)));
  }
  return paths;
}

/** A person asked for the step itself, or for one around it; or a fan-out around it is tried again. */
function grantOf(run: Run, event: EventOf<"step.granted">, time: number): Cause {
  const facts: Fact[] = pathsAround(run, event).map((step) => ({ type: "retry-requested", step }));
  let due = false;
  for (let at = findVisit(run, event)?.record.scope.parent; at; at = at.record.scope.parent) {
    if (!waitsFor(at.state, "retry") || at.state.until > time) continue;
    facts.unshift({ type: "dispatched", place: placeOf(at), env: {} });
    due = true;
  }
  return due ? { kind: "facts", facts, action: "start" } : said(...facts);
}

/** Whoever came may have been asked to try a step again. */
function openingOf(run: Run, events: readonly Recorded[], index: number, opened: Fact): Cause {
  const retries = retriedIn(run, events, index).map((retried) => ({ ...opened, retried }));
  return said(opened, ...retries);
}

/** The steps that a person may have wanted tried again when an owner came: it grants them last. */
function retriedIn(run: Run, events: readonly Recorded[], index: number): readonly string[] {
  let last: Place | undefined;
  for (const { event, time } of events.slice(index + 1)) {
    if (time !== events[index]?.time) break;
    // A step that is done runs again by a rewind.
    if (event.type === "run.rewound") return [event.step];
    if (!RETRY_EVENTS.has(event.type)) break;
    if (event.type === "step.granted") last = event;
  }
  return last === undefined ? [] : pathsAround(run, last);
}

const RETRY_EVENTS: ReadonlySet<RunEvent["type"]> = new Set(["run.restoring", "step.granted"]);

/** What nobody wrote down of an operation that was in doubt. */
const DOUBT_NEEDS = "what a probe or a person found of its operation";

/** What only repeats an operation comes with the start of its attempt, and is compared with that. */
function doubtOf(event: EventOf<"step.unsettled">): Cause {
  if (event.cause === "repeated") return { kind: "given" };
  return said({ type: "attempt-ended", at: refOf(event), ending: doubtedEnd(event) });
}

/** How an attempt was cut off that left its operation in doubt. */
function doubtedEnd(event: EventOf<"step.unsettled">): Ending {
  const { cause, message, tool, snapshot, spent, exited } = event;
  const known = {
    ...(snapshot === undefined ? {} : { snapshot }),
    ...(spent === undefined ? {} : { spent }),
  };
  const last = tool === undefined ? {} : { tool };
  if (exited !== undefined) return { how: "exited", ...exited, ...known };
  switch (cause) {
    case "lost":
      return { how: "lost", started: true, message, ...last, ...known };
    case "stopped":
      return { how: "stopped", message, ...last, ...known };
    case "stall":
    case "turns":
      return { how: "reined", reason: cause, message, ...known };
    case "repeated":
    case "exit":
    case "identity":
      return { how: "stopped", message };
    default:
      return { how: "timed-out", limit: cause, message, ...known };
  }
}

/** An agent's last word is found and judged in one go: the end of the attempt follows at once. */
function adoptionOf(run: Run, event: EventOf<"step.adopted">, next: Recorded | undefined): Cause {
  const at = refOf(event);
  if (event.found !== "result") return said({ type: "adopted", at, found: event.found });
  const end = next?.event;
  if (end?.type === "step.unsettled") {
    const ending = doubtedEnd(end);
    if (ending.how !== "exited") return said();
    return said({ type: "attempt-ended", at, ending: { ...ending, fromStream: true } });
  }
  const judged = end?.type === "step.completed" || end?.type === "step.submitted";
  if (!judged && end?.type !== "step.failed") return said();
  // No arrow could be chosen for what it handed on, and a failure does not hold that.
  if (end.type === "step.failed" && end.reason === "expression") {
    return { kind: "unknown", needs: HANDED_ON };
  }
  const visit = findVisit(run, event);
  const endings = visit === undefined ? [] : endingsOf(end, visit);
  const facts = endings.flatMap((ending): readonly Fact[] =>
    ending.how === "exited"
      ? [{ type: "attempt-ended", at, ending: { ...ending, fromStream: true } }]
      : [],
  );
  return said(...facts);
}

/** What a failure does not hold of the attempt that failed. */
const HANDED_ON = "what the attempt handed on";

/** True for a step whose arrows may ask for files or an answer, which a failure does not hold. */
function handsOn(visit: Visit): boolean {
  const { work, outputs } = stepOf(visit);
  return work.kind === "agent" || Object.keys(outputs).length > 0;
}

function endOf(run: Run, event: AttemptEnd): Cause {
  const visit = findVisit(run, event);
  if (visit === undefined) return said();
  if (waitsFor(visit.state, "probe")) return { kind: "unknown", needs: DOUBT_NEEDS };
  if (waitsFor(visit.state, "time")) {
    return { kind: "facts", facts: [{ type: "woken", place: placeOf(visit) }], action: "wake" };
  }
  if (waitsFor(visit.state, "close")) return closingOf(event);
  if (event.type === "step.failed" && isAtStart(event, visit)) {
    const needs = envNeeded(stepOf(visit), visit.attempts - 1);
    return needs === undefined ? said() : { kind: "unknown", needs };
  }
  if (event.type === "step.failed" && event.reason === "no-arrow" && handsOn(visit)) {
    return { kind: "unknown", needs: HANDED_ON };
  }
  const at = refOf(event);
  return said(
    ...endingsOf(event, visit).map((ending) => ({ type: "attempt-ended", at, ending }) as const),
  );
}

/** Failures that only the dispatch of a visit makes, together with its `step.started`. */
function isAtStart({ reason, message }: StepFailed, visit: Visit): boolean {
  const step = stepOf(visit);
  if (reason !== "expression") return reason === "visits";
  return (
    isComposite(step) ||
    isPrompt(step) ||
    (step.when !== undefined && message.includes(`\`${step.when}\``))
  );
}
