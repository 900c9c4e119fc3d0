/**
 * The defaults of steps in an Attractor pipeline.
 *
 * Owns: these defaults.
 * Does not: lower anything (attractor/graph.ts).
 */
import type { Fidelity, RetryPolicy, Work } from "../plan.ts";

/** How many steps run at once: only branches do, and a component has its own limit. */
export const ATTRACTOR_PARALLEL_MAX = 64;
/** How often a run may come to a step. */
export const ATTRACTOR_VISITS_MAX = 100;
/** How much an agent is told of what came before. */
export const ATTRACTOR_FIDELITY: Fidelity = "compact";

export const ATTRACTOR_RETRY: RetryPolicy = {
  attempts: 1,
  on: "retry",
  backoff: { initialMs: 200, factor: 2, maxMs: 60_000, jitter: 0.5 },
  onResume: "keep",
};

/** True for work that can ask for another attempt, or run out of time. */
export function isTried({ kind }: Pick<Work, "kind">): boolean {
  return kind === "shell" || kind === "agent" || kind === "gate" || kind === "pipeline";
}

/** The language has no rule against equal failures: only the limit on visits ends a loop. */
export function stallAfter(visitsMax: number): number {
  return visitsMax + 1;
}
