/**
 * The positions of boxes and the routes of edges: layers from top to bottom, each step below all
 * steps that lead to it, and back edges along the right side.
 *
 * Owns: the geometry.
 * Does not: draw (svg.ts) or know what a box stands for.
 * Invariants:
 * - view/Q1 Boxes never overlap, and every box is below those from which a forward edge leads to
 *   it.
 * - view/Q2 The work is bounded: past BENDS_MAX bends an edge is a straight line.
 */

export interface Box {
  readonly width: number;
  readonly height: number;
}

/** Between two boxes, by their positions in the list. */
export interface Link {
  readonly from: number;
  readonly to: number;
  readonly back: boolean;
  /** How wide its label is; 0 when it has none. */
  readonly labelWidth: number;
}

export interface Point {
  readonly x: number;
  readonly y: number;
}

export interface Route {
  /** Corner points, from the first box to the second. */
  readonly points: readonly Point[];
  /** It goes around the boxes, with right angles. */
  readonly square: boolean;
  /** The middle of its label; of a route around the boxes, the left end. */
  readonly label: Point;
}

export interface Layout {
  readonly width: number;
  readonly height: number;
  /** The upper left corner of each box. */
  readonly corners: readonly Point[];
  readonly routes: readonly Route[];
}

const GAP_X = 28;
const GAP_Y = 52;
const BEND_WIDTH = 10;
/** Between two edges that go back, and between two that leave a box. */
const LANE = 16;
const PORT = 18;
const SWEEPS = 6;
const BENDS_MAX = 20_000;

/** A position in a layer: a box, or a bend of a long edge. */
interface Slot {
  readonly layer: number;
  readonly width: number;
  readonly height: number;
  readonly above: Slot[];
  readonly below: Slot[];
  /** The middle. */
  x: number;
}

/** The layout of boxes and edges. */
export function layOut(boxes: readonly Box[], links: readonly Link[]): Layout {
  const depth = layersOf(boxes.length, links);
  const slots = boxes.map(({ width, height }, index) => newSlot(depth[index] ?? 0, width, height));
  const layers: Slot[][] = Array.from({ length: Math.max(0, ...depth) + 1 }, () => []);
  for (const slot of slots) layers[slot.layer]?.push(slot);
  const chains = links.map((link) => chainOf(link, slots, layers));
  for (let sweep = 0; sweep < SWEEPS; sweep++) order(layers);
  assignX(layers);
  const left = Math.min(0, ...layers.flat().map(({ x, width }) => x - width / 2));
  for (const slot of layers.flat()) slot.x -= left;
  const tops = topsOf(layers, links);
  const right = Math.max(0, ...layers.flat().map(({ x, width }) => x + width / 2));
  return {
    ...route(links, chains, slots, tops, right),
    corners: slots.map((slot) => cornerOf(slot, tops)),
  };
}

function newSlot(layer: number, width: number, height: number): Slot {
  return { layer, width, height, above: [], below: [], x: 0 };
}

function cornerOf(slot: Slot, tops: readonly Band[]): Point {
  return { x: slot.x - slot.width / 2, y: tops[slot.layer]?.top ?? 0 };
}

/** The length of the longest path to each box along forward edges. */
function layersOf(count: number, links: readonly Link[]): readonly number[] {
  const depth = new Array<number>(count).fill(0);
  const missing = new Array<number>(count).fill(0);
  const outgoing: number[][] = Array.from({ length: count }, () => []);
  for (const { from, to, back } of links) {
    if (back || from === to) continue;
    outgoing[from]?.push(to);
    missing[to] = (missing[to] ?? 0) + 1;
  }
  const queue = missing.flatMap((left, index) => (left === 0 ? [index] : []));
  for (const from of queue) {
    for (const to of outgoing[from] ?? []) {
      depth[to] = Math.max(depth[to] ?? 0, (depth[from] ?? 0) + 1);
      missing[to] = (missing[to] ?? 0) - 1;
      if (missing[to] === 0) queue.push(to);
    }
  }
  return depth;
}

