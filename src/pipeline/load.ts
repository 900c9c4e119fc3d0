/**
 * Loads the text of a file: its pipeline, or all its mistakes. A step may name the file of another
 * pipeline, which is loaded and frozen with it.
 *
 * Owns: the order of the phases; finding sub-pipelines, each file once, and the rules on them: no
 * cycles, a limit on steps, a valid input.
 * Does not: read files, or lower values (lower.ts).
 */
import { basename, posix } from "node:path";
import { defined } from "../util/defined.ts";
import { isObject } from "../util/json.ts";
import {
  type Configuration,
  configured,
  NO_CONFIGURATION,
  sourceIn,
  takenSettings,
} from "./configuration.ts";
import { type Diagnostic, type ParsedFile, Report } from "./diagnostic.ts";
import { inputDefaults, lowerPipeline } from "./lower.ts";
import { isModuleName, type ModuleValue, notPlain, plainValue, readModule } from "./module.ts";
import type { Pipeline, PipelineStep } from "./pipeline.ts";
import { isChosen } from "./rules/body.ts";
import { inputSchema, type NamedPipeline, readNamedFiles } from "./rules/named-file.ts";
import { validate } from "./rules/validate.ts";
import { STEPS_MAX, type StepShape } from "./schema.ts";
import { readShape } from "./shape.ts";
import { allLists, isCut, pathIn, rootList, type StepList } from "./step-list.ts";
import { parseYaml } from "./yaml.ts";

/** The largest pipeline file; 100,000 steps fit into it. */
const PIPELINE_BYTES_MAX = 32 * 1024 * 1024;

export interface LoadedPipeline {
  /** Absent when there is an error among the diagnostics. */
  readonly pipeline?: Pipeline;
  /** All mistakes of the file, in its order. */
  readonly diagnostics: readonly Diagnostic[];
  /** The settings that the pipeline takes from configuration files. */
  readonly taken?: ReturnType<typeof takenSettings>;
}

/** The text of a file that a pipeline names, relative to it; undefined when there is none. */
type ReadNamed = (name: string) => string | undefined;

/** The result of a module of that name; undefined before it has run. */
type ReadValue = (name: string) => ModuleValue | undefined;

/**
 * Reads a pipeline from the text of a file, and from its value when it is a module; `file` is its
 * name in messages.
 */
export function loadPipeline(
  file: string,
  text: string,
  readNamed: ReadNamed = () => undefined,
  readValue: ReadValue = () => undefined,
  around: Partial<LoadSurroundings> = {},
): LoadedPipeline {
  const refusal = tooLarge(file, text);
  if (refusal !== undefined) return { diagnostics: [refusal] };
  const surroundings = { configuration: NO_CONFIGURATION, listNamed: () => [], ...around };
  const open = [basename(file)];
  return loadFile({ readNamed, readValue, ...surroundings, open, read: new Map() }, file, text);
}

/** What a pipeline finds around it. */
interface LoadSurroundings {
  readonly configuration: Configuration;
  /** The files that match a pattern, relative to the pipeline's file, sorted. */
  readonly listNamed: (pattern: string) => readonly string[];
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
  const help = "split it into several pipelines, or repeat one step with `for_each`";
  return { ...refusal, message, help, line: text.slice(0, extra.index).split("\n").length };
}

/** The name of a pipeline that is a value, not a file. */
const GIVEN = "pipeline.ts";

/** Reads a pipeline that a program passes as a value. */
export function loadDefinition(
  value: unknown,
  readNamed: ReadNamed,
  readValue: ReadValue,
  around: LoadSurroundings,
): LoadedPipeline {
  const plain = plainValue(value);
  const found: ModuleValue = plain.ok
    ? { ok: true, value: plain.value, printed: "" }
    : { ok: false, ...notPlain(plain.path, plain.found) };
  const read: ReadValue = (name) => (name === GIVEN ? found : readValue(name));
  const files = { readNamed, readValue: read, ...around, open: [GIVEN], read: new Map() };
  return loadFile(files, GIVEN, "");
}

/** A module is a program, so nothing runs it only to look for a schedule. */
const SCHEDULE_IN_MODULE = {
  rule: "schedule-in-module",
  message: "`on` works only in YAML files",
  help: "write a YAML file with the schedule, and one step with `pipeline:` and this file",
  path: ["on"],
  on: "key",
} as const;

