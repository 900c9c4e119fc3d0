/**
 * Pipelines written in TypeScript: the types that an author's editor knows.
 *
 * Owns: the types of steps, made from the table of keys, and that names of steps exist.
 * Does not: check anything at run time. A definition is plain data, and is validated like a YAML
 * file when it is loaded, so that all its mistakes are reported together.
 */
import type { KeysOn, StepKind } from "./key-row.ts";
import type { ALL_STEP_KEYS, PipelineShape, StepShape } from "./schema.ts";

/** As the schema has it, but nothing has to be mutable. */
type Readable<T> = T extends object ? { readonly [Key in keyof T]: Readable<T[Key]> } : T;

type Table = typeof ALL_STEP_KEYS;

/** The key that makes a step one of a kind. */
interface Kinds {
  readonly run: "command";
  readonly prompt: "agent";
  readonly prompt_file: "agent";
  readonly steps: "group";
  readonly pipeline: "group";
  readonly gate: "gate";
  readonly wait: "wait";
  readonly pass: "pass";
}

/** The keys that a kind of step may have, apart from the one that makes it one. */
type Allowed<Kind extends StepKind> = Exclude<KeysOn<Table, Kind>, keyof Kinds>;

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
} & Pick<StepKeys<Id>, Allowed<Kinds[Own]>> & {
    readonly [Key in Exclude<keyof StepShape, Allowed<Kinds[Own]> | Own>]?: never;
  };

/** A fan-out that holds its own steps is a kind of its own. */
type FanOutKind<Id extends string> = Pick<StepKeys<Id>, Allowed<"group">> & {
  readonly for_each: ForEachDefinition & { readonly steps: readonly StepDefinition[] };
} & { readonly [Key in Exclude<keyof StepShape, Allowed<"group">>]?: never };

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
