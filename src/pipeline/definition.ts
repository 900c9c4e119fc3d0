/**
 * Pipelines written in TypeScript: the types that an author's editor knows.
 *
 * Owns: which keys of the schema go together on a step, as types; and that names of steps exist.
 * Does not: check anything when it runs. A definition is plain data, and is validated like a YAML
 * file when it is loaded, so that all its mistakes are told together and with their places.
 * Invariants:
 * - T1 Every key and the type of its value come from schema.ts; a key that is in no kind of step
 *   here is `Unplaced`, and the types of its test do not hold.
 */
import type { PipelineShape, StepShape } from "./schema.ts";

/** As the schema has it, but nothing has to be mutable. */
type Readable<T> = T extends object ? { readonly [Key in keyof T]: Readable<T[Key]> } : T;

/** Keys that every kind of step may have. */
type CommonKey =
  | "id"
  | "needs"
  | "join"
  | "when"
  | "env"
  | "retry"
  | "workspace"
  | "on_failure"
  | "goto"
  | "edges"
  | "max_visits"
  | "stall_after"
  | "goal"
  | "retry_target";

/** Keys that say how one process is run. */
type ProcessKey =
  | "check"
  | "outputs"
  | "once"
  | "capture"
  | "cwd"
  | "timeout"
  | "idle_timeout"
  | "grace"
  | "isolate"
  | "leaves_running"
  | "recover";

/** Keys of a question to an agent, apart from the question. */
type AgentKey =
  | "agent"
  | "session"
  | "model"
  | "system"
  | "permissions"
  | "tools"
  | "on_denied"
  | "effort"
  | "mcp"
  | "directories"
  | "max_turns"
  | "output_schema"
  | "billing"
  | "relay"
  | "fidelity"
  | "thread"
  | "resume_fidelity";

type FanOutKey = "for_each" | "as" | "max_parallel" | "on_item_failure";
type BodyKey = FanOutKey | "input" | "loop" | "iterations";

/** The kinds of steps: the key that makes a step one, and what else it may have. */
interface Kinds {
  readonly run: ProcessKey | FanOutKey;
  readonly prompt: ProcessKey | FanOutKey | AgentKey;
  readonly prompt_file: ProcessKey | FanOutKey | AgentKey;
  readonly steps: BodyKey;
  readonly pipeline: BodyKey;
  readonly gate: never;
  readonly wait: never;
  readonly pass: never;
}

/** T1: a key of the schema that no kind of step has; there is none. */
export type Unplaced = Exclude<keyof StepShape, CommonKey | keyof Kinds | Kinds[keyof Kinds]>;

/** The keys of a step with the names of other steps as types. */
interface Named<Id extends string> {
  readonly id: Id;
  readonly needs?: NoInfer<Id> | readonly NoInfer<Id>[] | undefined;
  readonly on_failure?: NoInfer<Id> | "continue" | "fail" | undefined;
  readonly goto?: NoInfer<Id> | undefined;
  readonly edges?: readonly EdgeDefinition<Id>[] | undefined;
  readonly retry_target?: NoInfer<Id> | undefined;
  readonly steps?: readonly StepDefinition[] | undefined;
  readonly for_each?: string | readonly unknown[] | ForEachDefinition | undefined;
}

type EdgeShape = NonNullable<StepShape["edges"]>[number];

type EdgeDefinition<Id extends string> = Readable<Omit<EdgeShape, "to">> & {
  readonly to: NoInfer<Id>;
};

type ForEachShape = Extract<StepShape["for_each"], { readonly in: unknown }>;

type ForEachDefinition = Readable<Omit<ForEachShape, "steps">> & {
  readonly steps?: readonly StepDefinition[] | undefined;
};

type StepKeys<Id extends string> = Named<Id> & Readable<Omit<StepShape, keyof Named<Id>>>;

/** A step of one kind: its own key must be there, those of other kinds must not. */
type Kind<Id extends string, Own extends keyof Kinds> = {
  readonly [Key in Own]-?: NonNullable<StepKeys<Id>[Key]>;
} & Pick<StepKeys<Id>, CommonKey | Kinds[Own]> & {
    readonly [Key in Exclude<keyof StepShape, CommonKey | Own | Kinds[Own]>]?: never;
  };

/** A fan-out that holds its own steps is a kind of its own. */
type FanOutKind<Id extends string> = Pick<StepKeys<Id>, CommonKey | BodyKey> & {
  readonly for_each: ForEachDefinition & { readonly steps: readonly StepDefinition[] };
} & { readonly [Key in Exclude<keyof StepShape, CommonKey | BodyKey>]?: never };

/** A step, as in YAML. `Id` are the ids of the steps beside it, as far as they are known. */
export type StepDefinition<Id extends string = string> =
  | Kind<Id, "run">
  | Kind<Id, "prompt">
  | Kind<Id, "prompt_file">
  | Kind<Id, "steps">
  | Kind<Id, "pipeline">
  | Kind<Id, "gate">
  | Kind<Id, "wait">
  | Kind<Id, "pass">
  | FanOutKind<Id>;

/** A pipeline, with the keys of a YAML file. */
export type PipelineDefinition<Id extends string = string> = Readable<
  Omit<PipelineShape, "steps">
> & {
  readonly steps: readonly StepDefinition<Id>[];
};

/** Gives back the pipeline that it is given: it is there for its types. */
export function definePipeline<const Id extends string>(
  pipeline: PipelineDefinition<Id>,
): PipelineDefinition {
  return pipeline;
}
