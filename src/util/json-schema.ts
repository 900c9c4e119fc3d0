/**
 * Validates values against JSON Schemas. The validator is loaded when it is first needed.
 *
 * Owns: the only use of @cfworker/json-schema, and a bound on the time that its patterns take.
 * Does not: check that a schema is one (pipeline/json-schema.ts).
 */
import type { OutputUnit } from "@cfworker/json-schema";
import type { Json } from "./json.ts";
import { PatternError, patternOf } from "./pattern.ts";

/** The validator compares every two items with each other. */
const UNIQUE_ITEMS_MAX = 5_000;

/** Everything that is wrong with a value; the innermost of each chain of errors comes last. */
export async function schemaErrors(value: unknown, schema: Json): Promise<readonly OutputUnit[]> {
  const many = asksForUnique(schema) ? longestListIn(value) : 0;
  if (many > UNIQUE_ITEMS_MAX) {
    const error = `it has a list of ${many} items; uniqueItems takes at most ${UNIQUE_ITEMS_MAX}`;
    return [{ keyword: "uniqueItems", keywordLocation: "#", instanceLocation: "#", error }];
  }
  const { Validator, format } = await import("@cfworker/json-schema");
  // Its own check of `url` takes exponential time; the others do not.
  Object.assign(format, { url: isWebAddress, regex: isRegularExpression });
  const validator = new Validator(schema as boolean | object, "2020-12", false);
  try {
    return withLinearPatterns(() => validator.validate(value)).errors;
  } catch (error) {
    if (!(error instanceof PatternError)) throw error;
    const place = { keyword: "pattern", keywordLocation: "#", instanceLocation: "#" };
    return [{ ...place, error: error.message }];
  }
}

/** The first thing that is wrong with a value ("/files/0: ..."), or undefined when it fits. */
export async function schemaFault(value: unknown, schema: Json): Promise<string | undefined> {
  const first = (await schemaErrors(value, schema)).at(-1);
  return first === undefined ? undefined : `${first.instanceLocation}: ${first.error}`;
}

function asksForUnique(schema: Json): boolean {
  if (typeof schema !== "object" || schema === null) return false;
  if (!Array.isArray(schema) && "uniqueItems" in schema && schema.uniqueItems === true) return true;
  return Object.values(schema).some(asksForUnique);
}

function longestListIn(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  const own = Array.isArray(value) ? value.length : 0;
  return Object.values(value).reduce<number>(
    (most, one) => Math.max(most, longestListIn(one)),
    own,
  );
}

function isWebAddress(text: string): boolean {
  return /^(?:https?|ftp):\/\//i.test(text) && URL.canParse(text);
}

const NativeRegExp = RegExp;

/** For data that claims to be a pattern: it is parsed and never matched. */
function isRegularExpression(text: string): boolean {
  try {
    new NativeRegExp(text, "u");
    return true;
  } catch (error) {
    if (error instanceof SyntaxError) return false;
    throw error;
  }
}

/**
 * The validator has no option for the engine: it calls `new RegExp(pattern)` when it matches. So
 * `RegExp` means our patterns while it works, which is never longer than this call.
 */
function withLinearPatterns<T>(work: () => T): T {
  globalThis.RegExp = new Proxy(NativeRegExp, {
    construct: (_, [source]: [string]) => patternOf(source),
  });
  try {
    return work();
  } finally {
    globalThis.RegExp = NativeRegExp;
  }
}
