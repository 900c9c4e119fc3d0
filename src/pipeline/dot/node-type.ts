/**
 * Chooses the handler of a node by its `type`, else by its shape.
 *
 * Owns: the nine types of the language, their shapes, and the shapes that only other engines use.
 * Does not: run anything.
 */
import { defined } from "../../util/defined.ts";

export const NODE_TYPES = [
  "start",
  "exit",
  "codergen",
  "conditional",
  "tool",
  "wait.human",
  "parallel",
  "parallel.fan_in",
  "stack.manager_loop",
] as const;
type NodeType = (typeof NODE_TYPES)[number];

const SHAPES: ReadonlyMap<string, NodeType> = new Map([
  ["Mdiamond", "start"],
  ["Msquare", "exit"],
  ["box", "codergen"],
  ["rect", "codergen"],
  ["rectangle", "codergen"],
  ["hexagon", "wait.human"],
  ["diamond", "conditional"],
  ["component", "parallel"],
  ["tripleoctagon", "parallel.fan_in"],
  ["parallelogram", "tool"],
  ["house", "stack.manager_loop"],
  // Not in the specification, but in other engines: another file as a part of this one.
  ["folder", "stack.manager_loop"],
]);

/** Names of other engines for the same types. */
const TYPE_WORDS: ReadonlyMap<string, NodeType> = new Map([
  ["agent", "codergen"],
  ["agent_loop", "codergen"],
  ["command", "tool"],
  ["human", "wait.human"],
  ["pipeline", "stack.manager_loop"],
  ["sub_pipeline", "stack.manager_loop"],
]);

/** The type of nodes that wait for a time; not in the specification, but in several engines. */
export const WAIT_TYPE = "wait";

/** The type of nodes that call a model once, without tools; in several engines. */
export const PROMPT_TYPE = "prompt";

/** Other names for the type of nodes that wait. */
const WAIT_WORDS: ReadonlySet<string> = new Set(["timer", "wait.timer", "delay", "sleep"]);

/** Shapes of other engines, with their custom types. */
const FOREIGN_SHAPES: ReadonlyMap<string, string> = new Map([
  ["tab", PROMPT_TYPE],
  ["insulator", WAIT_TYPE],
  // load.ts
  ["trapezium", "loop.begin"],
  ["invtrapezium", "loop.end"],
]);

export const SHAPE_DEFAULT = "box";

interface ResolvedType {
  /** The handler of the node if its custom type has no command. */
  readonly handler: NodeType;
  /** A type that the language does not have, from `type` or from a shape of another engine. */
  readonly customType?: string;
  /** False for an unknown shape. */
  readonly shapeKnown: boolean;
}

/** The handler of a node with this type and shape. */
export function resolveType(type: string | undefined, shape: string): ResolvedType {
  const byType = NODE_TYPES.find((known) => known === type) ?? TYPE_WORDS.get(type ?? "");
  if (byType !== undefined) return { handler: byType, shapeKnown: true };
  const byShape = SHAPES.get(shape);
  const written = type ?? FOREIGN_SHAPES.get(shape);
  const customType = written !== undefined && WAIT_WORDS.has(written) ? WAIT_TYPE : written;
  return {
    handler: byShape ?? "codergen",
    ...defined({ customType }),
    shapeKnown: byShape !== undefined || FOREIGN_SHAPES.has(shape),
  };
}

/** The shapes that stand for a type. */
export function knownShapes(): readonly string[] {
  return [...SHAPES.keys()];
}
