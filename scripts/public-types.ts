/**
 * Makes the published type declarations self-contained: `node scripts/public-types.ts`, after `tsc`.
 *
 * The types of a pipeline's keys are inferred from zod, which users do not install. They are written
 * out here from the JSON Schema that is made from the same source, with its sentences for editors.
 * Declarations that the library's own does not lead to are removed.
 */
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { publishedSchema } from "../src/pipeline/schema.ts";

const DIST = resolve("dist");
const LIBRARY = resolve(DIST, "library/perdure.d.ts");
const SCHEMA = resolve(DIST, "pipeline/schema.d.ts");
/** What a declaration imports. */
const IMPORT = /(?:^(?:import|export)\b[^;"]*from |^import |\bimport\()"([^"]+)"/gm;

/** The part of JSON Schema that `publishedSchema` uses. */
interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: Schema | boolean;
  readonly definitions?: Readonly<Record<string, Schema>>;
  readonly description?: string;
}

const PLAIN_TYPES: Readonly<Record<string, string>> = {
  string: "string",
  number: "number",
  integer: "number",
  boolean: "boolean",
  null: "null",
};

/** A schema as a type of TypeScript. */
function typeOf(schema: Schema): string {
  const { $ref, type, items } = schema;
  const either = schema.anyOf ?? schema.oneOf;
  if ($ref !== undefined) return $ref === "#" ? "PipelineShape" : "StepShape";
  // The schema of a step is an object and adds which of its keys go together; definition.ts does so.
  if (type === "object") return objectType(schema);
  if (either !== undefined) return either.map(typeOf).join(" | ");
  if ("const" in schema) return JSON.stringify(schema.const);
  if (schema.enum !== undefined) return schema.enum.map((one) => JSON.stringify(one)).join(" | ");
  if (Array.isArray(type)) return type.map((one: string) => typeOf({ type: one })).join(" | ");
  if (type === "array") return `(${items === undefined ? "unknown" : typeOf(items)})[]`;
  return PLAIN_TYPES[String(type)] ?? "unknown";
}

function objectType({ properties, required = [], additionalProperties }: Schema): string {
  if (properties === undefined) {
    const open =
      typeof additionalProperties === "object" ? typeOf(additionalProperties) : "unknown";
    return `{ [name: string]: ${open} }`;
  }
  const lines = Object.entries(properties).map(([name, schema]) => {
    const comment =
      schema.description === undefined
        ? ""
        : `/** ${schema.description.replaceAll("*/", "*\\/")} */\n`;
    return required.includes(name)
      ? `${comment}${JSON.stringify(name)}: ${typeOf(schema)};`
      : `${comment}${JSON.stringify(name)}?: ${typeOf(schema)} | undefined;`;
  });
  return `{\n${lines.join("\n")}\n}`;
}

/** The declarations of schema.ts that the library's types need. */
function schemaTypes(): string {
  const schema = publishedSchema() as Schema;
  const [step, ...others] = Object.values(schema.definitions ?? {});
  if (step === undefined || others.length > 0) throw new Error("the schema defines not just steps");
  return [
    "/** A step whose values have the right shape. */",
    `export type StepShape = ${typeOf(step)};`,
    "/** A pipeline file whose values have the right shape. */",
    `export type PipelineShape = ${typeOf(schema)};`,
    "",
  ].join("\n");
}

/** The declarations that a program can reach; each may import only what a user has installed. */
function reachable(file: string, found: Set<string>): ReadonlySet<string> {
  if (found.has(file)) return found;
  found.add(file);
  for (const [, name = ""] of readFileSync(file, "utf8").matchAll(IMPORT)) {
    if (name.startsWith(".")) {
      reachable(resolve(dirname(file), name.replace(/\.[jt]s$/, ".d.ts")), found);
    } else if (!name.startsWith("node:")) {
      throw new Error(`${file} needs the types of ${name}, which users do not install`);
    }
  }
  return found;
}

writeFileSync(SCHEMA, schemaTypes());
const wanted = reachable(LIBRARY, new Set());
for (const path of readdirSync(DIST, { recursive: true, encoding: "utf8" })) {
  const file = resolve(DIST, path);
  if (path.endsWith(".d.ts") && !wanted.has(file)) rmSync(file);
}
