/**
 * What `needs`, `goto`, `edges` and `on_failure` of a list say, in one form.
 *
 * Owns: the defaults: a step follows the one above it, unless that one goes elsewhere.
 * Does not: check names (need-rules.ts, jump-rules.ts) or draw arrows (step-arrows.ts).
 */

import { conditionToCel, parseCondition } from "./dot/condition.ts";
import { bareCondition } from "./expression-rules.ts";
import type { Exit, Links } from "./pipeline.ts";
import type { StepShape } from "./schema.ts";
import type { LinkedStep } from "./step-arrows.ts";
import type { StepList } from "./step-list.ts";

/** Where a failure leads is for what no edge takes up. */
export const WEIGHT_LAST = Number.MIN_SAFE_INTEGER;

/** The links of each step of a list. */
export function linksOf({ steps, walk }: Pick<StepList, "steps" | "walk">): readonly LinkedStep[] {
  if (walk) return steps.map((step, index) => walkLink(step, steps[index + 1]?.id));
  const targets = new Set(steps.flatMap((step) => targetsOf(step)));
  let above: string | undefined;
  return steps.map((step) => {
    const linked = { id: step.id, needs: needsOf(step, above), ...waysOf(step) };
    // A step that waits for nothing but a jump stands aside: the line goes on without it.
    const aside = targets.has(step.id) && step.needs !== undefined && linked.needs.length === 0;
    if (!aside) above = step.id;
    return linked;
  });
}

/**
 * The links of a step in a walk: without a word of its own it leads to the step below it. Its edges
 * stand in the order of their targets' names: among equals that decides.
 */
function walkLink(step: StepShape, below: string | undefined): LinkedStep {
  const { exits = below === undefined ? [] : [plainExit(below)], onFailure } = waysOf(step);
  const sorted = exits.toSorted((one, other) =>
    one.to < other.to ? -1 : Number(one.to > other.to),
  );
  const last = typeof onFailure === "object" ? { ...onFailure, weight: WEIGHT_LAST } : onFailure;
  const failing = last === undefined ? {} : { onFailure: last };
  return { id: step.id, needs: [], exits: sorted, ...failing };
}

function plainExit(to: string): Exit {
  return { to, on: "completed", weight: 0 };
}

function needsOf({ needs }: StepShape, above: string | undefined): readonly string[] {
  if (needs !== undefined) return [...new Set([needs].flat())];
  return above === undefined ? [] : [above];
}

/** The step that a failure leads to. */
export function failureTarget({ on_failure: on }: StepShape): string | undefined {
  return on === undefined || on === "continue" || on === "fail" ? undefined : on;
}

/** All steps that a step leads to by its own word. */
function targetsOf(step: StepShape): readonly string[] {
  const { goto } = step;
  const failure = failureTarget(step);
  return [
    ...(goto === undefined ? [] : [goto]),
    ...(step.edges ?? []).map(({ to }) => to),
    ...(failure === undefined ? [] : [failure]),
  ];
}

function waysOf(step: StepShape): Omit<Links, "needs"> {
  const { goto, edges } = step;
  const failure = failureTarget(step);
  const exits =
    edges === undefined ? (goto === undefined ? undefined : [plainExit(goto)]) : undefined;
  return {
    ...(exits === undefined ? {} : { exits }),
    ...(edges === undefined ? {} : { exits: edges.map(exitOf) }),
    ...(failure === undefined ? {} : { onFailure: { goto: failure, weight: 0 } }),
    ...(step.on_failure === "continue" ? { onFailure: "continue" } : {}),
  };
}

function exitOf(edge: NonNullable<StepShape["edges"]>[number]): Exit {
  const { to, when, condition, label, weight = 0, fidelity, thread, restart } = edge;
  const asked = condition === undefined ? undefined : parseCondition(condition);
  const { on = asked === undefined ? "completed" : "any" } = edge;
  return {
    to,
    on,
    ...(when === undefined ? {} : { when: bareCondition(String(when)).source }),
    ...(asked?.ok === true ? { when: conditionToCel(asked.condition) } : {}),
    ...(label === undefined ? {} : { label }),
    weight,
    ...(fidelity === undefined ? {} : { fidelity }),
    ...(thread === undefined ? {} : { thread }),
    ...(restart === undefined ? {} : { restart: { keep: restart === true ? [] : restart.keep } }),
  };
}
