/**
 * The findings of an attempt's checks: commands, whose exit statuses the wrapper recorded, and JSON
 * files, which this file compares with their schemas. Judges come later (agent/judge.ts).
 *
 * Owns: the finding of each check, and the message for a check that did not pass.
 * Does not: run commands (room `runner`), or decide what follows (core/attempt/attempt-end.ts).
 * Invariants:
 * - engine/X1 All commands and schemas are checked in order, also after one that did not pass, so
 *   that the author or the agent learns of all faults at once.
 */
import { join, resolve } from "node:path";
import { fails } from "../../core/attempt/check.ts";
import type { CheckEvidence } from "../../core/event.ts";
import { stepOf, type Visit } from "../../core/run.ts";
import { type Check, checksOf } from "../../plan/check.ts";
import { textOf } from "../../runner/file-text.ts";
import { checkOutputFile, readCheckExits } from "../../runner/process/attempt-folder.ts";
import { lastText } from "../../runner/process/output.ts";
import { type Json, parseJson } from "../../util/json.ts";
import { schemaFault } from "../../util/json-schema.ts";
import { renderText } from "../../util/template.ts";
import type { FileFacts } from "../../workspace/artifact.ts";
import { evaluatorAt, type LaunchInput, workDirOf } from "../launch.ts";

/** The size limit of a file that is compared with a schema. */
const SCHEMA_FILE_BYTES_MAX = 64 * 1024 * 1024;
/** How much of the end of a failed check's output the journal stores. */
const CHECK_OUTPUT_BYTES_MAX = 4 * 1024;
/** How much of a command a message shows. */
const NAME_LENGTH_MAX = 80;

/** The findings of the commands and schemas of an attempt; `exit` is that of its commands. */
export async function checkEvidence(
  site: LaunchInput,
  visit: Visit,
  dir: string,
  exit: number | undefined,
): Promise<readonly CheckEvidence[]> {
  const exits = readCheckExits(dir);
  const found: CheckEvidence[] = [];
  let commands = 0;
  for (const check of checksOf(stepOf(visit))) {
    const meaning = check.onFail === undefined ? {} : { onFail: check.onFail };
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

/** A text that distinguishes one failure of the checks from another. */
export function checkWords(found: readonly CheckEvidence[]): string {
  return found.flatMap((one) => (fails(one) ? [one.output ?? ""] : [])).join("\n");
}

async function checkCommand(run: string, exit: number, log: string): Promise<CheckEvidence> {
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

/** Loaded on first use, because most steps have no files. */
async function describeFile(path: string): Promise<FileFacts | undefined> {
  return (await import("../../workspace/artifact.ts")).describeFile(path);
}
