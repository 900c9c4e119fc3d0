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
import { BUDGET_STOP } from "./advance.ts";
import type { AttemptRef, FailureReason, Place, Recorded, RunEvent, StepFailed } from "./event.ts";
import type { ConversationOffer, Ending, Fact } from "./fact.ts";
import type { Action } from "./next-actions.ts";
import { stepPath } from "./place.ts";
import { findVisit, isComposite, placeOf, type Run, stepOf, type Visit } from "./run.ts";

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
      return { kind: "given" };
    case "run.restoring":
      return said(
        { type: "restore-requested", commit: event.commit, of: event.of },
        { type: "retry-requested", step: event.of.replace(/@\d+$/, ""), restore: event.commit },
      );
    case "run.opened":
    case "run.rewound":
    case "run.funded":
      return said(wishOf(event));
    case "run.placed":
      return said({ type: "placed", workspace: event.workspace });
    case "run.restored": {
      const { commit, aside } = event;
      return said({ type: "restored", commit, ...(aside === undefined ? {} : { aside }) });
    }
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
    case "step.started":
    case "step.skipped":
      return dispatchOf(run, event);
    case "step.session":
    case "step.based":
    case "step.saved":
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
    case "step.conflicted":
      return endOf(run, event);
    case "step.unsettled":
      return said({ type: "attempt-ended", at: refOf(event), ending: doubtedEnd(event) });
    case "step.probed":
    case "step.settled":
      return { kind: "unknown", needs: DOUBT_NEEDS };
    case "step.iterated":
      return closingOf(event);
    case "step.granted":
      return said(...retriesOf(run, event));
    default:
      return unreachable(event);
  }
}

type EventOf<T extends RunEvent["type"]> = Extract<RunEvent, { type: T }>;

type AttemptEnd = EventOf<
  | "step.completed"
  | "step.failed"
  | "step.lost"
  | "step.paused"
  | "step.interrupted"
  | "step.continued"
  | "step.relayed"
  | "step.conflicted"
>;

function said(...facts: readonly Fact[]): Cause {
  return { kind: "facts", facts };
}

function refOf({ scope, step, visit, attempt }: AttemptRef): AttemptRef {
  return { scope, step, visit, attempt };
}

function wishOf(event: EventOf<"run.opened" | "run.rewound" | "run.funded">): Fact {
  switch (event.type) {
    case "run.opened": {
      const { owner, epoch, recover } = event;
      return { type: "opened", owner, epoch, ...(recover === undefined ? {} : { recover }) };
    }
    case "run.rewound":
      return {
        type: "rewind-requested",
        step: event.step,
        ...(event.visit === undefined ? {} : { visit: event.visit }),
        ...(event.restore === undefined ? {} : { restore: event.restore }),
      };
    case "run.funded":
      return { type: "funds-added", added: event.added };
    default:
      return unreachable(event);
  }
}

/** What was told about a running attempt. */
function newsOf(event: EventOf<"step.session" | "step.based" | "step.saved">): Fact {
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
    default:
      return unreachable(event);
  }
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
  const offers = event.type === "step.started" ? offersOf(event) : [];
  const facts = offers.length === 0 ? [fact] : offers.map((offer) => ({ ...fact, offer }));
  return { kind: "facts", facts, action: "start" };
}

