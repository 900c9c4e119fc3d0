/**
 * The public names of `import ... from "perdure"`.
 *
 * Owns: these names; everything else may change.
 * Does not: load the rest of the program before `run`, `resume` or `openRun` is called, because most
 * pipeline files need only `definePipeline`.
 * Invariants:
 * - library/L1 The library prints nothing, never ends the process, and leaves its signals and its
 *   directory alone.
 */
import type { PipelineDefinition } from "../pipeline/definition.ts";
import type { RunHandle } from "./run-handle.ts";
import type { OpenedRun, OpenOptions, ResumeOptions, RunOptions } from "./start.ts";

export { type Next, PipelineInvalid, Refusal, type RefusalCode, RunOwned } from "../app/refusal.ts";
export type { StopMode } from "../core/event.ts";
export {
  definePipeline,
  type PipelineDefinition,
  type StepDefinition,
} from "../pipeline/definition.ts";
export type { Diagnostic } from "../pipeline/diagnostic.ts";
export type {
  DotGraphView,
  DotRule,
  DotRuleFinding,
  DotTransform,
} from "../plan/attractor/build.ts";
export type { Json } from "../util/json.ts";
export type { ExitCode } from "../view/exit-code.ts";
export type { EventJson } from "../view/json/part-json.ts";
export type {
  AnswerSource,
  OpenQuestion,
  QuestionAnswer,
  RunHandle,
  RunResult,
  RunView,
  StepView,
} from "./run-handle.ts";
export type {
  DotOptions,
  OpenedRun,
  OpenOptions,
  RequestOutcome,
  ResumeOptions,
  RetryOptions,
  RunOptions,
} from "./start.ts";

/**
 * Starts a new run of a pipeline: a value, or the path of a file. Throws `PipelineInvalid` if the
 * pipeline has mistakes, and a `Refusal` if the input does not match its schema.
 */
export async function run(
  pipeline: PipelineDefinition | string,
  options: RunOptions = {},
): Promise<RunHandle> {
  return (await import("./start.ts")).startRun(pipeline, options);
}

/**
 * Continues a run from exactly where it stopped, no matter who owned it before. Throws `RunOwned` while
 * another process owns it.
 */
export async function resume(id: string, options: ResumeOptions = {}): Promise<RunHandle> {
  return (await import("./start.ts")).resumeRun(id, options);
}

/** Opens a run for reading, without owning it. */
export async function openRun(id: string, options: OpenOptions = {}): Promise<OpenedRun> {
  return (await import("./start.ts")).openForReading(id, options);
}
