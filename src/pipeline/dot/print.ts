/**
 * The canonical text of a DOT tree.
 *
 * Owns: the layout, and the quoting that brings back the same texts.
 * Does not: keep comments or the author's own layout, which are not in the tree.
 * Invariants:
 * - D4 What was parsed without an error, printed and parsed again is the same tree apart from places;
 *   printing that gives the same text.
 */
import type {
  DotAttribute,
  DotDocument,
  DotGraph,
  DotName,
  DotNodeRef,
  DotStatement,
  DotSubgraph,
  DotValue,
} from "./ast.ts";

const INDENT = "  ";
/** The longest statement that stays on one line. */
const COLUMNS_MAX = 100;
/** Texts with more lines than this are written with real line ends, the others with `\n`. */
const ESCAPED_LINES_MAX = 2;

/** A file as text. */
export function printDot(document: DotDocument): string {
  return document.graphs.map(printGraph).join("\n");
}

function printGraph(graph: DotGraph): string {
  const { strict, directed, name, statements } = graph;
  const words = [strict ? "strict" : "", directed ? "digraph" : "graph", printOptional(name), "{"];
  const head = words.filter((word) => word !== "").join(" ");
  const arrow = directed ? " -> " : " -- ";
  return `${head}\n${printStatements(statements, INDENT, arrow)}}\n`;
}

function printStatements(
  statements: readonly DotStatement[],
  indent: string,
  arrow: string,
): string {
  return statements
    .map((statement) => `${indent}${printStatement(statement, indent, arrow)}\n`)
    .join("");
}

function printStatement(statement: DotStatement, indent: string, arrow: string): string {
  switch (statement.kind) {
    case "assignment":
      return printAttribute(statement.attribute, " = ");
    case "defaults":
      return `${statement.of}${printAttributes(statement.attributes, indent, statement.of) || " []"}`;
    case "node": {
      const head = printEnd(statement.node, indent, arrow);
      return `${head}${printAttributes(statement.attributes, indent, head)}`;
    }
    case "edge": {
      const head = statement.ends.map((end) => printEnd(end, indent, arrow)).join(arrow);
      return `${head}${printAttributes(statement.attributes, indent, head)}`;
    }
    case "subgraph":
      return printSubgraph(statement, indent, arrow);
  }
}

function printEnd(end: DotNodeRef | DotSubgraph, indent: string, arrow: string): string {
  if (end.kind === "subgraph") return printSubgraph(end, indent, arrow);
  return [end.name, ...end.ports].map(printName).join(":");
}

function printSubgraph({ name, statements }: DotSubgraph, indent: string, arrow: string): string {
  const head = name === undefined ? "{" : `subgraph ${printName(name)} {`;
  if (statements.length === 0) return `${head}}`;
  return `${head}\n${printStatements(statements, indent + INDENT, arrow)}${indent}}`;
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

function printValue(value: DotValue): string {
  if (value.form === "html") return `<${value.text}>`;
  return value.form === "string" ? quote(value.text) : value.text;
}

function printName(name: DotName): string {
  return name.form === "string" ? quote(name.text) : name.text;
}

function printOptional(name: DotName | undefined): string {
  return name === undefined ? "" : printName(name);
}

const WORD = /^(?!(?:strict|graph|digraph|node|edge|subgraph)$)[A-Za-z_]\w*$/i;
const PLAIN_KEY = /^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$/;

/** A name as it is written: in quotes only where it has to be. */
export function word(text: string): string {
  return WORD.test(text) ? text : quote(text);
}

/** Names and values, in the order in which they are written. */
export type Attributes = readonly (readonly [name: string, value: string | number | true])[];

/** One statement, with its attributes on the same line if they fit. */
export function printLine(head: string, attributes: Attributes, indent: string): string {
  const span = { start: 0, end: 0, line: 1, column: 1 };
  const printed = attributes.map(([name, value]): DotAttribute => {
    const plain = typeof value !== "string" || WORD.test(value) || /^\d+(ms|s|m|h|d)$/.test(value);
    const key = { form: PLAIN_KEY.test(name) ? "word" : "string", text: name, span } as const;
    const form = plain ? "word" : "string";
    return { key, value: { form, text: String(value), span }, span };
  });
  return `${indent}${head}${printAttributes(printed, indent, head)}`;
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
