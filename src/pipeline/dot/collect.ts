/**
 * Collects the nodes and edges of a graph from its tree: it applies defaults, flattens subgraphs
 * and splits chains of edges.
 *
 * Owns: the attributes of each node and edge, and the classes that subgraphs give.
 * Does not: read the values of attributes (model.ts).
 * Invariants:
 * - collect/D2 Linear in the size of the file and in the number of edges, which is limited.
 */
import type {
  DotAttribute,
  DotAttributes,
  DotEdgeStatement,
  DotGraph,
  DotNodeRef,
  DotStatement,
  DotSubgraph,
} from "./ast.ts";
import { type AttributeOwner, canonicalName } from "./attribute.ts";
import type { DotSpan } from "./source.ts";

/** How many edges a graph may have; `{a b} -> {c d}` is one statement with four edges. */
export const DOT_EDGES_MAX = 1_000_000;

export interface CollectedNode {
  readonly id: string;
  /** Its first node statement, or its first mention in an edge. */
  readonly span: DotSpan;
  /** False when only edges mention it. */
  readonly declared: boolean;
  readonly attributes: DotAttributes;
  /** The classes of the subgraphs around it, the innermost last. */
  readonly subgraphClasses: readonly string[];
}

export interface CollectedEdge {
  readonly from: string;
  readonly to: string;
  /** Its statement. */
  readonly span: DotSpan;
  readonly attributes: DotAttributes;
}

export interface CollectedGraph {
  readonly attributes: DotAttributes;
  readonly nodes: ReadonlyMap<string, CollectedNode>;
  readonly edges: readonly CollectedEdge[];
  /** Every attribute in the file, with its owner. */
  readonly written: readonly { readonly owner: AttributeOwner; readonly attribute: DotAttribute }[];
  /** The statement that exceeds the limit of edges. */
  readonly overflow?: DotSpan;
}

/** The defaults and classes inside a subgraph. */
interface Scope {
  nodeDefaults: DotAttributes;
  edgeDefaults: DotAttributes;
  readonly classes: readonly string[];
  /** The nodes that it mentions. */
  readonly members: Set<string>;
  /** The attributes of the graph; absent in subgraphs, which have only a label. */
  readonly graph?: Map<string, DotAttribute>;
}

/** The nodes and edges of a graph. */
export function collectGraph(graph: DotGraph): CollectedGraph {
  const collector = new Collector();
  const attributes = new Map<string, DotAttribute>();
  const none: DotAttributes = new Map();
  const members = new Set<string>();
  const scope = { nodeDefaults: none, edgeDefaults: none, classes: [], members, graph: attributes };
  collector.walk(graph.statements, scope);
  const { nodes, edges, written, overflow } = collector;
  return { attributes, nodes, edges, written, ...(overflow === undefined ? {} : { overflow }) };
}

class Collector {
  readonly nodes = new Map<string, CollectedNode>();
  readonly edges: CollectedEdge[] = [];
  readonly written: { readonly owner: AttributeOwner; readonly attribute: DotAttribute }[] = [];
  overflow: DotSpan | undefined;

  walk(statements: readonly DotStatement[], scope: Scope): void {
    for (const statement of statements) this.#statement(statement, scope);
  }

