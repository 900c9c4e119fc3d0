/**
 * Which handler runs a node: by its `type`, else by its shape.
 *
 * Owns: the nine types of the language, their shapes, and the shapes to which other engines give a
 * meaning that the language has no type for.
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
export type NodeType = (typeof NODE_TYPES)[number];

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
]);

/** Other engines' words for the same types. */
const TYPE_WORDS: ReadonlyMap<string, NodeType> = new Map([
  ["agent", "codergen"],
  ["agent_loop", "codergen"],
  ["command", "tool"],
  ["human", "wait.human"],
]);

/** Shapes of other engines, as the custom types that they stand for. */
const FOREIGN_SHAPES: ReadonlyMap<string, string> = new Map([
  ["tab", "prompt"],
  ["folder", "pipeline"],
  ["insulator", "wait"],
  ["trapezium", "loop.begin"],
  ["invtrapezium", "loop.end"],
]);

export const SHAPE_DEFAULT = "box";

export interface ResolvedType {
  /** What runs the node when nobody knows its custom type. */
  readonly handler: NodeType;
  /** A type that the language does not have, from `type` or from a shape of another engine. */
  readonly customType?: string;
  /** False for a shape that means nothing to anybody. */
  readonly shapeKnown: boolean;
}

/** The handler of a node with this type and shape. */
export function resolveType(type: string | undefined, shape: string): ResolvedType {
  const byType = NODE_TYPES.find((known) => known === type) ?? TYPE_WORDS.get(type ?? "");
  if (byType !== undefined) return { handler: byType, shapeKnown: true };
  const byShape = SHAPES.get(shape);
  const customType = type ?? FOREIGN_SHAPES.get(shape);
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
