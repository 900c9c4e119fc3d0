/**
 * A tool for agents: its arguments, its document, and what it may do to a run; and the arguments that
 * several tools share, with their descriptions for agents.
 *
 * Does not: speak the protocol (main.ts).
 */
import { z } from "zod";
import { type LoadedRun, loadRun } from "../app/loaded-run.ts";
import { type Project, resolveRunId, withProject } from "../app/project/project.ts";
import type { Refusal } from "../app/refusal.ts";
import type { Json } from "../util/json.ts";
import type { DocumentOf, DocumentShape } from "../view/json/document-parts.ts";

/** One call of a tool. */
export interface ToolCall {
  /** The directory of the project. */
  readonly directory: string;
  /** Aborted when nobody waits for the result any more. */
  readonly signal: AbortSignal;
  /** Reports progress; `position` grows with each report. */
  readonly report: (position: number, message: string) => Promise<void>;
  /** Adds to the result why the run does not continue, although the change is recorded. */
  readonly warn: (problem: Refusal | undefined) => void;
}

/** What a tool does, for clients that ask a person before they call it. */
type Effects =
  /** Changes nothing. */
  | "reads"
  /** Adds something and removes nothing. */
  | "adds"
  /** Adds something; a second call with the same arguments changes nothing more. */
  | "adds-once"
  /** Starts, repeats or abandons work. */
  | "works";

/** A tool of the server. */
interface Tool<I extends z.ZodObject = z.ZodObject, D extends DocumentShape = DocumentShape> {
  readonly name: string;
  readonly title: string;
  readonly about: string;
  readonly input: I;
  /** The document that it returns. */
  readonly document: D;
  readonly effects: Effects;
  readonly call: (input: z.output<I>, call: ToolCall) => Promise<DocumentOf<D>>;
}

/** A tool of any input and document. */
export type AnyTool = Omit<Tool, "call"> & {
  readonly call: (input: never, call: ToolCall) => Promise<object>;
};

/** Declares a tool; the compiler checks its call against its input and its document. */
export function tool<I extends z.ZodObject, D extends DocumentShape>(of: Tool<I, D>): AnyTool {
  return of;
}

/** Opens the project of a call, loads a run, and closes the project after `body`. */
export async function withRun<T>(
  { directory }: ToolCall,
  mode: "read-only" | "read-write",
  run: string,
  body: (project: Project, known: LoadedRun) => Promise<T>,
): Promise<T> {
  return withProject([directory, mode, run], async (project) =>
    body(project, await loadRun(project, await resolveRunId(project.journal, run))),
  );
}

export const run = z
  .string()
  .describe("The id of the run, or its first 8 characters, as list_runs and start_run return it");

export const step = z
  .string()
  .describe("The path of the step as show_run has it: `build`, or `each@1.1[3]/test` for an item");

export const dryRun = z
  .boolean()
  .optional()
  .describe("Only return what would happen; change nothing");

export const files = z
  .enum(["keep", "restore"])
  .optional()
  .describe(
    "What happens to the files: keep them as they are, or restore the snapshot from before " +
      "the step. Without it, files in a workspace of the run are restored, and the files of the " +
      "project are kept",
  );

export const agreed = z
  .boolean()
  .optional()
  .describe(
    "A person has agreed that effects which must happen only once (`once`) happen again. " +
      "Needed after the error not-confirmed; never decide this yourself",
  );

export const resume = z
  .boolean()
  .optional()
  .describe(
    "If no process drives the run, continue it in the background. True by default; with false " +
      "the change waits for resume_run",
  );

/** Any JSON; the schema names the types because models write an object only where it says so. */
export const pipelineInput = z
  .union([
    z.record(z.string(), z.unknown()),
    z.string(),
    z.array(z.unknown()),
    z.number(),
    z.boolean(),
  ])
  .optional()
  .describe("The input of the run; list_pipelines has the schema of each pipeline's input");

/** The input as JSON: the protocol has parsed it from JSON. */
export function jsonInput(input: z.output<typeof pipelineInput>): Json | undefined {
  return input as Json | undefined;
}

export const turns = z
  .int()
  .positive()
  .optional()
  .describe("More turns for agents that have used up their max_turns");

export const beside = z
  .boolean()
  .optional()
  .describe(
    "Start although another run with agents works in the same directory, where each may " +
      "change the files of the other. Needed after the error directory-shared",
  );
