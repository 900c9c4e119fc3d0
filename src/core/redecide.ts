/**
 * Every decision of a recorded run, made again by today's core. A journal that was written by an
 * older program, or by one with a bug, shows here where the two part.
 *
 * Owns: the walk over the events, and what counts as the same decision.
 * Does not: guess what the outside said; recorded-fact.ts reads it from the events.
 * Invariants:
 * - C5 Every event must be one that `evolve` accepts; the walk ends at the first that is not.
 * - G3 The run goes on as it was recorded, so each decision is held against the state in which it
 *   was made, and one difference does not make others.
 * - G4 Both ways: what was decided must be what the core decides now, and what the core would do at
 *   the end of a turn must have been done in it.
 */
import type { Plan } from "../plan/plan.ts";
import { AssertionError } from "../util/assert.ts";
import { canonicalJson, type Json } from "../util/json.ts";
import type { Action } from "./action.ts";
import { BUDGET_STOP, EVENTS_PER_TURN } from "./advance.ts";
import { decide } from "./decide.ts";
import type { Place, Recorded, RunEvent } from "./event.ts";
import { emptyRun, evolve, type Plans } from "./evolve.ts";
import type { Fact } from "./fact.ts";
import { nextActions } from "./next-actions.ts";
import { lookupFor } from "./operations.ts";
import { attemptText, placeText } from "./place.ts";
import { type Cause, causeOf } from "./recorded-fact.ts";
import { Refusal } from "./rewind.ts";
import { findVisit, type Run } from "./run.ts";

/** One thing that today's core decides otherwise; absent means nothing. */
export interface Difference {
  readonly seq: number;
  readonly time: number;
  /** The event, such as `step.failed test@1.2`. */
  readonly at: string;
  /** What differs: a field of the event, the `event` itself, or what comes `next`. */
  readonly field: string;
  readonly recorded?: Json;
  readonly now?: Json;
}

export interface Redecided {
  /** How many events were read, and how many of them are decisions that were made again. */
  readonly events: number;
  readonly decided: number;
  readonly differences: readonly Difference[];
  /** Decisions that hang on what the journal does not hold. */
  readonly undecided: readonly { readonly seq: number; readonly needs: string }[];
  /** The first event that today's core does not accept; what lies behind it was not read. */
  readonly refused?: { readonly seq: number; readonly at: string; readonly message: string };
}

/** The fields of each event that are choices; the others repeat what the outside said. */
const CHOICES: Readonly<Record<RunEvent["type"], readonly string[]>> = {
  "run.created": [],
  "run.forked": [],
  "run.moved": [],
  "run.updated": [],
  "run.returned": ["scope", "step"],
  "run.restarted": ["scope", "step", "number", "keep"],
  "scope.based": [],
  "scope.merged": [],
  "scope.conflicted": [],
  "run.restoring": [],
  "run.opened": [],
  "run.stopping": ["mode"],
  "run.stopped": [],
  "run.completed": [],
  "run.failed": [],
  "run.rewound": ["step", "reopened", "assumed", "items"],
  "run.funded": [],
  "run.messaged": [],
  "run.placed": [],
  "run.restored": [],
  "step.started": [
    ...["items", "conversation", "messages", "fidelity", "base", "restore", "wake", "judge"],
  ],
  "step.asked": ["question", "choices", "text", "deadline", "default"],
  "step.answered": ["label"],
  "step.based": [],
  "step.saved": [],
  "step.conflicted": [],
  "step.unsettled": ["asks"],
  "step.probed": [],
  "step.settled": [],
  "step.iterated": ["iteration"],
  "step.session": [],
  "step.adopted": ["found"],
  "step.continued": [],
  "step.relayed": [],
  "step.submitted": [],
  "step.completed": ["arrows"],
  "step.failed": ["reason", "conversation", "retry", "arrows"],
  "step.lost": ["retry"],
  "step.paused": ["retry"],
  "step.interrupted": [],
  "step.skipped": ["arrows"],
  "step.granted": ["attempts"],
};

/** Actions that a turn does not leave undone. */
const DECISIONS: ReadonlySet<Action["type"]> = new Set([
  "start",
  "close",
  "wake",
  "finish",
  "halt",
]);

/** Makes every decision of a run again. */
export function redecide(plans: Plans, id: string, events: readonly Recorded[]): Redecided {
  const walk = new Walk(plans, id, events);
  for (let index = 0; index < events.length; ) {
    const taken = walk.judge(index);
    const refused = walk.accept(events.slice(index, index + taken));
    if (refused !== undefined) return { ...walk.result(refused.seq), refused };
    index += taken;
  }
  walk.judgeEnd();
  return walk.result(events.length);
}

