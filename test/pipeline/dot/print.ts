/**
 * The canonical text of a DOT tree, to show that parsing loses nothing.
 *
 * Owns: the layout, and the quoting that brings back the same texts.
 * Does not: keep comments or the author's own layout, which are not in the tree.
 * Invariants:
 * - print/D4 What was parsed without an error, printed and parsed again is the same tree apart from
 *   places; printing that gives the same text.
 */
import type {
  DotAttribute,
  DotGraph,
  DotNodeRef,
  DotStatement,
  DotSubgraph,
  DotText,
} from "../../../src/pipeline/dot/ast.ts";

const INDENT = "  ";
/** The longest statement that stays on one line. */
const COLUMNS_MAX = 100;
/** Texts with more lines than this are written with real line ends, the others with `\n`. */
const ESCAPED_LINES_MAX = 2;

/** A file as text. */
export function printDot(graphs: readonly DotGraph[]): string {
  return graphs.map(printGraph).join("\n");
}

function printGraph(graph: DotGraph): string {
  const { strict, directed, name, statements } = graph;
  const words = [strict ? "strict" : "", directed ? "digraph" : "graph", printOptional(name), "{"];
  const head = words.filter((word) => word !== "").join(" ");
  const edge = directed ? " -> " : " -- ";
  return `${head}\n${printStatements(statements, INDENT, edge)}}\n`;
}

function printStatements(
  statements: readonly DotStatement[],
  indent: string,
  edge: string,
): string {
  return statements
    .map((statement) => `${indent}${printStatement(statement, indent, edge)}\n`)
    .join("");
}

function printStatement(statement: DotStatement, indent: string, edge: string): string {
  switch (statement.kind) {
    case "assignment":
      return printAttribute(statement.attribute, " = ");
    case "defaults":
      return `${statement.of}${printAttributes(statement.attributes, indent, statement.of) || " []"}`;
    case "node": {
      const head = printEnd(statement.node, indent, edge);
      return `${head}${printAttributes(statement.attributes, indent, head)}`;
    }
    case "edge": {
      const head = statement.ends.map((end) => printEnd(end, indent, edge)).join(edge);
      return `${head}${printAttributes(statement.attributes, indent, head)}`;
    }
    case "subgraph":
      return printSubgraph(statement, indent, edge);
  }
}

function printEnd(end: DotNodeRef | DotSubgraph, indent: string, edge: string): string {
  if (end.kind === "subgraph") return printSubgraph(end, indent, edge);
  return [end.name, ...end.ports].map(printName).join(":");
}

function printSubgraph({ name, statements }: DotSubgraph, indent: string, edge: string): string {
  const head = name === undefined ? "{" : `subgraph ${printName(name)} {`;
  if (statements.length === 0) return `${head}}`;
  return `${head}\n${printStatements(statements, indent + INDENT, edge)}${indent}}`;
}

/** ` [a=1, b=2]`, on one line if that fits; nothing for no attributes. */
function printAttributes(
  attributes: readonly DotAttribute[],
  indent: string,
  head: string,
): string {
  if (attributes.length === 0) return "";
  const printed = attributes.map((attribute) => printAttribute(attribute, "="));
  const line = ` [${printed.join(", ")}]`;
  const before = indent.length + head.length - (head.lastIndexOf("\n") + 1);
  const fits = before + line.length <= COLUMNS_MAX && !line.includes("\n");
  if (fits) return line;
  return ` [\n${printed.map((one) => `${indent}${INDENT}${one}`).join(",\n")}\n${indent}]`;
}

function printAttribute({ key, value }: DotAttribute, equals: string): string {
  return `${printName(key)}${equals}${printValue(value)}`;
}

function printValue(value: DotText): string {
  if (value.form === "html") return `<${value.text}>`;
  return value.form === "string" ? quote(value.text) : value.text;
}

function printName(name: DotText): string {
  return name.form === "string" ? quote(name.text) : name.text;
}

function printOptional(name: DotText | undefined): string {
  return name === undefined ? "" : printName(name);
}

/** A text in quotes, with what has a meaning in them escaped. */
function quote(text: string): string {
  const lines = text.split("\n").length;
  const escaped = text
    .replaceAll("\\", "\\\\")
    .replaceAll('"', '\\"')
    .replaceAll("\t", "\\t")
    // A line end behind a carriage return would be read as one of both.
    .replaceAll("\r\n", "\r\\n");
  return `"${lines > ESCAPED_LINES_MAX ? escaped : escaped.replaceAll("\n", "\\n")}"`;
}
