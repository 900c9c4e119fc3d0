/**
 * Where everything in a drawing is: boxes in boxes, and the routes of the edges between them. The
 * SVG, the report and the page of the dashboard draw from the same geometry.
 *
 * Owns: the sizes of boxes, and how a picture fits into the box around it.
 * Does not: position the boxes of one picture (layout.ts), or draw.
 * Invariants:
 * - view/Q3 In a run, the size of a box does not depend on the state of its step, so a run that
 *   progresses does not move the boxes.
 */
import { displayWidth } from "../text.ts";
import type { DrawnNode, Picture } from "./drawing.ts";
import { type Layout, layOut, type Point } from "./layout.ts";
import { rounded } from "./markup.ts";

export const CHAR = 7.5;
export const SMALL_CHAR = 6.1;
/** The height of the line with the label, and of those below it. */
export const LINE = 21;
export const SMALL_LINE = 16;
export const PAD = 12;
/** The mark of the state before the label. */
export const MARK = 24;
const WIDTH_MIN = 156;
const ABOUT_WIDTH_MAX = 260;
const ITEM_HEIGHT = 30;
/** The radius of the corners of an edge that goes around. */
const CORNER = 7;

/** So many boxes without edges stand side by side. */
const COLUMNS_MIN = 4;
const GRID_GAP = 16;

interface BoxSize {
  readonly width: number;
  readonly height: number;
}

/** A picture with its layout, and the same for the pictures in its boxes. */
export interface PictureLayout {
  readonly layout: Layout;
  readonly sizes: readonly (BoxSize & {
    /** The height of the texts above the inner picture. */
    readonly top: number;
    readonly inner?: PictureLayout;
  })[];
}

/** The room that a box needs, whatever happens to its step (view/Q3). */
function sizeOf({ step, state, label, notes, about }: DrawnNode): BoxSize {
  const line = Math.min(ABOUT_WIDTH_MAX, displayWidth(lineText(about)) * SMALL_CHAR);
  const words = Math.max(displayWidth(label) * CHAR + MARK, line);
  const width = Math.max(WIDTH_MIN, words + 2 * PAD);
  if (step === undefined) return { width, height: ITEM_HEIGHT };
  const hasStateLine = state !== undefined || notes.length > about.length;
  const lines = (about.length === 0 ? 0 : 1) + (hasStateLine ? 1 : 0);
  return { width, height: PAD + LINE + lines * SMALL_LINE };
}

/** Notes in the one line that a box has for them. */
export function lineText(notes: readonly string[]): string {
  return notes.join(" · ");
}

/** The geometry of a picture. */
export function layOutPicture({ nodes, edges }: Picture): PictureLayout {
  const sizes = nodes.map((node) => {
    const { width, height } = sizeOf(node);
    if (node.inner === undefined || node.inner.nodes.length === 0) {
      return { width, height, top: height };
    }
    const inner = layOutPicture(node.inner);
    return {
      width: Math.max(width, inner.layout.width + 2 * PAD),
      height: height + inner.layout.height + PAD,
      top: height,
      inner,
    };
  });
  if (edges.length === 0) return { layout: gridOf(sizes), sizes };
  const position = new Map(nodes.map(({ id }, index) => [id, index]));
  const links = edges.map(({ from, to, back, label }) => ({
    from: position.get(from) ?? 0,
    to: position.get(to) ?? 0,
    back,
    labelWidth: displayWidth(label) * SMALL_CHAR,
  }));
  return { layout: layOut(sizes, links), sizes };
}

/** Boxes without edges, such as the items of a fan-out: in rows, so that the picture is no strip. */
function gridOf(sizes: readonly BoxSize[]): Layout {
  const columns = Math.max(COLUMNS_MIN, Math.ceil(Math.sqrt(sizes.length)));
  const corners: Point[] = [];
  let [x, y, width, bottom] = [0, 0, 0, 0];
  for (const [index, size] of sizes.entries()) {
    if (index > 0 && index % columns === 0) [x, y] = [0, bottom + GRID_GAP];
    corners.push({ x, y });
    width = Math.max(width, x + size.width);
    bottom = Math.max(bottom, y + size.height);
    x += size.width + GRID_GAP;
  }
  return { width, height: bottom, corners, routes: [] };
}

/** The corner of the inner picture, from the corner of its box. */
export function innerCorner(size: PictureLayout["sizes"][number]): { x: number; y: number } {
  return { x: (size.width - (size.inner?.layout.width ?? 0)) / 2, y: size.top };
}

/** The path of an edge, for the `d` of an SVG: curved between layers, or with right angles. */
export function routePath(points: readonly Point[], square: boolean): string {
  return square ? cornered(points) : curved(points);
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

/** Right angles with round corners. */
function cornered(points: readonly Point[]): string {
  return points
    .map((point, index) => {
      const [before, after] = [points[index - 1], points[index + 1]];
      if (before === undefined) return `M${pair(point)}`;
      if (after === undefined) return `L${pair(point)}`;
      const bend = [pair(point), pair(towards(point, after))].join(" ");
      return `L${pair(towards(point, before))} Q${bend}`;
    })
    .join(" ");
}

/** A little way from one point to the other. */
function towards(from: Point, to: Point): Point {
  const length = Math.hypot(to.x - from.x, to.y - from.y);
  const share = length === 0 ? 0 : Math.min(CORNER, length / 2) / length;
  return { x: from.x + (to.x - from.x) * share, y: from.y + (to.y - from.y) * share };
}

function pair({ x, y }: Point): string {
  return `${rounded(x)} ${rounded(y)}`;
}
