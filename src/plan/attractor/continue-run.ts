/**
 * A plan that continues a run of another engine: its first step holds that run's context, and is
 * left by the edges of the last node that the other engine completed.
 *
 * Owns: this first step.
 * Does not: read checkpoints (room `app`).
 * Invariants:
 * - W4 What the other engine did is not done again unless an edge leads back to it. It is part of the
 *   frozen plan, so it is resumed, replayed and updated like any other.
 */

import { indexOf } from "../graph-index.ts";
import { type Edge, markBackEdges, type Plan, type Step, type TakesUp } from "../plan.ts";
import { plainStep } from "./work.ts";

/** What the plan itself knows better. */
const OWN_KEYS = /^graph\./;

/** The plan that starts after a node; a text with the reason when there is none. */
export function takenUp(plan: Plan, { node, completed, context }: TakesUp): Plan | string {
  const { steps, edges } = plan.graph;
  const { byId, entries } = indexOf(plan.graph);
  const position = byId.get(node);
  const step = position === undefined ? undefined : steps[position];
  if (step === undefined) return `there is no node \`${node}\` outside of branches`;
  const on = context.outcome === "fail" ? "failed" : "completed";
  const from = steps.length;
  const onwards = edges
    .filter((edge) => edge.from === position && edge.on === on)
    .map((edge): Edge => ({ ...edge, from, on: "completed" }));
  if (on === "failed" && onwards.length === 0) return `\`${node}\` has failed, and nothing follows`;
  const known = Object.entries(context).filter(([key]) => !OWN_KEYS.test(key));
  const { preferred_label: label } = context;
  // A person's choice decides the next edge; the label of another node may be an older one.
  const chosen = step.work.kind === "gate" && typeof label === "string" ? { label } : {};
  const takesUp = { node, completed, context: Object.fromEntries(known), ...chosen };
  const first: Step = plainStep(`from.${node}`, { kind: "pass", takesUp }, 1);
  // Steps that would start by themselves follow an outcome that this step never has.
  const never = entries.map((to): Edge => ({ from, to, on: "failed", weight: 0, back: false }));
  const marked = markBackEdges(from + 1, [...edges, ...onwards, ...never], [from]);
  return { ...plan, graph: { steps: [...steps, first], edges: marked } };
}