/** Reads a file and those that its steps name. */
function loadFile(files: PipelineFiles, file: string, text: string): LoadedPipeline {
  const parsed = parse(files, file, text);
  if (parsed === undefined) return { diagnostics: [unread(file)] };
  const { source, value, diagnostics } = parsed;
  const { configuration } = files;
  const readable = !diagnostics.some(({ rule }) => UNREADABLE.test(rule));
  const shapes = new Report(() => source, diagnostics);
  const own = readable ? readShape(value, shapes) : undefined;
  const isFirst = files.open.length === 1;
  const known = [...(isFirst ? configuration.diagnostics : []), ...shapes.diagnostics];
  if (own === undefined) return { diagnostics: new Report(() => source, known).sorted() };
  const read = configured(own, configuration);
  const sourceAt = sourceIn(source, own, configuration);
  const report = new Report(sourceAt, known);
  if (isModuleName(file) && own.shape.on !== undefined) report.add(SCHEDULE_IN_MODULE);
  const list = rootList(read);
  const readHere: ReadNamed = (name) => files.readNamed(resolveName(files, name));
  const contents = readNamedFiles(read.shape, list, readHere, report);
  const named = {
    ...contents,
    pipelines: readPipelines(list, files, report),
    envFiles: namesOf(read.shape.env_file).map((name) => resolveName(files, name)),
    ...defined({ input: inputSchema(read.shape, contents.schemas) }),
  };
  validate(read, named, report);
  const found = report.sorted();
  if (found.some(({ severity }) => severity === "error")) return { diagnostics: found };
  const taken = takenSettings(own, configuration);
  return { pipeline: lowerPipeline(read.shape, named, sourceAt), diagnostics: found, taken };
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
interface PipelineFiles extends LoadSurroundings {
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
): ReadonlyMap<StepShape, readonly NamedPipeline[]> {
  const found = new Map<StepShape, readonly NamedPipeline[]>();
  for (const list of allLists(root)) {
    for (const [index, step] of list.steps.entries()) {
      if (step.pipeline === undefined || isCut(list, index, "pipeline", "pipelines")) continue;
      const at = { list, index, report };
      const names = isChosen(step) ? candidatesOf(step, at, files) : [step.pipeline];
      const read = names.flatMap((name) => {
        const pipeline = readNamedPipeline(name, at, files);
        return pipeline === undefined ? [] : [{ name, pipeline }];
      });
      for (const { name, pipeline } of read) {
        if (pipeline.finally === undefined) continue;
        const message = `\`${name}\` has \`finally\`, which a sub-pipeline cannot have`;
        const help = "move these steps to the `finally` of this pipeline";
        report.add({ rule: "pipeline-file", message, help, path: pathIn(list, index, "pipeline") });
      }
      if (read.length > 0 && read.length === names.length) found.set(step, read);
    }
  }
  return found;
}

/** One name, or a list of names. */
function namesOf(written: string | readonly string[] | undefined): readonly string[] {
  return typeof written === "string" ? [written] : (written ?? []);
}

/** A step of a file, and the report on it. */
interface StepPosition {
  readonly list: StepList;
  readonly index: number;
  readonly report: Report;
}

/** The pipeline of a file that a step names. */
function readNamedPipeline(
  written: string,
  { list, index, report }: StepPosition,
  files: PipelineFiles,
): Pipeline | undefined {
  const step = list.steps[index] as StepShape;
  const path = pathIn(list, index, isChosen(step) ? "pipelines" : "pipeline");
  const add = (message: string, help: string): void =>
    report.add({ rule: "pipeline-file", message, help, path });
  const name = resolveName(files, written);
  const pipeline = readOne(name, files, (problem) => {
    if (typeof problem === "string") add(problem, HELP);
    else if (problem.file !== name) report.addFound(problem);
    else {
      const message = `${name}, line ${problem.line}: ${problem.message}`;
      report.add({ ...problem, message, path });
    }
  });
  if (pipeline === undefined) return undefined;
  if (countSteps(pipeline.steps) > STEPS_MAX) {
    add(`\`${written}\` has more than ${STEPS_MAX} steps in all`, "make it smaller");
  }
  checkInput(written, pipeline, list, index, report);
  return pipeline;
}

/** The files that a step may choose from when it starts. */
function candidatesOf(
  step: StepShape,
  { list, index, report }: StepPosition,
  files: PipelineFiles,
): readonly string[] {
  const names = namesOf(step.pipelines).flatMap((pattern) => {
    if (!pattern.includes("*")) return [posix.normalize(pattern)];
    const found = files.listNamed(resolveName(files, pattern));
    const folder = posix.dirname(files.open.at(-1) ?? ".");
    if (found.length > 0) return found.map((name) => posix.relative(folder, name));
    const message = `no file matches \`${pattern}\``;
    const path = pathIn(list, index, "pipelines");
    report.add({ rule: "pipeline-file", message, help: HELP, path });
    return [];
  });
  return [...new Set(names)];
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

/** All steps, including those in other steps and files. */
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
  written: string,
  { inputSchema }: Pipeline,
  list: StepList,
  index: number,
  report: Report,
): void {
  if (!isObject(inputSchema)) return;
  const step = list.steps[index] as StepShape;
  if (inputSchema.type === "string") {
    const message = `the input of \`${written}\` is a text, but a step can only pass an object`;
    const help = "declare its input with `type: object`, and the text as one of its `properties`";
    report.add({ rule: "pipeline-input", message, help, path: pathIn(list, index, "pipeline") });
    return;
  }
  const given = Object.keys(step.input ?? {});
  const assumed = inputDefaults(inputSchema);
  const required = Array.isArray(inputSchema.required) ? inputSchema.required.map(String) : [];
  const rule = "pipeline-input";
  for (const key of required) {
    if (given.includes(key) || Object.hasOwn(assumed, key)) continue;
    const message = `\`${written}\` needs \`${key}\` in its input`;
    const help = `add \`input: {${key}: ...}\``;
    report.add({ rule, message, help, path: pathIn(list, index, "pipeline") });
  }
  const known = isObject(inputSchema.properties) ? Object.keys(inputSchema.properties) : [];
  if (inputSchema.additionalProperties !== false) return;
  for (const key of given) {
    if (known.includes(key)) continue;
    const message = `\`${written}\` has no input \`${key}\``;
    const help = report.suggest(key, known, "its inputs");
    report.add({ rule, message, help, path: pathIn(list, index, "input", key), on: "key" });
  }
}
