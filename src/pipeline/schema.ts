/**
 * The shape of a pipeline file: keys, types, patterns and limits, with a sentence on each for
 * editors. The published JSON Schema is generated from it (scripts/schema.ts).
 *
 * Owns: what each value alone may look like. The message of a pattern is the name of its rule.
 * Does not: compare values with each other (validate.ts) or word the diagnostics (shape.ts).
 */
import * as z from "zod";
import { PERMISSION_LEVELS } from "../util/agent-access.ts";
import { accessKeys } from "./agent-access.ts";
import { check } from "./check-schema.ts";
import { RETELLINGS } from "./fidelity.ts";
import { capture, once } from "./once-schema.ts";
import { prices } from "./price-schema.ts";
import { gate, wait } from "./prompt-schema.ts";
import { links, NEEDS_MAX } from "./schema-links.ts";
import { command, duration } from "./schema-text.ts";
import {
  bounded,
  ENTRIES_MAX,
  env,
  expression,
  fidelity,
  id,
  jsonSchema,
  NAME_LENGTH_MAX,
  name,
  path,
  thread,
  visits,
} from "./schema-values.ts";
import { workspace } from "./workspace-schema.ts";

export const STEPS_MAX = 100_000;
const PARALLEL_MAX = 1_000;
const ATTEMPTS_MAX = 1_000;
const TURNS_MAX = 10_000;
/** Less would be used up by the agent's own instructions. */
const RELAY_TOKENS_MIN = 1_000;
const RELAY_SHARE = /^([1-9]|[1-9][0-9])%$/;
/** Agents that steps may name without declaring them. */
export const KNOWN_AGENTS = ["claude", "codex", "gemini", "opencode"] as const;
/** The way to talk to every agent of the Agent Client Protocol; which one, `command` says. */
export const PROTOCOL_ADAPTER = "acp";
export const ADAPTERS = [...KNOWN_AGENTS, PROTOCOL_ADAPTER] as const;

const backoff = z.strictObject({
  initial: duration.optional().describe("The first delay. Default: 1s."),
  factor: z
    .number()
    .min(1)
    .max(100)
    .optional()
    .describe("Each delay is this much longer. Default: 2."),
  max: duration.optional().describe("No delay is longer than this. Default: 1m."),
  jitter: z
    .number()
    .min(0)
    .max(1)
    .optional()
    .describe("0 = none; 0.5 = each delay times a number between 0.5 and 1.5. Default: 0.5."),
});

const attempts = z.int().min(1).max(ATTEMPTS_MAX);
const retry = z.union([
  attempts,
  z.strictObject({
    attempts: attempts
      .optional()
      .describe("How many tries in all, the first included. Default: 1."),
    backoff: z
      .union([duration, backoff])
      .optional()
      .describe("The delay before the next try: a first delay, or the whole rule."),
    on: z
      .enum(["any", "retry"])
      .optional()
      .describe(
        "What is tried again: any failure, or only where the step asks for it. " +
          "Default: all but what the step itself calls a failure.",
      ),
    on_resume: z
      .enum(["fresh", "keep"])
      .optional()
      .describe("What `perdure resume` grants a failed step: all its tries again, or none."),
    conversation: z
      .enum(["continue", "fresh"])
      .optional()
      .describe(
        "After a failed attempt of an agent: its conversation continues, and it is told what " +
          "failed (the default); or the next attempt starts a new one.",
      ),
  }),
]);

/** Settings of a step that also `defaults` may have. */
const settings = {
  env: env.optional().describe("Variables of the step's environment; values may hold ${{ }}."),
  cwd: path.optional().describe("The directory to work in, relative to the workspace."),
  timeout: duration.optional().describe("The longest time that one try may take."),
  idle_timeout: duration.optional().describe("The longest time without any output."),
  grace: duration
    .optional()
    .describe(
      "When the run is stopped: how long an agent may finish its current call and tool, and how " +
        "long a command has to end after SIGTERM. Default: 10s.",
    ),
  retry: retry.optional().describe("Tries in all, or the whole retry rule."),
  isolate: z
    .boolean()
    .optional()
    .describe("True: its processes live in a PID namespace of their own (Linux)."),
  recover: z
    .enum(["continue", "restart"])
    .optional()
    .describe(
      "What becomes of an agent that was cut off: its conversation goes on, or begins anew.",
    ),
  fidelity: fidelity.describe("How much of what came before its agent is told. Default: nothing."),
  thread: thread.describe(
    "For `fidelity: full`: the conversation to go on with. Default: that of the step before.",
  ),
  resume_fidelity: z
    .enum(RETELLINGS)
    .optional()
    .describe("What its agent is told after its conversation was lost. Default: compact."),
};

