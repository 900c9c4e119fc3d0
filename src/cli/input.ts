/** The input of a run: from the command line to JSON, held against the pipeline's schema. */
import { readFileSync } from "node:fs";
import { isObject, type Json } from "../util/json.ts";
import { schemaErrors } from "../util/json-schema.ts";
import { CliError } from "./cli-error.ts";
import { EXIT } from "./exit-code.ts";

/** How large an input may be. */
const INPUT_BYTES_MAX = 1024 * 1024;

/**
 * `--input` as people write it: JSON, `@file.json`, `-` for stdin, `key=value` (may be repeated), or
 * plain text.
 */
export function parseInput(given: readonly string[]): Json {
  if (given.length === 0) return null;
  const pairs = given.map((text) => /^([A-Za-z_][\w-]*)=(.*)$/s.exec(text));
  if (pairs.every((pair) => pair !== null)) {
    return Object.fromEntries(pairs.map((pair) => [pair[1] ?? "", pairValue(pair[2] ?? "")]));
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

/** Numbers and booleans are what they look like; everything else is text. */
function pairValue(text: string): Json {
  return /^(true|false|null|-?\d+(\.\d+)?)$/.test(text) || /^[[{"]/.test(text)
    ? fromJson(text, "--input")
    : text;
}

function looksLikeJson(text: string): boolean {
  return /^\s*([[{"]|(true|false|null|-?\d+(\.\d+)?)\s*$)/.test(text);
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

function fromJson(text: string, name: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new CliError(EXIT.usage, `the input from ${name} is not JSON: ${reason}`);
  }
}

/** Fills in the schema's defaults and refuses an input that does not fit. */
export async function fitInput(input: Json, schema: Json | undefined, file: string): Promise<Json> {
  if (schema === undefined) return input;
  const filled = withDefaults(input ?? {}, schema);
  const errors = await schemaErrors(filled, schema);
  if (errors.length === 0) return filled;
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
