/**
 * Shapes of JSON values: each shape checks a value that was read from disk, and gives the type of
 * the values that pass, so that a field is written down once.
 *
 * Owns: these checks.
 * Does not: use a schema library, since loading one costs more than a whole `perdure list`.
 * Invariants:
 * - fields/S1 A field that a shape does not name is kept as it is: a newer program may have written
 *   it.
 */
import { isObject, type Json } from "../util/json.ts";

/** Returns the path of the first wrong value (".a.b", "" for the value itself), if there is one. */
export interface Shape<T> {
  (value: unknown): string | undefined;
  /** Never set: it only carries the type. */
  readonly type?: T;
}

/** A field that may be missing. */
export interface OptionalShape<T> extends Shape<T> {
  readonly optional: true;
}

/** The type of the values that have a shape. */
export type TypeOf<S> = S extends Shape<infer T> ? T : never;

/** The fields of an object. */
type Fields = Readonly<Record<string, Shape<unknown>>>;

/** The type of the objects that have these fields. */
export type FieldsOf<F> = Flat<
  {
    readonly [K in keyof F as F[K] extends OptionalShape<unknown> ? never : K]: TypeOf<F[K]>;
  } & {
    readonly [K in keyof F as F[K] extends OptionalShape<unknown> ? K : never]?: TypeOf<F[K]>;
  }
>;

type Flat<T> = { [K in keyof T]: T[K] };

function when<T>(holds: (value: unknown) => boolean): Shape<T> {
  return (value) => (holds(value) ? undefined : "");
}

export const text: Shape<string> = when((value) => typeof value === "string");
export const number: Shape<number> = when((value) => typeof value === "number");
export const integer: Shape<number> = when(Number.isSafeInteger);
export const boolean: Shape<boolean> = when((value) => typeof value === "boolean");
/** True, or absent. */
export const flag: Shape<true> = when((value) => value === true);
/** Any JSON value. */
export const json: Shape<Json> = when((value) => value !== undefined);

/** A word; newer programs may add further ones. */
export function word<W extends string>(): Shape<W> {
  return when((value) => typeof value === "string");
}

/** One of these words. */
export function oneOf<const W extends string>(...words: readonly W[]): Shape<W> {
  return when((value) => typeof value === "string" && words.some((one) => one === value));
}

/** A field that may be missing. */
export function optional<T>(shape: Shape<T>): OptionalShape<T> {
  const check = (value: unknown): string | undefined =>
    value === undefined ? undefined : shape(value);
  return Object.assign(check, { optional: true as const });
}

/** A list of values with this shape. */
export function listOf<T>(shape: Shape<T>): Shape<readonly T[]> {
  return (value) => {
    if (!Array.isArray(value)) return "";
    for (let index = 0; index < value.length; index++) {
      const fault = shape(value[index]);
      if (fault !== undefined) return `[${index}]${fault}`;
    }
    return undefined;
  };
}

/** An object whose values have this shape, with any keys. */
export function mapOf<T>(shape: Shape<T>): Shape<Readonly<Record<string, T>>> {
  return (value) => {
    if (!isObject(value)) return "";
    for (const [key, item] of Object.entries(value)) {
      const fault = shape(item);
      if (fault !== undefined) return `.${key}${fault}`;
    }
    return undefined;
  };
}

/** An object with these fields. */
export function record<F extends Fields>(fields: F): Shape<FieldsOf<F>> {
  const shapes = new Map(Object.entries(fields));
  const required = [...shapes.keys()].filter((key) => !isOptional(fields[key]));
  return (value) => {
    if (!isObject(value)) return "";
    for (const key of required) {
      if (value[key] === undefined) return `.${key}`;
    }
    // By the fields that are there: most events have few of those that they may have.
    for (const key of Object.keys(value)) {
      const fault = shapes.get(key)?.(value[key]);
      if (fault !== undefined) return `.${key}${fault}`;
    }
    return undefined;
  };
}

function isOptional(shape: Shape<unknown> | undefined): boolean {
  return shape !== undefined && "optional" in shape;
}

/** An object whose field `tag` names its variant, which has these other fields. */
export function variants<const T extends string, V extends Readonly<Record<string, Fields>>>(
  tag: T,
  kinds: V,
): Shape<Variants<T, V>> {
  const shapes = new Map(Object.entries(kinds).map(([kind, fields]) => [kind, record(fields)]));
  return (value) => {
    if (!isObject(value)) return "";
    const shape = shapes.get(String(value[tag]));
    return shape === undefined ? `.${tag}` : shape(value);
  };
}

/** The type of objects whose field `T` is the name of one of these kinds. */
export type Variants<T extends string, V> = {
  [K in keyof V]: Flat<{ readonly [Tag in T]: K } & FieldsOf<V[K]>>;
}[keyof V];
