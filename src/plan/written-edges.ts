/**
 * The arrows of a graph as an author writes them: one edge for both ends of a step, conditions in the
 * words of the DOT language where they are such, in an order that gives the same graph again.
 *
 * Owns: the way back from arrows to edges.
 * Does not: print (yaml-steps.ts, dot-file.ts).
 */

import { parseCondition } from "../pipeline/dot/condition.ts";
import { conditionFromCel } from "../pipeline/dot/condition-text.ts";
import type { AskingEdge } from "../pipeline/dot/status-words.ts";
import { WEIGHT_LAST } from "../pipeline/step-links.ts";
import { choiceOf } from "../util/choice.ts";
import { canonicalJson } from "../util/json.ts";
import type { Arrow, GateWork, Graph, Step } from "./plan.ts";

export interface WrittenEdge extends Omit<Arrow, "on" | "back" | "condition"> {
  readonly on: Arrow["on"] | "any";
  /** The condition in the words of the DOT language. */
  readonly condition?: string;
  /** The condition as an expression. */
  readonly when?: string;
}

/** How a step is left. */
export interface WrittenWays {
  readonly edges: readonly WrittenEdge[];
  /** Where a failure leads that no edge takes up. */
  readonly failure?: number;
}

/** The ways out of every step of a walk, by position. */
export function writtenWays(graph: Graph): readonly WrittenWays[] {
  const known = written.get(graph) ?? waysIn(graph);
  written.set(graph, known);
  return known;
}

const written = new WeakMap<Graph, readonly WrittenWays[]>();

function waysIn(graph: Graph): readonly WrittenWays[] {
  const bySource = Map.groupBy(graph.arrows.filter(isDrawn), ({ from }) => from);
  return graph.steps.map((step, position) => {
    const arrows = bySource.get(position) ?? [];
    const last = arrows.find(isLast);
    const edges = merged(arrows.filter((arrow) => !isLast(arrow)));
    const failure = last === undefined ? {} : { failure: last.to };
    return { edges: inOrder(step, graph, edges), ...failure };
  });
}

/** Some arrows only say that a step never starts by itself. */
export function isDrawn({ condition, label, weight }: Arrow): boolean {
  return condition !== "false" || label !== undefined || weight !== 0;
}

function isLast({ on, weight, condition, label }: Arrow): boolean {
  const plain = condition === undefined && label === undefined;
  return on === "failed" && weight === WEIGHT_LAST && plain;
}

/** Two arrows that differ only in the end that they are for are one edge. */
function merged(arrows: readonly Arrow[]): readonly WrittenEdge[] {
  const edges: WrittenEdge[] = [];
  const taken = new Set<Arrow>();
  for (const arrow of arrows) {
    if (taken.has(arrow)) continue;
    const text = comparable(arrow);
    const other = arrows.find(
      (one) => one.on !== arrow.on && !taken.has(one) && comparable(one) === text,
    );
    if (other !== undefined) taken.add(other);
    taken.add(arrow);
    edges.push(edgeOf(arrow, other === undefined ? arrow.on : "any"));
  }
  return edges;
}

function comparable(arrow: Arrow): string {
  const { on: _, back: __, ...rest } = arrow;
  return canonicalJson(rest);
}

function edgeOf(arrow: Arrow, on: WrittenEdge["on"]): WrittenEdge {
  const { back: _, condition: cel, ...rest } = arrow;
  const condition = cel === undefined ? undefined : conditionFromCel(cel);
  return {
    ...rest,
    on,
    ...(condition === undefined ? {} : { condition }),
    ...(cel === undefined ? {} : { when: cel }),
  };
}

/**
 * The steps of a walk stand in the order in which they are met, so edges are written in that of their
 * targets; in a list they are as they were written.
 */
function inOrder(
  { work }: Step,
  { steps }: Graph,
  edges: readonly WrittenEdge[],
): readonly WrittenEdge[] {
  if (steps.some(({ join, split }) => join === "all" || split === "all")) return edges;
  const byTarget = edges.toSorted((one, other) => one.to - other.to);
  return work.kind === "gate" ? asChosen(work, steps, byTarget) : byTarget;
}

/**
 * The edges of a gate in an order that gives the same choices again: the first edge with a label is
 * the choice, and edges to the same step keep their order.
 */
function asChosen(
  { choices }: GateWork,
  steps: Graph["steps"],
  edges: readonly WrittenEdge[],
): readonly WrittenEdge[] {
  const left = [...edges];
  const written: WrittenEdge[] = [];
  const taken = new Set<string>();
  const labelOf = ({ label, to }: WrittenEdge): string => choiceOf(label ?? idOf(to)).text;
  const idOf = (to: number): string => (steps[to]?.id ?? "").replace(/^to\./, "");
  while (left.length > 0) {
    const next = choices[taken.size];
    const at = left.findIndex((edge, index) => {
      const first = left.findIndex(({ to }) => to === edge.to) === index;
      const label = labelOf(edge);
      return first && (taken.has(label) || (next?.label === label && next.next === idOf(edge.to)));
    });
    // Choices that are no edges: nothing is to be kept.
    const [edge] = left.splice(Math.max(0, at), 1);
    if (edge === undefined) break;
    taken.add(labelOf(edge));
    written.push(edge);
  }
  return written;
}

/** A place in a plan: a graph, and around a branch the place of the step that it belongs to. */
export interface GraphPlace {
  readonly graph: Graph;
  readonly outer?: GraphPlace;
}

/** The edges that ask how a step went; one that only passes on asks in its place. */
export function askingEdges(place: GraphPlace, position: number): readonly AskingEdge[] {
  const { edges } = writtenWays(place.graph)[position] ?? { edges: [] };
  return edges.flatMap((edge) => {
    const target = realTarget(place, writtenName(place, edge.to));
    const step = target?.place.graph.steps[target.position];
    const behind =
      target !== undefined && step?.work.kind === "pass"
        ? (writtenWays(target.place.graph)[target.position]?.edges ?? [])
        : [];
    return [edge, ...behind].map(askingEdge);
  });
}

function askingEdge({ label, condition, when }: WrittenEdge): AskingEdge {
  const parsed = condition === undefined ? undefined : parseCondition(condition);
  const asked = parsed?.ok === true ? parsed.condition : when === undefined ? undefined : "unread";
  return {
    ...(label === undefined ? {} : { label }),
    ...(asked === undefined ? {} : { condition: asked }),
  };
}

/** The step that a name means: one of this graph, else of those around a branch. */
function realTarget(
  place: GraphPlace,
  id: string,
): { readonly place: GraphPlace; readonly position: number } | undefined {
  const position = place.graph.steps.findIndex((step) => step.id === id);
  if (position >= 0) return { place, position };
  return place.outer && realTarget(place.outer, id);
}

/** What the names of steps begin with that mark the end of a branch. */
export const END = "to.";

/** The name by which an author means a step: the end of a branch is called like what lies there. */
export function writtenName({ graph, outer }: GraphPlace, position: number): string {
  const id = graph.steps[position]?.id ?? "";
  return outer !== undefined && id.startsWith(END) ? id.slice(END.length) : id;
}