/** The slots along an edge, with a bend in each layer between its ends. */
function chainOf(link: Link, slots: readonly Slot[], layers: Slot[][]): readonly Slot[] {
  const from = slots[link.from] as Slot;
  const to = slots[link.to] as Slot;
  if (link.back || from.layer >= to.layer) return [from, to];
  const chain = [from];
  const bends = layers.reduce((sum, layer) => sum + layer.length, 0) - slots.length;
  const straight = bends + to.layer - from.layer > BENDS_MAX;
  for (let at = from.layer + 1; at < to.layer && !straight; at++) {
    const bend = newSlot(at, BEND_WIDTH, 0);
    layers[at]?.push(bend);
    chain.push(bend);
  }
  chain.push(to);
  for (const [index, slot] of chain.entries()) {
    const next = chain[index + 1];
    if (next === undefined) continue;
    slot.below.push(next);
    next.above.push(slot);
  }
  return chain;
}

/** One sweep down and one up: each slot moves to the middle of its neighbours. */
function order(layers: readonly Slot[][]): void {
  const sweep = (layer: Slot[], side: "above" | "below"): void => {
    const position = new Map(layer.map((slot, index) => [slot, index]));
    const middle = new Map(
      layer.map((slot) => {
        const ties = slot[side];
        const sum = ties.reduce((total, tie) => total + tie.x, 0);
        return [slot, ties.length === 0 ? (position.get(slot) ?? 0) : sum / ties.length];
      }),
    );
    layer.sort((a, b) => (middle.get(a) ?? 0) - (middle.get(b) ?? 0));
    number(layer);
  };
  for (const layer of layers) number(layer);
  for (const layer of layers) sweep(layer, "above");
  for (const layer of layers.toReversed()) sweep(layer, "below");
}

/** During the ordering, x is only the position in the layer. */
function number(layer: readonly Slot[]): void {
  for (const [index, slot] of layer.entries()) slot.x = index;
}

/** Sets real coordinates: each slot as near to the middle of its neighbours as its layer allows. */
function assignX(layers: readonly Slot[][]): void {
  for (const layer of layers) {
    let x = 0;
    for (const slot of layer) {
      slot.x = x + slot.width / 2;
      x += slot.width + GAP_X;
    }
    for (const slot of layer) slot.x -= (x - GAP_X) / 2;
  }
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    for (const layer of layers) pull(layer, "above");
    for (const layer of layers.toReversed()) pull(layer, "below");
  }
  for (const layer of layers) pull(layer, "above");
}

function pull(layer: readonly Slot[], side: "above" | "below"): void {
  const wanted = layer.map((slot) => {
    const ties = slot[side];
    return ties.length === 0 ? slot.x : ties.reduce((sum, { x }) => sum + x, 0) / ties.length;
  });
  const distance = (index: number): number => {
    const one = layer[index];
    const other = layer[index + 1];
    return ((one?.width ?? 0) + (other?.width ?? 0)) / 2 + GAP_X;
  };
  const fromLeft = wanted.slice();
  for (let index = 1; index < layer.length; index++) {
    const least = (fromLeft[index - 1] ?? 0) + distance(index - 1);
    fromLeft[index] = Math.max(fromLeft[index] ?? 0, least);
  }
  const fromRight = wanted.slice();
  for (let index = layer.length - 2; index >= 0; index--) {
    const most = (fromRight[index + 1] ?? 0) - distance(index);
    fromRight[index] = Math.min(fromRight[index] ?? 0, most);
  }
  // Both keep the distances, so the middle between them keeps them, too (view/Q1).
  for (const [index, slot] of layer.entries()) {
    slot.x = ((fromLeft[index] ?? 0) + (fromRight[index] ?? 0)) / 2;
  }
}

interface Band {
  readonly top: number;
  readonly bottom: number;
}

/** The rows of the layers; only back edges need room above the first one. */
function topsOf(layers: readonly Slot[][], links: readonly Link[]): readonly Band[] {
  let top = links.some(({ back }) => back) ? GAP_Y / 2 : 0;
  return layers.map((layer) => {
    const bottom = top + Math.max(0, ...layer.map(({ height }) => height));
    const band = { top, bottom };
    top = bottom + GAP_Y;
    return band;
  });
}

