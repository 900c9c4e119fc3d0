/**
 * A form made from the JSON Schema of an input: which fields it has, and the input that their texts
 * stand for.
 *
 * Owns: which schemas have a field of their own; everything else is written as JSON.
 * Does not: check what the schema allows, beyond what cannot be sent at all: the server does.
 */
import { isObject, type Json, type JsonObject, parseJson } from "../../util/json.ts";

type FieldKind =
  | "text"
  | "number"
  | "integer"
  | "boolean"
  | "enum"
  | "list"
  | "choices"
  | "group"
  | "json";

/** One field, or a group of fields. */
export interface Field {
  /** `address/street`; empty for an input that is one value. */
  readonly path: string;
  readonly name: string;
  readonly kind: FieldKind;
  readonly isRequired: boolean;
  readonly schema: JsonObject;
  /** Of `enum` and `choices`. */
  readonly options: readonly Json[];
  /** Of a group. */
  readonly fields: readonly Field[];
}

/** What a person put into the fields, by their paths; a field that is absent was not touched. */
export type Filled = Readonly<Record<string, string | boolean | readonly string[]>>;

/** What is wrong with fields, by their paths. */
export type Faults = Readonly<Record<string, string>>;

const SIMPLE = ["string", "number", "integer", "boolean"];
/** With these keywords, `properties` does not tell the whole form. */
const COMBINED = ["$ref", "allOf", "anyOf", "oneOf", "if", "not", "dependentSchemas"];

/** The form of a schema; null stands for an input about which the pipeline says nothing. */
export function fieldsOf(schema: Json): readonly Field[] {
  const whole = { path: "", name: "Input", isRequired: false };
  if (!isSchema(schema)) return [field({ ...whole, kind: "json", schema: {} })];
  const inner = fieldOf(whole, schema, 0);
  if (inner.kind === "group") return inner.fields;
  return [{ ...inner, isRequired: inner.kind === "text" && schema.default === undefined }];
}

type Named = Pick<Field, "path" | "name" | "isRequired">;

function field(given: Partial<Field> & Named & Pick<Field, "kind" | "schema">): Field {
  return { options: [], fields: [], ...given };
}

function fieldOf(named: Named, schema: JsonObject, depth: number): Field {
  const type = schema.type;
  if (Array.isArray(schema.enum) && schema.enum.every(isSimple)) {
    return field({ ...named, kind: "enum", schema, options: schema.enum as Json[] });
  }
  if (COMBINED.some((keyword) => Object.hasOwn(schema, keyword))) {
    return field({ ...named, kind: "json", schema });
  }
  if (type === "string") return field({ ...named, kind: "text", schema });
  if (type === "number" || type === "integer" || type === "boolean") {
    return field({ ...named, kind: type, schema });
  }
  if (type === "array" && isSchema(schema.items)) return listField(named, schema, schema.items);
  // A group in a group is written as JSON.
  if (isSchema(schema.properties) && depth < 2) {
    return field({ ...named, kind: "group", schema, fields: membersOf(named, schema, depth) });
  }
  return field({ ...named, kind: "json", schema });
}

function listField(named: Named, schema: JsonObject, items: JsonObject): Field {
  if (Array.isArray(items.enum) && items.enum.every(isSimple)) {
    return field({ ...named, kind: "choices", schema, options: items.enum as Json[] });
  }
  const isList = items.type === "string" || items.type === "number" || items.type === "integer";
  return field({ ...named, kind: isList ? "list" : "json", schema });
}

function membersOf({ path }: Named, schema: JsonObject, depth: number): readonly Field[] {
  const required = Array.isArray(schema.required) ? schema.required : [];
  const properties = isSchema(schema.properties) ? schema.properties : {};
  return Object.entries(properties).map(([name, member]) =>
    fieldOf(
      {
        path: path === "" ? name : `${path}/${name}`,
        name,
        isRequired:
          required.includes(name) && !(isSchema(member) && Object.hasOwn(member, "default")),
      },
      isSchema(member) ? member : {},
      depth + 1,
    ),
  );
}

function isSchema(value: Json | undefined): value is JsonObject {
  return isObject(value);
}

function isSimple(value: unknown): boolean {
  return value === null || SIMPLE.includes(typeof value);
}