  #statement(statement: DotStatement, scope: Scope): void {
    switch (statement.kind) {
      case "assignment":
        return this.#graphAttributes([statement.attribute], scope);
      case "defaults":
        return this.#defaults(statement.of, statement.attributes, scope);
      case "node":
        return this.#node(statement.node, statement.attributes, scope);
      case "edge":
        return this.#edge(statement, scope);
      case "subgraph":
        this.#subgraph(statement, scope);
    }
  }

  #defaults(of: AttributeOwner, attributes: readonly DotAttribute[], scope: Scope): void {
    if (of === "graph") this.#graphAttributes(attributes, scope);
    else if (of === "node") {
      scope.nodeDefaults = merged(scope.nodeDefaults, this.#named("node", attributes));
    } else scope.edgeDefaults = merged(scope.edgeDefaults, this.#named("edge", attributes));
  }

  #graphAttributes(attributes: readonly DotAttribute[], scope: Scope): void {
    for (const [name, attribute] of this.#named("graph", attributes)) {
      scope.graph?.set(name, attribute);
    }
  }

  #node(node: DotNodeRef, attributes: readonly DotAttribute[], scope: Scope): void {
    const id = node.name.text;
    const known = this.nodes.get(id);
    const own = this.#named("node", attributes);
    // Defaults apply at the declaration; an earlier mention in an edge is not a declaration.
    const base = known?.declared ? known.attributes : scope.nodeDefaults;
    this.nodes.set(id, {
      id,
      span: known?.declared ? known.span : node.span,
      declared: true,
      attributes: merged(base, own),
      subgraphClasses: unique([...(known?.subgraphClasses ?? []), ...scope.classes]),
    });
    scope.members.add(id);
  }

  #mention(node: DotNodeRef, scope: Scope): string {
    const id = node.name.text;
    scope.members.add(id);
    if (this.nodes.has(id)) return id;
    const attributes = scope.nodeDefaults;
    const subgraphClasses = scope.classes;
    this.nodes.set(id, { id, span: node.span, declared: false, attributes, subgraphClasses });
    return id;
  }

  #edge(statement: DotEdgeStatement, scope: Scope): void {
    const attributes = merged(scope.edgeDefaults, this.#named("edge", statement.attributes));
    const ends = statement.ends.map((end) =>
      end.kind === "ref" ? [this.#mention(end, scope)] : [...this.#subgraph(end, scope)],
    );
    for (const [index, sources] of ends.slice(0, -1).entries()) {
      const targets = ends[index + 1] ?? [];
      if (this.edges.length + sources.length * targets.length > DOT_EDGES_MAX) {
        this.overflow ??= statement.span;
        return;
      }
      for (const from of sources) {
        for (const to of targets) this.edges.push({ from, to, span: statement.span, attributes });
      }
    }
  }

  #subgraph(subgraph: DotSubgraph, scope: Scope): ReadonlySet<string> {
    const own = classOf(labelOf(subgraph));
    const members = new Set<string>();
    this.walk(subgraph.statements, {
      nodeDefaults: scope.nodeDefaults,
      edgeDefaults: scope.edgeDefaults,
      classes: own === "" ? scope.classes : unique([...scope.classes, own]),
      members,
    });
    for (const id of members) scope.members.add(id);
    return members;
  }

  /**
   * Attributes by canonical name: the last one counts, and the canonical name before other names.
   */
  #named(owner: AttributeOwner, attributes: readonly DotAttribute[]): DotAttributes {
    const named = new Map<string, DotAttribute>();
    for (const attribute of attributes) {
      this.written.push({ owner, attribute });
      const name = canonicalName(owner, attribute.key.text);
      const isAlias = name !== attribute.key.text;
      if (!isAlias || named.get(name)?.key.text !== name) named.set(name, attribute);
    }
    return named;
  }
}

function labelOf({ statements }: DotSubgraph): string {
  const labels = statements.flatMap((statement) => {
    if (statement.kind === "assignment") return [statement.attribute];
    return statement.kind === "defaults" && statement.of === "graph" ? statement.attributes : [];
  });
  return labels.findLast(({ key }) => key.text === "label")?.value.text ?? "";
}

/**
 * The class that the label of a subgraph gives to its nodes: "Code Review!" gives `code-review`.
 */
export function classOf(label: string): string {
  return label
    .toLowerCase()
    .trim()
    .replaceAll(/\s+/g, "-")
    .replaceAll(/[^a-z0-9-]/g, "");
}

function merged(base: DotAttributes, own: DotAttributes): DotAttributes {
  return own.size === 0 ? base : new Map([...base, ...own]);
}

function unique(names: readonly string[]): readonly string[] {
  return [...new Set(names)];
}
