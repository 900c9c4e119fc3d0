/**
 * How long the rest of a run will take, judged by earlier runs of its pipeline: the longest path
 * through the steps that are left.
 *
 * Owns: the arithmetic.
 * Does not: guess. When a step on the way was never completed before, there is no answer.
 */
import { currentVisit, isDone, isPrompt, type Run, type Scope } from "../../core/run.ts";
import { ROOT_SCOPE } from "../../core/step-path.ts";
import type { Estimate } from "../preview/estimate.ts";

/** Larger graphs get no estimate: it is computed for each frame. */
const STEPS_MAX = 500;

/** The remaining time; undefined where nobody knows. `estimates` are those of the root's steps. */
export function remainingMs(
  run: Run,
  estimates: ReadonlyMap<string, Estimate>,
  now: number,
): number | undefined {
  const root = run.scopes.get(ROOT_SCOPE);
  if (root === undefined || root.graph.steps.length > STEPS_MAX || estimates.size === 0) {
    return undefined;
  }
  const own = root.graph.steps.map((_, position) => stepMs(root, position, estimates, now));
  if (own.includes(undefined)) return undefined;
  const longest = own.map(() => 0);
  // Edges that do not lead back form no cycle, and a plan lists steps in any order.
  for (let round = 0, changed = true; changed && round <= own.length; round++) {
    changed = false;
    for (const { from, to, back } of root.graph.edges) {
      const until = (longest[from] ?? 0) + (own[from] ?? 0);
      if (back || until <= (longest[to] ?? 0)) continue;
      longest[to] = until;
      changed = true;
    }
  }
  return Math.max(0, ...own.map((ms, position) => (ms ?? 0) + (longest[position] ?? 0)));
}

/** What is left of one step; a gate waits for a person, and nobody knows how long. */
function stepMs(
  root: Scope,
  position: number,
  estimates: ReadonlyMap<string, Estimate>,
  now: number,
): number | undefined {
  const record = root.steps[position];
  const step = root.graph.steps[position];
  if (step === undefined || isDone(record) || isPrompt(step)) return 0;
  if (["pass", "pick", "fail"].includes(step.work.kind)) return 0;
  const estimate = estimates.get(step.id)?.workMs;
  const started = currentVisit(record)?.startedAt;
  if (estimate === undefined)
    return started === undefined && isOptional(root, position) ? 0 : undefined;
  return started === undefined ? estimate : Math.max(0, estimate - (now - started));
}

/** True for a step that a run may do without: one with a condition, or one that handles a failure. */
function isOptional({ graph }: Scope, position: number): boolean {
  if (graph.steps[position]?.when !== undefined) return true;
  const incoming = graph.edges.filter(({ to, back }) => to === position && !back);
  const isCertain = incoming.some(
    ({ on, condition }) => on === "completed" && condition === undefined,
  );
  return incoming.length > 0 && !isCertain;
}
