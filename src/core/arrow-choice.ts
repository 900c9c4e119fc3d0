/**
 * By which arrows a visit is left: all that apply, or the best one.
 *
 * Owns: the evaluation of conditions on arrows, and the order among those that apply.
 * Does not: settle arrows (flow.ts).
 * Invariants:
 * - B1 The one arrow is, in this order: the heaviest whose condition is true; the first one without a
 *   condition whose label the step asked for; the one without a condition to the first step that it
 *   asked for; the heaviest without a condition. Among equals the one that comes first in the graph.
 */
import { indexOf, stepAt } from "../plan/graph-index.ts";
import type { Arrow, Graph } from "../plan/plan.ts";
import { normalizedLabel } from "../util/choice.ts";
import type { FailureReason, StepFailed, Told } from "./event.ts";
import { type Run, type Scope, stepOf, type Visit } from "./run.ts";
import { evaluateIn, type Outcome } from "./values.ts";

type Chosen =
  | { readonly ok: true; readonly arrows: readonly number[] }
  | { readonly ok: false; readonly reason: FailureReason; readonly message: string };

interface Candidate {
  readonly index: number;
  readonly arrow: Arrow;
}

/** The arrows that a visit is left by; `on` is the kind of end whose arrows are asked. */
export function chooseArrows(
  run: Run,
  visit: Visit,
  outcome: Outcome,
  on: Arrow["on"] = outcome.status === "failed" ? "failed" : "completed",
): Chosen {
  return chooseArrowsAt(run, visit, { position: visit.record.position, on }, outcome);
}

/** The arrows by which a step of the same scope would be left if that were asked at this visit. */
export function chooseArrowsAt(
  run: Run,
  visit: Visit,
  { position, on }: { readonly position: number; readonly on: Arrow["on"] },
  outcome: Outcome,
): Chosen {
  const { scope } = visit.record;
  const candidates: Candidate[] = [];
  for (const index of indexOf(scope.graph).outgoing[position] ?? []) {
    const arrow = scope.graph.arrows[index];
    if (arrow?.on === on) candidates.push({ index, arrow });
  }
  const applying: Candidate[] = [];
  for (const candidate of candidates) {
    const { condition } = candidate.arrow;
    if (condition !== undefined) {
      const held = evaluateIn(run, visit, condition, {}, outcome);
      if (!held.ok) return { ...held, reason: "expression" };
      if (held.value !== true) continue;
    }
    applying.push(candidate);
  }
  if (stepAt(scope.graph, position).split === "all")
    return { ok: true, arrows: applying.map(({ index }) => index) };
  const own = position === visit.record.position;
  const best = bestOf(scope, applying, own ? (outcome.told ?? {}) : {});
  if (best === undefined && candidates.length > 0 && on === "completed") {
    const held = evaluateIn(run, visit, "outcome", {}, outcome);
    const said = held.ok ? String(held.value) : outcome.status;
    return { ok: false, reason: "no-arrow", message: noneText(scope.graph, candidates, said) };
  }
  return { ok: true, arrows: best === undefined ? [] : [best.index] };
}

/** Which ways there would have been. */
function noneText(graph: Graph, candidates: readonly Candidate[], outcome: string): string {
  const ways = candidates.slice(0, WAYS_TOLD_MAX).map(({ arrow }) => stepAt(graph, arrow.to).id);
  const left = candidates.length - ways.length;
  const more = left === 0 ? "" : ` and ${left} more`;
  return `no matching edge: the outcome is "${outcome}"; there are ways to ${ways.join(", ")}${more}`;
}

const WAYS_TOLD_MAX = 5;

/** The one arrow to follow, of those that apply (B1). */
function bestOf(
  { graph }: Scope,
  applying: readonly Candidate[],
  { label, next = [] }: Told,
): Candidate | undefined {
  const conditional = applying.filter(({ arrow }) => arrow.condition !== undefined);
  if (conditional.length > 0) return heaviest(conditional);
  if (label !== undefined && label !== "") {
    const wanted = normalizedLabel(label);
    const labelled = applying.find(
      ({ arrow }) => arrow.label !== undefined && normalizedLabel(arrow.label) === wanted,
    );
    if (labelled !== undefined) return labelled;
  }
  for (const id of next) {
    const named = applying.find(({ arrow }) => stepAt(graph, arrow.to).id === id);
    if (named !== undefined) return named;
  }
  return heaviest(applying);
}

function heaviest(candidates: readonly Candidate[]): Candidate | undefined {
  return candidates.reduce<Candidate | undefined>(
    (best, next) => (best === undefined || next.arrow.weight > best.arrow.weight ? next : best),
    undefined,
  );
}

/**
 * How it goes on after a failure for good: by the arrows for failures; without any, and if the author
 * wants that, as after success. A condition that cannot be evaluated leads nowhere.
 */
export function wayAfterFailure(
  run: Run,
  visit: Visit,
  known: Pick<StepFailed, "exit" | "told" | "context" | "answer" | "output">,
): Pick<StepFailed, "arrows" | "handled"> {
  const { exit = 1, told, context = {}, answer, output } = known;
  const left = { answer, output };
  const outcome: Outcome = { status: "failed", exit, context, outputs: {}, told, ...left };
  const chosen = chooseArrows(run, visit, outcome);
  if (!chosen.ok) return { arrows: [] };
  if (chosen.arrows.length > 0 || stepOf(visit).onFailure !== "continue") {
    return { arrows: chosen.arrows };
  }
  const behind = chooseArrows(run, visit, outcome, "completed");
  return behind.ok ? { handled: true, arrows: behind.arrows } : { arrows: [] };
}
