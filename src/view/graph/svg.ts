/**
 * A drawing as SVG: one file without scripts and external parts, in light or dark colours as the
 * reader prefers.
 *
 * Owns: shapes and the style sheet.
 * Does not: position boxes (geometry.ts).
 */
import { cutText, displayWidth } from "../text.ts";
import {
  type Drawing,
  type DrawnEdge,
  type DrawnNode,
  leftOutText,
  type Picture,
} from "./drawing.ts";
import {
  innerCorner,
  LINE,
  layOutPicture,
  lineText,
  MARK,
  PAD,
  type PictureLayout,
  routePath,
  SMALL_CHAR,
  SMALL_LINE,
} from "./geometry.ts";
import type { Point, Route } from "./layout.ts";
import {
  DARK,
  element,
  FAINT,
  GROUND,
  INK,
  LIGHT,
  MONOSPACE,
  SANS,
  styleSheet,
  type Tint,
  xmlText,
} from "./markup.ts";

const MARGIN = 20;
/** The radius of the corners of a box. */
const CORNER = 8;
const MARK_RADIUS = 8;

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

type Size = PictureLayout["sizes"][number];
const NO_SIZE: Size = { width: 0, height: 0, top: 0 };

function pictureLines(picture: Picture, laidOut: PictureLayout, origin: Point): readonly string[] {
  const { layout, sizes } = laidOut;
  const boxes = picture.nodes.flatMap((node, index) => {
    const corner = layout.corners[index] ?? { x: 0, y: 0 };
    const at = { x: origin.x + corner.x, y: origin.y + corner.y };
    return nodeLines(node, sizes[index] ?? NO_SIZE, at);
  });
  const edges = picture.edges.flatMap((edge, index) => {
    const route = layout.routes[index];
    return route === undefined ? [] : edgeLines(edge, route, origin);
  });
  return [...boxes, ...edges];
}

function nodeLines(node: DrawnNode, size: Size, at: Point): readonly string[] {
  const { width, height, inner } = size;
  const corner = innerCorner(size);
  const content =
    inner === undefined || node.inner === undefined
      ? []
      : pictureLines(node.inner, inner, { x: at.x + corner.x, y: at.y + corner.y });
  return [
    `<g class="${node.tint}${inner === undefined ? "" : " group"}">`,
    `<title>${xmlText([node.label, ...node.notes].join("\n"))}</title>`,
    element("rect", { x: at.x, y: at.y, width, height, rx: CORNER }),
    ...labelLines(node, at),
    ...noteLines(node, width, at),
    "</g>",
    ...content,
  ];
}

/** The label; in a run, the mark of the state is before it in a circle. */
function labelLines({ step, state, label }: DrawnNode, at: Point): readonly string[] {
  const [x, y] = [at.x + PAD, at.y + PAD / 2 + LINE / 2];
  if (step === undefined) return [element("text", { class: "item", x, y: y + 4 }, xmlText(label))];
  if (state === undefined) return [element("text", { x, y: y + 4 }, xmlText(label))];
  const [glyph = "", ...words] = label.split(" ");
  const middle = x + MARK_RADIUS;
  return [
    element("circle", { cx: middle, cy: y, r: MARK_RADIUS }),
    element("text", { class: "mark", x: middle, y: y + 3.5 }, xmlText(glyph)),
    element("text", { x: x + MARK, y: y + 4 }, xmlText(words.join(" "))),
  ];
}

/** What the pipeline says about a step, and its state, each cut to the width of the box. */
function noteLines({ about, notes }: DrawnNode, width: number, at: Point): readonly string[] {
  const letters = Math.floor((width - 2 * PAD) / SMALL_CHAR);
  const lines = [lineText(about), lineText(notes.slice(about.length))];
  return lines
    .filter((line) => line !== "")
    .map((line, index) => {
      const y = at.y + PAD / 2 + LINE + index * SMALL_LINE + 11;
      return smallText(cutText(line, letters), at.x + PAD, y, "start");
    });
}

function edgeLines(edge: DrawnEdge, route: Route, origin: Point): readonly string[] {
  const points = route.points.map(({ x, y }) => ({ x: x + origin.x, y: y + origin.y }));
  const kind = `${edge.look}${edge.failure ? " failure" : ""}`;
  const head = edge.look === "untaken" ? "faint" : edge.failure ? "red" : "ink";
  const d = routePath(points, route.square);
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
    ([tint, { fill, line }]) => `.graph .${tint}>rect{fill:${fill};stroke:${line}}
      .graph .${tint}>circle,.graph .${tint}>.mark{fill:${line}}`,
  );
  const [edge, faint, red] = [paints.plain.line, FAINT[mode], paints.failed.line];
  return `${tints.join("\n")}
    .graph text{fill:${INK[mode]}}
    .graph text.small{fill:${edge}}
    .graph .ground{fill:${GROUND[mode]};stroke:none}
    .graph .done:not(.group)>rect{fill:${GROUND[mode]}}
    .graph path{stroke:${edge}}
    .graph path.failure{stroke:${red}}
    .graph path.untaken{stroke:${faint}}
    .graph text.untaken{fill:${faint}}
    .graph .ink path{fill:${edge}}
    .graph .red path{fill:${red}}
    .graph .faint path{fill:${faint}}`;
}

const STYLE = styleSheet(`
  .graph text{font:600 12.5px ${SANS}}
  .graph text.small{font:10.5px ${SANS}}
  .graph text.item{font:11px ${MONOSPACE}}
  .graph text.mark{font:600 9.5px ${SANS};text-anchor:middle}
  .graph circle{fill-opacity:.18}
  .graph path{fill:none;stroke-width:1.2}
  .graph path.taken{stroke-width:1.8}
  .graph path.untaken,.graph .skipped>rect{stroke-dasharray:4 3}
  .graph rect{stroke-width:1.2}
  .graph .group>rect{fill-opacity:.35}
  .graph marker path{stroke:none}
  ${rules(LIGHT, "light")}
  @media (prefers-color-scheme:dark){${rules(DARK, "dark")}}
`);
