/** The shape of `gate` and `wait`: steps for which nothing is run. */
import * as z from "zod";
import { command, duration } from "./schema-text.ts";

const CHOICES_MAX = 50;
const CHOICE_KEY = /^\w+$/;

const gateChoice = z.union([
  command,
  z.strictObject({
    label: command.describe("What is chosen, in words."),
    key: z
      .string()
      .regex(CHOICE_KEY, "bad-choice-key")
      .optional()
      .describe("What to type for it. Default: its first letter."),
    fails: z
      .boolean()
      .optional()
      .describe("True: the step fails when it is chosen. Default: only `reject` does."),
  }),
]);

/** A question to a person. */
export const gate = z.union([
  command,
  z.strictObject({
    ask: command.describe("The question; may hold ${{ }}."),
    choices: z
      .array(gateChoice)
      .min(1)
      .max(CHOICES_MAX)
      .optional()
      .describe("The answers. Default: the labels of its `edges`, else approve and reject."),
    text: z
      .enum(["none", "optional", "required"])
      .optional()
      .describe("Whether words of one's own belong to the answer. Default: optional."),
    timeout: duration.optional().describe("How long the question stands. Default: for ever."),
    default: z
      .string()
      .optional()
      .describe("The choice that counts when nobody answers in time. Default: the step fails."),
  }),
]);

/** Time that passes. */
export const wait = z.union([
  duration,
  z.strictObject({ for: duration.describe("How long to wait.") }),
  z.strictObject({
    until: command.describe("A moment such as 2026-12-01T08:00:00Z; may hold ${{ }}."),
  }),
]);
