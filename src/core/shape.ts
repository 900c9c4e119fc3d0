/**
 * Shapes of JSON values: each shape checks a value that was read from disk, and gives the type of
 * the values that pass, so that a field is written down once. A shape also describes itself, so
 * that a value can be printed with public names, and a schema can be published.
 *
 * Owns: these checks and descriptions.
 * Does not: use a schema library, since loading one costs more than a whole `perdure list`; print a
 * value (view/json/printed.ts) or write a schema (view/json/json-schema.ts).
 * Invariants:
 * - fields/S1 A field that a shape does not name is kept as it is: a newer program may have written
 *   it.
 */
import { isObject, type Json } from "../util/json.ts";

/**
 * Returns the path of the first wrong value (".a.b", "" for the value itself), if there is one.
 * Values of type `T` are printed as values of type `P`.
 */
export interface Shape<T, P = T> {
  (value: unknown): string | undefined;
  readonly form: ShapeKind;
  /** Never set: they only carry the types. */
  readonly type?: T;
  readonly printed?: P;
}

/** A field that may be missing. */
export interface OptionalShape<T, P = T> extends Shape<T, P> {
  readonly optional: true;
}

/** What a shape accepts, for code that prints values or describes them. */
export type ShapeKind =
  | { readonly kind: "text" | "number" | "integer" | "boolean" | "flag" | "json" | "time" }
  | { readonly kind: "words"; readonly words: readonly string[] }
  | { readonly kind: "list" | "map" | "nullable"; readonly of: Shape<unknown> }
  | { readonly kind: "record"; readonly fields: Fields }
  | {
      readonly kind: "variants";
      readonly tag: string;
      readonly kinds: Readonly<Record<string, Fields>>;
    };

/** The type of the values that have a shape. */
export type TypeOf<S> = S extends Shape<infer T, unknown> ? T : never;

/** The type of these values when they are printed. */
type PrintedOf<S> = S extends Shape<unknown, infer P> ? P : never;

/** The fields of an object. */
export type Fields = Readonly<Record<string, Shape<unknown>>>;

/** The type of the objects that have these fields. */
export type FieldsOf<F> = Flat<
  {
    readonly [K in keyof F as F[K] extends OptionalShape<unknown> ? never : K]: TypeOf<F[K]>;
  } & {
    readonly [K in keyof F as F[K] extends OptionalShape<unknown> ? K : never]?: TypeOf<F[K]>;
  }
>;

/** The type of these objects when they are printed: names in snake case. */
export type PrintedFieldsOf<F> = Flat<
  {
    readonly [K in keyof F as F[K] extends OptionalShape<unknown>
      ? never
      : PrintedName<K>]: PrintedOf<F[K]>;
  } & {
    readonly [K in keyof F as F[K] extends OptionalShape<unknown>
      ? PrintedName<K>
      : never]?: PrintedOf<F[K]>;
  }
>;

/** `fileSha256` becomes `file_sha256`. */
type PrintedName<K> = K extends `${infer First}${infer Rest}`
  ? `${First extends Lowercase<First> ? First : `_${Lowercase<First>}`}${PrintedName<Rest>}`
  : K extends string
    ? K
    : never;

type Flat<T> = { [K in keyof T]: T[K] };

function shaped<T, P = T>(
  form: ShapeKind,
  check: (value: unknown) => string | undefined,
): Shape<T, P> {
  return Object.assign(check, { form });
}

function when<T, P = T>(form: ShapeKind, holds: (value: unknown) => boolean): Shape<T, P> {
  return shaped(form, (value) => (holds(value) ? undefined : ""));
}

const isText = (value: unknown): boolean => typeof value === "string";
const isNumber = (value: unknown): boolean => typeof value === "number";

