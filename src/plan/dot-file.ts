/**
 * A plan as the text of a DOT file: the way back from what will be run to what was written.
 *
 * Owns: the file as a whole, and its edges.
 * Does not: promise that the file means the same; who converts reads it again and compares.
 */
import { classOf } from "../pipeline/dot/collect.ts";
import { type Attributes, printLine, word } from "../pipeline/dot/print.ts";
import { type NodeDefaults, nodeAttributes, nodeDefaults } from "./dot-nodes.ts";
import { graphsIn } from "./graph-index.ts";
import type { Plan, Step } from "./plan.ts";
import {
  END,
  type GraphPlace,
  type WrittenEdge,
  writtenName,
  writtenWays,
} from "./written-edges.ts";

const INDENT = "  ";

/** One node, with the edges that leave it. */
interface Drawn {
  readonly id: string;
  readonly attributes: Attributes;
  readonly group: string | undefined;
  readonly edges: readonly string[];
}

/** The text of the file that says this plan. */
export function dotText(plan: Plan): string {
  const drawn = new Map<string, Drawn>();
  draw(plan, { graph: plan.graph }, nodeDefaults(plan), drawn);
  const nodes = [...drawn.values(), ...missingExit(drawn)];
  const sections = [
    graphLines(plan),
    nodes.filter(({ group }) => group === undefined).map((node) => nodeLine(node, INDENT)),
    ...groupsOf(nodes).map(([group, members]) => groupLines(group, members)),
    nodes.flatMap(({ edges }) => edges),
  ];
  const text = sections.filter((lines) => lines.length > 0).map((lines) => lines.join("\n"));
  return `digraph ${word(plan.name)} {\n${text.join("\n\n")}\n}\n`;
}

/** A node may be in several branches; it is written once, and is a copy in each. */
function draw(
  plan: Plan,
  place: GraphPlace,
  defaults: NodeDefaults,
  drawn: Map<string, Drawn>,
): void {
  place.graph.steps.forEach((step, position) => {
    if (place.outer !== undefined && step.id.startsWith(END)) return;
    if (!drawn.has(step.id)) {
      drawn.set(step.id, {
        id: step.id,
        attributes: nodeAttributes(plan, place, position, defaults),
        group: step.threadGroup,
        edges: edgeLines(step, place, position),
      });
    }
    if (step.work.kind !== "branches") return;
    for (const graph of graphsIn(step.work)) draw(plan, { graph, outer: place }, defaults, drawn);
  });
}

/** Every file has an exit, even if no way leads there. */
function missingExit(drawn: ReadonlyMap<string, Drawn>): readonly Drawn[] {
  const isExit = ([name, value]: Attributes[number]): boolean =>
    name === "shape" && value === "Msquare";
  if ([...drawn.values()].some(({ attributes }) => attributes.some(isExit))) return [];
  let id = "exit";
  while (drawn.has(id)) id = `${id}_`;
  return [{ id, attributes: [["shape", "Msquare"]], group: undefined, edges: [] }];
}

/** What the graph says about itself stands in the context that a run begins with. */
function graphLines({ context = {} }: Plan): readonly string[] {
  const attributes = Object.entries(context).flatMap(([key, value]): Attributes => {
    const name = key.startsWith("graph.") ? key.slice("graph.".length) : undefined;
    const said = name !== undefined && typeof value === "string";
    return !said || (name === "goal" && value === "") ? [] : [[name, value]];
  });
  return attributes.length === 0 ? [] : [printLine("graph", attributes, INDENT)];
}

function nodeLine({ id, attributes }: Drawn, indent: string): string {
  return printLine(word(id), attributes, indent);
}

function groupsOf(nodes: readonly Drawn[]): readonly (readonly [string, readonly Drawn[]])[] {
  const groups = Map.groupBy(nodes, ({ group }) => group ?? "");
  return [...groups].filter(([group]) => group !== "");
}

/** Nodes that share a thread without naming one stand in a subgraph. */
function groupLines(group: string, members: readonly Drawn[]): readonly string[] {
  const inner = INDENT + INDENT;
  return [
    `${INDENT}subgraph ${word(`cluster_${classOf(group).replaceAll("-", "_")}`)} {`,
    `${inner}label=${word(group)}`,
    ...members.map((node) => nodeLine(node, inner)),
    `${INDENT}}`,
  ];
}

function edgeLines(step: Step, place: GraphPlace, position: number): readonly string[] {
  const { edges } = writtenWays(place.graph)[position] ?? { edges: [] };
  const line = (to: string, attributes: Attributes): string =>
    printLine(`${word(step.id)} -> ${word(to)}`, attributes, INDENT);
  // The edges of branches lead to where they begin; where they meet is found by those that read.
  if (step.work.kind === "branches") return step.work.branches.map(({ id }) => line(id, []));
  return edges.map((edge) => line(writtenName(place, edge.to), edgeAttributes(edge)));
}

function edgeAttributes(edge: WrittenEdge): Attributes {
  const { label, condition, when, weight, fidelity, thread, restart } = edge;
  const asked = condition ?? when;
  return [
    ...(label === undefined ? [] : [["label", label] as const]),
    ...(asked === undefined ? [] : [["condition", asked] as const]),
    ...(weight === 0 ? [] : [["weight", weight] as const]),
    ...(fidelity === undefined ? [] : [["fidelity", fidelity] as const]),
    ...(thread === undefined ? [] : [["thread_id", thread] as const]),
    ...(restart === undefined ? [] : [["loop_restart", true] as const]),
  ];
}
