/**
 * By which arrows a visit is left: all that apply, or the best one.
 *
 * Owns: the evaluation of conditions on arrows, and the order among those that apply.
 * Does not: settle arrows (flow.ts).
 */
import { indexOf } from "../plan/graph-index.ts";
import type { Arrow } from "../plan/plan.ts";
import type { StepFailed } from "./event.ts";
import { type Run, stepOf, type Visit } from "./run.ts";
import { evaluateIn, type Outcome } from "./values.ts";

type Chosen =
  | { readonly ok: true; readonly arrows: readonly number[] }
  | { readonly ok: false; readonly message: string };

/** The arrows that a visit is left by; `on` is the kind of end whose arrows are asked. */
export function chooseArrows(
  run: Run,
  visit: Visit,
  outcome: Outcome,
  on: Arrow["on"] = outcome.status === "failed" ? "failed" : "completed",
): Chosen {
  const { scope, position } = visit.record;
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

/**
 * How it goes on after a failure for good: by the arrows for failures; without any, and if the author
 * wants that, as after success. A condition that cannot be evaluated leads nowhere.
 */
export function wayAfterFailure(
  run: Run,
  visit: Visit,
  exit: number,
): Pick<StepFailed, "arrows" | "handled"> {
  const outcome: Outcome = { status: "failed", exit, context: {}, outputs: {} };
  const chosen = chooseArrows(run, visit, outcome);
  if (!chosen.ok) return { arrows: [] };
  if (chosen.arrows.length > 0 || stepOf(visit).onFailure !== "continue") {
    return { arrows: chosen.arrows };
  }
  const behind = chooseArrows(run, visit, outcome, "completed");
  return behind.ok ? { handled: true, arrows: behind.arrows } : { arrows: [] };
}
