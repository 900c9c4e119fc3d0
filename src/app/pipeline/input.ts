/**
 * The input of a run: reads it from the command line as JSON, and checks it against the pipeline's
 * schema.
 *
 * Owns: what each form of `--input` and `--input-json` means. The schema gives the type of a value;
 * without one a value is text, unless it is a word of JSON, or a number that prints as it was typed.
 */
import { readFileSync } from "node:fs";
import { isObject, type Json, type JsonObject, parseJson } from "../../util/json.ts";
import { schemaErrors } from "../../util/json-schema.ts";
import { nearest } from "../../util/nearest.ts";
import { valueText } from "../../util/template.ts";
import { shortList } from "../../view/text.ts";
import { advice, command, InputRefusal, Refusal } from "../refusal.ts";

/** How large an input may be. */
const INPUT_BYTES_MAX = 1024 * 1024;

/** How many known names the refusal of an unknown name lists. */
const NAMES_SHOWN_MAX = 8;

/** The values of `--input` and `--input-json`, in the order of the command line. */
export interface TypedInput {
  readonly input?: readonly string[];
  readonly inputJson?: readonly string[];
  /** The whole input, from a program; it is taken as it is. */
  readonly value?: Json;
}

/**
 * Reads `--input`: JSON (a list, an object or a quoted text), `@file.json`, `-` for stdin,
 * `key=value` (may be repeated), or plain text; and `--input-json key=JSON`, or `-` for stdin with the
 * whole input as JSON, whatever the schema says.
 */
export function parseInput(
  { input: given = [], inputJson: json = [], value }: TypedInput,
  schema: Json | undefined,
): Json {
  if (value !== undefined) return value;
  if (given.length + json.length === 0) return null;
  if (given.length === 0 && json.join() === "-") return fromJson(textIn("stdin", 0), "stdin");
  if (isOnlyText(schema)) return textInput(given, json);
  const pairs = given.map((text) => PAIR.exec(text));
  if (pairs.every((pair) => pair !== null)) {
    const typed = pairs.map(([, key = "", text = ""]) => [
      key,
      pairValue(key, text, propertyOf(schema, key)),
    ]);
    return Object.fromEntries([...typed, ...json.map(jsonPair)]);
  }
  if (given.length + json.length > 1) {
    const message = "several --input must all have the form key=value";
    throw new Refusal("bad-input", message, command("run", "--help"));
  }
  const [text = ""] = given;
  if (text === "-") return fromFile("stdin", 0);
  if (text.startsWith("@")) return fromFile(text.slice(1), text.slice(1));
  if (!looksLikeJson(text)) return text;
  // If the schema allows a text, the text may begin with a bracket.
  if (isText(schema) && !parseJson(text).ok) return text;
  return fromJson(text, "--input");
}

const PAIR = /^([A-Za-z_][\w-]*)=(.*)$/s;

/** The key and the value of `--input-json key=JSON`. */
function jsonPair(text: string): readonly [string, Json] {
  const [, key, value = ""] = PAIR.exec(text) ?? [];
  if (key !== undefined) return [key, fromJson(value, `--input-json ${key}`)];
  const message = `--input-json takes key=JSON, such as 'tags=["a", "b"]', not ${text}`;
  throw new Refusal("bad-input", message);
}

/** The input of a pipeline that takes a text: it is never read as JSON or `key=value`. */
function textInput(given: readonly string[], json: readonly string[]): Json {
  const [text = "", ...more] = given;
  if (more.length + json.length > 0) {
    const message = "the input of this pipeline is one text: give --input once";
    throw new Refusal("bad-input", message, command("run", "FILE", "--input", "TEXT"));
  }
  if (text === "-") return textIn("stdin", 0);
  return text.startsWith("@") ? textIn(text.slice(1), text.slice(1)) : text;
}

/** True when the whole input must be a text. */
function isOnlyText(schema: Json | undefined): boolean {
  const types = typesIn(schema);
  return types.length === 1 && types[0] === "string";
}

/** True when the schema allows a text as the whole input. */
function isText(schema: Json | undefined): boolean {
  return schema === undefined || typesIn(schema).some((type) => type === "string");
}

function propertyOf(schema: Json | undefined, key: string): Json | undefined {
  const properties = propertiesOf(schema);
  return Object.hasOwn(properties, key) ? properties[key] : undefined;
}

