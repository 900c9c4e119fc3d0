/**
 * Checks of values that were read: what each may be, put together from small ones.
 *
 * Owns: the parts, and the place of what is wrong.
 * Does not: know any event (event-codec.ts).
 */
import { isObject } from "../util/json.ts";

/** The place of the first wrong value below this one (".a.b", "" for itself), if there is one. */
export type Check = (value: unknown) => string | undefined;
/** A check for each field of a type. */
export type Fields<T> = { readonly [Field in keyof Omit<T, "type">]-?: Check };

const given =
  (holds: (value: unknown) => boolean): Check =>
  (value) =>
    holds(value) ? undefined : "";
export const text = given((value) => typeof value === "string");
export const number = given((value) => typeof value === "number");
export const boolean = given((value) => typeof value === "boolean");
export const integer = given(Number.isSafeInteger);
export const json = given((value) => value !== undefined);
export const oneOf = (...words: readonly string[]): Check =>
  given((value) => typeof value === "string" && words.includes(value));
export const optional =
  (check: Check): Check =>
  (value) =>
    value === undefined ? undefined : check(value);

/** A list of such values. */
export function listOf(check: Check): Check {
  return (value) => {
    if (!Array.isArray(value)) return "";
    for (let index = 0; index < value.length; index++) {
      const fault = check(value[index]);
      if (fault !== undefined) return `[${index}]${fault}`;
    }
    return undefined;
  };
}

/** Such values by any names. */
export function mapOf(check: Check): Check {
  return (value) => {
    if (!isObject(value)) return "";
    for (const [key, item] of Object.entries(value)) {
      const fault = check(item);
      if (fault !== undefined) return `.${key}${fault}`;
    }
    return undefined;
  };
}

/** An object with these fields, and perhaps others. */
export function record(fields: Readonly<Record<string, Check>>): Check {
  const entries = Object.entries(fields);
  return (value) => {
    if (!isObject(value)) return "";
    for (const [key, check] of entries) {
      const fault = check(value[key]);
      if (fault !== undefined) return `.${key}${fault}`;
    }
    return undefined;
  };
}
