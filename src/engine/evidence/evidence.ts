/**
 * The evidence of an ended process: outputs, key-values, and the findings of its checks. The wrapper
 * recorded the exit statuses of check commands; JSON files are compared with their schemas here. Judges
 * come later (agent/judge.ts).
 *
 * Owns: parsing and judging the files of an attempt, the message for a check that did not pass, and
 *   finding secrets in what a step stores or passes on, so that a person can be warned.
 * Does not: run commands (room `runner`), decide what follows (core/decide.ts), or mask what is shown
 *   (cli/print.ts).
 * Invariants:
 * - engine/N1 A step is complete only when its checks have passed and every output that it names
 *   exists.
 * - engine/N2 No value is altered on its way into the journal: steps and conditions use the
 *   recorded value.
 * - engine/N3 The content of an output is kept before the event that names it, so no later attempt
 *   can lose it.
 * - engine/X1 All commands and schemas are checked in order, even after one that did not pass, so
 *   that the author or the agent learns of all faults at once.
 */
import { existsSync } from "node:fs";
import { open } from "node:fs/promises";
import { join, relative, resolve } from "node:path";
import { fails, findings } from "../../core/attempt/check.ts";
import { mayRepeat } from "../../core/attempt/failure.ts";
import type { CheckEvidence, Exposure, Output } from "../../core/event.ts";
import type { Ending, Result } from "../../core/fact.ts";
import { stepOf, type Visit } from "../../core/run.ts";
import { type Check, checksOf } from "../../plan/plan.ts";
import { readLeft, textOf } from "../../runner/file-text.ts";
import {
  ATTEMPT_FILE,
  checkOutputFile,
  readCheckExits,
} from "../../runner/process/attempt-folder.ts";
import { lastText } from "../../runner/process/output.ts";
import type { ProcessEnding } from "../../runner/process/step-process.ts";
import { defined } from "../../util/defined.ts";
import { isObject, type Json, type JsonObject, parseJson } from "../../util/json.ts";
import { schemaFault } from "../../util/json-schema.ts";
import { secretInputs, secretsIn, textsIn } from "../../util/secrets.ts";
import { renderText } from "../../util/template.ts";
import { toolKeys } from "../attractor-stage.ts";
import {
  CONTEXT_FILE,
  evaluatorAt,
  type LaunchInput,
  outputOutside,
  outputPaths,
  workDirOf,
} from "../launch.ts";
import { CONTEXT_KEY, readStatus, STATUS_FILE, statusInAnswer } from "./status-file.ts";

/** The size limit of an attempt's additions to the context. */
const CONTEXT_BYTES_MAX = 256 * 1024;
/** How much of the end of a step's output distinguishes one failure from another. */
const SAID_BYTES_MAX = 4 * 1024;

type Exited = Extract<Ending, { how: "exited" }>;
type Problem = NonNullable<Exited["problem"]>;

/** The ending of an attempt with all its evidence. */
export async function collectEvidence(
  site: LaunchInput,
  visit: Visit,
  dir: string,
  ending: ProcessEnding,
  answer?: Json,
): Promise<Ending> {
  if (ending.how === "not-started") return { ...ending, reason: "spawn" };
  if (ending.how !== "exited") return ending;
  const keys = toolKeys(site, visit, dir);
  const nothing = { how: "exited", exit: ending.exit, outputs: {}, context: keys } as const;
  if (ending.exit !== 0) {
    const status = readStatus(join(dir, STATUS_FILE));
    // An unreadable status file of a failed step adds nothing.
    const { context, reported } = status.ok ? status : { context: {}, reported: undefined };
    // An exit status alone does not distinguish one failure from another.
    const said = mayRepeat(visit)
      ? lastText(join(dir, ATTEMPT_FILE.output), SAID_BYTES_MAX)
      : undefined;
    return { ...nothing, context: { ...keys, ...context }, ...defined({ reported, said }) };
  }
  const found = await checkEvidence(site, visit, dir, ending.checkExit);
  const checked = { ...nothing, ...findings(found) };
  const message = checkProblem(found);
  if (message !== undefined) {
    const said = mayRepeat(visit) ? failedOutput(found) : undefined;
    return { ...checked, problem: { reason: "check", message }, ...defined({ said }) };
  }
  const result = await collectResult(site, visit, dir, answer);
  if ("problem" in result) return { ...checked, ...result };
  return { ...checked, ...result, context: { ...keys, ...result.context } };
}

/** The result in the files of an attempt and in the answer of an agent, or their fault. */
export async function collectResult(
  site: LaunchInput,
  visit: Visit,
  dir: string,
  answer?: Json,
): Promise<Result | { readonly problem: Problem }> {
  const outputs = await findOutputs(site, visit);
  if ("message" in outputs) return { problem: outputs as Problem };
  const context = readContext(join(dir, CONTEXT_FILE));
  if (!context.ok) return { problem: { reason: "context", message: context.message } };
  const status = reportOf(site, dir, answer);
  if (!status.ok) return { problem: { reason: "status", message: status.message } };
  const { reported } = status;
  return {
    outputs,
    context: { ...context.values, ...status.context },
    ...defined({ reported }),
  };
}

