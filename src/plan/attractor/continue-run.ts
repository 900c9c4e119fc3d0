/**
 * A plan that continues a run of another engine: its first step sets that run's context and has the
 * edges of the last node that the other engine completed.
 *
 * Owns: this first step.
 * Does not: read checkpoints (room `app`).
 * Invariants:
 * - plan/W4 Nodes that the other engine completed do not run again unless an edge leads back to
 *   them. The first step is part of the frozen plan, so resume, replay and update treat it like any
 *   other.
 */

import { defined } from "../../util/defined.ts";
import { writtenOutcome } from "../../util/outcome.ts";
import { indexOf } from "../graph-index.ts";
import {
  type AttractorCheckpoint,
  type Edge,
  markBackEdges,
  type Plan,
  type Step,
} from "../plan.ts";
import { plainStep } from "./work.ts";

/** Keys that the plan itself sets. */
const OWN_KEYS = /^graph\./;

/** The plan that starts after a node; a text with the reason if that is impossible. */
export function continueFrom(
  plan: Plan,
  { node, completed, context, label, next }: AttractorCheckpoint,
): Plan | string {
  const { steps, edges } = plan.graph;
  const { byId, entries } = indexOf(plan.graph);
  const position = byId.get(node);
  const step = position === undefined ? undefined : steps[position];
  if (step === undefined) return `there is no node \`${node}\` outside of branches`;
  const outcome = writtenOutcome(String(context.outcome ?? "success"));
  const on = outcome === "fail" ? "failed" : "completed";
  const from = steps.length;
  const onwards = edges
    .filter((edge) => edge.from === position && edge.on === on)
    .map((edge): Edge => ({ ...edge, from, on: "completed" }));
  if (on === "failed" && onwards.length === 0) return `\`${node}\` has failed, and nothing follows`;
  const known = Object.entries(context).filter(([key]) => !OWN_KEYS.test(key));
  const continuesFrom = {
    node,
    completed,
    context: { ...Object.fromEntries(known), outcome },
    ...defined({ label, next }),
  };
  const first: Step = plainStep(`from.${node}`, { kind: "pass", continuesFrom }, 1);
  // Steps that would start by themselves follow an outcome that this step never has.
  const never = entries.map((to): Edge => ({ from, to, on: "failed", weight: 0, back: false }));
  const marked = markBackEdges(from + 1, [...edges, ...onwards, ...never], [from]);
  return { ...plan, graph: { steps: [...steps, first], edges: marked } };
}
