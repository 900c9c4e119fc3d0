/**
 * Converts values for expressions and back.
 *
 * Owns: the conversion between JSON and CEL values, and the limit on list elements read.
 * Does not: parse or evaluate (expression.ts).
 * Invariants:
 * - An object becomes a Map, so that no key of outside data ("constructor") reaches a prototype.
 * - A whole number becomes an int (BigInt), so that `input.n / 2` and `list[input.n]` work.
 */
import { isObject, type Json } from "./json.ts";

/**
 * How many list elements one evaluation may read: the limit for loops and for `in` within loops.
 */
const EXPRESSION_READS_MAX = 5_000_000;

/** A map that looks each value up on demand, and cannot be listed. */
export class LazyMap extends Map<string, unknown> {
  readonly #lookup: (key: string) => Json | LazyMap | undefined;

  constructor(lookup: (key: string) => Json | LazyMap | undefined) {
    super();
    this.#lookup = lookup;
  }

  override get(key: string): unknown {
    const value = typeof key === "string" ? this.#lookup(key) : undefined;
    return value === undefined ? undefined : toCel(value);
  }

  override has(key: string): boolean {
    return this.get(key) !== undefined;
  }

  override get size(): number {
    throw new Error("this map cannot be listed or compared; name a key of it");
  }

  override keys(): MapIterator<string> {
    throw new Error("this map cannot be listed or compared; name a key of it");
  }
}
// cel-js distinguishes types by `constructor` and does not accept a subclass of Map.
Object.defineProperty(LazyMap.prototype, "constructor", { value: Map });

let listReads = 0;
const converted = new WeakMap<object, unknown>();

/** Resets the count of list reads for the next evaluation. */
export function resetListReads(): void {
  listReads = 0;
}

/** The CEL form of a value. An object is converted once. */
export function toCel(value: Json | LazyMap): unknown {
  if (typeof value === "number") return Number.isSafeInteger(value) ? BigInt(value) : value;
  if (typeof value !== "object" || value === null || value instanceof LazyMap) return value;
  const known = converted.get(value);
  if (known !== undefined) return known;
  const made = Array.isArray(value)
    ? countedList(value.map(toCel))
    : new Map(Object.entries(value).map(([key, inner]) => [key, toCel(inner)]));
  converted.set(value, made);
  return made;
}

/** The JSON form of a CEL value; throws if it has none. */
export function fromCel(value: unknown): Json {
  if (value === null || typeof value === "string" || typeof value === "boolean") return value;
  if (typeof value === "number") return finite(value);
  if (typeof value === "bigint") return safeInteger(value);
  if (value instanceof LazyMap)
    throw new Error("a whole map cannot be used as a value; name a key of it");
  if (Array.isArray(value)) return value.map(fromCel);
  if (value instanceof Map) return object([...value.entries()]);
  if (value instanceof Date) return value.toISOString();
  if (value instanceof Uint8Array) throw new Error("bytes are no JSON; wrap them in string()");
  if (isObject(value)) return fromCelObject(value);
  throw new Error(`a result of type ${typeof value} is no JSON`);
}

function fromCelObject(value: Record<string, unknown>): Json {
  if (value.constructor === Object) return object(Object.entries(value));
  // cel-js's UnsignedInt and Duration, which it does not export as classes.
  const plain: unknown = value.valueOf();
  if (typeof plain === "bigint") return safeInteger(plain);
  if (typeof plain === "number") return String(value);
  throw new Error("the result is no JSON value");
}

function object(entries: readonly (readonly [string, unknown])[]): Json {
  return Object.fromEntries(entries.map(([key, inner]) => [key, fromCel(inner)]));
}

function finite(value: number): number {
  if (!Number.isFinite(value)) throw new Error(`the result ${value} is no JSON number`);
  return value;
}

function safeInteger(value: bigint): number {
  const number = Number(value);
  if (Number.isSafeInteger(number)) return number;
  throw new Error(`the result ${value} is too large for a JSON number; wrap it in string()`);
}

function countedList(list: readonly unknown[]): readonly unknown[] {
  return new Proxy(list, {
    get(target, key, receiver): unknown {
      if (++listReads > EXPRESSION_READS_MAX) {
        throw new Error(`it reads more than ${EXPRESSION_READS_MAX} list elements`);
      }
      return Reflect.get(target, key, receiver);
    },
  });
}
