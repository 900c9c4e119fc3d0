/** A drawing as DOT text for Graphviz. A picture, not a pipeline: it cannot be run. */
import {
  type Drawing,
  type DrawnEdge,
  type DrawnNode,
  leftOutText,
  type Picture,
} from "./drawing.ts";
import { FAINT, LIGHT } from "./markup.ts";

/** The text; its last line ends with a line break. */
export function dotText(drawing: Drawing): string {
  const left = leftOutText(drawing);
  const lines = [
    `digraph ${quoted(drawing.title)} {`,
    "  compound=true;",
    '  node [shape=box, style="filled", fontname="Courier", fontsize=11];',
    '  edge [fontname="Courier", fontsize=9];',
    '  graph [fontname="Courier", fontsize=11];',
    ...pictureLines(drawing.picture, "  "),
    ...(left === undefined ? [] : [`  more [label=${quoted(left)}, shape=plaintext, style=""];`]),
    "}",
  ];
  return `${lines.join("\n")}\n`;
}

function pictureLines({ nodes, edges }: Picture, indent: string): readonly string[] {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  return [
    ...nodes.flatMap((node) => nodeLines(node, indent)),
    ...edges.map((edge) => indent + edgeLine(edge, byId)),
  ];
}

function nodeLines(node: DrawnNode, indent: string): readonly string[] {
  const { id, tint, inner } = node;
  const label = quoted([node.label, ...node.notes].join("\n"));
  const { fill, line } = LIGHT[tint];
  const colours = `fillcolor="${fill}", color="${line}"`;
  if (inner === undefined || inner.nodes.length === 0) {
    const styles = [
      "filled",
      ...(node.round ? ["rounded"] : []),
      ...(tint === "skipped" ? ["dashed"] : []),
    ];
    return [`${indent}${id} [label=${label}, style="${styles.join(",")}", ${colours}];`];
  }
  return [
    `${indent}subgraph cluster_${id} {`,
    `${indent}  label=${label}; style="filled"; fillcolor="${fill}"; color="${line}";`,
    ...pictureLines(inner, `${indent}  `),
    `${indent}}`,
  ];
}

/** An edge to a box with inner steps leads to one of them and is cut at the border of the box. */
function edgeLine(edge: DrawnEdge, byId: ReadonlyMap<string, DrawnNode>): string {
  const from = anchorOf(edge.from, byId, "last");
  const to = anchorOf(edge.to, byId, "first");
  const color = edge.look === "untaken" ? FAINT.light : edge.failure ? LIGHT.failed.line : "";
  const attributes = [
    ...(edge.label === "" ? [] : [`label=${quoted(edge.label)}`]),
    ...(from === edge.from ? [] : [`ltail=cluster_${edge.from}`]),
    ...(to === edge.to ? [] : [`lhead=cluster_${edge.to}`]),
    ...(edge.look === "plain" ? [] : [`style=${edge.look === "taken" ? "bold" : "dashed"}`]),
    ...(color === "" ? [] : [`color="${color}"`]),
    ...(edge.back ? ["constraint=false"] : []),
  ];
  return `${from} -> ${to}${attributes.length === 0 ? "" : ` [${attributes.join(", ")}]`};`;
}

function anchorOf(id: string, byId: ReadonlyMap<string, DrawnNode>, end: "first" | "last"): string {
  let node = byId.get(id);
  for (
    let inner = node?.inner;
    inner !== undefined && inner.nodes.length > 0;
    inner = node?.inner
  ) {
    node = inner.nodes.at(end === "first" ? 0 : -1);
  }
  return node?.id ?? id;
}

function quoted(text: string): string {
  const escaped = text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
  return `"${escaped}"`;
}
