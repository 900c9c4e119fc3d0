/**
 * Checks JSON Schemas that authors write: otherwise a misspelt type would appear only when a run
 * validates the first value.
 *
 * Owns: the keywords and the form of their values.
 * Does not: validate data against a schema (util/json-schema.ts).
 */
import { isObject } from "../util/json.ts";
import { nearest } from "../util/nearest.ts";
import { PATTERN_HELP, parsePattern } from "../util/pattern.ts";
import type { Path, Report } from "./diagnostic.ts";

/** How deep schemas may be nested. */
const SCHEMA_DEPTH_MAX = 64;
const SCHEMA_HELP = "see https://json-schema.org/understanding-json-schema";

/** A mistake in a schema, with its path. */
interface SchemaProblem {
  readonly path: Path;
  readonly message: string;
  readonly help?: string;
  /** Set when the mistake is the key at the end of the path. */
  readonly on?: "key";
}

const TYPES = ["null", "boolean", "object", "array", "number", "integer", "string"];

type Rule =
  | "schema"
  | "schemas"
  | "map"
  | "names"
  | "number"
  | "count"
  | "pattern"
  | "text"
  | "any";

const KEYWORDS: Readonly<Record<string, Rule | "type" | "list" | "flag" | "ref" | "items">> = {
  type: "type",
  enum: "list",
  const: "any",
  properties: "map",
  patternProperties: "map",
  dependentSchemas: "map",
  $defs: "map",
  definitions: "map",
  additionalProperties: "schema",
  unevaluatedProperties: "schema",
  propertyNames: "schema",
  items: "items",
  additionalItems: "schema",
  unevaluatedItems: "schema",
  prefixItems: "schemas",
  contains: "schema",
  not: "schema",
  if: "schema",
  // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
  then: "schema",
  else: "schema",
  allOf: "schemas",
  anyOf: "schemas",
  oneOf: "schemas",
  required: "names",
  dependentRequired: "any",
  dependencies: "any",
  minimum: "number",
  maximum: "number",
  exclusiveMinimum: "number",
  exclusiveMaximum: "number",
  multipleOf: "number",
  minLength: "count",
  maxLength: "count",
  minItems: "count",
  maxItems: "count",
  minContains: "count",
  maxContains: "count",
  minProperties: "count",
  maxProperties: "count",
  pattern: "pattern",
  format: "text",
  contentEncoding: "text",
  contentMediaType: "text",
  uniqueItems: "flag",
  $ref: "ref",
  $schema: "text",
  $id: "text",
  $anchor: "text",
  $comment: "text",
  title: "text",
  description: "text",
  default: "any",
  examples: "list",
  deprecated: "flag",
  readOnly: "flag",
  writeOnly: "flag",
};

/** All mistakes in a JSON Schema. */
export function checkJsonSchema(schema: unknown): readonly SchemaProblem[] {
  const problems: SchemaProblem[] = [];
  check(schema, [], { root: schema, problems });
  return problems;
}

/** Adds the mistakes of a JSON Schema at a path of the file. */
export function reportJsonSchema(schema: unknown, path: Path, report: Report): void {
  for (const problem of checkJsonSchema(schema)) {
    const { message, help = SCHEMA_HELP, on = "value" } = problem;
    report.add({ rule: "bad-json-schema", message, help, on, path: [...path, ...problem.path] });
  }
}

interface Checking {
  readonly root: unknown;
  readonly problems: SchemaProblem[];
}

function check(schema: unknown, path: Path, checking: Checking): void {
  if (typeof schema === "boolean") return;
  if (!isObject(schema)) {
    checking.problems.push({ path, message: "a schema must be a map, true or false" });
    return;
  }
  if (path.length > SCHEMA_DEPTH_MAX * 2) {
    checking.problems.push({
      path,
      message: `schemas are nested more than ${SCHEMA_DEPTH_MAX} deep`,
    });
    return;
  }
  for (const [keyword, value] of Object.entries(schema)) {
    checkKeyword(keyword, value, [...path, keyword], checking);
  }
}

