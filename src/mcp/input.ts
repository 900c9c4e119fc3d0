/** The arguments that several tools have, with the words that an agent reads about them. */
import { z } from "zod";
import type { Json } from "../util/json.ts";

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

/** A model writes an object only where the schema says that it may. */
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

/** The same as JSON, which it is: it was read from JSON. */
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
