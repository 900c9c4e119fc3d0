/**
 * Validates a file's value against the schema and words the diagnostics. The valid parts stay, so
 * that one misspelt key does not hide the other mistakes of its step.
 *
 * Owns: the messages for wrong shapes, and removing wrong parts from a value.
 * Does not: compare values with each other (validate.ts).
 */
import * as z from "zod";
import { DURATION_MAX_MS } from "../util/duration.ts";
import { isObject } from "../util/json.ts";
import { LABEL_FORM } from "../util/label.ts";
import { nearest } from "../util/nearest.ts";
import type { Mistake, Path, Report } from "./diagnostic.ts";
import { foreignKey } from "./foreign-keys.ts";
import type { KeyRow } from "./key-row.ts";
import {
  ALL_STEP_KEYS,
  type ConfigurationShape,
  configurationSchema,
  type PipelineShape,
  pipelineSchema,
} from "./schema.ts";
import { DURATION_PATTERN, ENTRIES_MAX, NAME_LENGTH_MAX } from "./values.ts";

type Issue = z.core.$ZodIssue;

const DAY_MS = 86_400_000;
/** Compiled schemas cost more than they save, even with a file of 20,000 steps. */
const WITHOUT_COMPILATION = { jitless: true };

/** The parts of a file's value that have the right shape. */
export interface ReadShape<Shape = PipelineShape> {
  readonly shape: Shape;
  /** Paths ("steps.3.needs") whose values were removed, so that no rule reports them as missing. */
  readonly cut: ReadonlySet<string>;
}

/** The shape of a pipeline's value; undefined when no rule can check it further. */
export function readShape(value: unknown, report: Report): ReadShape | undefined {
  if (value === null || value === undefined) {
    const message = "the file is empty";
    report.add({ rule: "empty-pipeline", message, help: STEPS_HELP, path: [] });
    return undefined;
  }
  return shapeIn(pipelineSchema, value, report);
}

/** The shape of a configuration file's value; an empty file sets nothing. */
export function readConfigurationShape(
  value: unknown,
  report: Report,
): ReadShape<ConfigurationShape> | undefined {
  return shapeIn(configurationSchema, value ?? {}, report);
}

function shapeIn<Shape>(
  schema: z.ZodType<Shape>,
  value: unknown,
  report: Report,
): ReadShape<Shape> | undefined {
  const first = schema.safeParse(value, WITHOUT_COMPILATION);
  if (first.success) return { shape: first.data, cut: new Set() };
  const found = first.error.issues.flatMap((issue) => flatten(issue, []));
  const meant = new Set(found.flatMap((one) => addUnknownKeys(one, schema, report)));
  for (const one of found) {
    // A misspelt key is not reported as missing as well.
    if (!meant.has(one.path.join("."))) addMistake(one, value, report);
  }
  const cut = new Set(found.flatMap((one) => cutOut(value, one)));
  const second = schema.safeParse(value, WITHOUT_COMPILATION);
  if (second.success) return { shape: second.data, cut };
  const onlyEmpty = second.error.issues.every(({ message }) => message === "empty-pipeline");
  return onlyEmpty ? { shape: value as Shape, cut } : undefined;
}

const STEPS_HELP =
  "a pipeline needs `steps:` with at least one step, such as `- {id: hi, run: ls}`";

const CONFIGURATION_HELP =
  "move it to the file of the pipeline; this file has settings for all pipelines";

