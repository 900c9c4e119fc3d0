/**
 * The shape of `check`: one check of a step, or a list of them.
 *
 * Owns: what each kind of check may look like.
 * Does not: read the files that a check names, or compare it with its step (check-rules.ts).
 */
import * as z from "zod";
import { command } from "./schema-text.ts";
import { jsonSchema, path } from "./schema-values.ts";

/** How many checks a step may have. */
const CHECKS_MAX = 32;

const meaning = {
  on_fail: z
    .enum(["retry", "warn", "fail"])
    .optional()
    .describe(
      "When it does not pass: retry the step while it has attempts left (the default), only " +
        "warn, or fail at once.",
    ),
};

const judge = {
  agent: z
    .string()
    .optional()
    .describe("The agent that judges. Default: the agent of the step, then that of `defaults`."),
  model: z.string().regex(/\S/, "empty-text").optional().describe("The model of the judge."),
  ...meaning,
};

const oneCheck = z.union([
  command,
  z.strictObject({
    run: command.describe("A command that exits with 0 when the work is good."),
    ...meaning,
  }),
  z.strictObject({
    file: path.describe("A JSON file that the step writes."),
    schema: z
      .union([jsonSchema, path])
      .describe(
        "The JSON Schema that the file must satisfy, or the path of a JSON file that holds it, " +
          "relative to the pipeline's; read when a run begins.",
      ),
    ...meaning,
  }),
  z.strictObject({
    judge: command.describe("What the work must satisfy: an agent reads it and decides."),
    ...judge,
  }),
  z.strictObject({
    judge_file: path.describe(
      "A file with what the work must satisfy, relative to the pipeline's; read when a run begins.",
    ),
    ...judge,
  }),
]);

/** One check as it is written. */
export type CheckShape = z.infer<typeof oneCheck>;

export const check = z.union([
  ...oneCheck.options,
  z.array(oneCheck).min(1, "empty-checks").max(CHECKS_MAX),
]);
