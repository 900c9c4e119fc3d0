/**
 * Loads the text of a file: its pipeline, or all its mistakes. A step may name the file of another
 * pipeline, which is loaded and frozen with it.
 *
 * Owns: the order of the phases; finding sub-pipelines, each file once, and the rules on them: no
 * cycles, a limit on steps, a valid input.
 * Does not: read files, or lower values (lower.ts).
 */

import { basename, posix } from "node:path";
import { isObject } from "../util/json.ts";
import type { Diagnostic } from "./diagnostic.ts";
import { inputDefaults, lowerPipeline } from "./lower.ts";
import { isModuleName, type ModuleValue, notPlain, plainValue, readModule } from "./module.ts";
import type { Pipeline, PipelineStep } from "./pipeline.ts";
import { Report } from "./report.ts";
import { readMcpFiles, readPrompts } from "./rules/agent.ts";
import { readCheckFiles } from "./rules/check.ts";
import { validate } from "./rules/validate.ts";
import { STEPS_MAX, type StepShape } from "./schema.ts";
import { readShape } from "./shape.ts";
import type { ParsedFile } from "./source.ts";
import { allLists, isCut, pathIn, rootList, type StepList } from "./step-list.ts";
import { parseYaml } from "./yaml.ts";

/** The largest pipeline file; 100,000 steps fit into it. */
const PIPELINE_BYTES_MAX = 32 * 1024 * 1024;

export interface LoadedPipeline {
  /** Absent when there is an error among the diagnostics. */
  readonly pipeline?: Pipeline;
  /** All mistakes of the file, in its order. */
  readonly diagnostics: readonly Diagnostic[];
}

/** The text of a file that a pipeline names, relative to it; undefined when there is none. */
type ReadNamed = (name: string) => string | undefined;

/** The result of a module of that name; undefined before it has run. */
export type ReadValue = (name: string) => ModuleValue | undefined;

/**
 * Reads a pipeline from the text of a file, and from its value when it is a module; `file` is its
 * name in messages.
 */
export function loadPipeline(
  file: string,
  text: string,
  readNamed: ReadNamed = () => undefined,
  readValue: ReadValue = () => undefined,
): LoadedPipeline {
  const refusal = tooLarge(file, text);
  if (refusal !== undefined) return { diagnostics: [refusal] };
  return loadFile({ readNamed, readValue, open: [basename(file)], read: new Map() }, file, text);
}

