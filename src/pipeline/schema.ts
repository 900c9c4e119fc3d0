/**
 * The shape of a pipeline file: keys, types, patterns and limits, with a description of each for
 * editors. scripts/schema.ts generates the published JSON Schema from it.
 *
 * Owns: the keys of a pipeline, and the keys of a step that contain steps.
 * Does not: define the other keys of a step (keys.ts), compare values with each other (rules/) or
 * word the diagnostics (shape.ts).
 */
import * as z from "zod";
import { ADAPTER_NAMES } from "../util/agent-access.ts";
import { parseBytes } from "../util/bytes.ts";
import { parseCron } from "../util/cron.ts";
import { parseAge } from "../util/duration.ts";
import { LABEL } from "../util/label.ts";
import { AGENT_KEYS } from "./agent-keys.ts";
import { type KeyRow, type StepKind, shapeOf } from "./key-row.ts";
import { itemSource } from "./key-values.ts";
import { FAN_OUT_KEYS, INHERITED_KEYS, PARALLEL_MAX, STEP_KEYS } from "./keys.ts";
import { NOTICE_KINDS } from "./pipeline.ts";
import {
  age,
  bounded,
  command,
  duration,
  ENTRIES_MAX,
  env,
  expression,
  id,
  NAME_LENGTH_MAX,
  name,
  path,
  prices,
  schemaOrFile,
} from "./values.ts";

export const STEPS_MAX = 100_000;

/** The highest limit of a concurrency group. */
const GROUP_RUNS_MAX = 100_000;
/** How many labels a pipeline may require. */
const LABELS_MAX = 8;
const label = z.string().regex(LABEL, "bad-label");

const FILE_MB_MAX = 100_000;
const workspaceKind = z.enum(["here", "worktree", "directory", "copy"]);

/** Where the steps of a pipeline work, in short or in full. */
const workspace = z.union([
  workspaceKind,
  z.strictObject({
    kind: workspaceKind
      .optional()
      .describe(
        "The project itself (here), a git worktree, an empty directory, or a copy of the project.",
      ),
    base: path.optional().describe("For a worktree: the commit or branch to start from."),
    commit: z
      .enum(["step", "end", "never"])
      .optional()
      .describe(
        "For a worktree: when the run commits what steps leave: after each completed step, once " +
          "at the end, or never. Default: step.",
      ),
    include: z
      .union([z.literal("uncommitted"), z.array(path).max(ENTRIES_MAX)])
      .optional()
      .describe(
        "Globs of ignored files that snapshots include, and that a worktree gets. The word " +
          "`uncommitted`, alone or in the list: a worktree starts with the project's uncommitted " +
          "changes.",
      ),
    snapshots: z
      .boolean()
      .optional()
      .describe("false: Perdure keeps no snapshots of the workspace. Default: true."),
    snapshot_every: duration
      .optional()
      .describe("How often a long step is snapshotted. Default: 2m."),
    max_file_mb: z
      .int()
      .min(1)
      .max(FILE_MB_MAX)
      .optional()
      .describe("Snapshots list larger files without their content. Default: 100."),
  }),
]);

const agentShape = shapeOf(AGENT_KEYS);

const agent = z.union([
  command,
  z.strictObject({
    adapter: z
      .enum(ADAPTER_NAMES)
      .optional()
      .describe("How Perdure talks to the agent. Default: `command` starts any program."),
    command: command
      .optional()
      .describe(
        "A shell command that reads the prompt on stdin, or that speaks ACP (`adapter: acp`); " +
          "with another `adapter`: its program.",
      ),
    args: z
      .array(z.string())
      .max(ENTRIES_MAX)
      .optional()
      .describe("More arguments for the agent's program."),
    env: env.optional().describe("Variables of the agent's environment."),
    ...agentShape,
  }),
]);

const plainStep = z.strictObject({
  ...shapeOf(STEP_KEYS),
  id: STEP_KEYS.id.schema.describe(STEP_KEYS.id.doc),
  ...agentShape,
});

/** A step of a file; steps may be nested. */
export interface StepShape extends z.infer<typeof plainStep> {
  readonly steps?: readonly StepShape[] | undefined;
  readonly for_each?: string | readonly unknown[] | ForEachShape | undefined;
}

const plainFanOut = z.strictObject({
  in: itemSource.describe("An expression, a list, {file: x.json} or {glob: pattern}."),
  where: expression
    .optional()
    .describe("An expression over `item`: only items for which it is true."),
  sort_by: expression
    .optional()
    .describe(
      "An expression over `item`: the items in the order of its values; -item.score for descending.",
    ),
  limit: z.int().min(1).optional().describe("At most this many items, the first ones."),
  ...shapeOf(FAN_OUT_KEYS),
});

