/**
 * The syntax tree of a DOT file: its statements, each with its position.
 *
 * Owns: the types of the tree.
 * Does not: know what the attributes mean (model.ts).
 */
import type { DotSpan } from "./source.ts";

/**
 * A name (of a graph, a node, a port or an attribute) or a value, without quotes and escapes: `"a"`
 * and `a` are the same. Only values have the form `html`.
 */
export interface DotText {
  readonly form: "word" | "string" | "html";
  readonly text: string;
  readonly span: DotSpan;
}

export interface DotAttribute {
  readonly key: DotText;
  readonly value: DotText;
  readonly span: DotSpan;
}

/** Attributes by the language's own name for them. */
export type DotAttributes = ReadonlyMap<string, DotAttribute>;

/** A mention of a node, with the ports that Graphviz draws to. */
export interface DotNodeRef {
  readonly kind: "ref";
  readonly name: DotText;
  readonly ports: readonly DotText[];
  readonly span: DotSpan;
}

export interface DotSubgraph {
  readonly kind: "subgraph";
  readonly name?: DotText;
  readonly statements: readonly DotStatement[];
  readonly span: DotSpan;
}

/** `node [...]`: defaults for all later nodes, edges or the graph itself. */
interface DotDefaults {
  readonly kind: "defaults";
  readonly of: "graph" | "node" | "edge";
  readonly attributes: readonly DotAttribute[];
  readonly span: DotSpan;
}

/** `goal="..."`: an attribute of the graph or subgraph around it. */
interface DotAssignment {
  readonly kind: "assignment";
  readonly attribute: DotAttribute;
  readonly span: DotSpan;
}

interface DotNodeStatement {
  readonly kind: "node";
  readonly node: DotNodeRef;
  readonly attributes: readonly DotAttribute[];
  readonly span: DotSpan;
}

/** `a -> b -> {c d}`: its attributes belong to each edge. */
export interface DotEdgeStatement {
  readonly kind: "edge";
  readonly ends: readonly (DotNodeRef | DotSubgraph)[];
  readonly attributes: readonly DotAttribute[];
  readonly span: DotSpan;
}

export type DotStatement =
  | DotDefaults
  | DotAssignment
  | DotNodeStatement
  | DotEdgeStatement
  | DotSubgraph;

export interface DotGraph {
  readonly strict: boolean;
  readonly directed: boolean;
  readonly name?: DotText;
  readonly statements: readonly DotStatement[];
  /** The words before the brace: the position of diagnostics about the whole graph. */
  readonly head: DotSpan;
  readonly span: DotSpan;
}