/** The line of a step in YAML that has its id. */
const STEP_ID = /^[ \t]*(?:-[ \t]+)?(?:\{[ \t]*)?id[ \t]*:/gm;
/** No step is shorter than `- id: a`. */
const STEP_LENGTH_MIN = 8;

/** Refuses a file that is too large before the parser spends a minute on it. */
function tooLarge(file: string, text: string): Diagnostic | undefined {
  const refusal = { severity: "error", rule: "file-too-large", file, column: 1 } as const;
  if (Buffer.byteLength(text) > PIPELINE_BYTES_MAX) {
    const message = `the file is larger than ${PIPELINE_BYTES_MAX / 1024 / 1024} MiB`;
    return { ...refusal, message, line: 1 };
  }
  if (text.length < STEPS_MAX * STEP_LENGTH_MIN) return undefined;
  const [extra] = text.matchAll(STEP_ID).drop(STEPS_MAX).take(1);
  if (extra === undefined) return undefined;
  const message = `the file has more than ${STEPS_MAX} steps`;
  const help = "make several pipelines of it, or repeat one step with `for_each`";
  return { ...refusal, message, help, line: text.slice(0, extra.index).split("\n").length };
}

/** The name of a pipeline that is a value, not a file. */
const GIVEN = "pipeline.ts";

/** Reads a pipeline that a program passes as a value. */
export function loadDefinition(
  value: unknown,
  readNamed: ReadNamed,
  readValue: ReadValue,
): LoadedPipeline {
  const plain = plainValue(value);
  const found: ModuleValue = plain.ok
    ? { ok: true, value: plain.value, printed: "" }
    : { ok: false, ...notPlain(plain.path, plain.found) };
  const read: ReadValue = (name) => (name === GIVEN ? found : readValue(name));
  return loadFile({ readNamed, readValue: read, open: [GIVEN], read: new Map() }, GIVEN, "");
}

/** Reads a file and those that its steps name. */
function loadFile(files: PipelineFiles, file: string, text: string): LoadedPipeline {
  const parsed = parse(files, file, text);
  if (parsed === undefined) return { diagnostics: [unread(file)] };
  const { source, value, diagnostics } = parsed;
  const readable = !diagnostics.some(({ rule }) => UNREADABLE.test(rule));
  const report = new Report(source, diagnostics);
  const read = readable ? readShape(value, report) : undefined;
  if (read === undefined) return { diagnostics: report.sorted() };
  const list = rootList(read);
  const readHere: ReadNamed = (name) => files.readNamed(resolveName(files, name));
  const named = {
    prompts: readPrompts(list, readHere, report),
    checks: readCheckFiles(list, readHere, report),
    pipelines: readPipelines(list, files, report),
    mcp: readMcpFiles(read.shape, list, readHere, report),
  };
  validate(read, named, report);
  const found = report.sorted();
  if (found.some(({ severity }) => severity === "error")) return { diagnostics: found };
  return { pipeline: lowerPipeline(read.shape, named, source), diagnostics: found };
}

/** Mistakes after which there is no value to validate. */
const UNREADABLE = /^(yaml|module)-(?!prints$)/;

/** A placeholder error for modules that have not run yet; the caller runs them and loads again. */
function unread(file: string): Diagnostic {
  const message = "the module was not run";
  return { severity: "error", rule: "module-unread", message, file, line: 1, column: 1 };
}

/** The value in a file; undefined for a module that has not run yet. */
function parse(files: PipelineFiles, file: string, text: string): ParsedFile | undefined {
  const name = files.open.at(-1) ?? file;
  if (!isModuleName(name)) return parseYaml(file, text);
  const found = files.readValue(name);
  return found && readModule(file, text, found);
}

/** Access to files; names are relative to the folder of the first file. */
interface PipelineFiles {
  readonly readNamed: ReadNamed;
  readonly readValue: ReadValue;
  /** The files that are being read, the outermost first. */
  readonly open: readonly string[];
  /** The files that were read before. */
  readonly read: Map<string, LoadedPipeline>;
}

/** The name of a file that another one names. */
function resolveName({ open }: PipelineFiles, name: string): string {
  const folder = posix.dirname(open.at(-1) ?? ".");
  return posix.isAbsolute(name) ? name : posix.join(folder, name);
}

/** Reads the pipelines that the steps of a file name. */
function readPipelines(
  root: StepList,
  files: PipelineFiles,
  report: Report,
): ReadonlyMap<StepShape, Pipeline> {
  const found = new Map<StepShape, Pipeline>();
  for (const list of allLists(root)) {
    for (const [index, step] of list.steps.entries()) {
      if (step.pipeline === undefined || isCut(list, index)) continue;
      const path = pathIn(list, index, "pipeline");
      const add = (message: string, help: string): void =>
        report.add({ rule: "pipeline-file", message, help, path });
      const name = resolveName(files, step.pipeline);
      const pipeline = readOne(name, files, (problem) => {
        if (typeof problem === "string") add(problem, HELP);
        else {
          const message = `${name}, line ${problem.line}: ${problem.message}`;
          report.add({ ...problem, message, path });
        }
      });
      if (pipeline === undefined) continue;
      if (countSteps(pipeline.steps) > STEPS_MAX) {
        add(`\`${step.pipeline}\` has more than ${STEPS_MAX} steps in all`, "make it smaller");
      }
      checkInput(step, pipeline, list, index, report);
      found.set(step, pipeline);
    }
  }
  return found;
}

const HELP = "the path is relative to the pipeline's file";

function readOne(
  name: string,
  files: PipelineFiles,
  add: (problem: Diagnostic | string) => void,
): Pipeline | undefined {
  const start = files.open.indexOf(name);
  if (start >= 0) {
    const circle = [...files.open.slice(start), name].join(" -> ");
    add(`these files include each other: ${circle}`);
    return undefined;
  }
  const known = files.read.get(name);
  const text = known === undefined ? files.readNamed(name) : "";
  if (text === undefined) {
    add(`there is no file \`${name}\``);
    return undefined;
  }
  const { pipeline, diagnostics } =
    known ?? loadFile({ ...files, open: [...files.open, name] }, name, text);
  files.read.set(name, { ...(pipeline === undefined ? {} : { pipeline }), diagnostics });
  for (const diagnostic of diagnostics) add(diagnostic);
  return pipeline;
}

const counts = new WeakMap<readonly PipelineStep[], number>();

/** All steps, also those in other steps and files. */
function countSteps(steps: readonly PipelineStep[]): number {
  const known = counts.get(steps);
  if (known !== undefined) return known;
  let count = steps.length;
  for (const { work } of steps) {
    if ("body" in work) count += countSteps("steps" in work.body ? work.body.steps : work.body);
  }
  counts.set(steps, count);
  return count;
}

/** The input that a step sets must match the schema of the other file. */
function checkInput(
  step: StepShape,
  { inputSchema }: Pipeline,
  list: StepList,
  index: number,
  report: Report,
): void {
  if (!isObject(inputSchema)) return;
  const given = Object.keys(step.input ?? {});
  const assumed = inputDefaults(inputSchema);
  const required = Array.isArray(inputSchema.required) ? inputSchema.required.map(String) : [];
  const rule = "pipeline-input";
  for (const key of required) {
    if (given.includes(key) || Object.hasOwn(assumed, key)) continue;
    const message = `\`${step.pipeline}\` needs \`${key}\` in its input`;
    const help = `add \`input: {${key}: ...}\``;
    report.add({ rule, message, help, path: pathIn(list, index, "pipeline") });
  }
  const known = isObject(inputSchema.properties) ? Object.keys(inputSchema.properties) : [];
  if (inputSchema.additionalProperties !== false) return;
  for (const key of given) {
    if (known.includes(key)) continue;
    const message = `\`${step.pipeline}\` takes no input \`${key}\``;
    const help = report.suggest(key, known, "it takes");
    report.add({ rule, message, help, path: pathIn(list, index, "input", key), on: "key" });
  }
}
