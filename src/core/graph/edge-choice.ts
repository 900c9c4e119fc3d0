/**
 * The choice of edges at the end of a visit: all edges that apply, or the best one.
 *
 * Owns: the evaluation of conditions on edges, and the order among those that apply.
 * Does not: resolve edges (edge.ts).
 * Invariants:
 * - edge-choice/B1 The best edge is, in this order: the heaviest whose condition is true; the first
 *   without a condition whose label the step reported; the one without a condition to the first
 *   step that it reported; the heaviest without a condition. Among equals it is the first in the
 *   graph. When no edge applies to a partial success, those for success do.
 * - edge-choice/B2 A failure passes through steps without work only if an edge after them applies
 *   to it. Otherwise it stays unhandled.
 */
import { indexOf, stepAt } from "../../plan/graph-index.ts";
import type { Edge, Graph } from "../../plan/plan.ts";
import { normalizedLabel } from "../../util/choice.ts";
import { contextValue } from "../context.ts";
import type { FailureReason, StepFailed, StepReport } from "../event.ts";
import { type Run, type Scope, stepOf, type Visit } from "../run.ts";
import { evaluateIn, type Outcome } from "../values.ts";

type Chosen =
  | { readonly ok: true; readonly edges: readonly number[] }
  | { readonly ok: false; readonly reason: FailureReason; readonly message: string };

interface Candidate {
  readonly index: number;
  readonly edge: Edge;
}

/** The edges to follow at the end of a visit; `on` says whether it completed or failed. */
export function chooseEdges(
  run: Run,
  visit: Visit,
  outcome: Outcome,
  on: Edge["on"] = endOf(visit, outcome),
): Chosen {
  const chosen = chooseEdgesAt(run, visit, { position: visit.record.position, on }, outcome);
  const asked = chosen.ok ? undefined : asSuccess(run, visit, outcome);
  if (chosen.ok || chosen.reason !== "no-edge" || asked === undefined) return chosen;
  const again = chooseEdgesAt(run, visit, { position: visit.record.position, on }, asked);
  return again.ok ? again : chosen;
}

/** A step without work that a failure was carried to ends as the failure. */
function endOf({ record, via }: Visit, { status }: Outcome): Edge["on"] {
  const carried = via !== undefined && record.scope.graph.edges[via]?.carries === true;
  return status === "failed" || carried ? "failed" : "completed";
}

/** The same outcome as a success, if it is a partial one. */
function asSuccess(run: Run, visit: Visit, outcome: Outcome): Outcome | undefined {
  const held = evaluateIn(run, visit, "outcome", {}, outcome);
  if (!held.ok || held.value !== "partial_success") return undefined;
  const reported = { ...outcome.reported, outcome: "success" };
  return { ...outcome, reported, context: { ...outcome.context, outcome: "success" } };
}

/** The edges to follow from another step of the scope, with the outcome of this visit. */
export function chooseEdgesAt(
  run: Run,
  visit: Visit,
  { position, on }: { readonly position: number; readonly on: Edge["on"] },
  outcome: Outcome,
  passed: readonly number[] = [],
): Chosen {
  const { scope } = visit.record;
  const candidates: Candidate[] = [];
  for (const index of indexOf(scope.graph).outgoing[position] ?? []) {
    const edge = scope.graph.edges[index];
    if (edge?.on === on) candidates.push({ index, edge });
  }
  const applying: Candidate[] = [];
  for (const candidate of candidates) {
    const { condition, carries, to } = candidate.edge;
    if (carries === true && !leadsOn(run, visit, to, outcome, passed)) continue;
    if (condition !== undefined) {
      const held = evaluateIn(run, visit, condition, {}, outcome);
      if (!held.ok) return { ...held, reason: "expression" };
      if (held.value !== true) continue;
    }
    applying.push(candidate);
  }
  if (stepAt(scope.graph, position).split === "all")
    return { ok: true, edges: applying.map(({ index }) => index) };
  const own = position === visit.record.position;
  const best = bestOf(scope, applying, own ? (outcome.reported ?? {}) : {});
  const expected = on === "completed" || outcome.status === "completed";
  if (best === undefined && candidates.length > 0 && expected) {
    const held = evaluateIn(run, visit, "outcome", {}, outcome);
    const said = held.ok ? String(held.value) : outcome.status;
    return { ok: false, reason: "no-edge", message: noneText(scope.graph, candidates, said) };
  }
  return { ok: true, edges: best === undefined ? [] : [best.index] };
}

/** True when an edge after a step without work applies to this failure (edge-choice/B2). */
function leadsOn(
  run: Run,
  visit: Visit,
  position: number,
  outcome: Outcome,
  passed: readonly number[],
): boolean {
  if (passed.includes(position)) return false;
  const seen = contextValue(run, visit.record.scope, "preferred_label");
  const label = typeof seen === "string" ? { label: seen } : {};
  const asked: Outcome = {
    ...outcome,
    status: "failed",
    reported: { ...label, ...outcome.reported },
  };
  const after = [...passed, position];
  const chosen = chooseEdgesAt(run, visit, { position, on: "failed" }, asked, after);
  return chosen.ok && chosen.edges.length > 0;
}

/** A list of the edges that could have applied. */
function noneText(graph: Graph, candidates: readonly Candidate[], outcome: string): string {
  const steps = candidates.slice(0, EDGES_NAMED_MAX).map(({ edge }) => stepAt(graph, edge.to).id);
  const left = candidates.length - steps.length;
  const more = left === 0 ? "" : ` and ${left} more`;
  return `no matching edge: the outcome is "${outcome}"; there are edges to ${steps.join(", ")}${more}`;
}

const EDGES_NAMED_MAX = 5;

/** The best edge of those that apply (edge-choice/B1). */
function bestOf(
  { graph }: Scope,
  applying: readonly Candidate[],
  { label, next = [] }: StepReport,
): Candidate | undefined {
  const conditional = applying.filter(({ edge }) => edge.condition !== undefined);
  if (conditional.length > 0) return heaviest(conditional);
  if (label !== undefined && label !== "") {
    const wanted = normalizedLabel(label);
    const labelled = applying.find(
      ({ edge }) => edge.label !== undefined && normalizedLabel(edge.label) === wanted,
    );
    if (labelled !== undefined) return labelled;
  }
  for (const id of next) {
    const named = applying.find(({ edge }) => stepAt(graph, edge.to).id === id);
    if (named !== undefined) return named;
  }
  return heaviest(applying);
}

function heaviest(candidates: readonly Candidate[]): Candidate | undefined {
  return candidates.reduce<Candidate | undefined>(
    (best, next) => (best === undefined || next.edge.weight > best.edge.weight ? next : best),
    undefined,
  );
}

/**
 * The edges to follow after a final failure: those for failures; without any, and if the author
 * allows it, those for success. A condition that cannot be evaluated does not hold.
 */
export function edgesAfterFailure(
  run: Run,
  visit: Visit,
  known: Pick<StepFailed, "exit" | "reported" | "context" | "answer" | "output">,
): Pick<StepFailed, "edges" | "handled"> {
  const { exit = 1, reported, context = {}, answer, output } = known;
  const left = { answer, output };
  const outcome: Outcome = { status: "failed", exit, context, outputs: {}, reported, ...left };
  const chosen = chooseEdges(run, visit, outcome);
  if (!chosen.ok) return { edges: [] };
  if (chosen.edges.length > 0 || stepOf(visit).onFailure !== "continue") {
    return { edges: chosen.edges };
  }
  const onward = chooseEdges(run, visit, outcome, "completed");
  return onward.ok ? { handled: true, edges: onward.edges } : { edges: [] };
}
