/**
 * Replay: the core decides the recorded facts of a run again, turn by turn, and the new events are
 * compared with the recorded ones.
 *
 * Owns: the comparison, up to the first difference.
 * Does not: read or change a journal.
 * Invariants:
 * - replay/G1 Only events that no turn made are taken as they are recorded: how the run was
 *   created, forked and moved, the history that a fork has from another run, and what follows a gap
 *   until the next owner.
 * - replay/G2 A run of this version replays without a difference; every black-box test and every
 *   seed of the simulator checks this.
 */
import type { Plan } from "../plan/plan.ts";
import { AssertionError } from "../util/assert.ts";
import { canonicalJson, type Json } from "../util/json.ts";
import { type Activity, newActivity } from "./activity.ts";
import { advance, decideAlone } from "./advance.ts";
import type { Recorded, RunEvent } from "./event.ts";
import { emptyRun, evolve } from "./evolve.ts";
import { Refusal } from "./graph/rewind.ts";
import type { Run } from "./run.ts";
import { attemptText, visitText } from "./step-path.ts";
import { decodeTurns, type RecordedTurn } from "./turn.ts";

/** Finds the plan with a fingerprint. */
type PlanOf = (fingerprint: string) => Plan;

/** The result of a replay. */
export interface Replayed {
  /** How many events were read. */
  readonly events: number;
  /** How many turns were decided again. */
  readonly turns: number;
  /** How many events of turns were taken as they are recorded (replay/G1). */
  readonly taken: number;
  /** The first difference; nothing after it was read. */
  readonly difference?: Difference;
}

/** A recorded event that today's core would not make, or the other way round. */
export interface Difference {
  readonly seq: number;
  readonly time: number;
  /** `step.failed test@1.2`. */
  readonly at: string;
  /** The field that differs; `event` when it is another event, or none. */
  readonly field: string;
  readonly recorded?: Json;
  readonly now?: Json;
}

/** Decides every turn of a run again. */
export function replayTurns(planOf: PlanOf, id: string, events: readonly Recorded[]): Replayed {
  return new Replay(planOf, id, events).result();
}

class Replay {
  readonly #planOf: PlanOf;
  readonly #events: readonly Recorded[];
  /** The events up to this number are the history of another run. */
  readonly #forkedAt: number;
  #plan: Plan;
  #run: Run;
  /** The activity of the current owner; absent after a gap. */
  #activity: Activity | undefined;
  #turns = 0;
  #taken = 0;

  constructor(planOf: PlanOf, id: string, events: readonly Recorded[]) {
    this.#planOf = planOf;
    this.#events = events;
    const first = events[0]?.event;
    this.#plan = planOf(first?.type === "run.created" ? first.fingerprint : "");
    this.#run = emptyRun(id);
    this.#forkedAt = events.findLast(({ event }) => event.type === "run.forked")?.seq ?? 0;
  }

