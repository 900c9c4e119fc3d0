/**
 * The shapes of values that are more than a text or a number: retry, edges, gates, waits, checks.
 *
 * Owns: the shape of each value. The message of a pattern is the name of its rule.
 * Does not: decide which steps may have it (keys.ts) or compare values with each other (rules/).
 */

import * as z from "zod";
import { defined } from "../util/defined.ts";
import type { Json } from "../util/json.ts";
import {
  age,
  ageMs,
  command,
  duration,
  ENTRIES_MAX,
  expression,
  FIDELITIES,
  id,
  jsonSchema,
  milliseconds,
  name,
  path,
  visits,
} from "./values.ts";

const ATTEMPTS_MAX = 1_000;
/** The agent's own instructions would fill a smaller window. */
const RELAY_TOKENS_MIN = 1_000;
const RELAY_SHARE = /^([1-9]|[1-9][0-9])%$/;

const backoff = z.strictObject({
  initial: duration.optional().describe("The first delay. Default: 1s."),
  factor: z
    .number()
    .min(1)
    .max(100)
    .optional()
    .describe("Each delay is the one before times this factor. Default: 2."),
  max: duration.optional().describe("No delay is longer than this. Default: 1m."),
  jitter: z
    .number()
    .min(0)
    .max(1)
    .optional()
    .describe("0 = none; 0.5 = each delay times a number between 0.5 and 1.5. Default: 0.5."),
});

const attempts = z.int().min(1).max(ATTEMPTS_MAX);
/** How many attempts a step gets, and the pauses between them. */
export const retry = z.union([
  attempts,
  z.strictObject({
    attempts: attempts
      .optional()
      .describe("The total number of attempts, the first included. Default: 1."),
    backoff: z
      .union([duration, backoff])
      .optional()
      .describe("The delay before the next attempt: the first delay, or the whole rule."),
    on: z
      .enum(["any", "retry"])
      .optional()
      .describe(
        "What is retried: any failure, or only where the step asks for it. " +
          "Default: all but what the step itself calls a failure.",
      ),
    on_resume: z
      .enum(["fresh", "keep"])
      .optional()
      .describe("How many attempts `perdure resume` gives a failed step: all again, or none."),
    conversation: z
      .enum(["continue", "fresh"])
      .optional()
      .describe(
        "After a failed attempt of an agent: its conversation continues, and it learns what " +
          "failed (the default); or the next attempt starts a new one.",
      ),
  }),
]);

/**
 * The fields that the author wrote; the others come from `defaults`, then from the plan's defaults.
 */
export interface RetrySettings {
  readonly attempts?: number;
  readonly initialMs?: number;
  readonly factor?: number;
  readonly maxMs?: number;
  readonly jitter?: number;
  readonly on?: "any" | "retry";
  readonly onResume?: "fresh" | "keep";
  readonly conversation?: "continue" | "fresh";
}

/** The normalized form of a retry rule. */
export function lowerRetry(rule: z.output<typeof retry>): RetrySettings {
  if (typeof rule === "number") return { attempts: rule };
  const { attempts, backoff, on, on_resume, conversation } = rule;
  const delays = typeof backoff === "string" ? { initial: backoff } : (backoff ?? {});
  const { initial, factor, max, jitter } = delays;
  const [initialMs, maxMs] = [milliseconds(initial), milliseconds(max)];
  return defined({
    attempts,
    initialMs,
    factor,
    maxMs,
    jitter,
    on,
    onResume: on_resume,
    conversation,
  });
}

/** When a conversation is handed over to a new one. */
export const relay = z.strictObject({
  at: z
    .union([z.int().min(RELAY_TOKENS_MIN), z.string().regex(RELAY_SHARE, "bad-share")])
    .describe("Tokens, or a share of the model's window such as 70%."),
});

/** How many steps one step may wait for or lead to. */
export const NEEDS_MAX = 1_000;
const WEIGHT_MAX = 1_000_000;

/** One edge of a step. */
export const edge = z.strictObject({
  to: z.string().describe("The next step."),
  when: expression.optional().describe("An expression; the edge applies when it is true."),
  label: z
    .string()
    .optional()
    .describe("The step can choose this edge by its label, in $PERDURE_STATUS_FILE."),
  weight: z
    .number()
    .min(-WEIGHT_MAX)
    .max(WEIGHT_MAX)
    .optional()
    .describe(
      "Of several edges that apply, the one with the highest weight is followed. Default: 0.",
    ),
  fidelity: z
    .enum(FIDELITIES)
    .optional()
    .describe("How much the agent of the next step learns; overrides that step's own `fidelity`."),
  thread: id.optional().describe("For `full`: the conversation, unless the step names one."),
});

/** Steps that are repeated until a condition holds. */
export const loop = z.strictObject({
  until: expression.describe("An expression over the results of `steps`; true ends the loop."),
  max_iterations: visits.describe("The loop never repeats more often than this."),
  on_exhausted: z
    .enum(["fail", "continue"])
    .optional()
    .describe(
      "What happens when `until` is still not true after the last iteration. Default: fail.",
    ),
});

/** The source of the items of a fan-out. */
export const itemSource = z.union([
  z.string(),
  z.array(z.unknown()),
  z.strictObject({
    file: path.describe("A JSON file of the workspace that holds a list."),
    path: command
      .optional()
      .describe("Where the list is in the file: data.items, or $.data.items[*]."),
  }),
  z.strictObject({ glob: path.describe("A pattern for files of the workspace: src/**/*.ts") }),
]);