/** A value as the text of a field. */
export function textOf(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** What a field shows before a person touches it. */
export function startOf({ kind, schema }: Field): string | boolean | readonly string[] {
  const given = schema.default;
  if (kind === "boolean") return given === true;
  if (kind === "choices") return Array.isArray(given) ? given.map((one) => textOf(one)) : [];
  if (given === undefined) return "";
  if (kind === "list")
    return Array.isArray(given) ? given.map((one) => textOf(one)).join("\n") : "";
  return kind === "json" ? JSON.stringify(given, null, 2) : textOf(given);
}

/** The input that the fields stand for, and what cannot be sent. */
export function inputOf(
  fields: readonly Field[],
  filled: Filled,
): { readonly input: Json | undefined; readonly faults: Faults } {
  const faults: Record<string, string> = {};
  const [only] = fields;
  if (only?.path === "") return { input: fieldValue(only, filled, faults), faults };
  return { input: groupOf(fields, filled, faults) ?? {}, faults };
}

type Found = Record<string, string>;

function groupOf(fields: readonly Field[], filled: Filled, faults: Found): JsonObject | undefined {
  const entries = fields.flatMap((one) => {
    const value = fieldValue(one, filled, faults);
    return value === undefined ? [] : [[one.name, value] as const];
  });
  return entries.length === 0 ? undefined : Object.fromEntries(entries);
}

/** The value of a field; undefined leaves it out, and the pipeline's default holds. */
function fieldValue(one: Field, filled: Filled, faults: Found): Json | undefined {
  const { path, kind, isRequired, options } = one;
  if (kind === "group") {
    const members = groupOf(one.fields, filled, faults);
    return members === undefined && isRequired ? {} : members;
  }
  const given = filled[path];
  if (given === undefined && !isRequired) return undefined;
  const value = given ?? startOf(one);
  if (typeof value === "boolean") return value;
  if (typeof value !== "string") return options.filter((option) => value.includes(textOf(option)));
  const isCleared = value.trim() === "" && (kind !== "text" || one.schema.default === undefined);
  if (!isCleared) return parsed(one, value, faults);
  if (isRequired) faults[path] = kind === "enum" ? "Choose one." : "This is required.";
  return undefined;
}

function parsed(one: Field, text: string, faults: Found): Json | undefined {
  switch (one.kind) {
    case "number":
    case "integer":
      return numberIn(text, one, faults);
    case "enum":
      return one.options.find((option) => textOf(option) === text);
    case "list":
      return listIn(text, one, faults);
    case "json":
      return jsonIn(text, one, faults);
    default:
      return text;
  }
}

function numberIn(text: string, { path, kind }: Field, faults: Found): Json | undefined {
  const number = Number(text);
  if (text.trim() !== "" && Number.isFinite(number)) {
    if (kind !== "integer" || Number.isInteger(number)) return number;
    faults[path] = "This must be a whole number.";
    return undefined;
  }
  faults[path] = "This must be a number.";
  return undefined;
}

function listIn(text: string, one: Field, faults: Found): Json | undefined {
  const { items } = one.schema;
  const type = isSchema(items) ? items.type : undefined;
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  if (type === "string") return lines;
  const kind = type === "integer" ? "integer" : "number";
  return lines.flatMap((line) => numberIn(line, { ...one, kind }, faults) ?? []);
}

function jsonIn(text: string, { path }: Field, faults: Found): Json | undefined {
  const read = parseJson(text);
  if (read.ok) return read.json as Json;
  faults[path] = `This is not JSON: ${read.message}`;
  return undefined;
}

/** What a field takes, beyond its type: "at most 10; such as 2026-01-31". */
export function hintsOf({ kind, schema }: Field): string {
  const { minimum, maximum, minLength, maxLength, minItems, maxItems, pattern, format } = schema;
  const items = isSchema(schema.items) ? schema.items : {};
  return [
    kind === "list" ? "one in each line" : "",
    kind === "json" ? "as JSON" : "",
    kind === "list" && items.type !== "string" ? "numbers" : "",
    minimum === undefined ? "" : `at least ${textOf(minimum)}`,
    maximum === undefined ? "" : `at most ${textOf(maximum)}`,
    minLength === undefined || minLength === 1 ? "" : `at least ${textOf(minLength)} letters`,
    maxLength === undefined ? "" : `at most ${textOf(maxLength)} letters`,
    minItems === undefined ? "" : `at least ${textOf(minItems)}`,
    maxItems === undefined ? "" : `at most ${textOf(maxItems)}`,
    pattern === undefined ? "" : `matches ${textOf(pattern)}`,
    format === undefined ? "" : `format ${textOf(format)}`,
  ]
    .filter((hint) => hint !== "")
    .join("; ");
}

/** The server's faults at the fields that show them: that of an item belongs to its list. */
export function placedFaults(fields: readonly Field[], found: Faults): Faults {
  const paths = fields.flatMap(({ path, fields: inner }) => [
    path,
    ...inner.map((one) => one.path),
  ]);
  const placed = Object.entries(found).map(([path, fault]) => {
    const around = paths.filter((one) => path === one || path.startsWith(`${one}/`));
    return [around.at(-1) ?? path, fault] as const;
  });
  return Object.fromEntries(placed.toReversed());
}

/** True when a field shows each of the faults. */
export function isAllPlaced(fields: readonly Field[], faults: Faults): boolean {
  const paths = pathsOf(fields);
  const found = Object.keys(faults);
  return found.length > 0 && found.every((path) => paths.includes(path));
}

function pathsOf(fields: readonly Field[]): readonly string[] {
  return fields.flatMap(({ path, fields: inner }) => [path, ...inner.map((one) => one.path)]);
}
