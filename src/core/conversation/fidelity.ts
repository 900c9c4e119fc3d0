/**
 * Fidelity: how much of the run an agent step learns, and in which thread.
 *
 * Owns: the order in which edge, step and pipeline are asked. It differs: for the mode the edge
 * comes first, for the thread the step does.
 * Does not: know whether the conversation is available (conversation.ts) or write the briefing
 * (briefing.ts).
 */
import { edgeAt } from "../../plan/graph-index.ts";
import type { BriefingMode, Edge, Fidelity, Plan } from "../../plan/plan.ts";
import type { Briefing, Thread } from "../event.ts";
import { currentVisit, type Scope, stepOf, type Visit } from "../run.ts";

/** An edge with the graph that it is part of. */
interface IncomingEdge {
  readonly scope: Scope;
  readonly edge: Edge;
}

/** The fidelity of a visit, and which of edge, step and pipeline sets it. */
export interface WantedFidelity {
  readonly mode: Fidelity;
  readonly by: Exclude<Briefing["by"], "resume">;
}

/** The edge that led to a visit: its own, or that of the composite step around it. */
export function incomingEdge(visit: Visit): IncomingEdge | undefined {
  const { scope } = visit.record;
  if (visit.via !== undefined) return { scope, edge: edgeAt(scope.graph, visit.via) };
  return scope.parent === undefined ? undefined : incomingEdge(scope.parent);
}

/**
 * The fidelity of a visit: from the edge, the step, then the pipeline; undefined when none sets it.
 */
export function fidelityOf(plan: Plan, visit: Visit): WantedFidelity | undefined {
  const edge = incomingEdge(visit)?.edge.fidelity;
  if (edge !== undefined) return { mode: edge, by: "edge" };
  const { fidelity: own } = stepOf(visit);
  if (own !== undefined) return { mode: own, by: "step" };
  return plan.fidelity === undefined ? undefined : { mode: plan.fidelity, by: "pipeline" };
}

/**
 * The thread of a visit: from the step, the edge, the pipeline, the group around it, and last the
 * step before it. Undefined for a first step that names none.
 */
export function threadOf(plan: Plan, visit: Visit): Thread | undefined {
  const { thread, threadGroup } = stepOf(visit);
  const incoming = incomingEdge(visit);
  if (thread !== undefined) return { name: thread, by: "step" };
  if (incoming?.edge.thread !== undefined) return { name: incoming.edge.thread, by: "edge" };
  if (plan.thread !== undefined) return { name: plan.thread, by: "pipeline" };
  if (threadGroup !== undefined) return { name: threadGroup, by: "group" };
  const before = cameFrom(visit);
  return before && { name: stepOf(before).id, by: "previous" };
}

/** The visit that led to this one; steps that do nothing are skipped. */
export function cameFrom(visit: Visit): Visit | undefined {
  const seen = new Set<Visit>();
  let at: Visit | undefined = visit;
  do {
    seen.add(at);
    const incoming: IncomingEdge | undefined = incomingEdge(at);
    at = incoming && currentVisit(incoming.scope.steps[incoming.edge.from]);
  } while (at !== undefined && stepOf(at).work.kind === "pass" && !seen.has(at));
  return at !== undefined && stepOf(at).work.kind === "pass" ? undefined : at;
}

/** The mode that replaces `full` when the conversation is not available. */
export const INSTEAD_OF_FULL: BriefingMode = "summary:high";

/** The mode for a step that was interrupted and whose conversation is gone. */
export function resumeFidelityOf(plan: Plan, visit: Visit): BriefingMode {
  const said = stepOf(visit).resumeFidelity ?? plan.resumeFidelity;
  return said ?? (fidelityOf(plan, visit)?.mode === "full" ? INSTEAD_OF_FULL : "compact");
}
