/**
 * The small shapes of a pipeline file: names, durations, texts, environments.
 *
 * Owns: what each of them may look like. The message of a pattern is the name of its rule.
 * Does not: know in which key they stand (schema.ts, schema-links.ts).
 */
import * as z from "zod";
import { FIDELITIES } from "./fidelity.ts";

export const NAME_LENGTH_MAX = 64;
const VISITS_MAX = 10_000;
/** How many entries an `env`, `outputs` or `agents` map may hold. */
export const ENTRIES_MAX = 1_000;

const ID = /^(?!__proto__$)[A-Za-z_][A-Za-z0-9_-]*$/;
const NAME = /^(?!__proto__$)[A-Za-z_][A-Za-z0-9_]*$/;

export const id = z.string().regex(ID, "bad-id").max(NAME_LENGTH_MAX, "bad-id");
export const name = z.string().regex(NAME, "bad-name").max(NAME_LENGTH_MAX, "bad-name");
export const envName = z
  .string()
  .regex(/^(?!__proto__$)[A-Za-z_][A-Za-z0-9_]*$/, "bad-env-name")
  .regex(/^(?!PERDURE_)/, "reserved-env-name");
export const path = z.string().regex(/\S/, "empty-text");

export const bounded = <T extends z.ZodType>(entries: z.ZodRecord<z.ZodString, T>) =>
  entries.refine((map) => Object.keys(map).length <= ENTRIES_MAX, "too-many-entries");

export const env = bounded(z.record(envName, z.union([z.string(), z.number(), z.boolean()])));
export const jsonSchema = z.record(z.string(), z.unknown());

export const visits = z.int().min(1).max(VISITS_MAX);
export const expression = z.union([z.string(), z.boolean()]);

export const fidelity = z.enum(FIDELITIES).optional();
export const thread = id.optional();