function checkKeyword(keyword: string, value: unknown, path: Path, checking: Checking): void {
  const rule = Object.hasOwn(KEYWORDS, keyword) ? KEYWORDS[keyword] : undefined;
  if (rule === undefined) {
    // Unknown keywords are allowed, but a keyword close to a known one is probably misspelt.
    const meant = keyword.startsWith("x-") ? undefined : nearest(keyword, Object.keys(KEYWORDS));
    if (meant === undefined) return;
    const message = `\`${keyword}\` is not a keyword of JSON Schema`;
    checking.problems.push({ path, message, help: `did you mean \`${meant}\`?`, on: "key" });
  } else if (rule === "schema") check(value, path, checking);
  else if (rule === "items" && !Array.isArray(value)) check(value, path, checking);
  else if (rule === "map" && isObject(value)) {
    for (const [key, inner] of Object.entries(value)) {
      const problem = keyword === "patternProperties" ? checkPattern(key) : undefined;
      if (problem !== undefined)
        checking.problems.push({ path: [...path, key], ...problem, on: "key" });
      check(inner, [...path, key], checking);
    }
  } else if ((rule === "schemas" || rule === "items") && Array.isArray(value)) {
    value.forEach((inner, index) => {
      check(inner, [...path, index], checking);
    });
  } else {
    const problem = checkValue(rule, keyword, value, checking.root);
    if (problem !== undefined) checking.problems.push({ path, ...problem });
  }
}

type Problem = Omit<SchemaProblem, "path"> | undefined;

function checkValue(rule: string, keyword: string, value: unknown, root: unknown): Problem {
  const must = (fits: boolean, what: string): Problem =>
    fits ? undefined : { message: `\`${keyword}\` must be ${what}` };
  switch (rule) {
    case "type":
      return checkType(value);
    case "map":
      return { message: `\`${keyword}\` must be a map of schemas` };
    case "schemas":
      return { message: `\`${keyword}\` must be a list of schemas` };
    case "list":
      return must(Array.isArray(value), "a list");
    case "names":
      return must(
        Array.isArray(value) && value.every((one) => typeof one === "string"),
        "a list of names",
      );
    case "number":
      return must(typeof value === "number" && Number.isFinite(value), "a number");
    case "count":
      return must(Number.isInteger(value) && Number(value) >= 0, "a whole number, 0 or more");
    case "flag":
      return must(typeof value === "boolean", "true or false");
    case "text":
      return must(typeof value === "string", "a text");
    case "pattern":
      return checkPattern(value);
    case "ref":
      return checkRef(value, root);
    default:
      return undefined;
  }
}

function checkType(value: unknown): Problem {
  const wrong = [value].flat().find((one) => typeof one !== "string" || !TYPES.includes(one));
  if (wrong === undefined) return undefined;
  const meant = nearest(String(wrong), TYPES);
  const help = meant === undefined ? `one of: ${TYPES.join(", ")}` : `did you mean \`${meant}\`?`;
  return { message: `\`${String(wrong)}\` is not a type of JSON Schema`, help };
}

function checkPattern(value: unknown): Problem {
  if (typeof value !== "string") return { message: "`pattern` must be a text" };
  try {
    new RegExp(value, "u");
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return { message: error.message.replace(/^Invalid/, "invalid") };
  }
  const parsed = parsePattern(value);
  return parsed.ok ? undefined : { message: parsed.message, help: PATTERN_HELP };
}

/** References may only point into the schema itself: nothing is fetched. */
function checkRef(value: unknown, root: unknown): Problem {
  if (typeof value !== "string") return { message: "`$ref` must be a text" };
  if (!value.startsWith("#")) {
    return { message: "`$ref` must point into this schema", help: "write it like #/$defs/name" };
  }
  if (!value.startsWith("#/")) return undefined;
  let at: unknown = root;
  for (const token of value.slice(2).split("/")) {
    const key = token.replaceAll("~1", "/").replaceAll("~0", "~");
    if (Array.isArray(at)) at = at[Number(key)];
    else at = isObject(at) && Object.hasOwn(at, key) ? at[key] : undefined;
  }
  return at === undefined ? { message: `there is no schema at \`${value}\`` } : undefined;
}
