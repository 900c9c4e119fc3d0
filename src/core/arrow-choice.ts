/** Which arrows a visit is left by: all that apply, or the best one. */
import { indexOf } from "../plan/graph-index.ts";
import type { Arrow } from "../plan/plan.ts";
import { type Run, stepOf, type Visit } from "./run.ts";
import { evaluateIn, type Outcome } from "./values.ts";

type Chosen =
  | { readonly ok: true; readonly arrows: readonly number[] }
  | { readonly ok: false; readonly message: string };

/** The arrows that a visit is left by: all that apply, or the best one. */
export function chooseArrows(run: Run, visit: Visit, outcome: Outcome): Chosen {
  const { scope, position } = visit.record;
  const on = outcome.status === "failed" ? "failed" : "completed";
  const candidates: { index: number; arrow: Arrow }[] = [];
  for (const index of indexOf(scope.graph).outgoing[position] ?? []) {
    const arrow = scope.graph.arrows[index];
    if (arrow?.on === on) candidates.push({ index, arrow });
  }
  const applying: typeof candidates = [];
  for (const candidate of candidates) {
    const { condition } = candidate.arrow;
    if (condition !== undefined) {
      const held = evaluateIn(run, visit, condition, {}, outcome);
      if (!held.ok) return held;
      if (held.value !== true) continue;
    }
    applying.push(candidate);
  }
  if (stepOf(visit).split === "all")
    return { ok: true, arrows: applying.map(({ index }) => index) };
  const conditional = applying.filter(({ arrow }) => arrow.condition !== undefined);
  const best = heaviest(conditional.length > 0 ? conditional : applying);
  if (best === undefined && candidates.length > 0 && on === "completed") {
    return { ok: false, message: "none of the arrows that leave it applies" };
  }
  return { ok: true, arrows: best === undefined ? [] : [best.index] };
}

function heaviest<T extends { readonly arrow: Arrow }>(candidates: readonly T[]): T | undefined {
  return candidates.reduce<T | undefined>(
    (best, next) => (best === undefined || next.arrow.weight > best.arrow.weight ? next : best),
    undefined,
  );
}

/** Arrows that lead on from a failure; a condition that cannot be evaluated leads nowhere. */
export function arrowsAfterFailure(run: Run, visit: Visit): readonly number[] {
  const chosen = chooseArrows(run, visit, { status: "failed", exit: 1, context: {}, outputs: {} });
  return chosen.ok ? chosen.arrows : [];
}