export const text: Shape<string> = when({ kind: "text" }, isText);
export const number: Shape<number> = when({ kind: "number" }, isNumber);
export const integer: Shape<number> = when({ kind: "integer" }, Number.isSafeInteger);
/** A moment, in milliseconds since 1970; printed in ISO 8601. */
export const time: Shape<number, string> = when({ kind: "time" }, isNumber);
export const boolean: Shape<boolean> = when(
  { kind: "boolean" },
  (value) => typeof value === "boolean",
);
/** True, or absent. */
export const flag: Shape<true> = when({ kind: "flag" }, (value) => value === true);
/** Any JSON value. */
export const json: Shape<Json> = when({ kind: "json" }, (value) => value !== undefined);

/** A word; newer programs may add further ones. */
export function word<W extends string>(): Shape<W> {
  return when({ kind: "text" }, isText);
}

/** One of these words. */
export function oneOf<const W extends string>(...words: readonly W[]): Shape<W> {
  const holds = (value: unknown): boolean => words.some((one) => one === value);
  return when({ kind: "words", words }, holds);
}

/** A field that may be missing. */
export function optional<T, P>(shape: Shape<T, P>): OptionalShape<T, P> {
  const check = (value: unknown): string | undefined =>
    value === undefined ? undefined : shape(value);
  return Object.assign(check, { form: shape.form, optional: true as const });
}

/** A value with this shape, or null. */
export function nullable<T, P>(shape: Shape<T, P>): Shape<T | null, P | null> {
  return shaped({ kind: "nullable", of: shape }, (value) =>
    value === null ? undefined : shape(value),
  );
}

/** A list of values with this shape. */
export function listOf<T, P>(shape: Shape<T, P>): Shape<readonly T[], readonly P[]> {
  return shaped({ kind: "list", of: shape }, (value) => {
    if (!Array.isArray(value)) return "";
    for (let index = 0; index < value.length; index++) {
      const fault = shape(value[index]);
      if (fault !== undefined) return `[${index}]${fault}`;
    }
    return undefined;
  });
}

/** An object whose values have this shape, with any keys. */
export function mapOf<T, P>(
  shape: Shape<T, P>,
): Shape<Readonly<Record<string, T>>, Readonly<Record<string, P>>> {
  return shaped({ kind: "map", of: shape }, (value) => {
    if (!isObject(value)) return "";
    for (const [key, item] of Object.entries(value)) {
      const fault = shape(item);
      if (fault !== undefined) return `.${key}${fault}`;
    }
    return undefined;
  });
}

/** An object with these fields. */
export function record<F extends Fields>(fields: F): Shape<FieldsOf<F>, PrintedFieldsOf<F>> {
  const shapes = new Map(Object.entries(fields));
  const required = [...shapes.keys()].filter((key) => !isOptional(fields[key]));
  return shaped({ kind: "record", fields }, (value) => {
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
  });
}

/** True for the shape of a field that may be missing. */
export function isOptional(shape: Shape<unknown> | undefined): boolean {
  return shape !== undefined && "optional" in shape;
}

/** An object whose field `tag` names its variant, which has these other fields. */
export function variants<const T extends string, V extends Readonly<Record<string, Fields>>>(
  tag: T,
  kinds: V,
): Shape<Variants<T, V>, PrintedVariants<T, V>> {
  const shapes = new Map(Object.entries(kinds).map(([kind, fields]) => [kind, record(fields)]));
  return shaped({ kind: "variants", tag, kinds }, (value) => {
    if (!isObject(value)) return "";
    const shape = shapes.get(String(value[tag]));
    return shape === undefined ? `.${tag}` : shape(value);
  });
}

/** The type of objects whose field `T` is the name of one of these kinds. */
export type Variants<T extends string, V> = {
  [K in keyof V]: Flat<{ readonly [Tag in T]: K } & FieldsOf<V[K]>>;
}[keyof V];

/** The type of these objects when they are printed. */
type PrintedVariants<T extends string, V> = {
  [K in keyof V]: Flat<{ readonly [Tag in T]: K } & PrintedFieldsOf<V[K]>>;
}[keyof V];