function planBy(plans: Plans, fingerprint: string): Plan {
  return typeof plans === "function" ? plans(fingerprint) : plans;
}

class Walk {
  readonly #plans: Plans;
  /** The plan that the run goes by. */
  #plan: Plan;
  readonly #events: readonly Recorded[];
  readonly #differences: Difference[] = [];
  readonly #undecided: { seq: number; needs: string }[] = [];
  /** What was missed is told once, not again at every event behind it. */
  readonly #missed = new Set<string>();
  #run: Run;
  #decided = 0;

  constructor(plans: Plans, id: string, events: readonly Recorded[]) {
    this.#plans = plans;
    const first = events[0]?.event;
    this.#plan = planBy(plans, first?.type === "run.created" ? first.fingerprint : "");
    this.#events = events;
    this.#run = emptyRun(id);
  }

  result(events: number): Omit<Redecided, "refused"> {
    const differences = this.#differences;
    return { events, decided: this.#decided, differences, undecided: this.#undecided };
  }

  /** Takes events into the run; gives the first that cannot follow. */
  accept(events: readonly Recorded[]): Redecided["refused"] {
    for (const recorded of events) {
      try {
        this.#run = evolve(this.#plans, this.#run, recorded);
        const { event } = recorded;
        if (event.type === "run.updated") this.#plan = planBy(this.#plans, event.fingerprint);
      } catch (error) {
        if (!(error instanceof AssertionError)) throw error;
        return { seq: recorded.seq, at: eventText(recorded.event), message: error.message };
      }
    }
    return undefined;
  }

  /** Holds the event at an index against today's core; gives how many events the decision made. */
  judge(index: number): number {
    const recorded = this.#events[index] as Recorded;
    const cause = this.#causeOf(index);
    if (cause.kind === "given") return 1;
    if (cause.kind === "unknown") {
      this.#undecided.push({ seq: recorded.seq, needs: cause.needs });
      return 1;
    }
    if (cause.action === undefined) this.#judgeTurn(index);
    else this.#judgeAction(recorded, cause.action, cause.facts);
    return this.#judgeFacts(index, cause.facts);
  }

  /** At the end of the journal its last turn was over as well. */
  judgeEnd(): void {
    const last = this.#events.at(-1);
    if (last !== undefined) this.#judgeDone(last, { ...last, seq: last.seq + 1 }, "the end");
  }

  /** A stop for lack of funds may be the core's own, and then it can be decided again. */
  #causeOf(index: number): Cause {
    const recorded = this.#events[index] as Recorded;
    const { event, time } = recorded;
    const cause = causeOf(this.#run, this.#events, index);
    if (cause.kind !== "unknown" || event.type !== "run.stopping") return cause;
    const actions = nextActions(this.#plan, this.#run, time);
    const halt = actions.find((action) => action.type === "halt");
    if (halt === undefined || event.by !== `${BUDGET_STOP}: ${halt.why}`) return cause;
    const fact: Fact = { type: "stop-requested", mode: halt.mode, by: event.by };
    return { kind: "facts", facts: [fact], action: "halt" };
  }

  /** The outside spoke: all that the turn before could decide must have been decided. */
  #judgeTurn(index: number): void {
    const recorded = this.#events[index] as Recorded;
    const before = this.#events[index - 1];
    // Facts of one turn have one time; a new owner may find the turn of a dead one unfinished.
    const sameTurn = before === undefined || before.time === recorded.time;
    if (sameTurn || recorded.event.type === "run.opened") return;
    this.#judgeDone(before, recorded, eventText(recorded.event));
  }

  #judgeDone(last: Recorded, before: Recorded, at: string): void {
    for (const action of nextActions(this.#plan, this.#run, last.time)) {
      const text = actionText(action);
      if (!DECISIONS.has(action.type) || this.#missed.has(text)) continue;
      // What has to be looked up first may be answered in a later turn.
      if (action.type === "start" && this.#isLookedUp(action.place)) continue;
      // A turn that has grown too long leaves the rest to the next; its owner may die before that.
      if (at === "the end" && this.#isLongTurn()) return;
      this.#missed.add(text);
      this.#differences.push({ seq: before.seq, time: last.time, at, field: "next", now: text });
    }
  }

  #isLookedUp(place: Place): boolean {
    const visit = findVisit(this.#run, place);
    return visit !== undefined && lookupFor(this.#plan, visit) !== undefined;
  }

  #isLongTurn(): boolean {
    const events = this.#events;
    return events.at(-EVENTS_PER_TURN)?.time === events.at(-1)?.time;
  }

  /** An event that answers an action: the core must offer that action now. */
  #judgeAction(recorded: Recorded, type: Action["type"], facts: readonly Fact[]): void {
    const { event, seq, time } = recorded;
    const actions = nextActions(this.#plan, this.#run, time).filter((action) =>
      DECISIONS.has(action.type),
    );
    const place = facts.flatMap((fact) => ("place" in fact ? [fact.place] : []))[0];
    const wanted = place === undefined ? type : `${type} ${placeText(place)}`;
    if (actions.some((action) => actionText(action) === wanted)) return;
    const now = actions.map(actionText).slice(0, ACTIONS_TOLD_MAX);
    const difference = { seq, time, at: eventText(event), field: "next", recorded: wanted };
    this.#differences.push(now.length === 0 ? difference : { ...difference, now });
  }

  #judgeFacts(index: number, facts: readonly Fact[]): number {
    const { time, seq, event } = this.#events[index] as Recorded;
    this.#decided++;
    let first: Comparison | undefined;
    for (const fact of facts) {
      const decided = this.#decide(fact, time);
      const compared = compare(decided, this.#events, index);
      if (compared.fields.length === 0) {
        this.#decided += compared.taken - 1;
        return compared.taken;
      }
      first ??= compared;
    }
    const { taken, fields } = first ?? {
      taken: 1,
      fields: [{ field: "event", recorded: event.type }],
    };
    this.#decided += taken - 1;
    for (const field of fields) {
      this.#differences.push({ seq, time, at: eventText(event), ...field });
    }
    return taken;
  }

  #decide(fact: Fact, time: number): readonly RunEvent[] {
    try {
      return decide(this.#plan, this.#run, fact, time);
    } catch (error) {
      // A wish that was granted then and is refused now.
      if (error instanceof Refusal) return [];
      throw error;
    }
  }
}

/** How many of the actions that it would take instead are told. */
const ACTIONS_TOLD_MAX = 10;

type FieldDifference = Pick<Difference, "field" | "recorded" | "now">;

interface Comparison {
  /** How many recorded events the decision made. */
  readonly taken: number;
  readonly fields: readonly FieldDifference[];
}

/** The events of one decision beside those that stand in the journal from an index on. */
function compare(
  decided: readonly RunEvent[],
  events: readonly Recorded[],
  index: number,
): Comparison {
  const { event: first, time } = events[index] as Recorded;
  const fields: FieldDifference[] = [];
  if (decided.length === 0) return { taken: 1, fields: [{ field: "event", recorded: first.type }] };
  for (const [offset, event] of decided.entries()) {
    const actual = events[index + offset];
    if (actual?.time !== time || eventText(actual.event) !== eventText(event)) {
      const recorded = offset === 0 ? { recorded: eventText(first) } : {};
      fields.push({ field: "event", ...recorded, now: eventText(event) });
      return { taken: Math.max(1, offset), fields };
    }
    fields.push(...fieldDifferences(actual.event, event));
  }
  return { taken: decided.length, fields };
}

function fieldDifferences(recorded: RunEvent, now: RunEvent): readonly FieldDifference[] {
  return CHOICES[recorded.type].flatMap((field) => {
    const then = choiceOf(recorded, field);
    const today = choiceOf(now, field);
    if (canonicalJson(then ?? null) === canonicalJson(today ?? null)) return [];
    return [
      {
        field,
        ...(then === undefined ? {} : { recorded: then }),
        ...(today === undefined ? {} : { now: today }),
      },
    ];
  });
}

/** The value of a field; the words that explain a conversation or are told in it are no choice. */
function choiceOf(event: RunEvent, field: string): Json | undefined {
  if (field === "fidelity" && "fidelity" in event && event.fidelity !== undefined) {
    const { mode, by, thread } = event.fidelity;
    return { mode, by, ...(thread === undefined ? {} : { thread: { ...thread } }) };
  }
  if (event.type === "step.started" && field === "conversation" && event.conversation) {
    const { why: _, gone: __, used: ___, ...choice } = event.conversation;
    return { ...choice };
  }
  return (event as unknown as Readonly<Record<string, Json | undefined>>)[field];
}

/** `step.failed test@1.2`. */
function eventText(event: RunEvent): string {
  if ("attempt" in event) return `${event.type} ${attemptText(event)}`;
  return "scope" in event && "visit" in event ? `${event.type} ${placeText(event)}` : event.type;
}

/** `start test@1`. */
function actionText(action: Action): string {
  return "place" in action ? `${action.type} ${placeText(action.place)}` : action.type;
}