export interface ForEachShape extends z.infer<typeof plainFanOut> {
  readonly steps?: readonly StepShape[] | undefined;
}

const stepList: z.ZodType<readonly StepShape[]> = z
  .array(z.lazy(() => stepSchema))
  .min(1, "empty-list")
  .max(STEPS_MAX);

type ForEachValue = NonNullable<StepShape["for_each"]>;

const forEach: z.ZodType<ForEachValue> = z.union([
  z.string(),
  z.array(z.unknown()),
  plainFanOut.extend({ steps: stepList.optional().describe("What is done for each item.") }),
]);

/** The keys of a step that contain steps. */
const BODY_KEYS: {
  readonly steps: KeyRow<typeof stepList, "group", object, true>;
  readonly for_each: KeyRow<typeof forEach, Exclude<StepKind, "pass" | "fail">, object, true>;
} = {
  steps: {
    schema: stepList,
    doc: "Steps in this step, with a scope of their own.",
    example: "steps: [{id: inner, run: ls}]",
    on: ["group"],
    fingerprint: true,
  },
  for_each: {
    schema: forEach,
    doc: "Does the step, or its `steps`, for each item of a list.",
    example: 'for_each: {in: {glob: "src/*.ts"}, as: file}',
    on: ["command", "agent", "group", "gate", "wait"],
    expects: "an expression, a list or an object",
    fingerprint: true,
  },
};

const stepSchema: z.ZodType<StepShape> = plainStep.extend(shapeOf(BODY_KEYS)).meta({
  oneOf: [
    ...["run", "prompt", "prompt_file", "steps", "pipeline", "gate", "wait", "pass", "fail"].map(
      (key) => ({ required: [key] }),
    ),
    {
      required: ["for_each"],
      properties: { for_each: { type: "object", required: ["steps"] } },
    },
  ],
});

/** Every key that a step may have. */
export const ALL_STEP_KEYS = { ...STEP_KEYS, ...AGENT_KEYS, ...BODY_KEYS };

const notification = z
  .strictObject({
    on: z
      .array(z.enum(NOTICE_KINDS))
      .min(1)
      .describe("When: a gate asks (waiting), or the run has failed or completed."),
    run: z
      .string()
      .regex(/\S/, "empty-text")
      .optional()
      .describe("A shell command; PERDURE_NOTIFY_* and its stdin (JSON) say what happened."),
    webhook: z
      .string()
      .regex(/^(https?:\/\/\S+|\$[A-Za-z_]\w*)$/, "bad-webhook")
      .optional()
      .describe("A URL that gets the same JSON as a POST, or $NAME: the variable that holds it."),
  })
  .refine(({ run, webhook }) => (run === undefined) !== (webhook === undefined), "bad-notify");

