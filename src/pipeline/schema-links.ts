/**
 * The shapes of where a step leads.
 *
 * Owns: what each value alone may look like.
 * Does not: compare values with each other (jump-rules.ts).
 */
import * as z from "zod";
import { expression, fidelity, thread, visits } from "./schema-values.ts";

/** How many steps one step may wait for or lead to. */
export const NEEDS_MAX = 1_000;
const WEIGHT_MAX = 1_000_000;

const edge = z.strictObject({
  to: z.string().describe("The step that it leads to."),
  when: expression.optional().describe("An expression; the edge can be taken when it is true."),
  label: z
    .string()
    .optional()
    .describe("Its name: taken when the step asks for it in $PERDURE_STATUS_FILE."),
  weight: z
    .number()
    .min(-WEIGHT_MAX)
    .max(WEIGHT_MAX)
    .optional()
    .describe("Of several edges that can be taken, the heaviest is. Default: 0."),
  fidelity: fidelity.describe("What the agent behind it is told, whatever its step says."),
  thread: thread.describe("For `full`: the conversation, unless the step names one."),
});

/** What leads on from a step, and how often. */
export const links = {
  on_failure: z
    .string()
    .optional()
    .describe("After a failure for good: a step to go to, `continue`, or `fail` (the default)."),
  goto: z.string().optional().describe("The step that follows, instead of the one below."),
  edges: z
    .array(edge)
    .min(1)
    .max(NEEDS_MAX)
    .optional()
    .describe(
      "Where it leads: the heaviest whose `when` holds, else the one that the step asks for by label.",
    ),
  max_visits: visits
    .optional()
    .describe("How often the run may come to this step. Default: 10 in a loop."),
  stall_after: visits
    .min(2)
    .optional()
    .describe("So many equal failures in a row stop the loop that it is in. Default: 3."),
  goal: z
    .union([z.boolean(), z.literal("visited")])
    .optional()
    .describe("True: without it the pipeline has not succeeded; visited: only if it came there."),
  retry_target: z
    .string()
    .optional()
    .describe("For a `goal`: the step to go back to while it is not reached."),
};
