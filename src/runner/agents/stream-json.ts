/**
 * Reads lines of JSON from another program, without trust: a value that is missing or has another
 * type is absent.
 *
 * Owns: reading values from a line, and cutting long texts.
 * Does not: know any agent.
 * Invariant: an incomplete line is not an object, because no beginning of an object is an object.
 */
import { isObject, type Json, type JsonObject } from "../../util/json.ts";

/** The object in a line; undefined for anything else, such as an incomplete line. */
export function objectIn(line: string): JsonObject | undefined {
  if (!line.trimStart().startsWith("{")) return undefined;
  try {
    const value: unknown = JSON.parse(line);
    return isObject(value) ? (value as JsonObject) : undefined;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** The value at a path of keys, if there is one. */
export function at(value: Json | undefined, ...path: readonly string[]): Json | undefined {
  let found: Json | undefined = value;
  for (const key of path) {
    if (!isObject(found) || !Object.hasOwn(found, key)) return undefined;
    found = found[key];
  }
  return found ?? undefined;
}

/** The text at a path, if there is one. */
export function textAt(value: Json | undefined, ...path: readonly string[]): string | undefined {
  const found = at(value, ...path);
  return typeof found === "string" ? found : undefined;
}

/** The number at a path, if there is one. */
export function numberAt(value: Json | undefined, ...path: readonly string[]): number | undefined {
  const found = at(value, ...path);
  return typeof found === "number" ? found : undefined;
}

/** The list at a path; empty if there is none. */
export function listAt(value: Json | undefined, ...path: readonly string[]): readonly Json[] {
  const found = at(value, ...path);
  return Array.isArray(found) ? (found as readonly Json[]) : [];
}

/**
 * The input of a tool call as text. For a shell call it is the command alone: agents add a
 * description that differs from call to call.
 */
export function inputText(input: Json | undefined): string {
  const command = at(input, "command");
  if (typeof command === "string") return command;
  if (Array.isArray(command)) return command.join(" ");
  return input === undefined ? "" : JSON.stringify(input);
}

/**
 * A text with more appended. It keeps at least the last `charactersMin` characters and at most
 * twice as many, because cutting it at every piece would copy it every time.
 */
export function appended(text: string, more: string, charactersMin: number): string {
  const whole = text + more;
  return whole.length <= 2 * charactersMin ? whole : whole.slice(-charactersMin);
}

/** The last characters of a text. */
export function tailOf(text: string, charactersMax: number): string {
  return text.length <= charactersMax ? text : text.slice(-charactersMax);
}

/** The first characters of a text; `…` marks a cut. */
export function headOf(text: string, charactersMax: number): string {
  return text.length <= charactersMax ? text : `${text.slice(0, charactersMax - 1)}…`;
}
