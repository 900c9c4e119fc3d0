/**
 * What `needs`, `goto`, `edges` and `on_failure` of a list say, in one form.
 *
 * Owns: the defaults: a step follows the one above it, unless that one goes elsewhere.
 * Does not: check names (need-rules.ts, jump-rules.ts) or draw arrows (step-arrows.ts).
 */
import { bareCondition } from "./expression-rules.ts";
import type { Exit, Links } from "./pipeline.ts";
import type { StepShape } from "./schema.ts";
import type { LinkedStep } from "./step-arrows.ts";
import type { StepList } from "./step-list.ts";

/** The links of each step of a list. */
export function linksOf({ steps }: Pick<StepList, "steps">): readonly LinkedStep[] {
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

function plainExit(to: string): Exit {
  return { to, weight: 0 };
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
    ...(failure === undefined ? {} : { onFailure: { goto: failure } }),
    ...(step.on_failure === "continue" ? { onFailure: "continue" } : {}),
  };
}

function exitOf(edge: NonNullable<StepShape["edges"]>[number]): Exit {
  const { to, when, label, weight = 0, fidelity, thread } = edge;
  return {
    to,
    ...(when === undefined ? {} : { when: bareCondition(String(when)).source }),
    ...(label === undefined ? {} : { label }),
    weight,
    ...(fidelity === undefined ? {} : { fidelity }),
    ...(thread === undefined ? {} : { thread }),
  };
}
