/**
 * A drawing as SVG: one file, no scripts, nothing from outside, light or dark as the reader has it.
 *
 * Owns: sizes, shapes and the style sheet.
 * Does not: place anything (graph-layout.ts).
 */
import { displayWidth } from "./display-text.ts";
import {
  type Drawing,
  type DrawnEdge,
  type DrawnNode,
  leftOutText,
  type Picture,
} from "./graph-drawing.ts";
import { type Layout, layOut, type Point, type Route } from "./graph-layout.ts";
import { xmlText } from "./markup.ts";
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
  const placed = place(drawing.picture);
  const left = leftOutText(drawing);
  const noteWidth = left === undefined ? 0 : left.length * SMALL_CHAR;
  const width = Math.ceil(Math.max(placed.layout.width, noteWidth) + 2 * MARGIN);
  const noteHeight = left === undefined ? 0 : LINE;
  const height = Math.ceil(placed.layout.height + 2 * MARGIN + noteHeight);
  const note =
    left === undefined
      ? []
      : [`<text class="small" x="${MARGIN}" y="${height - MARGIN / 2}">${xmlText(left)}</text>`];
  return `${[
    `<svg xmlns="http://www.w3.org/2000/svg" class="graph" role="img" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">`,
    `<title>${xmlText(drawing.title)}</title>`,
    `<style>${STYLE}</style>`,
    MARKERS,
    `<rect class="ground" width="${width}" height="${height}"/>`,
    ...pictureLines(drawing.picture, placed, { x: MARGIN, y: MARGIN }),
    ...note,
    "</svg>",
  ].join("\n")}\n`;
}

/** A picture with its layout, and the same for the pictures in it. */
interface Placed {
  readonly layout: Layout;
  readonly sizes: readonly Size[];
}

interface Size {
  readonly width: number;
  readonly height: number;
  readonly inner?: Placed;
}

function place({ nodes, edges }: Picture): Placed {
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
  const placed = place(inner);
  return {
    width: Math.max(width, placed.layout.width + 2 * PAD),
    height: height + placed.layout.height + PAD,
    inner: placed,
  };
}

function pictureLines(picture: Picture, placed: Placed, origin: Point): readonly string[] {
  const { layout, sizes } = placed;
  const boxes = picture.nodes.flatMap((node, index) => {
    const corner = layout.corners[index] ?? { x: 0, y: 0 };
    const at = { x: origin.x + corner.x, y: origin.y + corner.y };
    return nodeLines(node, sizes[index] ?? { width: 0, height: 0 }, at);
  });
  const arrows = picture.edges.flatMap((edge, index) => {
    const route = layout.routes[index];
    return route === undefined ? [] : edgeLines(edge, route, origin);
  });
  return [...boxes, ...arrows];
}

function nodeLines(node: DrawnNode, size: Size, at: Point): readonly string[] {
  const { width, height, inner } = size;
  const middle = at.x + width / 2;
  const radius = node.round ? 14 : 4;
  const notes = node.notes.map((note, index) => {
    const y = at.y + PAD / 2 + LINE + 10 + index * SMALL_LINE;
    return `<text class="small" text-anchor="middle" x="${n(middle)}" y="${n(y)}">${xmlText(note)}</text>`;
  });
  const top = LINE + node.notes.length * SMALL_LINE + PAD;
  const spare = inner === undefined ? 0 : (width - inner.layout.width) / 2;
  const content =
    inner === undefined || node.inner === undefined
      ? []
      : pictureLines(node.inner, inner, { x: at.x + spare, y: at.y + top });
  return [
    `<g class="${node.tint}${inner === undefined ? "" : " group"}">`,
    `<rect x="${n(at.x)}" y="${n(at.y)}" width="${n(width)}" height="${n(height)}" rx="${radius}"/>`,
    `<text text-anchor="middle" x="${n(middle)}" y="${n(at.y + PAD / 2 + 13)}">${xmlText(node.label)}</text>`,
    ...notes,
    "</g>",
    ...content,
  ];
}

function edgeLines(edge: DrawnEdge, route: Route, origin: Point): readonly string[] {
  const points = route.points.map(({ x, y }) => ({ x: x + origin.x, y: y + origin.y }));
  const bent = route.square ? cornered(points) : curved(points);
  const kind = `${edge.look}${edge.failure ? " failure" : ""}`;
  const head = edge.look === "untaken" ? "faint" : edge.failure ? "red" : "ink";
  const path = `<path class="${kind}" d="${bent}" marker-end="url(#${head})"/>`;
  if (edge.label === "") return [path];
  const width = displayWidth(edge.label) * SMALL_CHAR + 6;
  const middle = {
    x: route.label.x + origin.x + (route.square ? width / 2 + 3 : 0),
    y: route.label.y + origin.y,
  };
  return [
    path,
    `<rect class="ground" x="${n(middle.x - width / 2)}" y="${n(middle.y - 8)}" width="${n(width)}" height="15"/>`,
    `<text class="small ${kind}" text-anchor="middle" x="${n(middle.x)}" y="${n(middle.y + 3)}">${xmlText(edge.label)}</text>`,
  ];
}

/** Straight through each layer, curved between two. */
function curved(points: readonly Point[]): string {
  const [first, ...rest] = points;
  let before = first ?? { x: 0, y: 0 };
  let path = `M${n(before.x)} ${n(before.y)}`;
  for (const point of rest) {
    const middle = (before.y + point.y) / 2;
    path +=
      point.x === before.x
        ? ` L${n(point.x)} ${n(point.y)}`
        : ` C${n(before.x)} ${n(middle)} ${n(point.x)} ${n(middle)} ${n(point.x)} ${n(point.y)}`;
    before = point;
  }
  return path;
}

function cornered(points: readonly Point[]): string {
  return points.map(({ x, y }, index) => `${index === 0 ? "M" : "L"}${n(x)} ${n(y)}`).join(" ");
}

/** A tenth of a pixel is enough. */
function n(value: number): string {
  return String(Math.round(value * 10) / 10);
}

const HEADS = ["ink", "red", "faint"] as const;

const MARKERS = `<defs>${HEADS.map(
  (id) =>
    `<marker id="${id}" class="${id}" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="7" markerHeight="7" markerUnits="userSpaceOnUse" orient="auto-start-reverse"><path d="M0 0L8 4L0 8z"/></marker>`,
).join("")}</defs>`;

function rules(
  paints: Readonly<Record<Tint, { readonly fill: string; readonly line: string }>>,
  mode: "light" | "dark",
): string {
  const tints = Object.entries(paints).map(
    ([tint, { fill, line }]) => `.graph .${tint}>rect{fill:${fill};stroke:${line}}`,
  );
  const red = paints.failed.line;
  return [
    ...tints,
    `.graph text{fill:${INK[mode]}}.graph .ground{fill:${GROUND[mode]};stroke:none}`,
    `.graph path{stroke:${INK[mode]}}.graph path.failure{stroke:${red}}`,
    `.graph path.untaken{stroke:${FAINT[mode]}}.graph text.untaken{fill:${FAINT[mode]}}`,
    `.graph .ink path{fill:${INK[mode]}}.graph .red path{fill:${red}}`,
    `.graph .faint path{fill:${FAINT[mode]}}`,
  ].join("");
}

const STYLE = [
  ".graph text{font:12.5px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}",
  ".graph text.small{font-size:10px}",
  ".graph path{fill:none;stroke-width:1.2}.graph path.taken{stroke-width:2.2}",
  ".graph path.untaken{stroke-dasharray:4 3}.graph .skipped>rect{stroke-dasharray:4 3}",
  ".graph rect{stroke-width:1.3}.graph .group>rect{fill-opacity:.35}.graph marker path{stroke:none}",
  rules(LIGHT, "light"),
  `@media (prefers-color-scheme:dark){${rules(DARK, "dark")}}`,
].join("");
