/** Holds a value against a JSON Schema. The validator is loaded by the first that needs it. */
import type { Json } from "./json.ts";

/** The first thing that is wrong with a value ("/files/0: ..."), or undefined when it fits. */
export async function schemaFault(value: unknown, schema: Json): Promise<string | undefined> {
  const { Validator } = await import("@cfworker/json-schema");
  const result = new Validator(schema as boolean | object, "2020-12", false).validate(value);
  const first = result.errors.at(-1);
  if (result.valid || first === undefined) return undefined;
  return `${first.instanceLocation}: ${first.error}`;
}