/** The texts of the rules that the schema names. */
const RULES: Readonly<Record<string, readonly [message: string, help: string]>> = {
  "bad-id": [
    "is not a valid id",
    `start with a letter or _, continue with letters, digits, _ and -; at most ${NAME_LENGTH_MAX} characters`,
  ],
  "bad-name": [
    "is not a valid name",
    `start with a letter or _, continue with letters, digits and _; at most ${NAME_LENGTH_MAX} characters`,
  ],
  "bad-env-name": [
    "cannot name an environment variable",
    "start with a letter or _, continue with letters, digits and _",
  ],
  "reserved-env-name": [
    "is reserved: names that start with PERDURE_ belong to Perdure",
    "choose a name that does not start with PERDURE_",
  ],
  "bad-duration": [
    "is not a duration",
    `write it like 250ms, 90s, 10m or 1h30m; at most ${DURATION_MAX_MS / DAY_MS} days`,
  ],
  "bad-share": [
    "is neither a number of tokens nor a share from 1% to 99%",
    "write it like 150000 or 70%",
  ],
  "bad-schedule": [
    "is not a schedule",
    "write five fields as cron does, such as `0 3 * * *` or `30 8 * * mon-fri`",
  ],
  "bad-age": ["is not an age", "write it like 12h, 7d or 90d"],
  "bad-size": ["is not a size", "write it like 500MB or 2GB"],
  "bad-store": ["is not the address of a store", "write it like postgres://USER@HOST/DATABASE"],
  "bad-clean": ["is neither an age nor `never`", "write it like 7d, 12h or never"],
  "bad-notify": ["needs either `run` or `webhook`", "write one of them, not both"],
  "bad-webhook": [
    "is neither a URL nor a variable",
    "write https://..., or $NAME for the variable that holds the URL",
  ],
  "bad-label": ["is not a valid label", `use ${LABEL_FORM} characters`],
  "bad-image": ["is not the name of an image", "write it like node:24 or ghcr.io/owner/name:tag"],
  "bad-tool": ["does not name a tool", 'write it like Edit or "Bash(npm test:*)"'],
  "bad-choice-key": ["cannot be the key of a choice", "use letters, digits and _"],
  "empty-text": ["must not be empty", "write a text, or leave the key out"],
  "bad-pipeline-name": [
    "is not a valid name for a pipeline",
    `write one line of at most ${NAME_LENGTH_MAX} characters, without blanks at its ends`,
  ],
  "empty-list": ["has no steps", "add at least one step, such as `- {id: hi, run: ls}`"],
  "empty-checks": ["has no checks", "add one, such as `npm test`, or leave the key out"],
  "too-many-entries": [`has more than ${ENTRIES_MAX} entries`, "leave some out"],
};

/** An issue with its full path, and whether it is about the key at its end. */
interface Found {
  readonly issue: Issue;
  readonly path: Path;
  readonly on: "key" | "value";
}

/**
 * The issues inside an issue; of a union, those of the alternative that the author probably meant.
 */
function flatten(issue: Issue, prefix: Path): Found[] {
  const path = [...prefix, ...(issue.path as Path)];
  if (issue.code === "invalid_key") {
    return issue.issues.slice(0, 1).map((inner) => ({ issue: inner, path, on: "key" }));
  }
  const itself: Found = { issue, path, on: "value" };
  if (issue.code !== "invalid_union") return [itself];
  const meant = issue.errors.filter(
    (errors) => !errors.some((e) => e.code === "invalid_type" && e.path.length === 0),
  );
  const best = meant.sort((a, b) => badness(a) - badness(b))[0];
  return best === undefined ? [itself] : best.flatMap((inner) => flatten(inner, path));
}

/** Of two object alternatives, the one with fewer unknown keys. */
function badness(errors: readonly Issue[]): number {
  return errors.reduce(
    (sum, error) => sum + (error.code === "unrecognized_keys" ? error.keys.length * 2 : 1),
    0,
  );
}

/** Reports unknown keys; returns the paths of the keys that the author probably meant. */
function addUnknownKeys({ issue, path }: Found, schema: z.ZodType, report: Report): string[] {
  if (issue.code !== "unrecognized_keys") return [];
  const known = knownKeys(path, schema);
  return issue.keys.flatMap((key) => {
    const at = { path: [...path, key], on: "key" } as const;
    if (known.includes(key)) {
      const message = `\`${key}\` cannot be combined with the other keys here`;
      report.add({ rule: "mixed-keys", message, help: descriptionAt(path), ...at });
      return [];
    }
    if (path.length === 0 && Object.hasOwn(pipelineSchema.shape, key)) {
      const message = `\`${key}\` belongs to a single pipeline, not to all of them`;
      report.add({ rule: "pipeline-key", message, help: CONFIGURATION_HELP, ...at });
      return [];
    }
    const foreign = foreignKey(key, known);
    const help = foreign?.help ?? report.suggest(key, known, "known keys");
    report.add({ rule: "unknown-key", message: `unknown key \`${key}\``, help, ...at });
    const meant = foreign?.ours ?? nearest(key, known);
    return meant === undefined ? [] : [[...path, meant].join(".")];
  });
}

function addMistake({ issue, path, on }: Found, value: unknown, report: Report): void {
  if (issue.code === "unrecognized_keys") return;
  const subject = on === "key" ? path.at(-1) : valueAt(value, path);
  report.add({ path, on, ...describe(issue, path, subject, report) });
}

type Wording = Omit<Mistake, "path">;