const agentSettings = {
  model: z
    .string()
    .regex(/\S/, "empty-text")
    .optional()
    .describe("The model, by the agent's name."),
  system: command.optional().describe("Added to the agent's own instructions."),
  permissions: z
    .enum(PERMISSION_LEVELS)
    .optional()
    .describe(
      "What it may do without asking: what it allows by itself, only read and plan, edit files, " +
        "or all.",
    ),
  ...accessKeys,
  max_turns: z.int().min(1).max(TURNS_MAX).optional().describe("How often the model may answer."),
  output_schema: jsonSchema.optional().describe("The JSON Schema that its answer must satisfy."),
  billing: z
    .enum(["api", "subscription"])
    .optional()
    .describe("subscription: its tokens are paid for otherwise and cost no dollars. Default: api."),
  relay: z
    .strictObject({
      at: z
        .union([z.int().min(RELAY_TOKENS_MIN), z.string().regex(RELAY_SHARE, "bad-share")])
        .describe("Tokens, or a share of the model's window such as 70%."),
    })
    .optional()
    .describe("When a conversation has grown so far, a new one goes on from its notes."),
};

/** The keys of an agent's call, for messages. */
export const AGENT_SETTINGS = Object.keys(agentSettings) as (keyof typeof agentSettings)[];

const agent = z.union([
  command,
  z.strictObject({
    adapter: z
      .enum(ADAPTERS)
      .optional()
      .describe("How to talk to it. Default: any program, given as `command`."),
    command: command
      .optional()
      .describe(
        "A shell command that reads the prompt on stdin, or that speaks ACP (`adapter: acp`); " +
          "with another `adapter`: its program.",
      ),
    args: z.array(z.string()).max(ENTRIES_MAX).optional().describe("Further arguments."),
    env: env.optional().describe("Variables of the agent's environment."),
    ...agentSettings,
  }),
]);

/** How a fan-out goes about its items: beside `for_each`, or in it. */
const fanOut = {
  as: name.optional().describe("A name for the item in expressions, beside `item`."),
  max_parallel: z
    .int()
    .min(1)
    .max(PARALLEL_MAX)
    .optional()
    .describe("How many items may be worked on at once. Default: that of the pipeline."),
  on_item_failure: z
    .enum(["fail", "continue"])
    .optional()
    .describe("After a failed item: start no others and fail (the default), or do all the rest."),
};

/** The keys of a fan-out that may stand in it or beside it. */
export const FAN_OUT_KEYS = Object.keys(fanOut) as (keyof typeof fanOut)[];

const itemSource = z.union([
  z.string(),
  z.array(z.unknown()),
  z.strictObject({ file: path.describe("A JSON file that holds a list, in the workspace.") }),
  z.strictObject({ glob: path.describe("A pattern for files of the workspace: src/**/*.ts") }),
]);

const plainStep = z.strictObject({
  id: id.describe("The name of the step: letters, digits, _ and -."),
  run: command.optional().describe("A shell command (POSIX sh)."),
  gate: gate
    .optional()
    .describe("A question to a person: nothing behind it goes on before it is answered."),
  wait: wait.optional().describe("Waits: 10m, {for: 10m} or {until: 2026-12-01T08:00:00Z}."),
  pass: z.literal(true).optional().describe("Nothing is run: a place where ways meet and part."),
  pipeline: path
    .optional()
    .describe("Another pipeline's file, relative to this one; read when a run begins."),
  input: z
    .record(name, z.unknown())
    .optional()
    .describe("The input of `pipeline` or `steps`; texts may hold ${{ }}."),
  loop: z
    .strictObject({
      until: expression.describe("An expression over the results of `steps`; true ends it."),
      max_iterations: visits.describe("It never goes round more often than this."),
      on_exhausted: z
        .enum(["fail", "continue"])
        .optional()
        .describe("When `until` is still not true after the last one. Default: fail."),
    })
    .optional()
    .describe("Repeats `steps` until a condition holds; `index` counts from 0."),
  iterations: visits.optional().describe("Repeats `steps` so often; `index` counts from 0."),
  ...fanOut,
  ...links,
  agent: z
    .string()
    .optional()
    .describe("The agent: claude, codex, gemini, opencode, or a name under `agents`."),
  prompt: command.optional().describe("What the agent is asked to do."),
  prompt_file: path
    .optional()
    .describe("A file with the prompt, relative to the pipeline's; read when a run begins."),
  session: id
    .optional()
    .describe("Steps that name the same session share one conversation, one after the other."),
  ...agentSettings,
  needs: z
    .union([z.string(), z.array(z.string()).max(NEEDS_MAX)])
    .optional()
    .describe("Steps that must be over before. Default: the step above; [] starts at once."),
  join: z
    .enum(["all", "any"])
    .optional()
    .describe("all: starts when all that it needs are over (the default); any: at each of them."),
  when: z
    .union([z.string(), z.boolean()])
    .optional()
    .describe("An expression; when it is false, the step is skipped."),
  check: check
    .optional()
    .describe(
      "Decides whether the work is good, after it exited with 0: a command, {file, schema}, " +
        "{judge}, or a list of them.",
    ),
  outputs: bounded(z.record(name, path))
    .optional()
    .describe("Files that the step hands on: name -> path, relative to its directory."),
  workspace: z
    .enum(["own", "shared"])
    .optional()
    .describe("own: it works in a directory of its own, which is merged back when it is done."),
  once: once
    .optional()
    .describe("True, or an object with `probe` or `not_done`, for what must never happen twice."),
  capture: capture
    .optional()
    .describe(
      "Puts what the step prints to stdout, or what its agent answers, into the context: as text, " +
        "lines, json or number, under the step's id or the key `to`.",
    ),
  leaves_running: z
    .boolean()
    .optional()
    .describe("True: what it started in the background lives on until the run ends or stops."),
  ...settings,
});

