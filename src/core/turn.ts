/**
 * Recorded turns: the facts of each turn, which the journal stores with the events that they led
 * to. Replay decides them again (replay.ts).
 *
 * Owns: which turns are stored, and their text. A turn without events is stored with the next
 * events of its owner.
 * Does not: store the text (room `journal`) or decide anything.
 * Invariants:
 * - turn/T1 `decodeTurns` returns what `encodeTurns` was given. A value that a fact and an event of
 *   the same append share is stored once, in the event; `same` names both positions.
 * - turn/T2 The text holds no secret of the environment: for a condition that reads a variable that
 *   the run does not remember, only its result is stored.
 */
import type { Plan } from "../plan/plan.ts";
import { isObject } from "../util/json.ts";
import type { RunEvent } from "./event.ts";
import type { Condition, Fact } from "./fact.ts";

/** One turn of an owner: its facts and its time. */
export interface RecordedTurn {
  readonly time: number;
  readonly facts: readonly Fact[];
  /** Conditions that read variables which the run does not remember, by step path. */
  readonly conditions?: Readonly<Record<string, Condition>>;
  /** The facts became events, and nothing that follows from them was decided. */
  readonly alone?: true;
}

/** The turns of one append. */
interface RecordedTurns {
  readonly turns: readonly RecordedTurn[];
  /** Turns are missing: more of them had no event than an owner keeps. */
  readonly gap?: true;
}

/** The events and operations of a turn. */
interface TurnOutcome {
  readonly events: readonly RunEvent[];
  readonly operations: readonly unknown[];
}

/** How many turns without an event an owner keeps for its next append. */
export const TURNS_KEPT_MAX = 10_000;

/** The record of a turn. */
export function recordedTurn(
  time: number,
  facts: readonly Fact[],
  { conditions }: { readonly conditions: Map<string, Condition> },
): RecordedTurn {
  if (conditions.size === 0) return { time, facts };
  const read = Object.fromEntries(conditions);
  conditions.clear();
  return { time, facts, conditions: read };
}

/** Collects the turns of one owner until there is an event to store them with. */
export class TurnLog {
  #kept: RecordedTurn[] = [];
  #gap = false;