function route(
  links: readonly Link[],
  chains: readonly (readonly Slot[])[],
  slots: readonly Slot[],
  bands: readonly Band[],
  right: number,
): Omit<Layout, "corners"> {
  const ports = portsOf(links, slots, chains);
  let lane = right;
  let count = 0;
  let width = right;
  const bottom = bands.at(-1)?.bottom ?? 0;
  const routes = links.map((link, index) => {
    const chain = chains[index] ?? [];
    const [start = 0, end = 0] = ports[index] ?? [];
    if (!isBack(link, chain)) return forward(chain, start, end, bands);
    lane += LANE;
    const made = backward(chain, { start, end, lane, shift: (count++ % 4) * 4 }, bands);
    width = Math.max(width, lane + 4 + link.labelWidth);
    if (link.labelWidth > 0) lane += link.labelWidth;
    return made;
  });
  const below = links.some((link, index) => isBack(link, chains[index] ?? []));
  return { width, height: bottom + (below ? GAP_Y / 2 : 0), routes };
}

function isBack({ back }: Link, [from, to]: readonly Slot[]): boolean {
  return back || (from !== undefined && to !== undefined && from.layer >= to.layer);
}

/**
 * The start and the end of each edge on its boxes: side by side, in the order of the other ends.
 */
function portsOf(
  links: readonly Link[],
  slots: readonly Slot[],
  chains: readonly (readonly Slot[])[],
): readonly (readonly [number, number])[] {
  const ports = links.map((): [number, number] => [0, 0]);
  const spread = (box: number, side: 0 | 1): void => {
    const slot = slots[box] as Slot;
    const mine = links
      .map((link, index) => ({ link, index, chain: chains[index] ?? [] }))
      .filter(({ link }) => (side === 0 ? link.from : link.to) === box)
      .map(({ link, index, chain }) => {
        const next = side === 0 ? chain[1] : chain.at(-2);
        return { index, x: isBack(link, chain) ? Number.MAX_VALUE : (next?.x ?? 0) };
      })
      .sort((a, b) => a.x - b.x);
    const step = Math.min(PORT, slot.width / (mine.length + 1));
    for (const [order, { index }] of mine.entries()) {
      const port = ports[index];
      if (port !== undefined) port[side] = slot.x + (order - (mine.length - 1) / 2) * step;
    }
  };
  for (const box of new Set(links.map(({ from }) => from))) spread(box, 0);
  for (const box of new Set(links.map(({ to }) => to))) spread(box, 1);
  return ports;
}

function forward(
  chain: readonly Slot[],
  start: number,
  end: number,
  bands: readonly Band[],
): Route {
  const points: Point[] = [];
  for (const [index, slot] of chain.entries()) {
    const { top, bottom } = bands[slot.layer] ?? { top: 0, bottom: 0 };
    if (index === chain.length - 1) points.push({ x: end, y: top });
    else if (index > 0) points.push({ x: slot.x, y: top }, { x: slot.x, y: bottom });
    else {
      points.push({ x: start, y: top + slot.height });
      // Below its taller neighbours before it turns.
      if (slot.height < bottom - top) points.push({ x: start, y: bottom });
    }
  }
  const turn = points[0]?.x === points[1]?.x && points.length > 2 ? 1 : 0;
  const [from, to] = [points[turn] as Point, points[turn + 1] as Point];
  // Nearer to its end, where the edges of one step have parted.
  const label = { x: from.x + (to.x - from.x) * 0.6, y: from.y + (to.y - from.y) * 0.6 };
  return { points, square: false, label };
}

function backward(
  [from, to]: readonly Slot[],
  at: {
    readonly start: number;
    readonly end: number;
    readonly lane: number;
    /** Keeps two routes between the same layers apart. */
    readonly shift: number;
  },
  bands: readonly Band[],
): Route {
  const source = bands[from?.layer ?? 0] ?? { top: 0, bottom: 0 };
  const target = bands[to?.layer ?? 0] ?? { top: 0, bottom: 0 };
  const under = source.bottom + GAP_Y / 4 + at.shift;
  const over = target.top - GAP_Y / 4 - at.shift;
  const points = [
    { x: at.start, y: source.top + (from?.height ?? 0) },
    { x: at.start, y: under },
    { x: at.lane, y: under },
    { x: at.lane, y: over },
    { x: at.end, y: over },
    { x: at.end, y: target.top },
  ];
  return { points, square: true, label: { x: at.lane, y: (under + over) / 2 } };
}