function propertiesOf(schema: Json | undefined): JsonObject {
  const properties = isObject(schema) ? schema.properties : undefined;
  return isObject(properties) ? properties : {};
}

/** The types that a schema names; none if it names no type. */
function typesIn(schema: Json | undefined): readonly Json[] {
  const type = isObject(schema) ? schema.type : undefined;
  return type === undefined ? [] : Array.isArray(type) ? type : [type];
}

/** The value of `key=value`, with the type that the schema of the key asks for. */
function pairValue(key: string, text: string, schema: Json | undefined): Json {
  const types = typesIn(schema);
  if (types.includes("string")) return text;
  if (types.length === 0) return listedValue(text, schema) ?? guessedValue(text);
  const number = /^-?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(text);
  if (number && (types.includes("number") || types.includes("integer"))) {
    refuseLostDigits(text, key);
    return Number(text);
  }
  if (types.includes("boolean") && /^(true|false)$/.test(text)) return text === "true";
  if (types.includes("null") && text === "null") return null;
  if (types.includes("array") || types.includes("object")) return fromJson(text, `${key}=...`);
  return text;
}

/** The value of the schema's `enum` that is written like this text. */
function listedValue(text: string, schema: Json | undefined): Json | undefined {
  const listed = isObject(schema) && Array.isArray(schema.enum) ? (schema.enum as Json[]) : [];
  return listed.find((value) => valueText(value) === text);
}

/** The value of a text without a schema: a text, unless it is a word of JSON or a number. */
function guessedValue(text: string): Json {
  if (text === "true" || text === "false") return text === "true";
  if (text === "null") return null;
  return /^-?\d/.test(text) && String(Number(text)) === text ? Number(text) : text;
}