  result(): Replayed {
    let index = 0;
    let difference: Difference | undefined;
    while (index < this.#events.length && difference === undefined) {
      const group = appendAt(this.#events, index);
      difference = this.#attempt(group);
      index += group.length;
    }
    const read = difference === undefined ? this.#events.length : difference.seq;
    const counts = { events: read, turns: this.#turns, taken: this.#taken };
    return difference === undefined ? counts : { ...counts, difference };
  }

  #attempt(group: readonly Recorded[]): Difference | undefined {
    try {
      const difference = this.#judge(group);
      const update = group.findLast(({ event }) => event.type === "run.updated")?.event;
      if (update?.type === "run.updated") this.#plan = this.#planOf(update.fingerprint);
      return difference;
    } catch (error) {
      if (!(error instanceof AssertionError) && !(error instanceof Refusal)) throw error;
      const [first] = group;
      return first && { ...visitRef(first), field: "event", now: `refused: ${error.message}` };
    }
  }

  /** Decides the turns of one append again. */
  #judge(group: readonly Recorded[]): Difference | undefined {
    const [first] = group;
    if (first?.facts === undefined || first.seq <= this.#forkedAt) return this.#take(group);
    const events = group.map(({ event }) => event);
    const { turns, gap } = decodeTurns(first.facts, { events, time: first.time }, this.#planOf);
    const opens = turns.some(({ facts }) => facts.some(({ type }) => type === "opened"));
    if (gap === true) this.#activity = undefined;
    if (gap === true || (this.#activity === undefined && !opens && !turns.some(isAlone))) {
      return this.#take(group);
    }
    const decided = turns.flatMap((turn) => this.#decide(turn));
    this.#turns += turns.length;
    return differenceIn(group, decided);
  }

  #take(group: readonly Recorded[]): undefined {
    for (const recorded of group) this.#run = evolve(this.#planOf, this.#run, recorded);
    this.#taken += group.filter(({ event }) => !GIVEN.has(event.type)).length;
  }

  #decide(turn: RecordedTurn): readonly RunEvent[] {
    const { time, facts, conditions = {} } = turn;
    if (isAlone(turn)) {
      const { run, events } = decideAlone(this.#planOf, this.#plan, this.#run, facts, time);
      this.#run = run;
      return events;
    }
    const opened = facts.find((fact) => fact.type === "opened");
    if (opened !== undefined) {
      this.#activity = newActivity({ keepsFiles: opened.keepsFiles === true });
    }
    const activity = this.#activity ?? newActivity({ keepsFiles: false });
    for (const [path, value] of Object.entries(conditions)) activity.conditions.set(path, value);
    const { run, events } = advance(this.#plan, this.#run, activity, facts, time);
    activity.conditions.clear();
    this.#run = run;
    return events;
  }
}

function isAlone({ alone }: RecordedTurn): boolean {
  return alone === true;
}

/** Events that were written outside a turn. */
const GIVEN: ReadonlySet<RunEvent["type"]> = new Set(["run.created", "run.forked", "run.moved"]);

/** The events of the append that starts at an index. */
function appendAt(events: readonly Recorded[], index: number): readonly Recorded[] {
  let end = index + 1;
  for (; end < events.length; end++) {
    const { facts, event } = events[end] as Recorded;
    if (facts !== undefined || GIVEN.has(event.type)) break;
  }
  return events.slice(index, end);
}

function differenceIn(
  recorded: readonly Recorded[],
  decided: readonly RunEvent[],
): Difference | undefined {
  for (const [index, one] of recorded.entries()) {
    const event = decided[index];
    const at = visitRef(one);
    if (event === undefined) return { ...at, field: "event", recorded: eventText(one.event) };
    const difference = fieldDifference(one.event, event);
    if (difference !== undefined) return { ...at, ...difference };
  }
  const more = decided[recorded.length];
  const last = recorded.at(-1);
  if (more === undefined || last === undefined) return undefined;
  return { ...visitRef(last), seq: last.seq + 1, field: "event", now: eventText(more) };
}

type FieldDifference = Pick<Difference, "field" | "recorded" | "now">;

function fieldDifference(recorded: RunEvent, now: RunEvent): FieldDifference | undefined {
  if (eventText(recorded) !== eventText(now)) {
    return { field: "event", recorded: eventText(recorded), now: eventText(now) };
  }
  const then = fieldsOf(recorded);
  const today = fieldsOf(now);
  for (const field of new Set([...Object.keys(then), ...Object.keys(today)])) {
    if (canonicalJson(then[field] ?? null) === canonicalJson(today[field] ?? null)) continue;
    return {
      field,
      ...(then[field] === undefined ? {} : { recorded: then[field] }),
      ...(today[field] === undefined ? {} : { now: today[field] }),
    };
  }
  return undefined;
}

function fieldsOf(event: RunEvent): Readonly<Record<string, Json | undefined>> {
  return event as unknown as Readonly<Record<string, Json | undefined>>;
}

function visitRef({ seq, time, event }: Recorded): Pick<Difference, "seq" | "time" | "at"> {
  return { seq, time, at: eventText(event) };
}

/** `step.failed test@1.2`. */
function eventText(event: RunEvent): string {
  if ("attempt" in event) return `${event.type} ${attemptText(event)}`;
  return "scope" in event && "visit" in event ? `${event.type} ${visitText(event)}` : event.type;
}
