/**
 * Divides a DOT graph into regions: the run's own nodes, and the branches of each `component`.
 *
 * Owns: where branches meet, and which nodes belong to each.
 * Does not: make steps (attractor/graph.ts).
 */
import type { DotEdge, DotNode, DotPipeline } from "../../pipeline/dot/model.ts";

/** How many common nodes are tested for lying on every path: each test searches the graph. */
const CANDIDATES_MAX = 64;
/** How deep `component` nodes may be nested when their fan-ins are searched. */
const DEPTH_MAX = 16;

/** A graph with its edges by their source. */
export interface EdgeIndex {
  readonly nodes: DotPipeline["nodes"];
  outgoing(id: string): readonly DotEdge[];
}

/** A part of the graph that runs in one scope. */
export interface Region {
  readonly entry: string;
  /** Nodes where the region ends; they do not belong to it. */
  readonly closed: ReadonlySet<string>;
}

/** The branches of a `component` node. */
export interface DotBranches {
  /** The first node of each branch, each once, in the order of their edges. */
  readonly targets: readonly string[];
  /** The node where the branches meet; absent: each runs to its own end. */
  readonly join?: string;
}

/** The edges of a pipeline by the nodes at their ends. */
export function edgeIndexOf({ nodes, edges }: DotPipeline): EdgeIndex {
  const bySource = Map.groupBy(edges, ({ from }) => from);
  return { nodes, outgoing: (id) => bySource.get(id) ?? [] };
}

/** True for a node whose edges are branches. */
export function hasBranches(edgeIndex: EdgeIndex, { id, handler, customType }: DotNode): boolean {
  return handler === "parallel" && customType === undefined && edgeIndex.outgoing(id).length > 0;
}

/** The branches of a `component` node, as a region sees them. */
export function branchesOf(edgeIndex: EdgeIndex, id: string, { closed }: Region): DotBranches {
  const targets = [...new Set(edgeIndex.outgoing(id).map(({ to }) => to))];
  const closedHere = new Set([...closed, id]);
  const open = targets.filter((target) => !closedHere.has(target));
  const join =
    matchingFanIn(edgeIndex, open, closedHere) ?? commonNode(edgeIndex, open, closedHere);
  return { targets, ...(join === undefined ? {} : { join }) };
}

/** The nodes of a region, breadth first; branches are not part of it. */
export function nodesIn(
  edgeIndex: EdgeIndex,
  region: Region,
  jumps: readonly string[] = [],
): readonly string[] {
  const met = new Set([region.entry, ...jumps]);
  for (const id of met) {
    const node = edgeIndex.nodes.get(id);
    if (node === undefined) continue;
    for (const to of nextOf(edgeIndex, node, region)) if (!region.closed.has(to)) met.add(to);
  }
  return [...met];
}

/** The nodes that can follow a node, retry targets included. */
function nextOf(edgeIndex: EdgeIndex, node: DotNode, region: Region): readonly string[] {
  const jumps = [node.retryTarget, node.fallbackRetryTarget].filter(
    (target) => target !== undefined && edgeIndex.nodes.has(target),
  ) as readonly string[];
  if (!hasBranches(edgeIndex, node))
    return [...edgeIndex.outgoing(node.id).map(({ to }) => to), ...jumps];
  const { join } = branchesOf(edgeIndex, node.id, region);
  return join === undefined ? jumps : [join, ...jumps];
}

/** An edge by which a branch leaves before its join. */
interface Leaving {
  readonly edge: DotEdge;
  /** The edge ends the branch: its target runs outside. */
  readonly ends: boolean;
}

/** The edges that lead from nodes before the join to nodes that never reach it. */
export function leavingEdges(
  edgeIndex: EdgeIndex,
  { targets, join }: DotBranches,
  closed: ReadonlySet<string>,
): readonly Leaving[] {
  const inside = new Set(targets.flatMap((entry) => nodesIn(edgeIndex, { entry, closed })));
  const edges = [...inside].flatMap((id) => {
    const node = edgeIndex.nodes.get(id);
    return node === undefined || hasBranches(edgeIndex, node) ? [] : edgeIndex.outgoing(id);
  });
  const meeting = join === undefined ? inside : nodesBefore(edgeIndex, join, { inside, closed });
  return edges
    .filter(({ from, to }) => meeting.has(from) && !meeting.has(to) && to !== join)
    .map((edge) => ({ edge, ends: closed.has(edge.to) }));
}

