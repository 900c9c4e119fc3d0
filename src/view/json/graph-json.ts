/**
 * A drawing for programs: its boxes and edges in two lists, each with its position. The page of the
 * dashboard draws them as they are here.
 *
 * Owns: the value of `graph --json`; documents.ts describes it.
 */
import type { Drawing, DrawnEdge, Picture } from "../graph/drawing.ts";
import { innerCorner, layOutPicture, type PictureLayout } from "../graph/geometry.ts";
import type { Point, Route } from "../graph/layout.ts";
import type { DocumentJson } from "./documents.ts";

/** The value of `graph --json`: the drawing, and where everything in it is. */
export function graphJson(drawing: Drawing): DocumentJson<"graph"> {
  const { title, picture, nodesLeftOut, edgesLeftOut } = drawing;
  const laidOut = layOutPicture(picture);
  const { nodes, edges } = flattened(picture, laidOut, NOT_INSIDE);
  return {
    ...{ title, nodes, edges },
    width: tenths(laidOut.layout.width),
    height: tenths(laidOut.layout.height),
    nodes_left_out: nodesLeftOut,
    edges_left_out: edgesLeftOut,
  };
}

type GraphParts = Pick<DocumentJson<"graph">, "nodes" | "edges">;

/** The box that a picture is in, the corner of the picture in that box, and in the whole. */
interface Around {
  readonly parent: string | null;
  readonly inBox: Point;
  readonly inWhole: Point;
}

const ORIGIN: Point = { x: 0, y: 0 };
const NOT_INSIDE: Around = { parent: null, inBox: ORIGIN, inWhole: ORIGIN };

function flattened(picture: Picture, laidOut: PictureLayout, around: Around): GraphParts {
  const { parent, inBox, inWhole } = around;
  const parts = picture.nodes.map((node, index) => {
    const { id, step = null, state = null, label, notes, about, tint, inner } = node;
    const size = laidOut.sizes[index] ?? { width: 0, height: 0, top: 0 };
    const corner = laidOut.layout.corners[index] ?? ORIGIN;
    const box = {
      ...cornerJson(sum(corner, inBox)),
      width: tenths(size.width),
      height: tenths(size.height),
    };
    const drawn = { id, step, status: state, label, notes, about, tint, parent, ...box };
    const inside = innerCorner(size);
    const inWholeInside = sum(sum(corner, inWhole), inside);
    return {
      drawn,
      inner:
        inner === undefined || size.inner === undefined
          ? { nodes: [], edges: [] }
          : flattened(inner, size.inner, { parent: id, inBox: inside, inWhole: inWholeInside }),
    };
  });
  const edges = picture.edges.map((edge, index) =>
    edgeJson(edge, laidOut.layout.routes[index], inWhole),
  );
  return {
    nodes: [...parts.map(({ drawn }) => drawn), ...parts.flatMap(({ inner }) => inner.nodes)],
    edges: [...edges, ...parts.flatMap(({ inner }) => inner.edges)],
  };
}

const TAKEN = { plain: null, taken: true, untaken: false } as const;

function edgeJson(
  { from, to, label, look, failure, back }: DrawnEdge,
  route: Route | undefined,
  origin: Point,
): GraphParts["edges"][number] {
  return {
    ...{ from, to, label, taken: TAKEN[look], on_failure: failure, back },
    points: (route?.points ?? []).map((corner) => cornerJson(sum(corner, origin))),
    square: route?.square ?? false,
    label_at: cornerJson(sum(route?.label ?? ORIGIN, origin)),
  };
}

function sum(one: Point, other: Point): Point {
  return { x: one.x + other.x, y: one.y + other.y };
}

function cornerJson({ x, y }: Point): { x: number; y: number } {
  return { x: tenths(x), y: tenths(y) };
}

function tenths(value: number): number {
  return Math.round(value * 10) / 10;
}
