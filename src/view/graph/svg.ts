/**
 * A drawing as SVG: one file without scripts and external parts, in light or dark colours as the
 * reader prefers.
 *
 * Owns: sizes, shapes and the style sheet.
 * Does not: position boxes (layout.ts).
 */
import { displayWidth } from "../text.ts";
import {
  type Drawing,
  type DrawnEdge,
  type DrawnNode,
  leftOutText,
  type Picture,
} from "./drawing.ts";
import { type Layout, layOut, type Point, type Route } from "./layout.ts";
import { element, rounded, styleSheet, xmlText } from "./markup.ts";
import { DARK, FAINT, GROUND, INK, LIGHT, type Tint } from "./palette.ts";

const CHAR = 7.5;
const SMALL_CHAR = 6.1;
const LINE = 17;
const SMALL_LINE = 14;
const PAD = 12;
const MARGIN = 20;
const WIDTH_MIN = 64;

/** The picture as an XML element that can stand alone or inside an HTML page. */
export function svgText(drawing: Drawing): string {
  const laidOut = layOutPicture(drawing.picture);
  const left = leftOutText(drawing);
  const noteWidth = left === undefined ? 0 : left.length * SMALL_CHAR;
  const width = Math.ceil(Math.max(laidOut.layout.width, noteWidth) + 2 * MARGIN);
  const noteHeight = left === undefined ? 0 : LINE;
  const height = Math.ceil(laidOut.layout.height + 2 * MARGIN + noteHeight);
  const note = left === undefined ? [] : [smallText(left, MARGIN, height - MARGIN / 2, "start")];
  const frame = { width, height, viewBox: `0 0 ${width} ${height}` };
  const content = [
    `<title>${xmlText(drawing.title)}</title>`,
    `<style>${STYLE}</style>`,
    MARKERS,
    element("rect", { class: "ground", width, height }),
    ...pictureLines(drawing.picture, laidOut, { x: MARGIN, y: MARGIN }),
    ...note,
  ];
  const svg = { xmlns: "http://www.w3.org/2000/svg", class: "graph", role: "img", ...frame };
  return `${element("svg", svg, "\n", content.join("\n"), "\n")}\n`;
}

function smallText(text: string, x: number, y: number, anchor: "start" | "middle"): string {
  return element("text", { class: "small", "text-anchor": anchor, x, y }, xmlText(text));
}

/** A picture with its layout, and the same for the pictures in it. */
interface LaidOut {
  readonly layout: Layout;
  readonly sizes: readonly Size[];
}

interface Size {
  readonly width: number;
  readonly height: number;
  readonly inner?: LaidOut;
}

function layOutPicture({ nodes, edges }: Picture): LaidOut {
  const sizes = nodes.map(sizeOf);
  const position = new Map(nodes.map(({ id }, index) => [id, index]));
  const links = edges.map(({ from, to, back, label }) => ({
    from: position.get(from) ?? 0,
    to: position.get(to) ?? 0,
    back,
    labelWidth: displayWidth(label) * SMALL_CHAR,
  }));
  return { layout: layOut(sizes, links), sizes };
}

function sizeOf({ label, notes, inner }: DrawnNode): Size {
  const words = Math.max(
    displayWidth(label) * CHAR,
    ...notes.map((note) => displayWidth(note) * SMALL_CHAR),
  );
  const width = Math.max(WIDTH_MIN, words + 2 * PAD);
  const height = LINE + notes.length * SMALL_LINE + PAD;
  if (inner === undefined || inner.nodes.length === 0) return { width, height };
  const laidOut = layOutPicture(inner);
  return {
    width: Math.max(width, laidOut.layout.width + 2 * PAD),
    height: height + laidOut.layout.height + PAD,
    inner: laidOut,
  };
}

function pictureLines(picture: Picture, laidOut: LaidOut, origin: Point): readonly string[] {
  const { layout, sizes } = laidOut;
  const boxes = picture.nodes.flatMap((node, index) => {
    const corner = layout.corners[index] ?? { x: 0, y: 0 };
    const at = { x: origin.x + corner.x, y: origin.y + corner.y };
    return nodeLines(node, sizes[index] ?? { width: 0, height: 0 }, at);
  });
  const edges = picture.edges.flatMap((edge, index) => {
    const route = layout.routes[index];
    return route === undefined ? [] : edgeLines(edge, route, origin);
  });
  return [...boxes, ...edges];
}