function describe(issue: Issue, path: Path, value: unknown, report: Report): Wording {
  const key = keyOf(path);
  const rule = RULES[issue.message];
  if (rule !== undefined) {
    const shown = typeof value === "string" && value.trim() !== "" ? value : key;
    return { rule: issue.message, message: `\`${shown}\` ${rule[0]}`, help: rule[1] };
  }
  if (issue.message === "empty-pipeline") {
    return { rule: "empty-pipeline", message: "the pipeline has no steps", help: STEPS_HELP };
  }
  if (value === undefined) {
    const help = key === "steps" ? STEPS_HELP : `add \`${key}:\``;
    return { rule: "missing-key", message: `\`${key}\` is missing`, help };
  }
  if (issue.code === "invalid_value") {
    const allowed = issue.values.map(String);
    const written = typeof value === "string" ? value : JSON.stringify(value);
    const help = report.suggest(written, allowed, "possible values");
    const shown = typeof value === "object" ? kindOf(value) : `\`${String(value)}\``;
    return { rule: "bad-value", message: `\`${key}\` cannot be ${shown}`, help };
  }
  if (issue.code === "too_small" || issue.code === "too_big") {
    const limit = issue.code === "too_small" ? issue.minimum : issue.maximum;
    const bound = issue.code === "too_small" ? `at least ${limit}` : `at most ${limit}`;
    const what = Array.isArray(value) ? `\`${key}\` must have` : `\`${key}\` must be`;
    return { rule: "out-of-range", message: `${what} ${bound}`, help: descriptionAt(path) };
  }
  const wanted = expectation(issue, path);
  const subject = path.length === 0 ? "the file" : `\`${key}\``;
  const message = `${subject} must be ${wanted}, not ${kindOf(value)}`;
  return { rule: "wrong-type", message, help: typeHelp(path, value, wanted) };
}

function typeHelp(path: Path, value: unknown, wanted: string): string | undefined {
  if (path.length === 0) return STEPS_HELP;
  if (typeof value === "number" && schemasAt(path).some(isDuration)) {
    return `durations have a unit: ${value}s for seconds, ${value}m for minutes`;
  }
  if (wanted === "a text" && !isObject(value) && !Array.isArray(value) && value !== null) {
    return `write "${String(value)}" in quotes`;
  }
  return value === null ? "give it a value, or leave the key out" : descriptionAt(path);
}

function isDuration(schema: z.core.$ZodType): boolean {
  return z.globalRegistry.get(schema)?.pattern === DURATION_PATTERN;
}

/** The forms of a value, for keys that are not in the table of step keys. */
const UNIONS: Readonly<Record<string, string>> = {
  backoff: "a duration or an object",
  schema: "a JSON Schema or the path of a file that holds one",
  env_file: "a path or a list of paths",
  input: "a JSON Schema, `text` or the path of a file with a schema",
  until: "an expression",
  in: "an expression, a list, {file: x.json} or {glob: pattern}",
  choices: "a label or an object",
  at: "a number of tokens or a share such as 70%",
};

/** The forms of the value at a path; the pipeline's `workspace` has other forms than a step's. */
function unionAt(path: Path): string | undefined {
  const name = String(path.at(-1));
  if (path.length === 1 && name === "workspace") {
    return "here, worktree, directory, copy or an object";
  }
  const rows: Readonly<Record<string, KeyRow>> = ALL_STEP_KEYS;
  return (Object.hasOwn(rows, name) ? rows[name]?.expects : undefined) ?? UNIONS[name];
}

function expectation(issue: Issue, path: Path): string {
  if (issue.code === "invalid_union") {
    if (path.includes("env")) return "a text";
    return unionAt(path) ?? "a command or an object";
  }
  const expected = issue.code === "invalid_type" ? issue.expected : "something else";
  const words: Readonly<Record<string, string>> = {
    string: "a text",
    int: "a whole number",
    number: "a number",
    boolean: "true or false",
    array: "a list",
    object: "a map of keys",
    record: "a map of keys",
  };
  return words[expected] ?? expected;
}

function kindOf(value: unknown): string {
  if (value === null) return "empty";
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object") return "a map";
  return typeof value === "string" ? "a text" : `the ${typeof value} ${String(value)}`;
}

/** The name of the value at a path: its key, or "steps[3]". */
function keyOf(path: Path): string {
  const last = path.at(-1);
  if (last === undefined) return "";
  return typeof last === "number" ? `${path.at(-2)}[${last}]` : last;
}