/** The report of a step; in a DOT pipeline the answer of an agent may be one. */
function reportOf({ plan }: LaunchInput, dir: string, answer: Json | undefined) {
  const file = join(dir, STATUS_FILE);
  const answers = plan.keys === "attractor" && typeof answer === "string" && !existsSync(file);
  return answers ? statusInAnswer(answer) : readStatus(file);
}

async function findOutputs(
  site: LaunchInput,
  visit: Visit,
): Promise<Readonly<Record<string, Output>> | Problem> {
  const outside = outputOutside(site, visit);
  if (outside !== undefined) return { reason: "output", message: outside };
  const found: Record<string, Output> = {};
  for (const [name, path] of Object.entries(outputPaths(site, visit))) {
    const { keepArtifact } = await import("../../workspace/artifact.ts");
    const facts = await keepArtifact(site.dir.artifacts, path);
    if (facts === undefined) {
      const shown = relative(workDirOf(site, visit), path);
      const message = `it wrote no output "${name}": there is no file ${shown}`;
      return { reason: "output", message };
    }
    found[name] = facts;
  }
  return found;
}

type ContextRead =
  | { readonly ok: true; readonly values: JsonObject }
  | { readonly ok: false; readonly message: string };

/** The key-values of a step: `key=value` lines, or one JSON object. */
function readContext(path: string): ContextRead {
  const left = readLeft(path, CONTEXT_BYTES_MAX);
  if (!left.there) return { ok: true, values: {} };
  if ("problem" in left) {
    return { ok: false, message: `what it wrote to $PERDURE_CONTEXT ${left.problem}` };
  }
  const { text } = left;
  return text.trimStart().startsWith("{") ? contextFromJson(text) : contextFromLines(text);
}

function contextFromJson(text: string): ContextRead {
  const parsed = parseJson(text);
  if (!parsed.ok || !isObject(parsed.json)) {
    const why = parsed.ok ? "not an object" : parsed.message;
    return { ok: false, message: `what it wrote to $PERDURE_CONTEXT is no JSON object: ${why}` };
  }
  const bad = Object.keys(parsed.json).find((key) => !CONTEXT_KEY.test(key));
  return bad === undefined
    ? { ok: true, values: parsed.json as JsonObject }
    : { ok: false, message: badKey(bad) };
}

function contextFromLines(text: string): ContextRead {
  const values: Record<string, Json> = {};
  for (const line of text.split("\n")) {
    if (line.trim() === "") continue;
    const cut = line.indexOf("=");
    const key = line.slice(0, Math.max(0, cut)).trim();
    if (!CONTEXT_KEY.test(key)) return { ok: false, message: badKey(cut < 0 ? line : key) };
    values[key] = line.slice(cut + 1);
  }
  return { ok: true, values };
}

function badKey(key: string): string {
  const shown = JSON.stringify(key.slice(0, 80));
  return `it wrote ${shown} to $PERDURE_CONTEXT; lines have the form key=value`;
}

/** The size limit of a file that is compared with a schema. */
const SCHEMA_FILE_BYTES_MAX = 64 * 1024 * 1024;
/** How much of the end of a failed check's output the journal stores. */
const CHECK_OUTPUT_BYTES_MAX = 4 * 1024;
/** How much of a command a message shows. */
const NAME_LENGTH_MAX = 80;

/** The findings of the commands and schemas of an attempt; `exit` is that of its commands. */
async function checkEvidence(
  site: LaunchInput,
  visit: Visit,
  dir: string,
  exit: number | undefined,
): Promise<readonly CheckEvidence[]> {
  const exits = readCheckExits(dir);
  const found: CheckEvidence[] = [];
  let commands = 0;
  for (const check of checksOf(stepOf(visit))) {
    const meaning = defined({ onFail: check.onFail });
    if (check.kind === "schema") {
      found.push({ ...(await checkSchema(site, visit, check)), ...meaning });
    } else if (check.kind === "command") {
      const status = exits[commands] ?? exit ?? -1;
      commands++;
      const log = join(dir, checkOutputFile(commands));
      found.push({ ...(await checkCommand(check.run, status, log)), ...meaning });
    }
  }
  return found;
}

/** The message for findings that fail an attempt; undefined when none does. */
export function checkProblem(found: readonly CheckEvidence[]): string | undefined {
  const failed = found.filter(fails);
  if (failed.length === 0) return undefined;
  return failed.map(({ message = "it did not pass" }) => message).join("; ");
}

/** The output of the failed checks, which distinguishes one failure from another. */
function failedOutput(found: readonly CheckEvidence[]): string {
  return found.flatMap((one) => (fails(one) ? [one.output ?? ""] : [])).join("\n");
}

