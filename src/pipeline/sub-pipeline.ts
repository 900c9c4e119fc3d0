/**
 * Sub-pipelines: files that steps of another pipeline name, loaded and frozen with it.
 *
 * Owns: finding the files, each once, and the rules on them: no cycles, a limit on steps, a valid
 * input.
 * Does not: load the text of a file (load.ts passes a function that does).
 */
import { posix } from "node:path";
import { isObject } from "../util/json.ts";
import type { Diagnostic } from "./diagnostic.ts";
import { defaultsOf } from "./lower-work.ts";
import type { ModuleValue } from "./module.ts";
import type { Pipeline, PipelineStep } from "./pipeline.ts";
import type { Report } from "./report.ts";
import { STEPS_MAX, type StepShape } from "./schema.ts";
import { allLists, isCut, pathIn, type StepList } from "./step-list.ts";

/** A pipeline, or its mistakes. */
interface ReadFile {
  readonly pipeline?: Pipeline;
  readonly diagnostics: readonly Diagnostic[];
}

/** Access to files; names are relative to the folder of the first file. */
export interface Shelf {
  readonly readNamed: (name: string) => string | undefined;
  /** The result of a module. */
  readonly readValue: (name: string) => ModuleValue | undefined;
  /** The files that are being read, the outermost first. */
  readonly open: readonly string[];
  /** The files that were read before. */
  readonly read: Map<string, ReadFile>;
}

/** The name of a file that another one names. */
export function nameOn({ open }: Shelf, name: string): string {
  const folder = posix.dirname(open.at(-1) ?? ".");
  return posix.isAbsolute(name) ? name : posix.join(folder, name);
}

/** Reads the pipelines that the steps of a file name. */
export function readPipelines(
  root: StepList,
  shelf: Shelf,
  load: (name: string, text: string) => ReadFile,
  report: Report,
): ReadonlyMap<StepShape, Pipeline> {
  const found = new Map<StepShape, Pipeline>();
  for (const list of allLists(root)) {
    for (const [index, step] of list.steps.entries()) {
      if (step.pipeline === undefined || isCut(list, index)) continue;
      const path = pathIn(list, index, "pipeline");
      const add = (message: string, help: string): void =>
        report.add({ rule: "pipeline-file", message, help, path });
      const pipeline = readOne(nameOn(shelf, step.pipeline), shelf, load, (diagnostic, name) => {
        if (typeof diagnostic === "string") add(diagnostic, HELP);
        else report.add({ ...diagnostic, message: `${name}, ${placed(diagnostic)}`, path });
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

function placed({ line, message }: Diagnostic): string {
  return `line ${line}: ${message}`;
}

function readOne(
  name: string,
  shelf: Shelf,
  load: (name: string, text: string) => ReadFile,
  tell: (problem: Diagnostic | string, name: string) => void,
): Pipeline | undefined {
  const start = shelf.open.indexOf(name);
  if (start >= 0) {
    const circle = [...shelf.open.slice(start), name].join(" -> ");
    tell(`these files include each other: ${circle}`, name);
    return undefined;
  }
  const known = shelf.read.get(name);
  const text = known === undefined ? shelf.readNamed(name) : "";
  if (text === undefined) {
    tell(`there is no file \`${name}\``, name);
    return undefined;
  }
  const { pipeline, diagnostics } = known ?? load(name, text);
  shelf.read.set(name, { ...(pipeline === undefined ? {} : { pipeline }), diagnostics });
  for (const diagnostic of diagnostics) tell(diagnostic, name);
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
  const assumed = defaultsOf(inputSchema);
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
