/** Validates what the program prints with `--json` against the published schemas. */
import { readdirSync, readFileSync } from "node:fs";
import { type Schema, Validator } from "@cfworker/json-schema";

const FOLDER = new URL("../../schema/json/", import.meta.url);

/** The published schemas by the names of their files: `show`, `event`. */
export function readSchemas(): ReadonlyMap<string, Schema> {
  const names = readdirSync(FOLDER).map((file) => file.replace(/\.schema\.json$/, ""));
  return new Map(
    names.map((name) => [
      name,
      JSON.parse(readFileSync(new URL(`${name}.schema.json`, FOLDER), "utf8")) as Schema,
    ]),
  );
}

const SCHEMAS = readSchemas();
const VALIDATORS = new Map<string, Validator>();

function validatorOf(name: string): Validator {
  const known = VALIDATORS.get(name);
  if (known !== undefined) return known;
  const schema = SCHEMAS.get(name);
  if (schema === undefined) throw new Error(`there is no schema for ${name}`);
  const validator = new Validator(schema, "2020-12", false);
  for (const shared of ["event", "error"]) {
    const other = SCHEMAS.get(shared);
    if (other !== undefined && shared !== name) validator.addSchema(other);
  }
  VALIDATORS.set(name, validator);
  return validator;
}

/** What is wrong with a value that `perdure NAME --json` printed; empty when it is valid. */
export function faultsOf(name: string, value: unknown): readonly string[] {
  const { valid, errors } = validatorOf(name).validate(value);
  if (valid) return [];
  return errors.map(({ instanceLocation, error }) => `${instanceLocation}: ${error}`);
}

/** The values in what a command printed: one document, or one a line. */
export function valuesIn(stdout: string): readonly unknown[] {
  try {
    return [JSON.parse(stdout)];
  } catch {
    return stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as unknown);
  }
}
