/**
 * How much of what came before an agent step is to be told, and in which conversation: who says it.
 *
 * Owns: the order in which edge, step and pipeline are asked. It differs: for the mode the edge
 * comes first, for the thread the step does.
 * Does not: know whether the conversation can be had (conversation.ts) or write what is told
 * (briefing.ts).
 */
import { edgeAt } from "../../plan/graph-index.ts";
import type { BriefingMode, Edge, Fidelity, Plan } from "../../plan/plan.ts";
import type { Briefing, Thread } from "../event.ts";
import { currentVisit, type Scope, stepOf, type Visit } from "../run.ts";

/** An edge with the graph that it is part of. */
export interface IncomingEdge {
  readonly scope: Scope;
  readonly edge: Edge;
}

/** What is wanted for a visit, and who wants it. */
export interface WantedFidelity {
  readonly mode: Fidelity;
  readonly by: Exclude<Briefing["by"], "resume">;
}

/** The edge by which the run came to a visit: its own, or that of the step that it stands in. */
export function incomingEdge(visit: Visit): IncomingEdge | undefined {
  const { scope } = visit.record;
  if (visit.via !== undefined) return { scope, edge: edgeAt(scope.graph, visit.via) };
  return scope.parent === undefined ? undefined : incomingEdge(scope.parent);
}

/** The mode for a visit: edge, then step, then pipeline; undefined where nobody says anything. */
export function fidelityOf(plan: Plan, visit: Visit): WantedFidelity | undefined {
  const edge = incomingEdge(visit)?.edge.fidelity;
  if (edge !== undefined) return { mode: edge, by: "edge" };
  const { fidelity: own } = stepOf(visit);
  if (own !== undefined) return { mode: own, by: "step" };
  return plan.fidelity === undefined ? undefined : { mode: plan.fidelity, by: "pipeline" };
}

/**
 * The thread of a visit: step, edge, pipeline, the group that it stands in, and last the step that
 * it came from. Undefined for what came from nowhere and names none.
 */
export function threadOf(plan: Plan, visit: Visit): Thread | undefined {
  const { thread, threadGroup } = stepOf(visit);
  const way = incomingEdge(visit);
  if (thread !== undefined) return { name: thread, by: "step" };
  if (way?.edge.thread !== undefined) return { name: way.edge.thread, by: "edge" };
  if (plan.thread !== undefined) return { name: plan.thread, by: "pipeline" };
  if (threadGroup !== undefined) return { name: threadGroup, by: "group" };
  const before = cameFrom(visit);
  return before && { name: stepOf(before).id, by: "previous" };
}

/** The visit from which the run came to this one; steps that do nothing are looked through. */
export function cameFrom(visit: Visit): Visit | undefined {
  const seen = new Set<Visit>();
  let at: Visit | undefined = visit;
  do {
    seen.add(at);
    const way: IncomingEdge | undefined = incomingEdge(at);
    at = way && currentVisit(way.scope.steps[way.edge.from]);
  } while (at !== undefined && stepOf(at).work.kind === "pass" && !seen.has(at));
  return at !== undefined && stepOf(at).work.kind === "pass" ? undefined : at;
}

/** What stands in for a conversation that cannot be had. */
export const INSTEAD_OF_FULL: BriefingMode = "summary:high";

/** What a step is told that was cut off and whose conversation is gone. */
export function resumeFidelityOf(plan: Plan, visit: Visit): BriefingMode {
  const said = stepOf(visit).resumeFidelity ?? plan.resumeFidelity;
  return said ?? (fidelityOf(plan, visit)?.mode === "full" ? INSTEAD_OF_FULL : "compact");
}
