/**
 * The ways through a walk as its author wrote them: where each step leads, who asks how it went, and
 * where a branch ends.
 *
 * Owns: these questions.
 * Does not: draw arrows (step-arrows.ts).
 */
import { parseCondition } from "./dot/condition.ts";
import type { AskingEdge } from "./dot/status-words.ts";
import type { PipelineStep } from "./pipeline.ts";
import type { StepShape } from "./schema.ts";
import type { StepList } from "./step-list.ts";

type Edge = NonNullable<StepShape["edges"]>[number];

/** The edges of a step in a walk, as written, or the one that it has without a word. */
export function waysFrom({ steps }: StepList, index: number): readonly Edge[] {
  const step = steps[index];
  const to = step?.goto ?? steps[index + 1]?.id;
  return step?.edges ?? (to === undefined ? [] : [{ to }]);
}

/** The edges that ask how a step went; a step that only passes on asks in its place. */
export function askingEdges(list: StepList, index: number): readonly AskingEdge[] {
  return waysFrom(list, index).flatMap((edge) => {
    const behind = placeOf(list, edge.to);
    const passes = behind?.list.steps[behind.index]?.pass === true;
    return [edge, ...(passes ? waysFrom(behind.list, behind.index) : [])].map(askingEdge);
  });
}

function askingEdge({ label, condition, when }: Edge): AskingEdge {
  const parsed = condition === undefined ? undefined : parseCondition(condition);
  const asked = parsed?.ok === true ? parsed.condition : when === undefined ? undefined : "unread";
  return {
    ...(label === undefined ? {} : { label }),
    ...(asked === undefined ? {} : { condition: asked }),
  };
}

/** A step by its name: of this list, else of those around a branch. */
export function placeOf(
  list: StepList,
  id: string,
): { readonly list: StepList; readonly index: number } | undefined {
  const index = list.steps.findIndex((step) => step.id === id);
  if (index >= 0) return { list, index };
  return list.outer && placeOf(list.outer, id);
}

/** The name of the step that marks a branch's arrival at a step outside of it. */
export function endId(id: string): string {
  return `to.${id}`;
}

/** The steps of a branch, with one more for each step around it that it leads to. */
export function withEnds(steps: readonly PipelineStep[]): readonly PipelineStep[] {
  const own = new Set(steps.map(({ id }) => id));
  const led = steps.flatMap(({ exits = [] }) => exits.map(({ to }) => to));
  const failing = steps.flatMap(({ onFailure }) =>
    typeof onFailure === "object" ? [onFailure.goto] : [],
  );
  const ends = [...new Set([...led, ...failing])].filter((id) => !own.has(id));
  const inside = (id: string): string => (own.has(id) ? id : endId(id));
  const moved = steps.map((step) => ({ ...step, ...movedLinks(step, inside) }));
  return [...moved, ...ends.map((id) => endStep(endId(id)))];
}

function movedLinks(
  { exits, onFailure, goal }: PipelineStep,
  inside: (id: string) => string,
): Partial<PipelineStep> {
  const target = goal?.retryTarget === undefined ? {} : { retryTarget: inside(goal.retryTarget) };
  return {
    ...(exits === undefined
      ? {}
      : { exits: exits.map((exit) => ({ ...exit, to: inside(exit.to) })) }),
    ...(typeof onFailure === "object"
      ? { onFailure: { ...onFailure, goto: inside(onFailure.goto) } }
      : {}),
    ...(goal === undefined ? {} : { goal: { ...goal, ...target } }),
  };
}

function endStep(id: string): PipelineStep {
  const work = { kind: "pass" } as const;
  return {
    id,
    work,
    needs: [],
    exits: [],
    env: {},
    retry: {},
    outputs: {},
    once: false,
    maxVisits: 1,
  };
}