function nodeLines(node: DrawnNode, size: Size, at: Point): readonly string[] {
  const { width, height, inner } = size;
  const middle = at.x + width / 2;
  const notes = node.notes.map((note, index) => {
    const y = at.y + PAD / 2 + LINE + 10 + index * SMALL_LINE;
    return smallText(note, middle, y, "middle");
  });
  const top = LINE + node.notes.length * SMALL_LINE + PAD;
  const spare = inner === undefined ? 0 : (width - inner.layout.width) / 2;
  const content =
    inner === undefined || node.inner === undefined
      ? []
      : pictureLines(node.inner, inner, { x: at.x + spare, y: at.y + top });
  const label = { "text-anchor": "middle", x: middle, y: at.y + PAD / 2 + 13 };
  return [
    `<g class="${node.tint}${inner === undefined ? "" : " group"}">`,
    element("rect", { x: at.x, y: at.y, width, height, rx: node.round ? 14 : 4 }),
    element("text", label, xmlText(node.label)),
    ...notes,
    "</g>",
    ...content,
  ];
}

function edgeLines(edge: DrawnEdge, route: Route, origin: Point): readonly string[] {
  const points = route.points.map(({ x, y }) => ({ x: x + origin.x, y: y + origin.y }));
  const kind = `${edge.look}${edge.failure ? " failure" : ""}`;
  const head = edge.look === "untaken" ? "faint" : edge.failure ? "red" : "ink";
  const d = route.square ? cornered(points) : curved(points);
  const path = element("path", { class: kind, d, "marker-end": `url(#${head})` });
  if (edge.label === "") return [path];
  const width = displayWidth(edge.label) * SMALL_CHAR + 6;
  const x = route.label.x + origin.x + (route.square ? width / 2 + 3 : 0);
  const y = route.label.y + origin.y;
  const text = { class: `small ${kind}`, "text-anchor": "middle", x, y: y + 3 };
  return [
    path,
    element("rect", { class: "ground", x: x - width / 2, y: y - 8, width, height: 15 }),
    element("text", text, xmlText(edge.label)),
  ];
}

/** Straight through each layer, curved between two. */
function curved(points: readonly Point[]): string {
  const [first, ...rest] = points;
  let before = first ?? { x: 0, y: 0 };
  let path = `M${pair(before)}`;
  for (const point of rest) {
    const y = (before.y + point.y) / 2;
    const bend = [pair({ x: before.x, y }), pair({ x: point.x, y }), pair(point)].join(" ");
    path += point.x === before.x ? ` L${pair(point)}` : ` C${bend}`;
    before = point;
  }
  return path;
}

function cornered(points: readonly Point[]): string {
  return points.map((point, index) => `${index === 0 ? "M" : "L"}${pair(point)}`).join(" ");
}

function pair({ x, y }: Point): string {
  return `${rounded(x)} ${rounded(y)}`;
}

const HEADS = ["ink", "red", "faint"] as const;
const HEAD_SIZE = { viewBox: "0 0 8 8", refX: "7.5", refY: "4", markerWidth: 7, markerHeight: 7 };

const MARKERS = element(
  "defs",
  {},
  ...HEADS.map((id) =>
    element(
      "marker",
      { id, class: id, ...HEAD_SIZE, markerUnits: "userSpaceOnUse", orient: "auto" },
      '<path d="M0 0L8 4L0 8z"/>',
    ),
  ),
);

function rules(
  paints: Readonly<Record<Tint, { readonly fill: string; readonly line: string }>>,
  mode: "light" | "dark",
): string {
  const tints = Object.entries(paints).map(
    ([tint, { fill, line }]) => `.graph .${tint}>rect{fill:${fill};stroke:${line}}`,
  );
  const [ink, faint, red] = [INK[mode], FAINT[mode], paints.failed.line];
  return `${tints.join("\n")}
    .graph text{fill:${ink}}
    .graph .ground{fill:${GROUND[mode]};stroke:none}
    .graph path{stroke:${ink}}
    .graph path.failure{stroke:${red}}
    .graph path.untaken{stroke:${faint}}
    .graph text.untaken{fill:${faint}}
    .graph .ink path{fill:${ink}}
    .graph .red path{fill:${red}}
    .graph .faint path{fill:${faint}}`;
}

const STYLE = styleSheet(`
  .graph text{font:12.5px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
  .graph text.small{font-size:10px}
  .graph path{fill:none;stroke-width:1.2}
  .graph path.taken{stroke-width:2.2}
  .graph path.untaken,.graph .skipped>rect{stroke-dasharray:4 3}
  .graph rect{stroke-width:1.3}
  .graph .group>rect{fill-opacity:.35}
  .graph marker path{stroke:none}
  ${rules(LIGHT, "light")}
  @media (prefers-color-scheme:dark){${rules(DARK, "dark")}}
`);