export const pipelineSchema = z.strictObject({
  name: z
    .string()
    .regex(/^\S(.*\S)?$/, "bad-pipeline-name")
    .max(NAME_LENGTH_MAX, "bad-pipeline-name")
    .optional()
    .describe("The name of the pipeline. Default: the file's name without its extension."),
  context: bounded(z.record(z.string(), z.unknown()))
    .optional()
    .describe("The context (key-values) that a run starts with."),
  max_parallel: z
    .int()
    .min(1)
    .max(PARALLEL_MAX)
    .optional()
    .describe("How many steps may run at the same time. Default: 4."),
  input: schemaOrFile
    .optional()
    .describe(
      "The JSON Schema of the pipeline's input: of an object, or of a text. The word `text` stands " +
        "for {type: string}; any other text is a JSON file with the schema.",
    ),
  env: env.optional().describe("Variables for every step; values may hold ${{ }}."),
  env_file: z
    .union([path, z.array(path).max(ENTRIES_MAX)])
    .optional()
    .describe(
      "Files with lines NAME=value, relative to this file. Their variables count as if the shell " +
        "had set them; variables that the shell does set override them.",
    ),
  secrets: z
    .array(name)
    .max(ENTRIES_MAX)
    .optional()
    .describe(
      "Names of variables, inputs and context keys whose values are masked wherever they are " +
        "shown, and which must be set again when a run that had them is resumed. Variables named " +
        "like secrets (*_TOKEN, *_KEY, *_PASSWORD, ...) are always masked.",
    ),
  requires: z
    .array(label)
    .max(LABELS_MAX)
    .optional()
    .describe(
      "Labels that a worker of a fleet must have to run this pipeline, such as `linux` or " +
        "`claude`. Other runs ignore them.",
    ),
  concurrency: z
    .strictObject({
      group: label.describe("The name of the group. All runs that name it share its limit."),
      max: z
        .int()
        .positive()
        .max(GROUP_RUNS_MAX)
        .optional()
        .describe("How many runs of the group may run at the same time. Default: 1."),
    })
    .optional()
    .describe(
      "On a fleet: limits how many runs of a group run at the same time. Other runs ignore it.",
    ),
  agents: bounded(z.record(id, agent))
    .optional()
    .describe("Agents that steps may name: name -> command, or an object."),
  budget: z
    .strictObject({
      usd: z.number().positive().optional().describe("US dollars, as far as they are measured."),
      tokens: z.int().positive().optional().describe("Tokens in and out."),
      turns: z.int().positive().optional().describe("Answers of models."),
      time: duration.optional().describe("The time that steps may run, all together."),
    })
    .optional()
    .describe("Limits for a run; when one is reached the run stops, and can be resumed."),
  prices: bounded(prices)
    .optional()
    .describe("Prices of models by name; they override what `perdure prices` shows."),
  cache: z
    .strictObject({
      max_age: age.optional().describe("Older results are not reused. Default: 30d."),
      max_size: z
        .string()
        .refine((text) => parseBytes(text) !== undefined, "bad-size")
        .optional()
        .describe("Larger results, files and outputs together, are not reused. Default: 1GB."),
    })
    .optional()
    .describe("Limits for results that steps with `cache` take from earlier runs."),
  notify: z
    .union([notification, z.array(notification).max(ENTRIES_MAX)])
    .optional()
    .describe("Whom to notify when a gate asks, or when the run fails or completes."),
  on: z
    .strictObject({
      schedule: z
        .string()
        .refine((text) => parseCron(text) !== undefined, "bad-schedule")
        .describe(
          "The times at which a run starts, in the syntax of cron: minute, hour, day, month, day of " +
            "the week. `perdure service` starts the runs of YAML files in `pipelines/`; a fleet " +
            "starts those that `perdure submit --schedule` gave it, in UTC.",
        ),
    })
    .optional()
    .describe("What starts a run automatically."),
  workspace: workspace
    .optional()
    .describe("Where steps work (here, worktree, directory or copy), and what snapshots keep."),
  defaults: z
    .strictObject({
      agent: z.string().optional().describe("The agent of steps that have a prompt but name none."),
      ...agentShape,
      ...shapeOf(INHERITED_KEYS),
    })
    .optional()
    .describe("Settings for every step that does not have its own."),
  steps: z
    .array(stepSchema)
    .min(1, "empty-pipeline")
    .max(STEPS_MAX)
    .describe(
      "The steps. A step starts when the one above it has finished, unless it has `needs`.",
    ),
  finally: stepList
    .optional()
    .describe(
      "Commands and prompts that run one after the other when the run has reached its end: " +
        "completed, failed, or out of budget. They can read `run.status`. If one fails, a run " +
        "that would have completed fails.",
    ),
});

/** A pipeline file whose values have the right shape. */
export type PipelineShape = z.infer<typeof pipelineSchema>;

/** A configuration file: the keys of a pipeline that it may have, with the same meaning. */
export const configurationSchema = pipelineSchema
  .pick({
    max_parallel: true,
    env: true,
    env_file: true,
    secrets: true,
    requires: true,
    agents: true,
    budget: true,
    prices: true,
    cache: true,
    notify: true,
    workspace: true,
    defaults: true,
  })
  .extend({
    service: z
      .strictObject({
        clean: z
          .string()
          .refine((text) => text === "never" || parseAge(text) !== undefined, "bad-clean")
          .optional()
          .describe("After which time it cleans completed runs, or `never`. Default: 7d."),
      })
      .optional()
      .describe("Settings of `perdure service`."),
    store: z
      .string()
      .regex(/^postgres(ql)?:\/\//, "bad-store")
      .optional()
      .describe(
        "The address of the fleet whose runs the commands show and steer: " +
          "`postgres://USER@HOST/DATABASE`. `PERDURE_STORE` overrides it.",
      ),
  });

export type ConfigurationShape = z.infer<typeof configurationSchema>;

/** The version of the published schemas. Within a version, no valid file becomes invalid. */
const SCHEMA_VERSION = 1;

/** The JSON Schema for editors. */
export function publishedSchema(): unknown {
  return {
    $id: `urn:perdure:pipeline:${SCHEMA_VERSION}`,
    ...z.toJSONSchema(pipelineSchema, { io: "input", target: "draft-7" }),
    title: "Perdure pipeline",
    description: "A pipeline of shell commands and AI agents, run by `perdure run`.",
  };
}

/** The JSON Schema of configuration files, for editors. */
export function publishedConfigurationSchema(): unknown {
  return {
    $id: `urn:perdure:configuration:${SCHEMA_VERSION}`,
    ...z.toJSONSchema(configurationSchema, { io: "input", target: "draft-7" }),
    title: "Perdure configuration",
    description:
      "Settings for every pipeline of a project (perdure.yaml) or of a user " +
      "(~/.config/perdure/config.yaml).",
  };
}