  /** Adds a turn; returns the text to store with its events, if it has events. */
  add(turn: RecordedTurn, { events, operations }: TurnOutcome): string | undefined {
    const changedNothing = events.length + operations.length === 0;
    if (changedNothing && turn.facts.length === 0) return undefined;
    if (changedNothing && replacesLast(this.#kept.at(-1), turn)) this.#kept.pop();
    if (this.#kept.length >= TURNS_KEPT_MAX) {
      this.#gap = true;
      this.#kept = [];
    }
    this.#kept.push(turn);
    if (events.length === 0) return undefined;
    const recorded: RecordedTurns = this.#gap ? { turns: [], gap: true } : { turns: this.#kept };
    const text = encodeTurns(recorded, events);
    this.#kept = [];
    return text;
  }
}

/** True when a report of spending follows another: the later one includes the earlier. */
function replacesLast(last: RecordedTurn | undefined, { facts }: RecordedTurn): boolean {
  const [before, ...others] = last?.facts ?? [];
  const [fact, ...more] = facts;
  if (before?.type !== "spending" || fact?.type !== "spending") return false;
  if (others.length + more.length > 0) return false;
  return JSON.stringify(before.at) === JSON.stringify(fact.at);
}

/** Shorter values are stored twice: a reference would not be shorter. */
const SHARED_LENGTH_MIN = 48;
/** How deep facts and events are searched for values that both hold. */
const SHARED_DEPTH_MAX = 4;

type Path = readonly (string | number)[];

/** A value of a fact (turn, fact, fields) that equals one of an event (event, fields). */
interface Same {
  readonly of: Path;
  readonly is: Path;
}

/** The text of the turns of these events. */
export function encodeTurns(recorded: RecordedTurns, events: readonly RunEvent[]): string {
  const held = valuesOf(events);
  const same: Same[] = [];
  const last = recorded.turns.length - 1;
  const turns = recorded.turns.map(({ facts, time, ...turn }, index) => ({
    // The last turn made the events, so its time is theirs.
    ...(index === last ? {} : { time }),
    facts: facts.map((fact, at) => withoutShared(stored(fact), [index, at], held, same)),
    ...turn,
  }));
  return JSON.stringify({ ...recorded, turns, ...(same.length === 0 ? {} : { same }) });
}

/** The turns in a text that was stored with these events. */
export function decodeTurns(
  text: string,
  { events, time }: { readonly events: readonly RunEvent[]; readonly time: number },
  planOf: (fingerprint: string) => Plan,
): RecordedTurns {
  const { same = [], ...recorded } = JSON.parse(text) as RecordedTurns & { same?: Same[] };
  for (const { of, is } of same) {
    const [turn = 0, fact = 0, ...fields] = of;
    const target = recorded.turns[Number(turn)]?.facts[Number(fact)];
    const name = fields.at(-1) ?? "";
    (valueAt(target, fields.slice(0, -1)) as Record<string, unknown>)[name] = valueAt(events, is);
  }
  const turns = recorded.turns.map((turn) => ({
    ...turn,
    time: turn.time ?? time,
    facts: turn.facts.map((fact) =>
      fact.type === "update-requested" ? { ...fact, plan: planOf(fact.fingerprint) } : fact,
    ),
  }));
  return { ...recorded, turns };
}

/** The fact without its plan, which the journal stores by its fingerprint. */
function stored(fact: Fact): object {
  if (fact.type !== "update-requested") return fact;
  const { plan: _, ...rest } = fact;
  return rest;
}

interface HeldValue {
  readonly path: Path;
  readonly value: unknown;
}

/** The values in events, by the name of their field. */
function valuesOf(events: readonly RunEvent[]): ReadonlyMap<string, readonly HeldValue[]> {
  const found = new Map<string, HeldValue[]>();
  const visit = (value: object, path: Path): void => {
    for (const [name, field] of Object.entries(value) as [string, unknown][]) {
      if (!isLong(field)) continue;
      const at = [...path, name];
      found.set(name, [...(found.get(name) ?? []), { path: at, value: field }]);
      if (isObject(field) && at.length < SHARED_DEPTH_MAX) visit(field, at);
    }
  };
  for (const [index, event] of events.entries()) visit(event, [index]);
  return found;
}

/**
 * A copy of a value without the parts that events hold under the same name; `same` records them.
 */
function withoutShared(
  value: object,
  path: Path,
  held: ReadonlyMap<string, readonly HeldValue[]>,
  same: Same[],
): object {
  if (held.size === 0) return value;
  const kept: Record<string, unknown> = {};
  for (const [name, field] of Object.entries(value) as [string, unknown][]) {
    const at = [...path, name];
    const found = isLong(field) && held.get(name)?.find((one) => isSame(one.value, field));
    if (found) same.push({ of: at, is: found.path });
    else if (isObject(field) && at.length < SHARED_DEPTH_MAX + 1) {
      kept[name] = withoutShared(field, at, held, same);
    } else kept[name] = field;
  }
  return kept;
}

function isLong(value: unknown): boolean {
  return remaining(value, SHARED_LENGTH_MIN) <= 0;
}

/** The rest of a length after a value; counting stops at 0. */
function remaining(value: unknown, length: number): number {
  if (typeof value === "string") return length - value.length - 2;
  if (typeof value !== "object" || value === null) return length - 1;
  let left = length - 2;
  for (const [name, field] of Object.entries(value)) {
    left = remaining(field, left - name.length - 3);
    if (left <= 0) return left;
  }
  return left;
}

function isSame(one: unknown, other: unknown): boolean {
  if (one === other) return true;
  return typeof one === "object" && JSON.stringify(one) === JSON.stringify(other);
}

function valueAt(value: unknown, path: Path): unknown {
  return path.reduce<unknown>(
    (at, name) => (at as Record<string | number, unknown> | undefined)?.[name],
    value,
  );
}
