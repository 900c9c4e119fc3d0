/**
 * One row of the table of step keys, and the types that follow from a table.
 *
 * Owns: the fields of a row.
 * Does not: contain keys (keys.ts, agent-keys.ts).
 */
import type * as z from "zod";
import type { McpServer } from "../util/agent-access.ts";
import type { Json } from "../util/json.ts";
import type { Check } from "./key-values.ts";

/** The kinds of steps; a key is allowed on some of them. */
export const STEP_KINDS = [
  ...(["command", "agent", "group", "gate", "wait", "pass"] as const),
  "fail",
] as const;
export type StepKind = (typeof STEP_KINDS)[number];

/** MCP servers by name. */
export type McpServers = Readonly<Record<string, McpServer>>;

/** The surroundings of a value that lowering needs. */
export interface Lowering {
  /** The id of the step; empty in `defaults`. */
  readonly id: string;
  /** The author's own spelling of a number or a boolean: `1.10` and not 1.1. */
  readonly spelling: (...keys: readonly string[]) => string | undefined;
  /** Prompts, instructions and rubrics, by the names of their files. */
  readonly texts: ReadonlyMap<string, string>;
  /** The JSON Schemas in files of their own. */
  readonly schemas: ReadonlyMap<string, Json>;
  /** The MCP servers in files of their own. */
  readonly mcp: ReadonlyMap<string, McpServers>;
  /** The checks of the step in their normalized form; some come from files. */
  readonly checks: () => readonly Check[];
}

export interface KeyRow<
  Schema extends z.ZodType = z.ZodType,
  On extends StepKind = StepKind,
  Fields extends object = object,
  Counts extends boolean = boolean,
> {
  /** The shape of the value. */
  readonly schema: Schema;
  /** The meaning of the key, for editors and the reference page. */
  readonly doc: string;
  /** An example: a line of YAML. */
  readonly example: string;
  /** The kinds of steps that may have it. */
  readonly on: readonly On[];
  /** On a fan-out of one step: it belongs to each item, not to the fan-out as a whole. */
  readonly perItem?: true;
  /** For a value with several forms: their description in a diagnostic. */
  readonly expects?: string;
  /** True: the key is part of the fingerprint, so an update that changes it runs the step again. */
  readonly fingerprint: Counts;
  /**
   * The fields of the plan that the value becomes. Absent: lower.ts or step-list.ts reads the
   * key, because it defines the work or the edges of the step.
   */
  readonly lower?: (value: z.output<Schema>, at: Lowering) => Fields;
}

/** A row with the types of its own schema, kinds and fields. */
export function key<
  Schema extends z.ZodType,
  const On extends StepKind,
  const Counts extends boolean,
  Fields extends object = object,
>(row: KeyRow<Schema, On, Fields, Counts>): KeyRow<Schema, On, Fields, Counts> {
  return row;
}

type AnyTable = Readonly<Record<string, unknown>>;

/** The zod shape of a table: every key is optional. */
type ShapeOf<Table extends AnyTable> = {
  readonly [Key in keyof Table]: Table[Key] extends {
    readonly schema: infer Schema extends z.ZodType;
  }
    ? z.ZodOptional<Schema>
    : never;
};

type Intersection<Union> = (Union extends unknown ? (one: Union) => void : never) extends (
  all: infer All,
) => void
  ? All
  : never;

type LoweredBy<Row> = Row extends { readonly lower?: (value: never, at: Lowering) => infer Fields }
  ? Fields
  : never;

type Merged<Fields> = { readonly [Field in keyof Fields]?: Fields[Field] };

/**
 * The fields that a table lowers to, or those of the rows that match; a key that the author does
 * not write gives no field.
 */
export type FieldsOf<Table extends AnyTable, Matching = unknown> = Merged<
  Intersection<LoweredBy<Extract<Table[keyof Table], Matching>>>
>;

/** The optional schemas of a table, each with its description. */
export function shapeOf<Table extends Readonly<Record<string, KeyRow>>>(
  table: Table,
): ShapeOf<Table> {
  return Object.fromEntries(
    Object.entries(table).map(([name, { schema, doc }]) => [name, schema.optional().describe(doc)]),
  ) as ShapeOf<Table>;
}

/** Lowers the keys of a table in a value, limited to the wanted ones. */
export function lowerKeys<Table extends Readonly<Record<string, KeyRow>>>(
  table: Table,
  written: object,
  at: Lowering,
  wanted: (row: KeyRow) => boolean = () => true,
): FieldsOf<Table> {
  const fields = {};
  const values = new Map<string, unknown>(Object.entries(written));
  for (const [name, row] of Object.entries(table)) {
    const value = values.get(name);
    if (value === undefined || row.lower === undefined || !wanted(row)) continue;
    Object.assign(fields, row.lower(value, at));
  }
  return fields;
}
