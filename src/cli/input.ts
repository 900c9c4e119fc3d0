/**
 * The input of a run: from the command line to JSON, held against the pipeline's schema.
 *
 * Owns: what each spelling of `--input` means.
 * Does not: change what was typed: a value is the text itself, unless the schema says that it is
 * something else, and a number that would lose digits is refused.
 */
import { readFileSync } from "node:fs";
import { isObject, type Json } from "../util/json.ts";
import { CliError } from "./cli-error.ts";
import { EXIT } from "./exit-code.ts";

/** How large an input may be. */
const INPUT_BYTES_MAX = 1024 * 1024;

/**
 * `--input` as people write it: JSON (a list, an object or a quoted text), `@file.json`, `-` for stdin,
 * `key=value` (may be repeated), or plain text.
 */
export function parseInput(given: readonly string[], schema: Json | undefined): Json {
  if (given.length === 0) return null;
  const pairs = given.map((text) => /^([A-Za-z_][\w-]*)=(.*)$/s.exec(text));
  if (pairs.every((pair) => pair !== null)) {
    return Object.fromEntries(
      pairs.map(([, key = "", text = ""]) => [key, pairValue(key, text, typesOf(schema, key))]),
    );
  }
  if (given.length > 1) {
    const message = "several --input must all have the form key=value";
    throw new CliError(EXIT.usage, message, "perdure run --help");
  }
  const [text = ""] = given;
  if (text === "-") return fromFile("stdin", 0);
  if (text.startsWith("@")) return fromFile(text.slice(1), text.slice(1));
  return looksLikeJson(text) ? fromJson(text, "--input") : text;
}

/** The types that the schema allows for a key of the input; none when it says nothing. */
function typesOf(schema: Json | undefined, key: string): readonly Json[] {
  const properties = isObject(schema) && isObject(schema.properties) ? schema.properties : {};
  const property = Object.hasOwn(properties, key) ? properties[key] : undefined;
  const type: Json | undefined = isObject(property) ? property.type : undefined;
  return type === undefined ? [] : Array.isArray(type) ? type : [type];
}

/** A value is the text as it was typed, unless its schema says that it is no text. */
function pairValue(key: string, text: string, types: readonly Json[]): Json {
  if (types.length === 0 || types.includes("string")) return text;
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

function looksLikeJson(text: string): boolean {
  return /^\s*[[{"]/.test(text);
}

/** A number that a program would read as another one is no number for us either. */
function refuseLostDigits(text: string, name: string): void {
  const read = String(Number(text));
  if (digitsOf(text) === digitsOf(read)) return;
  const message = `the input ${name}: ${text} is too long for a number, which would be ${read}`;
  throw new CliError(EXIT.usage, message, "declare it as `type: string` in the pipeline's input");
}

function digitsOf(text: string): string {
  const [mantissa = ""] = text.toLowerCase().split("e");
  const [whole = "", fraction = ""] = mantissa.replace("-", "").split(".");
  return `${whole}${fraction}`.replace(/^0+/, "").replace(/0+$/, "");
}

function fromFile(name: string, source: string | 0): Json {
  let text: string;
  try {
    text = readFileSync(source, "utf8");
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new CliError(EXIT.usage, `the input cannot be read from ${name}: ${reason}`);
  }
  if (Buffer.byteLength(text) > INPUT_BYTES_MAX) {
    throw new CliError(
      EXIT.usage,
      `the input from ${name} is larger than ${INPUT_BYTES_MAX} bytes`,
    );
  }
  return looksLikeJson(text) ? fromJson(text, name) : text;
}

/** The types of the library do not know yet what the parser tells of each value. */
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
    if (error instanceof CliError) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    throw new CliError(EXIT.usage, `the input from ${name} is not JSON: ${reason}`);
  }
}

/** Fills in the schema's defaults and refuses an input that does not fit. */
export async function fitInput(input: Json, schema: Json | undefined, file: string): Promise<Json> {
  if (schema === undefined) return input;
  const filled = withDefaults(input ?? {}, schema);
  const { Validator } = await import("@cfworker/json-schema");
  const { valid, errors } = new Validator(schema as object, "2020-12", false).validate(filled);
  if (valid) return filled;
  const problems = errors
    .filter(({ keyword }) => !OUTER_KEYWORDS.has(keyword))
    .map(({ keyword, instanceLocation, error }) =>
      problemText(keyword, instanceLocation.slice(2), error),
    );
  const message = `the input does not fit the pipeline's schema: ${problems.join("; ")}`;
  throw new CliError(EXIT.usage, message, `perdure run ${file} ${inputWords(schema)}`);
}

/** These only repeat what an inner error says. */
const OUTER_KEYWORDS: ReadonlySet<string> = new Set(["properties", "additionalProperties"]);

/** What the validator found, in words about the value that the person gave. */
function problemText(keyword: string, place: string, error: string): string {
  const [first = "", second = ""] = Array.from(error.matchAll(/"([^"]*)"/g), (match) => match[1]);
  const name = place === "" ? "it" : place;
  switch (keyword) {
    case "required":
      return `${place === "" ? "" : `${place}/`}${first} is missing`;
    case "false":
      return `${name} is not known`;
    case "type":
      return `${name} must be of type ${second}, not ${first}`;
    default:
      return `${name}: ${error}`;
  }
}

/** The options that give what the schema asks for at least. */
function inputWords(schema: Json): string {
  const required = isObject(schema) && Array.isArray(schema.required) ? schema.required : [];
  const names = required.length === 0 ? ["key"] : required;
  return names.map((name) => `--input ${String(name)}=...`).join(" ");
}

function withDefaults(input: Json, schema: Json): Json {
  if (!isObject(input) || !isObject(schema) || !isObject(schema.properties)) return input;
  const defaults = Object.entries(schema.properties).flatMap(([key, property]) =>
    isObject(property) && property.default !== undefined ? [[key, property.default]] : [],
  );
  return { ...(Object.fromEntries(defaults) as Record<string, Json>), ...(input as object) };
}
