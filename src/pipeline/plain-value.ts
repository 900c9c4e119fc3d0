/** A copy of a value as plain data, or where in it something else stands. */
import { isObject } from "../util/json.ts";
import type { Path } from "./source.ts";

/** How deep values may stand in each other. */
const DEPTH_MAX = 200;

export type PlainValue =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly path: Path; readonly found: string };

/** What JSON could hold; keys without a value are left out. */
export function plainValue(value: unknown): PlainValue {
  try {
    return { ok: true, value: copy(value, [], new Set()) };
  } catch (error) {
    if (!(error instanceof NotPlain)) throw error;
    return { ok: false, path: error.path, found: error.message };
  }
}

class NotPlain extends Error {
  readonly path: Path;
  constructor(path: Path, found: string) {
    super(found);
    this.path = path;
  }
}

function copy(value: unknown, path: Path, around: ReadonlySet<unknown>): unknown {
  if (value === null || ["string", "boolean"].includes(typeof value)) return value;
  if (typeof value === "number" && Number.isFinite(value)) return value;
  if (typeof value !== "object") throw new NotPlain(path, kindOf(value));
  if (around.has(value)) throw new NotPlain(path, "a value that stands in itself");
  if (path.length > DEPTH_MAX) throw new NotPlain(path, "a value that is nested too deeply");
  const inside = new Set([...around, value]);
  if (Array.isArray(value)) {
    return Array.from(value, (item, index) => copy(item, [...path, index], inside));
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  if ((prototype !== Object.prototype && prototype !== null) || !isObject(value)) {
    throw new NotPlain(path, kindOf(value));
  }
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, inner]) => inner !== undefined)
      .map(([key, inner]) => [key, copy(inner, [...path, key], inside)]),
  );
}

function kindOf(value: unknown): string {
  if (value === undefined) return "undefined";
  if (typeof value === "function") return "a function";
  if (typeof value === "number") return String(value);
  if (value instanceof Promise) return "a promise";
  const name = typeof value === "object" ? value?.constructor.name : typeof value;
  return `a ${name ?? "value"}`;
}
