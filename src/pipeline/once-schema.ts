/**
 * The shape of `once` and `capture`: what must not happen twice, and what a step leaves as a value.
 *
 * Owns: what each value alone may look like.
 * Does not: say which steps may have them (body-rules.ts, gate-rules.ts).
 */
import * as z from "zod";
import { command } from "./schema-text.ts";
import { name } from "./schema-values.ts";

const EXIT_STATUS_MAX = 255;
const form = z.enum(["text", "lines", "json", "number"]);

export const once = z.union([
  z.boolean(),
  z.strictObject({
    probe: command
      .optional()
      .describe(
        "A command that says whether it happened: exit 0 is yes, 1 is no, all else unknown.",
      ),
    not_done: z
      .array(z.int().min(1).max(EXIT_STATUS_MAX))
      .max(EXIT_STATUS_MAX)
      .optional()
      .describe("Exit statuses of the step that prove that nothing has happened."),
  }),
]);

export const capture = z.union([
  form,
  z.strictObject({
    as: form.describe("text, lines (a list of texts), json or number."),
    to: name.describe("The key of the context."),
  }),
]);