function looksLikeJson(text: string): boolean {
  return /^\s*[[{"]/.test(text);
}

/** Refuses a number with more digits than JavaScript keeps. */
function refuseLostDigits(text: string, name: string): void {
  const read = String(Number(text));
  if (digitsOf(text) === digitsOf(read)) return;
  const message = `the input ${name}: ${text} is too long for a number, which would be ${read}`;
  throw new Refusal(
    "bad-input",
    message,
    advice("declare it as `type: string` in the pipeline's input"),
  );
}

function digitsOf(text: string): string {
  const [mantissa = ""] = text.toLowerCase().split("e");
  const [whole = "", fraction = ""] = mantissa.replace("-", "").split(".");
  return `${whole}${fraction}`.replace(/^0+/, "").replace(/0+$/, "");
}

function fromFile(name: string, source: string | 0): Json {
  const text = textIn(name, source);
  return looksLikeJson(text) ? fromJson(text, name) : text;
}

/** The text of a file, or of stdin. */
function textIn(name: string, source: string | 0): string {
  let text: string;
  try {
    text = readFileSync(source, "utf8");
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new Refusal("bad-input", `the input cannot be read from ${name}: ${reason}`);
  }
  if (Buffer.byteLength(text) > INPUT_BYTES_MAX) {
    throw new Refusal(
      "bad-input",
      `the input from ${name} is larger than ${INPUT_BYTES_MAX} bytes`,
    );
  }
  return text;
}

/** The types of TypeScript's library lack the third argument of the reviver. */
const parseWithSource = JSON.parse as (
  text: string,
  revive: (key: string, value: Json, context: { readonly source?: string }) => Json,
) => Json;

function fromJson(text: string, name: string): Json {
  try {
    return parseWithSource(text, (_key, value, { source }) => {
      if (typeof value === "number" && source !== undefined) refuseLostDigits(source, name);
      return value;
    });
  } catch (error) {
    if (error instanceof Refusal) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    const message = `the input from ${name} is not JSON: ${reason}`;
    throw new Refusal(
      "bad-input",
      message,
      advice(`write it like ["a", "b"] or {"a": 1}, in quotes`),
    );
  }
}

/** Refuses keys that the pipeline does not declare, unless its schema allows other keys. */
export function refuseUnknownKeys(input: Json, schema: Json | undefined, file: string): void {
  if (!isObject(input) || !isObject(schema) || !isObject(schema.properties)) return;
  if (OPEN_KEYWORDS.some((keyword) => Object.hasOwn(schema, keyword))) return;
  if (schema.additionalProperties !== undefined && schema.additionalProperties !== false) return;
  const known = Object.keys(schema.properties);
  const unknown = Object.keys(input).filter((key) => !known.includes(key));
  if (unknown.length === 0) return;
  const problems = unknown.map((key) => {
    const meant = nearest(key, known);
    const help = meant === undefined ? `it takes ${shortList(known, NAMES_SHOWN_MAX)}` : "";
    return `${key} is not known (${help || `did you mean ${meant}?`})`;
  });
  const message = `the input does not fit the pipeline's schema: ${problems.join("; ")}`;
  const [first = "key"] = unknown.flatMap((key) => nearest(key, known) ?? known[0] ?? []);
  throw new Refusal("bad-input", message, command("run", file, "--input", `${first}=...`));
}

/** With one of these keywords, `properties` is not the complete list of keys. */
const OPEN_KEYWORDS = [
  "$ref",
  "allOf",
  "anyOf",
  "dependentSchemas",
  "if",
  "oneOf",
  "patternProperties",
  "unevaluatedProperties",
];

/** Adds the schema's defaults and refuses an input that the schema does not allow. */
export async function fitInput(input: Json, schema: Json | undefined, file: string): Promise<Json> {
  if (schema === undefined) return input;
  if (input === null && isOnlyText(schema)) return textDefault(schema, file);
  const filled = withDefaults(input ?? {}, schema);
  const errors = await schemaErrors(filled, schema);
  if (errors.length === 0) return filled;
  const problems = errors
    .filter(({ keyword }) => !OUTER_KEYWORDS.has(keyword))
    .map(({ keyword, instanceLocation, error }) =>
      problemOf(keyword, instanceLocation.slice(2), error),
    );
  const texts = problems.map(({ place, text }) => `${place === "" ? "it" : place}${text}`);
  const message = `the input does not fit the pipeline's schema: ${texts.join("; ")}`;
  const next = command("run", file, ...inputWords(schema));
  throw new InputRefusal(message, next, fieldsOf(problems));
}

/** What is wrong with a value: its path, and words that follow its name. */
interface InputProblem {
  readonly place: string;
  readonly text: string;
}

/** The first problem of each value, as a sentence that is shown beside it. */
function fieldsOf(problems: readonly InputProblem[]): Readonly<Record<string, string>> {
  const entries = problems.map(
    ({ place, text }) => [place, text.startsWith(": ") ? text.slice(2) : `This${text}.`] as const,
  );
  return Object.fromEntries(entries.toReversed());
}

/** The default of a text that was not given. */
function textDefault(schema: Json, file: string): Json {
  const text = isObject(schema) ? schema.default : undefined;
  if (text !== undefined) return text;
  const message = "the input is missing: this pipeline takes a text";
  throw new Refusal("bad-input", message, command("run", file, "--input", "TEXT"));
}

/** Errors of these keywords only repeat an inner error. */
const OUTER_KEYWORDS: ReadonlySet<string> = new Set(["properties", "additionalProperties"]);

/** An error of the validator, in words about the value that the person gave. */
function problemOf(keyword: string, place: string, error: string): InputProblem {
  const [first = "", second = ""] = Array.from(error.matchAll(/"([^"]*)"/g), (match) => match[1]);
  switch (keyword) {
    case "required":
      return { place: `${place === "" ? "" : `${place}/`}${first}`, text: " is missing" };
    case "false":
      return { place, text: " is not known" };
    case "type":
      return { place, text: ` must be of type ${second}, not ${first}` };
    default:
      return { place, text: `: ${error}` };
  }
}

/** The options that give the smallest input that the schema allows. */
function inputWords(schema: Json): readonly string[] {
  if (isOnlyText(schema)) return ["--input", "TEXT"];
  const required = isObject(schema) && Array.isArray(schema.required) ? schema.required : [];
  const names = required.length === 0 ? ["key"] : required;
  return names.flatMap((name) => ["--input", `${String(name)}=...`]);
}

function withDefaults(input: Json, schema: Json): Json {
  if (!isObject(input) || !isObject(schema) || !isObject(schema.properties)) return input;
  const defaults = Object.entries(schema.properties).flatMap(([key, property]) =>
    isObject(property) && property.default !== undefined ? [[key, property.default]] : [],
  );
  return { ...(Object.fromEntries(defaults) as Record<string, Json>), ...(input as object) };
}
