/**
 * The published JSON Schemas: one for the events, one for errors, and one for each command, made
 * from the shapes of what is printed.
 *
 * Owns: how a shape is written as a JSON Schema.
 * Does not: belong to the command line. `npm run schema` writes the files, tests read them, and the
 * servers declare what they send.
 */
import { EVENTS } from "../../core/event.ts";
import * as eventParts from "../../core/event-parts.ts";
import { type Fields, isOptional, type Shape, type ShapeKind } from "../../core/shape.ts";
import type { Json, JsonObject } from "../../util/json.ts";
import * as documentParts from "./document-parts.ts";
import { COMMANDS, DOCUMENTS } from "./documents.ts";
import { printedName, publicFields, SCHEMA_VERSION } from "./part-json.ts";

const DIALECT = "https://json-schema.org/draft/2020-12/schema";

/** The JSON Schemas by the names of their files, without the extension. */
export function publishedSchemas(): ReadonlyMap<string, JsonObject> {
  const { error } = DOCUMENTS;
  return new Map([
    ["event", published("event", "One line of the events of a run.", eventSchema)],
    ["error", published("error", error.about, (write) => documentSchema(error, write))],
    ...Object.entries(COMMANDS).map(
      ([name, printed]) => [name, commandSchema(name, printed)] as const,
    ),
  ]);
}

/** What a command prints on stdout: one of these documents, or the reason of its failure. */
function commandSchema(
  name: string,
  printed: readonly (keyof typeof DOCUMENTS | "event")[],
): JsonObject {
  return published(name, `What \`perdure ${name} --json\` prints.`, (write) => ({
    anyOf: [...printed, "error" as const].map((one) =>
      one === "event" || one === "error"
        ? { $ref: idOf(one) }
        : documentSchema(DOCUMENTS[one], write),
    ),
  }));
}

function idOf(name: string): string {
  return `urn:perdure:json:${SCHEMA_VERSION}:${name}`;
}

/** Writes the JSON Schema of a shape. */
type Write = (shape: Shape<unknown>) => Json;

function published(
  name: string,
  description: string,
  build: (write: Write) => JsonObject,
): JsonObject {
  const parts = new Map<string, Json>();
  const schema = build((shape) => schemaOf(shape, { written: parts, at: "#/$defs/" }));
  const $defs = parts.size === 0 ? {} : { $defs: Object.fromEntries(parts) };
  const title = `perdure ${name}`;
  return { $schema: DIALECT, $id: idOf(name), title, description, ...schema, ...$defs };
}

/** Schemas that refer to each other inside of one document, such as that of an interface. */
export class SchemaParts {
  readonly #parts: NamedParts;

  /** `at` is where the parts will stand: `#/components/schemas/part.`. */
  constructor(at: string) {
    this.#parts = { written: new Map(), at };
  }

  /** The schema of a document. */
  document(shape: documentParts.DocumentShape): JsonObject {
    return documentSchema(shape, (one) => schemaOf(one, this.#parts));
  }

  /** The schema of an object with these fields. */
  object(fields: Fields): JsonObject {
    return objectSchema(fields, (one) => schemaOf(one, this.#parts));
  }

  /** The parts that these schemas refer to, by name. */
  get written(): ReadonlyMap<string, Json> {
    return this.#parts.written;
  }
}

const VERSION = { const: SCHEMA_VERSION };
const TIME = { type: "string", format: "date-time" };

function documentSchema({ about, fields }: documentParts.DocumentShape, write: Write): JsonObject {
  return { description: about, ...objectSchema(fields, write, { schema_version: VERSION }) };
}

function eventSchema(write: Write): JsonObject {
  const head = {
    schema_version: VERSION,
    run_id: { type: "string" },
    sequence: { type: "integer" },
    time: TIME,
  };
  const types = Object.keys(EVENTS) as (keyof typeof EVENTS)[];
  const oneOf = types.map((type) =>
    objectSchema(publicFields(type), write, { ...head, type: { const: type } }),
  );
  return { oneOf };
}

/** The names of parts that are written once, by their forms; no two parts have the same name. */
const PART_NAMES: ReadonlyMap<ShapeKind, string> = new Map(
  Object.entries({ ...documentParts, ...eventParts }).flatMap(([name, part]) =>
    typeof part === "function" && "form" in part ? [[part.form, printedName(name)]] : [],
  ),
);

const SIMPLE = {
  text: { type: "string" },
  number: { type: "number" },
  integer: { type: "integer" },
  boolean: { type: "boolean" },
  flag: { const: true },
  json: true,
  time: TIME,
} as const;

/** The parts that were written so far, and the beginning of their addresses. */
interface NamedParts {
  readonly written: Map<string, Json>;
  readonly at: string;
}

/** The JSON Schema of the printed values of a shape; a part with a name goes to `parts`. */
function schemaOf({ form }: Shape<unknown>, parts: NamedParts): Json {
  const name = PART_NAMES.get(form);
  if (name === undefined) return formSchema(form, parts);
  if (!parts.written.has(name)) parts.written.set(name, formSchema(form, parts));
  return { $ref: `${parts.at}${name}` };
}

function formSchema(form: ShapeKind, parts: NamedParts): Json {
  const write: Write = (shape) => schemaOf(shape, parts);
  switch (form.kind) {
    case "words":
      return { enum: form.words };
    case "list":
      return { type: "array", items: write(form.of) };
    case "map":
      return { type: "object", additionalProperties: write(form.of) };
    case "nullable":
      return { anyOf: [write(form.of), { type: "null" }] };
    case "record":
      return objectSchema(form.fields, write);
    case "variants": {
      const kinds = Object.entries(form.kinds);
      const { tag } = form;
      return {
        oneOf: kinds.map(([kind, fields]) =>
          objectSchema(fields, write, { [tag]: { const: kind } }),
        ),
      };
    }
    default:
      return SIMPLE[form.kind];
  }
}

/** An object with exactly these fields; those of `head` are required. */
function objectSchema(fields: Fields, write: Write, head: JsonObject = {}): JsonObject {
  const own = Object.entries(fields);
  const properties = own.map(([name, shape]) => [printedName(name), write(shape)] as const);
  const required = own.filter(([, shape]) => !isOptional(shape)).map(([name]) => printedName(name));
  return {
    type: "object",
    properties: { ...head, ...Object.fromEntries(properties) },
    required: [...Object.keys(head), ...required],
    additionalProperties: false,
  };
}
