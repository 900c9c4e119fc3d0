/**
 * Writes docs/REFERENCE.md, every key of a pipeline file, from the tables of keys and the schema:
 * `node scripts/reference.ts`. A test compares the file with what the tables say now.
 */
import { writeFileSync } from "node:fs";
import { AGENT_KEYS } from "../src/pipeline/agent-keys.ts";
import { type KeyRow, STEP_KINDS } from "../src/pipeline/key-row.ts";
import { INHERITED_KEYS } from "../src/pipeline/keys.ts";
import { ALL_STEP_KEYS, publishedSchema } from "../src/pipeline/schema.ts";
import { isObject } from "../src/util/json.ts";

/** The parts of a JSON Schema that the page shows. */
interface Schema {
  readonly type?: string;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly Schema[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema | boolean;
  readonly required?: readonly string[];
  readonly description?: string;
  readonly pattern?: string;
  readonly $ref?: string;
  readonly definitions?: Readonly<Record<string, Schema>>;
}

const HEAD = `# Reference

Every key of a pipeline file. This page is generated from the tables in \`src/pipeline\` (\`npm run docs\`); editors get the same sentences from \`schema/pipeline.schema.json\`.

A duration is a text such as \`250ms\`, \`90s\` or \`1h30m\`. Texts marked \`\${{ }}\` may hold expressions.
`;

const KINDS_HEAD = `## Keys of a step

A step is one of seven kinds, by the key that says what it does:

| Kind | Key |
|---|---|
| command | \`run\` |
| agent | \`prompt\` or \`prompt_file\` |
| group | \`steps\`, \`pipeline\`, or \`for_each\` with \`steps\` |
| gate | \`gate\` |
| wait | \`wait\` |
| pass | \`pass\` |
| fail | \`fail\` |

"Result" says whether the key is part of the step's fingerprint: when it changes, \`perdure resume --update\` runs the step again. A key marked "defaults" may also stand under \`defaults\`, for every step that does not have it.
`;

/** The text of docs/REFERENCE.md. */
export function referenceText(): string {
  const schema = publishedSchema() as Schema;
  const step = Object.values(schema.definitions ?? {}).find(({ properties }) => properties?.run);
  const { steps: _, ...pipeline } = schema.properties ?? {};
  const parts = Object.entries(pipeline).flatMap(([name, one]) => section(name, one, "###"));
  return [
    HEAD,
    "## Keys of a pipeline\n",
    table(schema.properties ?? {}, schema.required),
    ...parts.filter((part) => !part.startsWith("### `defaults`")),
    KINDS_HEAD,
    ...Object.entries<KeyRow>(ALL_STEP_KEYS).map(([name, row]) =>
      stepKey(name, row, step?.properties?.[name] ?? {}),
    ),
  ].join("\n");
}

function stepKey(name: string, row: KeyRow, schema: Schema): string {
  const inherited = Object.hasOwn(INHERITED_KEYS, name) || Object.hasOwn(AGENT_KEYS, name);
  const on = row.on.length === STEP_KINDS.length ? "every step" : row.on.join(", ");
  const facts = [
    `Value: ${typeText(schema)}.`,
    `On: ${on}${inherited ? "; defaults" : ""}.`,
    `Result: ${row.fingerprint ? "yes" : "no"}.`,
  ];
  const inner = objectsIn(schema).map(({ properties = {}, required }) =>
    table(properties, required),
  );
  return [
    `### \`${name}\`\n`,
    `${row.doc}\n`,
    `${facts.join(" ")}\n`,
    `\`\`\`yaml\n${row.example}\n\`\`\`\n`,
    ...inner,
  ].join("\n");
}

/** A heading with a table for a key whose value has keys of its own. */
function section(name: string, schema: Schema, level: string): readonly string[] {
  return objectsIn(schema).map(
    ({ properties = {}, required }) => `${level} \`${name}\`\n\n${table(properties, required)}`,
  );
}

/** The objects with known keys that a value may be, or hold by name or in a list. */
function objectsIn(schema: Schema): readonly Schema[] {
  if (schema.$ref !== undefined) return [];
  if (schema.properties !== undefined) return [schema];
  const named = isObject(schema.additionalProperties)
    ? [schema.additionalProperties as Schema]
    : [];
  const listed = schema.items === undefined ? [] : [schema.items];
  return [...(schema.anyOf ?? []), ...named, ...listed].flatMap(objectsIn);
}

function table(properties: Readonly<Record<string, Schema>>, required: readonly string[] = []) {
  const rows = Object.entries(properties).map(([name, schema]) => {
    const must = required.includes(name) ? " (required)" : "";
    return `| \`${name}\`${must} | ${cell(typeText(schema))} | ${cell(schema.description ?? "")} |`;
  });
  return ["| Key | Value | Meaning |", "|---|---|---|", ...rows, ""].join("\n");
}

function cell(text: string): string {
  return text.replaceAll("|", "\\|");
}

/** "a duration", "`fail` or `continue`", "a list of texts". */
function typeText(schema: Schema): string {
  if (schema.anyOf !== undefined) return alternatives(schema.anyOf.map(typeText));
  if (schema.enum !== undefined)
    return alternatives(schema.enum.map((one) => `\`${String(one)}\``));
  if (schema.const !== undefined) return `\`${String(schema.const)}\``;
  if (schema.$ref !== undefined) return "a step";
  if (schema.pattern?.includes("(ms|s|m|h|d)") === true) return "a duration";
  switch (schema.type) {
    case "string":
      return "a text";
    case "integer":
      return "a whole number";
    case "number":
      return "a number";
    case "boolean":
      return "`true` or `false`";
    case "array":
      return `a list of ${plural(typeText(schema.items ?? {}))}`;
    case "object":
      return schema.properties === undefined ? "a map" : "an object";
    default:
      return "any value";
  }
}

function alternatives(words: readonly string[]): string {
  const all = [...new Set(words)];
  if (all.length < 2) return all.join("");
  return `${all.slice(0, -1).join(", ")} or ${all.at(-1)}`;
}

function plural(words: string): string {
  const known: Readonly<Record<string, string>> = {
    "a text": "texts",
    "a step": "steps",
    "an object": "objects",
    "a whole number": "whole numbers",
    "any value": "values",
  };
  return known[words] ?? `values: ${words}`;
}

if (import.meta.main) {
  writeFileSync(new URL("../docs/REFERENCE.md", import.meta.url), referenceText());
}
