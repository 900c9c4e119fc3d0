/**
 * Lines of JSON from another program, read without trust: what is not there, or is of another
 * shape than expected, is absent.
 *
 * Owns: reading values from a line, and the bounds on what is kept of them.
 * Does not: know any agent.
 * Invariant: a line that is torn is no object, because no beginning of an object is one.
 */
import { isObject, type Json, type JsonObject } from "../../util/json.ts";

/** The object that a line holds; undefined for anything else, a torn line included. */
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
 * What a tool was called with, as text. Of a shell call only the command counts: agents add a
 * description to it that differs from call to call.
 */
export function inputText(input: Json | undefined): string {
  const command = at(input, "command");
  if (typeof command === "string") return command;
  if (Array.isArray(command)) return command.join(" ");
  return input === undefined ? "" : JSON.stringify(input);
}

/**
 * A text with more appended. It keeps at least the last characters and at most twice as many:
 * cutting it at every piece of a long stream would copy it every time.
 */
export function grown(text: string, more: string, charactersMin: number): string {
  const whole = text + more;
  return whole.length <= 2 * charactersMin ? whole : whole.slice(-charactersMin);
}

/** The last characters of a text, at most so many. */
export function tailOf(text: string, charactersMax: number): string {
  return text.length <= charactersMax ? text : text.slice(-charactersMax);
}

/** The first characters of a text, at most so many, with a mark where something is missing. */
export function headOf(text: string, charactersMax: number): string {
  return text.length <= charactersMax ? text : `${text.slice(0, charactersMax - 1)}…`;
}
