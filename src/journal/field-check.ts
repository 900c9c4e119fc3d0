/** Checks for the fields of what is read from disk: each finds the first value that is wrong. */
import { isObject } from "../util/json.ts";
import { JournalError } from "./journal.ts";

/** The place of the first wrong value below this one (".a.b", "" for itself), if there is one. */
export type Check = (value: unknown) => string | undefined;
/** A check for each field of an event or of a part of one. */
export type Fields<T> = { readonly [Field in keyof Omit<T, "type">]-?: Check };

const given =
  (holds: (value: unknown) => boolean): Check =>
  (value) =>
    holds(value) ? undefined : "";
/** A text. */
export const text = given((value) => typeof value === "string");
/** A number. */
export const number = given((value) => typeof value === "number");
/** True or false. */
export const boolean = given((value) => typeof value === "boolean");
/** A whole number. */
export const integer = given(Number.isSafeInteger);
/** Anything that is there. */
export const json = given((value) => value !== undefined);
/** One of these words. */
export const oneOf = (...words: readonly string[]): Check =>
  given((value) => typeof value === "string" && words.includes(value));
/** What may be missing. */
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

/** An object with such values under any names. */
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

/** An object with these fields. */
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

/** The object in a text. Throws "broken". */
export function parseObject(data: string, where: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(data);
  } catch (cause) {
    throw new JournalError("broken", `${where} is damaged: it is not JSON.`, { cause });
  }
  if (!isObject(value)) {
    throw new JournalError("broken", `${where} is damaged: it is not an object.`);
  }
  return value;
}