function valueAt(value: unknown, path: Path): unknown {
  let at = value;
  for (const key of path) {
    if (Array.isArray(at)) at = at[Number(key)];
    else at = isObject(at) && Object.hasOwn(at, key) ? at[key] : undefined;
  }
  return at;
}

/** The alternatives of the schema at a path. */
function schemasAt(path: Path, root: z.core.$ZodType = pipelineSchema): z.core.$ZodType[] {
  let at: z.core.$ZodType[] = [root];
  for (const key of path) at = at.flatMap((schema) => inside(schema, key));
  return at;
}

function knownKeys(path: Path, root: z.ZodType): string[] {
  const schemas = schemasAt(path, root);
  return [...new Set(schemas.flatMap((schema) => Object.keys(shapeOf(schema) ?? {})))];
}

/** The description of the nearest described key at or above a path. */
function descriptionAt(path: Path): string | undefined {
  for (let length = path.length; length > 0; length--) {
    const key = path[length - 1] as string;
    for (const parent of schemasAt(path.slice(0, length - 1))) {
      const schema = shapeOf(parent)?.[key] as z.ZodType | undefined;
      if (schema?.description !== undefined) return `\`${key}\`: ${schema.description}`;
    }
  }
  return undefined;
}

function inside(schema: z.core.$ZodType, key: string | number): z.core.$ZodType[] {
  const { def } = schema._zod as { def: z.core.$ZodTypes["_zod"]["def"] };
  if (def.type === "array") return alternatives(def.element);
  if (def.type === "record") return alternatives(def.valueType);
  const inner = shapeOf(schema)?.[key];
  return inner === undefined ? [] : alternatives(inner);
}

function alternatives(schema: z.core.$ZodType): z.core.$ZodType[] {
  const { def } = schema._zod as { def: z.core.$ZodTypes["_zod"]["def"] };
  if (def.type === "optional") return alternatives(def.innerType);
  if (def.type === "lazy") return alternatives(def.getter());
  return def.type === "union" ? def.options.flatMap(alternatives) : [schema];
}

function shapeOf(schema: z.core.$ZodType): z.core.$ZodShape | undefined {
  const { def } = schema._zod as { def: z.core.$ZodTypes["_zod"]["def"] };
  return def.type === "object" ? def.shape : undefined;
}

/** Removes the subject of an issue from the value; returns the removed paths. */
function cutOut(value: unknown, { issue, path }: Found): string[] {
  if (!isObject(value)) return [];
  if (issue.code === "unrecognized_keys") {
    const at = valueAt(value, path);
    for (const key of issue.keys) if (isObject(at)) delete at[key];
    return [];
  }
  const [top, second] = path;
  const container = top === undefined ? undefined : value[top];
  if (top === "steps") return cutOutOfSteps(value, [], path);
  if (top === "agents" && typeof second === "string" && isObject(container)) {
    container[second] = "true";
    return [`agents.${second}`];
  }
  if ((top === "env" || top === "defaults") && isObject(container) && second !== undefined) {
    delete container[second];
    return [`${top}.${second}`];
  }
  if (top !== undefined) delete value[top];
  return [String(top)];
}

/** `holder` has the list, `before` is its own path, `path` continues from there with "steps". */
function cutOutOfSteps(holder: Record<string, unknown>, before: Path, path: Path): string[] {
  const [, index, key, inner] = path;
  const { steps } = holder;
  const at = [...before, "steps"];
  if (!Array.isArray(steps) || typeof index !== "number") {
    if (before.length > 0) delete holder.steps;
    else holder.steps = Array.isArray(steps) ? steps.slice(0, 1) : [];
    return [at.join(".")];
  }
  const step: unknown = steps[index];
  const name = [...at, index].join(".");
  if (key === undefined || !isObject(step)) {
    steps[index] = { id: placeholder(index) };
    return [name, `${name}.id`];
  }
  if (key === "steps") return cutOutOfSteps(step, [...at, index], path.slice(2));
  if (key === "for_each" && inner === "steps" && isObject(step.for_each)) {
    return cutOutOfSteps(step.for_each, [...at, index, key], path.slice(3));
  }
  if (key === "id") step.id = placeholder(index);
  else delete step[key];
  return [`${name}.${key}`];
}

/** The id of a step whose own is missing or wrong, so that rules can check the rest of the step. */
function placeholder(index: number): string {
  return `_${index}`;
}

/** A step in a message; nobody knows the placeholder of a missing id. */
export function stepInWords(id: string): string {
  return /^_\d+$/.test(id) ? "this step" : `step \`${id}\``;
}