/** What may have been on offer: a conversation that was begun may be there or not (G1). */
function offersOf({ conversation }: EventOf<"step.started">): readonly ConversationOffer[] {
  if (conversation === undefined) return [];
  const { session, kind } = conversation;
  const fresh = session === undefined ? {} : { fresh: session };
  const continued = { ...fresh, found: true };
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

/** A person asked for the step itself, or for one around it. */
function retriesOf(run: Run, event: EventOf<"step.granted">): readonly Fact[] {
  const paths = [stepPath(event)];
  for (let at = findVisit(run, event)?.record.scope.parent; at; at = at.record.scope.parent) {
    paths.push(stepPath(placeOf(at)));
  }
  return paths.map((step) => ({ type: "retry-requested", step }));
}

/** What nobody wrote down of an effect that was in doubt. */
const DOUBT_NEEDS = "what a probe or a person found of its effect";

/** How an attempt was cut off that left its effect in doubt. */
function doubtedEnd(event: EventOf<"step.unsettled">): Ending {
  const { cause, message, tool, snapshot, spent } = event;
  const known = {
    ...(snapshot === undefined ? {} : { snapshot }),
    ...(spent === undefined ? {} : { spent }),
  };
  const last = tool === undefined ? {} : { tool };
  switch (cause) {
    case "lost":
      return { how: "lost", started: true, message, ...last, ...known };
    case "stopped":
      return { how: "stopped", message, ...last, ...known };
    case "stall":
    case "turns":
      return { how: "reined", reason: cause, message, ...known };
    default:
      return { how: "timed-out", limit: cause, message, ...known };
  }
}

/** An agent's last word is found and judged in one go: the end of the attempt follows at once. */
function adoptionOf(run: Run, event: EventOf<"step.adopted">, next: Recorded | undefined): Cause {
  const at = refOf(event);
  if (event.found !== "result") return said({ type: "adopted", at, found: event.found });
  const end = next?.event;
  if (end?.type !== "step.completed" && end?.type !== "step.failed") return said();
  // No arrow could be chosen for what it handed on, and a failure does not hold that.
  if (end.type === "step.failed" && end.reason === "expression") {
    return { kind: "unknown", needs: "what the attempt handed on" };
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

function endOf(run: Run, event: AttemptEnd): Cause {
  const visit = findVisit(run, event);
  if (visit === undefined) return said();
  if (visit.state.status === "unsettled") return { kind: "unknown", needs: DOUBT_NEEDS };
  if (run.closing.has(visit)) return closingOf(event);
  if (event.type === "step.failed" && isAtStart(event, visit)) {
    const needs = envNeeded(stepOf(visit), visit.attempts - 1);
    return needs === undefined ? said() : { kind: "unknown", needs };
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
  return isComposite(step) || (step.when !== undefined && message.includes(`\`${step.when}\``));
}

function endingsOf(event: AttemptEnd, visit: Visit): readonly Ending[] {
  const paid: Paid = {
    ...(event.spent === undefined ? {} : { spent: event.spent }),
    ...(event.snapshot === undefined ? {} : { snapshot: event.snapshot }),
  };
  switch (event.type) {
    case "step.conflicted": {
      const { paths, message, base, held } = event;
      return [{ how: "conflicted", paths, message, base, held, ...paid }];
    }
    case "step.completed": {
      const { exit, outputs, context, answer, check } = event;
      const told = answer === undefined ? {} : { answer };
      const checked = check === undefined ? {} : { check };
      return [{ how: "exited", exit, outputs, context, ...told, ...checked, ...paid }];
    }
    case "step.failed":
      return FAILURES[event.reason](event, paid);
    case "step.lost": {
      const { message, tool } = event;
      const lost = {
        how: "lost",
        message,
        ...(tool === undefined ? {} : { tool }),
        ...paid,
      } as const;
      // Of a step that must not happen twice only what never ran is lost; of others nobody knows.
      return stepOf(visit).once
        ? [{ ...lost, started: false }]
        : [
            { ...lost, started: true },
            { ...lost, started: false },
          ];
    }
    case "step.paused": {
      const { reason, message, retry } = event;
      const paused = { how: "paused", reason, message, ...paid } as const;
      return retry === undefined ? [paused] : [paused, { ...paused, retryAfterMs: retry.delayMs }];
    }
    case "step.interrupted": {
      const { message, tool } = event;
      return [{ how: "stopped", message, ...(tool === undefined ? {} : { tool }), ...paid }];
    }
    case "step.continued":
      return [{ how: "asked", ask: event.ask, ...paid }];
    case "step.relayed":
      return [{ how: "relayed", checkpoint: event.checkpoint, ...paid }];
    default:
      return unreachable(event);
  }
}

type Paid = Pick<Ending, "spent" | "snapshot">;
type EndingsOf = (event: StepFailed, paid: Paid) => readonly Ending[];

/** It exited; what is wrong with what it left is in the event. */
const exited: EndingsOf = ({ reason, message, exit = 0, check, signature }, paid) => {
  const known = {
    ...(check === undefined ? {} : { check }),
    ...(signature === undefined ? {} : { signature }),
  };
  const base = { how: "exited", exit, outputs: {}, context: {}, ...known, ...paid } as const;
  switch (reason) {
    case "output":
    case "context":
    case "check":
    case "agent":
      return [{ ...base, problem: { reason, message } }];
    default:
      return [base];
  }
};

const limited: EndingsOf = ({ reason, message }, paid) =>
  reason === "timeout" || reason === "idle" || reason === "output-limit"
    ? [{ how: "timed-out", limit: reason, message, ...paid }]
    : [];

/** An agent was stopped at its limit; or a loop got nowhere, whatever the failure was. */
const stalled: EndingsOf = (event, paid) => {
  if (event.signature === undefined) return reined(event, paid);
  const message = event.message.replace(STALL_WORDS, "");
  return [
    ...exited({ ...event, reason: "check", message }, paid),
    ...notStarted({ ...event, reason: "expression", message }, paid),
    ...reined(event, paid),
  ];
};

const reined: EndingsOf = ({ reason, message }, paid) =>
  reason === "stall" || reason === "turns" ? [{ how: "reined", reason, message, ...paid }] : [];

const notStarted: EndingsOf = ({ reason, message }) =>
  reason === "spawn" || reason === "expression" ? [{ how: "not-started", reason, message }] : [];

const asked: EndingsOf = ({ message }, paid) => [
  { how: "asked", ask: { kind: "correct", why: message }, ...paid },
];

/** The agent did not hand over when it was asked, or the visit was handed over too often. */
const relayed: EndingsOf = ({ message }, paid) => [
  { how: "asked", ask: { kind: "relay", why: message }, ...paid },
  { how: "relayed", checkpoint: { path: "", sha256: "", bytes: 0 }, ...paid },
];

const vanished: EndingsOf = ({ message }, paid) => [
  { how: "lost", started: true, message, ...paid },
];

/** How the end of a loop that got nowhere begins to be told. */
const STALL_WORDS = /^the same failure came \d+ times in a row: /;

/** No ending of an attempt leads to a failure of this kind. */
const none: EndingsOf = () => [];

const FAILURES: Readonly<Record<FailureReason, EndingsOf>> = {
  exit: exited,
  check: exited,
  output: exited,
  context: exited,
  agent: exited,
  timeout: limited,
  idle: limited,
  "output-limit": limited,
  spawn: notStarted,
  expression: notStarted,
  answer: asked,
  relay: relayed,
  stall: stalled,
  turns: reined,
  once: vanished,
  aborted: none,
  iterations: none,
  goal: none,
  items: none,
  visits: none,
  paused: none,
  lost: none,
};