/** The nodes of a part that can reach a node. */
function nodesBefore(
  edgeIndex: EdgeIndex,
  goal: string,
  { inside, closed }: { inside: ReadonlySet<string>; closed: ReadonlySet<string> },
): ReadonlySet<string> {
  const bySuccessor = new Map<string, string[]>();
  for (const id of inside) {
    const node = edgeIndex.nodes.get(id);
    for (const next of node === undefined ? [] : nextOf(edgeIndex, node, { entry: id, closed })) {
      bySuccessor.set(next, [...(bySuccessor.get(next) ?? []), id]);
    }
  }
  const before = new Set([goal]);
  for (const id of before) for (const from of bySuccessor.get(id) ?? []) before.add(from);
  return before;
}

/** The fan-in that belongs to a component; nested components have fan-ins of their own. */
function matchingFanIn(
  edgeIndex: EdgeIndex,
  targets: readonly string[],
  closedHere: ReadonlySet<string>,
): string | undefined {
  const perBranch = targets.map((target) => fanInsFrom(edgeIndex, target, closedHere));
  const [first, ...others] = perBranch;
  return first?.find((id) => others.every((found) => found.includes(id)));
}

function fanInsFrom(
  edgeIndex: EdgeIndex,
  start: string,
  closedHere: ReadonlySet<string>,
): readonly string[] {
  const found: string[] = [];
  const seen = new Set([`0 ${start}`]);
  const queue: { id: string; depth: number }[] = [{ id: start, depth: 0 }];
  for (const { id, depth } of queue) {
    const handler = edgeIndex.nodes.get(id)?.handler;
    if (handler === "parallel.fan_in" && depth === 0) {
      found.push(id);
      continue;
    }
    const step = handler === "parallel" ? 1 : handler === "parallel.fan_in" ? -1 : 0;
    const next = Math.min(DEPTH_MAX, depth + step);
    for (const { to } of edgeIndex.outgoing(id)) {
      const key = `${next} ${to}`;
      if (closedHere.has(to) || seen.has(key)) continue;
      seen.add(key);
      queue.push({ id: to, depth: next });
    }
  }
  return found;
}

/** The nearest node that all branches must reach; else the nearest that all can reach. */
function commonNode(
  edgeIndex: EdgeIndex,
  targets: readonly string[],
  closedHere: ReadonlySet<string>,
): string | undefined {
  if (targets.length < 2) return undefined;
  const distances = targets.map((target) => distancesFrom(edgeIndex, target, closedHere));
  const [first] = distances;
  const far = (id: string): number => Math.max(...distances.map((from) => from.get(id) ?? 0));
  const common = [...(first?.keys() ?? [])]
    .filter((id) => distances.every((from) => from.has(id)))
    .sort((one, other) => far(one) - far(other));
  const certain = common
    .slice(0, CANDIDATES_MAX)
    .find((id) =>
      targets.every((target) => target === id || mustPass(edgeIndex, target, id, closedHere)),
    );
  return certain ?? common[0];
}

function distancesFrom(
  edgeIndex: EdgeIndex,
  start: string,
  closedHere: ReadonlySet<string>,
): ReadonlyMap<string, number> {
  const distances = new Map([[start, 0]]);
  for (const [id, distance] of distances) {
    for (const { to } of edgeIndex.outgoing(id)) {
      if (!closedHere.has(to) && !distances.has(to)) distances.set(to, distance + 1);
    }
  }
  return distances;
}

function mustPass(
  edgeIndex: EdgeIndex,
  start: string,
  gate: string,
  closedHere: ReadonlySet<string>,
): boolean {
  const reached = distancesFrom(edgeIndex, start, new Set([...closedHere, gate]));
  return [...reached.keys()].every((id) => edgeIndex.outgoing(id).length > 0);
}
