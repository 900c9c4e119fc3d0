/**
 * Validates values against JSON Schemas. The validator is loaded when it is first needed.
 *
 * Owns: the only use of @cfworker/json-schema, and a limit on the time of its patterns.
 * Does not: check schemas themselves (pipeline/json-schema.ts).
 */
import { createRequire } from "node:module";
import type { OutputUnit } from "@cfworker/json-schema";
import type { Json } from "./json.ts";
import { PatternError, patternOf } from "./pattern.ts";

function loadValidator(): typeof import("@cfworker/json-schema") {
  return createRequire(import.meta.url)("@cfworker/json-schema") as ReturnType<
    typeof loadValidator
  >;
}

/** The validator compares all pairs of items. */
const UNIQUE_ITEMS_MAX = 5_000;

/** All errors of a value; the innermost of each chain of errors comes last. */
export async function schemaErrors(value: unknown, schema: Json): Promise<readonly OutputUnit[]> {
  const many = asksForUnique(schema) ? longestListIn(value) : 0;
  if (many > UNIQUE_ITEMS_MAX) {
    const error = `it has a list of ${many} items; uniqueItems takes at most ${UNIQUE_ITEMS_MAX}`;
    return [{ keyword: "uniqueItems", keywordLocation: "#", instanceLocation: "#", error }];
  }
  const { Validator, format } = loadValidator();
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

/** The first error of a value ("/files/0: ..."); undefined if it is valid. */
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

/** For data with the format `regex`: the pattern is parsed and never matched. */
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
 * The validator calls `new RegExp(pattern)` and has no option for another engine. So `RegExp` is
 * replaced by our patterns during this call.
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
