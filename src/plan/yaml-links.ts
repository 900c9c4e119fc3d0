/**
 * Where steps lead, in the words of YAML.
 *
 * Owns: `needs`, `goto`, `edges`, `on_failure`, goals and bounds on visits, where they are no default.
 * Does not: know what steps do (yaml-steps.ts).
 */
import type { StepShape } from "../pipeline/schema.ts";
import { closureOfAll, indexOf } from "./graph-index.ts";
import type { Graph, Step } from "./plan.ts";
import { stallAfter } from "./walk.ts";
import {
  type GraphPlace,
  isDrawn,
  type WrittenEdge,
  writtenName,
  writtenWays,
} from "./written-edges.ts";
import type { YamlDefaults } from "./yaml-defaults.ts";

type Edge = NonNullable<StepShape["edges"]>[number];
type Links = Partial<StepShape>;

/** The edges of a step, as they are written. */
export function edgesOf(place: GraphPlace, position: number): readonly Edge[] {
  const { edges } = writtenWays(place.graph)[position] ?? { edges: [] };
  return edges.map((edge) => edgeShape(edge, place));
}

function edgeShape(edge: WrittenEdge, place: GraphPlace): Edge {
  const { label, weight, on, condition, when, fidelity, thread, restart } = edge;
  // A condition in the words of DOT is for both ends; for one of them it is an expression.
  const asked = condition !== undefined && on === "any";
  const expression = asked ? undefined : when;
  const usual = asked ? "any" : "completed";
  return {
    to: writtenName(place, edge.to),
    ...(label === undefined ? {} : { label }),
    ...(asked ? { condition } : {}),
    ...(expression === undefined ? {} : { when: expression }),
    ...(on === usual ? {} : { on }),
    ...(weight === 0 ? {} : { weight }),
    ...(fidelity === undefined ? {} : { fidelity }),
    ...(thread === undefined ? {} : { thread }),
    ...(restart === undefined
      ? {}
      : { restart: restart.keep.length === 0 ? true : { keep: [...restart.keep] } }),
  };
}

/** The links of each step of a walk. */
export function linksInWalk(place: GraphPlace, defaults: YamlDefaults): readonly Links[] {
  const { graph } = place;
  return graph.steps.map((step, position) => {
    const { failure } = writtenWays(graph)[position] ?? { edges: [] };
    const visits = step.visitsMax === defaults.visitsMax ? {} : { max_visits: step.visitsMax };
    const stalls = step.stallAfter === stallAfter(step.visitsMax);
    return {
      ...walkWays(edgesOf(place, position), graph.steps[position + 1], place, position),
      ...(failure === undefined ? {} : { on_failure: writtenName(place, failure) }),
      ...visits,
      ...(stalls || step.stallAfter === undefined ? {} : { stall_after: step.stallAfter }),
      ...goalShape(step, place),
    };
  });
}

/** Nothing for a step that only leads to the one below it. */
function walkWays(
  edges: readonly Edge[],
  below: Step | undefined,
  place: GraphPlace,
  position: number,
): Links {
  const [first, ...others] = edges;
  // The ends of a branch are not written.
  const next =
    place.outer !== undefined && below?.id.startsWith("to.") === true ? undefined : below;
  if (first === undefined) return next === undefined ? {} : { edges: [] };
  if (others.length > 0 || Object.keys(first).length > 1) return { edges: [...edges] };
  const self = writtenName(place, position + 1);
  return next !== undefined && first.to === self ? {} : { goto: first.to };
}

function goalShape({ goal }: Step, place: GraphPlace): Links {
  if (goal === undefined) return {};
  const { holds, retryTarget } = goal;
  return {
    goal: holds === "visited" ? "visited" : true,
    ...(retryTarget === undefined ? {} : { retry_target: writtenName(place, retryTarget) }),
  };
}

/** The links of each step of a list, in which each follows the one above it. */
export function linksInList(graph: Graph, defaults: YamlDefaults): readonly Links[] {
  const place = { graph };
  const drawn = graph.arrows.filter(isDrawn);
  const jumps = new Set(
    drawn.filter(({ from, on }) => on === "failed" || isChooser(graph, from)).map(({ to }) => to),
  );
  const bound = visitBounds(graph, defaults);
  let above: number | undefined;
  return graph.steps.map((step, position) => {
    const needs = drawn
      .filter(
        ({ to, from, on }) => to === position && on === "completed" && !isChooser(graph, from),
      )
      .map(({ from }) => from);
    const usual = above === undefined || isChooser(graph, above) ? [] : [above];
    const same = needs.length === usual.length && needs.every((need, at) => need === usual[at]);
    const failure = drawn.find(({ from, on }) => from === position && on === "failed");
    if (same || needs.length > 0 || !jumps.has(position)) above = position;
    return {
      ...(step.join === "any" ? { join: step.join } : {}),
      ...(same ? {} : { needs: needs.map((need) => graph.steps[need]?.id ?? "") }),
      ...(isChooser(graph, position) ? exitsOf(place, position) : {}),
      ...(failure === undefined ? {} : { on_failure: graph.steps[failure.to]?.id ?? "" }),
      ...(step.onFailure === "continue" ? { on_failure: "continue" } : {}),
      ...(step.visitsMax === bound[position] ? {} : { max_visits: step.visitsMax }),
      ...(step.stallAfter === undefined ? {} : { stall_after: step.stallAfter }),
      ...goalShape(step, place),
    };
  });
}

function isChooser({ steps }: Graph, position: number): boolean {
  return steps[position]?.split === "one";
}

function exitsOf(place: GraphPlace, position: number): Links {
  const edges = edgesOf(place, position).filter(({ on }) => on !== "failed");
  const [first, ...others] = edges;
  if (first === undefined) return {};
  const plain = others.length === 0 && Object.keys(first).length === 1;
  return plain ? { goto: first.to } : { edges };
}

/** How often each step of a list may be visited where nobody says it. */
function visitBounds(graph: Graph, { visitsMax }: YamlDefaults): readonly number[] {
  const starts = new Set(graph.arrows.filter(({ back }) => back).map(({ to }) => to));
  for (const { goal } of graph.steps) {
    if (goal?.retryTarget !== undefined) starts.add(goal.retryTarget);
  }
  const { forwardCount } = indexOf(graph);
  for (const [position, { join }] of graph.steps.entries()) {
    if (join === "any" && (forwardCount[position] ?? 0) > 1) starts.add(position);
  }
  const again = closureOfAll(graph, starts);
  return graph.steps.map((_, position) => (again.has(position) ? visitsMax : 1));
}