async function checkCommand(run: string, exit: number, log: string): Promise<CheckEvidence> {
  const { describeFile } = await import("../../workspace/artifact.ts");
  const facts = await describeFile(log);
  const evidence = {
    kind: "command",
    subject: run,
    exit,
    ...(facts === undefined ? {} : { outputPath: facts.path, outputSha256: facts.sha256 }),
  } as const;
  if (exit === 0) return evidence;
  const status = exit < 0 ? "left no exit status" : `exited with ${exit}`;
  const message = `\`${shortName(run)}\` ${status}`;
  const output = lastText(log, CHECK_OUTPUT_BYTES_MAX);
  return { ...evidence, message, ...(output.trim() === "" ? {} : { output }) };
}

/** The first line of a command, shortened to a readable length. */
function shortName(run: string): string {
  const [first = "", ...more] = run.trim().split("\n");
  const whole = more.length === 0 && first.length <= NAME_LENGTH_MAX;
  return whole ? first : `${first.slice(0, NAME_LENGTH_MAX - 1)}…`;
}

async function checkSchema(
  site: LaunchInput,
  visit: Visit,
  check: Extract<Check, { kind: "schema" }>,
): Promise<CheckEvidence> {
  const name = renderText(check.file, evaluatorAt(site, visit));
  const path = resolve(workDirOf(site, visit), name);
  const { describeFile } = await import("../../workspace/artifact.ts");
  const facts = await describeFile(path);
  const evidence = { kind: "schema", subject: name } as const;
  if (facts === undefined) {
    return { ...evidence, exit: 1, message: `there is no file ${name} to check` };
  }
  const proof = { ...evidence, outputPath: facts.path, outputSha256: facts.sha256 };
  if (facts.bytes > SCHEMA_FILE_BYTES_MAX) {
    const message = `${name} is larger than ${SCHEMA_FILE_BYTES_MAX} bytes`;
    return { ...proof, exit: 1, message };
  }
  const message = await schemaProblem(textOf(path) ?? "", name, check.schema);
  return message === undefined ? { ...proof, exit: 0 } : { ...proof, exit: 1, message };
}

async function schemaProblem(
  text: string,
  name: string,
  schema: Json,
): Promise<string | undefined> {
  const value = parseJson(text);
  if (!value.ok) return `${name} is not JSON: ${value.message}`;
  const fault = await schemaFault(value.json, schema);
  return fault === undefined ? undefined : `${name} does not fit its schema: ${fault}`;
}

/** How much of an output is searched. */
const SEARCHED_BYTES_MAX = 16 * 1024 * 1024;

/** The ending of an attempt, with the secrets in the values that it passes on. */
export async function withExposures(site: LaunchInput, ending: Ending): Promise<Ending> {
  if (ending.how !== "exited") return ending;
  const { context, outputs, answer } = ending;
  const written = Object.keys(context).length + Object.keys(outputs).length;
  if (written === 0 && answer === undefined) return ending;
  const secrets = secretsOf(site);
  if (secrets.length === 0) return ending;
  const declared = new Set(site.plan.secrets);
  const exposes: Exposure[] = [];
  const search = (where: string, holds: (text: string) => boolean): void => {
    for (const { name, texts } of secrets) {
      if (texts.some(holds)) exposes.push({ secret: name, in: where });
    }
  };
  for (const [key, value] of Object.entries(context)) {
    // A key that is itself declared as secret needs no warning.
    if (declared.has(key)) continue;
    const texts = textsIn(value);
    search(`context.${key}`, (secret) => texts.some((text) => text.includes(secret)));
  }
  const answered = textsIn(answer);
  search("answer", (secret) => answered.some((text) => text.includes(secret)));
  for (const [name, { sha256 }] of Object.entries(outputs)) {
    const content = await keptContent(site, sha256);
    search(`outputs.${name}`, (secret) => content.includes(secret));
  }
  return exposes.length === 0 ? ending : { ...ending, exposes };
}

/** The secrets that a step of this run can know. */
export function secretsOf({ plan, run, env }: LaunchInput): readonly Secret[] {
  const variables = secretsIn(env, plan.secrets);
  const inputs = secretInputs(run.created?.input ?? null, plan.secrets);
  return [
    ...Array.from(variables, ([name, value]) => ({ name, texts: [value] })),
    ...Array.from(inputs, ([name, texts]) => ({ name: `input.${name}`, texts })),
  ];
}

interface Secret {
  readonly name: string;
  readonly texts: readonly string[];
}

/** The start of an output's kept copy; the file itself may have changed. */
async function keptContent({ dir }: LaunchInput, sha256: string): Promise<Buffer> {
  const { artifactPath } = await import("../../workspace/artifact.ts");
  const file = await open(artifactPath(dir.artifacts, sha256), "r");
  try {
    const { size } = await file.stat();
    const buffer = Buffer.alloc(Math.min(size, SEARCHED_BYTES_MAX));
    const { bytesRead } = await file.read(buffer, 0, buffer.length, 0);
    return buffer.subarray(0, bytesRead);
  } finally {
    await file.close();
  }
}
