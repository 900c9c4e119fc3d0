/**
 * The types of pipelines that authors write in TypeScript.
 *
 * Owns: the types of steps, derived from the table of keys, and the check that named steps exist.
 * Does not: check at run time. A definition is plain data, and the loader validates it like a YAML
 * file, so that all its mistakes are reported together.
 */
import type { StepKind } from "./key-row.ts";
import type { ALL_STEP_KEYS, PipelineShape, StepShape } from "./schema.ts";

/** The type of the schema, with readonly fields. */
type Readable<T> = T extends object ? { readonly [Key in keyof T]: Readable<T[Key]> } : T;

type Table = typeof ALL_STEP_KEYS;

/** The key that defines the kind of a step. */
interface Kinds {
  readonly run: "command";
  readonly prompt: "agent";
  readonly prompt_file: "agent";
  readonly steps: "group";
  readonly pipeline: "group";
  readonly gate: "gate";
  readonly wait: "wait";
  readonly pass: "pass";
  readonly fail: "fail";
}

/** The keys of a kind of step, without the key that defines the kind. */
type Allowed<Kind extends StepKind> = Exclude<
  {
    [Key in keyof Table]: Kind extends Table[Key]["on"][number] ? Key : never;
  }[keyof Table],
  keyof Kinds
>;

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

/** A step of one kind: it has the key of its kind and no key of another kind. */
type Kind<Id extends string, Own extends keyof Kinds> = {
  readonly [Key in Own]-?: NonNullable<StepKeys<Id>[Key]>;
} & Pick<StepKeys<Id>, Allowed<Kinds[Own]>> & {
    readonly [Key in Exclude<keyof StepShape, Allowed<Kinds[Own]> | Own>]?: never;
  };

/** A fan-out that contains steps is a kind of its own. */
type FanOutKind<Id extends string> = Pick<StepKeys<Id>, Allowed<"group">> & {
  readonly for_each: ForEachDefinition & { readonly steps: readonly StepDefinition[] };
} & { readonly [Key in Exclude<keyof StepShape, Allowed<"group">>]?: never };

/** A step, as in YAML. `Id` is the type of the known ids in the same list. */
export type StepDefinition<Id extends string = string> =
  | Kind<Id, "run">
  | Kind<Id, "prompt">
  | Kind<Id, "prompt_file">
  | Kind<Id, "steps">
  | Kind<Id, "pipeline">
  | Kind<Id, "gate">
  | Kind<Id, "wait">
  | Kind<Id, "pass">
  | Kind<Id, "fail">
  | FanOutKind<Id>;

/** A pipeline, with the keys of a YAML file. */
export type PipelineDefinition<Id extends string = string> = Readable<
  Omit<PipelineShape, "steps" | "finally">
> & {
  readonly steps: readonly StepDefinition<Id>[];
  readonly finally?: readonly StepDefinition[] | undefined;
};

/** Returns its argument unchanged; it exists for its types. */
export function definePipeline<const Id extends string>(
  pipeline: PipelineDefinition<Id>,
): PipelineDefinition {
  return pipeline;
}