const EXIT_STATUS_MAX = 255;
const form = z.enum(["text", "lines", "json", "number"]);

export const once = z.union([
  z.boolean(),
  z.strictObject({
    probe: command
      .optional()
      .describe(
        "A command that finds out whether the effect happened: exit 0 is yes, 1 is no, else unknown.",
      ),
    not_done: z
      .array(z.int().min(1).max(EXIT_STATUS_MAX))
      .max(EXIT_STATUS_MAX)
      .optional()
      .describe("Exit statuses of the step that prove that nothing happened."),
  }),
]);

/** The fields of a plan's step for an effect that must happen once. */
export function lowerOnce(value: z.output<typeof once>): {
  once: boolean;
  probe?: string;
  notDone?: readonly number[];
} {
  if (typeof value === "boolean") return { once: value };
  const { probe, not_done: notDone } = value;
  return { once: true, ...defined({ probe, notDone }) };
}

export const cache = z.union([
  z.boolean(),
  z.strictObject({
    key: command
      .optional()
      .describe("Another text that the result depends on; may hold ${{ }}. Only its hash is kept."),
    files: z
      .array(path)
      .max(ENTRIES_MAX)
      .optional()
      .describe(
        "Patterns of the files that the result depends on, relative to the workspace. Default: " +
          "all files of the workspace.",
      ),
    ignored_files: z
      .enum(["needed", "not-needed"])
      .optional()
      .describe(
        "not-needed: no later step needs what the step writes into files that git ignores. " +
          "Otherwise the result of a step that writes such files is not reused (the default).",
      ),
    max_age: age.optional().describe("Older results are not reused: 12h, 7d. Default: 30d."),
  }),
]);

/** The fields of a plan's step whose result may be reused by later runs. */
export function lowerCache(value: z.output<typeof cache>): {
  cache?: {
    /** A template. */
    readonly key?: string;
    readonly files?: readonly string[];
    /** Changes of files that no snapshot holds do not matter. */
    readonly dropsIgnored?: true;
    readonly maxAgeMs?: number;
  };
} {
  if (typeof value === "boolean") return value ? { cache: {} } : {};
  const { key, files, ignored_files: ignored, max_age: maxAge } = value;
  const dropsIgnored = ignored === "not-needed" ? true : undefined;
  return { cache: defined({ key, files, dropsIgnored, maxAgeMs: ageMs(maxAge) }) };
}

export const capture = z.union([
  form,
  z.strictObject({
    as: form.describe("text, lines (a list of texts), json or number."),
    to: name.describe("The key of the context."),
  }),
]);

const CHOICES_MAX = 50;
const CHOICE_KEY = /^\w+$/;

const gateChoice = z.union([
  command,
  z.strictObject({
    label: command.describe("The text of the choice."),
    key: z
      .string()
      .regex(CHOICE_KEY, "bad-choice-key")
      .optional()
      .describe("What to type for it. Default: the first letter of the label."),
    fails: z
      .boolean()
      .optional()
      .describe("true: choosing it fails the step. Default: only `reject` does."),
  }),
]);

/** How many things a gate may show. */
const SHOWN_MAX = 8;

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
    show: z
      .array(command)
      .min(1)
      .max(SHOWN_MAX)
      .optional()
      .describe(
        "What the person should see: paths of files, `diff` for the changes of the run, or texts " +
          "with ${{ }} such as ${{ results.test.output }}; kept as they are when the gate asks.",
      ),
    text: z
      .enum(["none", "optional", "required"])
      .optional()
      .describe("Whether the answer may or must have a comment. Default: optional."),
    timeout: duration
      .optional()
      .describe("How long the gate waits for an answer. Default: without limit."),
    default: z
      .string()
      .optional()
      .describe("The choice when nobody answers in time. Default: the step fails."),
  }),
]);

/** A wait. */
export const wait = z.union([
  duration,
  z.strictObject({ for: duration.describe("How long to wait.") }),
  z.strictObject({
    until: command.describe("A point in time such as 2026-12-01T08:00:00Z; may hold ${{ }}."),
  }),
]);

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
    judge: command.describe("What the work must satisfy; an agent reads the work and decides."),
    ...judge,
  }),
  z.strictObject({
    judge_file: path.describe(
      "A file with what the work must satisfy, relative to the pipeline's; read when a run begins.",
    ),
    ...judge,
  }),
]);

/** One check as the author writes it. */
export type CheckShape = z.infer<typeof oneCheck>;

export const check = z.union([
  ...oneCheck.options,
  z.array(oneCheck).min(1, "empty-checks").max(CHECKS_MAX),
]);

/** The key and the format with which the output of a step becomes a value of the context. */
export interface Capture {
  readonly as: "text" | "lines" | "json" | "number";
  readonly to: string;
}

/** A check decides whether the work of a step is good, after the step exited with 0. */
export type Check = (
  | { readonly kind: "command"; readonly run: string }
  /** `file` is a template, relative to the step's directory. */
  | { readonly kind: "schema"; readonly file: string; readonly schema: Json }
  /** An agent that decides whether the work satisfies the rubric, a template. */
  | {
      readonly kind: "judge";
      readonly rubric: string;
      readonly agent: string;
      readonly model?: string;
    }
) & {
  /**
   * The effect of a failed check: a warning, or a failure without retries. Absent: a failure of the
   * attempt, which may be retried.
   */
  readonly onFail?: "warn" | "fail";
};