/** A step of a file; steps may stand in each other. */
export interface StepShape extends z.infer<typeof plainStep> {
  readonly steps?: readonly StepShape[] | undefined;
  readonly for_each?: string | readonly unknown[] | ForEachShape | undefined;
}

export interface ForEachShape extends z.infer<typeof plainFanOut> {
  readonly steps?: readonly StepShape[] | undefined;
}

const plainFanOut = z.strictObject({
  in: itemSource.describe("An expression, a list, {file: x.json} or {glob: pattern}."),
  ...fanOut,
});

const stepList: z.ZodType<readonly StepShape[]> = z
  .array(z.lazy(() => stepSchema))
  .min(1, "empty-list")
  .max(STEPS_MAX);

const stepSchema: z.ZodType<StepShape> = plainStep
  .extend({
    steps: stepList.optional().describe("Steps in this step, with a scope of their own."),
    for_each: z
      .union([
        z.string(),
        z.array(z.unknown()),
        plainFanOut.extend({ steps: stepList.optional().describe("What is done for each item.") }),
      ])
      .optional()
      .describe("Does the step, or its `steps`, for each item of a list."),
  })
  .meta({
    oneOf: [
      ...[...["run", "prompt", "prompt_file", "steps", "pipeline", "gate", "wait"], "pass"].map(
        (key) => ({ required: [key] }),
      ),
      {
        required: ["for_each"],
        properties: { for_each: { type: "object", required: ["steps"] } },
      },
    ],
  });

export const pipelineSchema = z.strictObject({
  name: z
    .string()
    .regex(/^\S(.*\S)?$/, "bad-pipeline-name")
    .max(NAME_LENGTH_MAX, "bad-pipeline-name")
    .optional()
    .describe("The name of the pipeline. Default: the file's name without its extension."),
  context: bounded(z.record(z.string(), z.unknown()))
    .optional()
    .describe("The key-values that a run begins with."),
  max_parallel: z
    .int()
    .min(1)
    .max(PARALLEL_MAX)
    .optional()
    .describe("How many steps may run at the same time. Default: 4."),
  input: jsonSchema.optional().describe("The JSON Schema (an object) of the pipeline's input."),
  env: env.optional().describe("Variables for every step; values may hold ${{ }}."),
  secrets: z
    .array(name)
    .max(ENTRIES_MAX)
    .optional()
    .describe(
      "Names of variables, inputs and context keys whose values are masked wherever they are " +
        "shown, and which must be set again when a run that had them is resumed. Variables named " +
        "like secrets (*_TOKEN, *_KEY, *_PASSWORD, ...) are always masked.",
    ),
  agents: bounded(z.record(id, agent))
    .optional()
    .describe("The agents that steps may name: name -> command."),
  budget: z
    .strictObject({
      usd: z.number().positive().optional().describe("US dollars, as far as they are measured."),
      tokens: z.int().positive().optional().describe("Tokens in and out."),
      turns: z.int().positive().optional().describe("Answers of models."),
      time: duration.optional().describe("The time that steps may run, all together."),
    })
    .optional()
    .describe("What a run may use; when it is used up the run stops, and can be resumed."),
  prices: bounded(prices)
    .optional()
    .describe("What models cost, by their names; before what `perdure prices` shows."),
  workspace: workspace
    .optional()
    .describe("Where steps work: here, worktree, directory or copy, and what is kept of it."),
  defaults: z
    .strictObject({
      agent: z.string().optional().describe("The agent of steps that have a prompt but name none."),
      ...agentSettings,
      ...settings,
      max_visits: visits.optional().describe("How often the run may come to each step."),
    })
    .optional()
    .describe("Settings of every step that does not say otherwise."),
  steps: z
    .array(stepSchema)
    .min(1, "empty-pipeline")
    .max(STEPS_MAX)
    .describe("What to do. A step starts when the one above it is over, unless `needs` says else."),
});

/** A pipeline file whose values have the right shape. */
export type PipelineShape = z.infer<typeof pipelineSchema>;

/** The JSON Schema for editors. */
export function publishedSchema(): unknown {
  return {
    ...z.toJSONSchema(pipelineSchema, { io: "input", target: "draft-7" }),
    title: "Perdure pipeline",
    description: "A pipeline of shell commands and AI agents, run by `perdure run`.",
  };
}
