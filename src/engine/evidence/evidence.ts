/**
 * The evidence of an ended process: outputs, key-values and the findings of its checks.
 *
 * Owns: reading and judging the files of an attempt; they come from outside and are parsed.
 * Does not: decide what follows (core/decide.ts).
 * Invariants:
 * - engine/N1 A step is complete only when its checks have passed and every output that it names
 *   exists.
 * - engine/N2 No value is altered on its way into the journal: steps and conditions use the
 *   recorded value.
 * - engine/N3 The content of an output is kept before the event that names it, so no later attempt
 *   can lose it.
 */
import { existsSync } from "node:fs";
import { join, relative } from "node:path";
import { findings } from "../../core/attempt/check.ts";
import { mayRepeat } from "../../core/attempt/failure.ts";
import type { Output } from "../../core/event.ts";
import type { Ending, Result } from "../../core/fact.ts";
import type { Visit } from "../../core/run.ts";
import { readLeft } from "../../runner/file-text.ts";
import { ATTEMPT_FILE } from "../../runner/process/attempt-folder.ts";
import { lastText } from "../../runner/process/output.ts";
import type { ProcessEnding } from "../../runner/process/step-process.ts";
import { isObject, type Json, type JsonObject, parseJson } from "../../util/json.ts";
import { toolKeys } from "../attractor-stage.ts";
import {
  CONTEXT_FILE,
  type LaunchInput,
  outputOutside,
  outputPaths,
  workDirOf,
} from "../launch.ts";
import { checkEvidence, checkProblem, checkWords } from "./check-evidence.ts";
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
    const { context, ...reported } = statusAnyway(dir);
    const said = lastWords(visit, dir);
    return { ...nothing, ...reported, context: { ...keys, ...context }, ...said };
  }
  const found = await checkEvidence(site, visit, dir, ending.checkExit);
  const checked = { ...nothing, ...findings(found) };
  const message = checkProblem(found);
  if (message !== undefined) {
    const said = mayRepeat(visit) ? { said: checkWords(found) } : {};
    return { ...checked, problem: { reason: "check", message }, ...said };
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
    ...(reported === undefined ? {} : { reported }),
  };
}

/** The report of a step; in a DOT pipeline the answer of an agent may be one. */
function reportOf({ plan }: LaunchInput, dir: string, answer: Json | undefined) {
  const file = join(dir, STATUS_FILE);
  const answers = plan.keys === "attractor" && typeof answer === "string" && !existsSync(file);
  return answers ? statusInAnswer(answer) : readStatus(file);
}

/** The report of a failed step; an unreadable status file adds nothing. */
function statusAnyway(dir: string): Pick<Exited, "context" | "reported"> {
  const status = readStatus(join(dir, STATUS_FILE));
  if (!status.ok) return { context: {} };
  const { context, reported } = status;
  return reported === undefined ? { context } : { context, reported };
}

/** The end of the output of a step that may repeat: an exit status alone does not identify a failure. */
function lastWords(visit: Visit, dir: string): { said?: string } {
  if (!mayRepeat(visit)) return {};
  return { said: lastText(join(dir, ATTEMPT_FILE.output), SAID_BYTES_MAX) };
}

async function keepOutput({ dir }: LaunchInput, path: string): Promise<Output | undefined> {
  return (await import("../../workspace/artifact.ts")).keepArtifact(dir.artifacts, path);
}

async function findOutputs(
  site: LaunchInput,
  visit: Visit,
): Promise<Readonly<Record<string, Output>> | Problem> {
  const outside = outputOutside(site, visit);
  if (outside !== undefined) return { reason: "output", message: outside };
  const found: Record<string, Output> = {};
  for (const [name, path] of Object.entries(outputPaths(site, visit))) {
    const facts = await keepOutput(site, path);
    if (facts === undefined) {
      const shown = relative(workDirOf(site, visit), path);
      return {
        reason: "output",
        message: `it wrote no output "${name}": there is no file ${shown}`,
      };
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
