/** A drawing as Mermaid text (`flowchart`), for Markdown files and wikis that draw it. */
import {
  type Drawing,
  type DrawnEdge,
  type DrawnNode,
  leftOutText,
  type Picture,
} from "./drawing.ts";
import { INK, LIGHT, type Tint } from "./markup.ts";

/** The text; its last line ends with a line break. */
export function mermaidText(drawing: Drawing): string {
  const { picture, coloured } = drawing;
  const left = leftOutText(drawing);
  const edges = edgesOf(picture);
  const lines = [
    "flowchart TD",
    ...pictureLines(picture, "  "),
    ...edges.map((edge) => `  ${edgeLine(edge)}`),
    ...(left === undefined ? [] : [`  more[${quoted(left)}]:::note`, NOTE_CLASS]),
    ...(coloured ? classLines(picture) : []),
    ...linkStyles(edges),
  ];
  return `${lines.join("\n")}\n`;
}

const NOTE_CLASS = "  classDef note fill:none,stroke:none";

function pictureLines({ nodes }: Picture, indent: string): readonly string[] {
  return nodes.flatMap((node) => nodeLines(node, indent));
}

function nodeLines(node: DrawnNode, indent: string): readonly string[] {
  const text = quoted(node.label, ...node.notes);
  if (node.inner === undefined || node.inner.nodes.length === 0) {
    return [`${indent}${node.id}${node.round ? `([${text}])` : `[${text}]`}`];
  }
  // Mermaid leaves room for one line above the content of a box.
  const title = quoted([node.label, ...node.notes].join(" · "));
  return [
    `${indent}subgraph ${node.id}[${title}]`,
    ...pictureLines(node.inner, `${indent}  `),
    `${indent}end`,
  ];
}

/** Innermost last, in the order in which Mermaid numbers them. */
function edgesOf({ nodes, edges }: Picture): readonly DrawnEdge[] {
  return [...edges, ...nodes.flatMap(({ inner }) => (inner === undefined ? [] : edgesOf(inner)))];
}

function edgeLine({ from, to, label, look }: DrawnEdge): string {
  const line = { plain: "-->", taken: "==>", untaken: "-.->" }[look];
  return label === "" ? `${from} ${line} ${to}` : `${from} ${line}|${quoted(label)}| ${to}`;
}

/** Failure edges are red; edges that were not followed are grey. */
function linkStyles(edges: readonly DrawnEdge[]): readonly string[] {
  const red = edges.flatMap(({ failure, look }, index) =>
    failure && look !== "untaken" ? [index] : [],
  );
  const grey = edges.flatMap(({ look }, index) => (look === "untaken" ? [index] : []));
  return [
    ...(red.length === 0 ? [] : [`  linkStyle ${red.join(",")} stroke:${LIGHT.failed.line}`]),
    ...(grey.length === 0 ? [] : [`  linkStyle ${grey.join(",")} stroke:${LIGHT.skipped.line}`]),
  ];
}

function classLines(picture: Picture): readonly string[] {
  const members = new Map<Tint, string[]>();
  const visit = ({ nodes }: Picture): void => {
    for (const { id, tint, inner } of nodes) {
      const known = members.get(tint);
      if (known === undefined) members.set(tint, [id]);
      else known.push(id);
      if (inner !== undefined) visit(inner);
    }
  };
  visit(picture);
  return Array.from(members).flatMap(([tint, ids]) => {
    const { fill, line } = LIGHT[tint];
    const dashes = tint === "skipped" ? ",stroke-dasharray:4 3" : "";
    return [
      `  classDef ${tint} fill:${fill},stroke:${line},color:${INK.light}${dashes}`,
      `  class ${ids.join(",")} ${tint}`,
    ];
  });
}

/**
 * Lines of text between quotes; characters that Mermaid, Markdown or HTML interpret become codes.
 */
function quoted(...lines: readonly string[]): string {
  return `"${lines.map(coded).join("<br>")}"`;
}

/** Mermaid interprets line breaks, formulas and icons after it has read the codes. */
const READ_LATER = /\\(?=n)|\$(?=\$)|:(?=fa-)/g;
const NO_SPACE = "\u200b";

function coded(text: string): string {
  return text
    .replace(READ_LATER, `$&${NO_SPACE}`)
    .replace(/["#&<>`\\;*~|$]|\b_|_\b|__/g, codes)
    .replace(/^(\s*\d+)\./, (_, number: string) => `${number}#46;`)
    .replace(/^\s*[-+]/, codes)
    .replace(/^@/, codes);
}

function codes(text: string): string {
  return Array.from(text, (char) => `#${char.codePointAt(0) ?? 0};`).join("");
}
