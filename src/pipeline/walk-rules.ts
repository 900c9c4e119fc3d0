/**
 * The rules on walks (`language: attractor`): which words only they have, which they have not, and
 * steps that no way leads to.
 *
 * Owns: these rules.
 * Does not: check the targets of edges (jump-rules.ts).
 */
import { parseCondition } from "./dot/condition.ts";
import type { Report } from "./report.ts";
import type { StepShape } from "./schema.ts";
import type { StepArrows } from "./step-arrows.ts";
import { isCut, pathIn, type StepList } from "./step-list.ts";

const STEP_WORDS = ["branches", "pick", "join_policy", "allow_partial", "thread_group"] as const;
const EDGE_WORDS = ["condition", "on", "restart"] as const;

/** Adds the mistakes in the words of walks of one step. */
export function checkWalkWords(list: StepList, index: number, report: Report): void {
  const step = list.steps[index] as StepShape;
  const add = (rule: string, message: string, help: string, ...keys: (string | number)[]): void => {
    report.add({ rule, message, help, path: [...pathIn(list, index), ...keys], on: "key" });
  };
  if (!list.walk) {
    const outside = (word: string, ...keys: (string | number)[]): void => {
      const help = "add `language: attractor` to the file, or leave it out";
      add("walk-word", `\`${word}\` is a word of walks`, help, ...keys);
    };
    for (const key of STEP_WORDS) if (step[key] !== undefined) outside(key, key);
    step.edges?.forEach((edge, at) => {
      for (const key of EDGE_WORDS) if (edge[key] !== undefined) outside(key, "edges", at, key);
    });
    if (step.edges?.length === 0) {
      add("walk-word", "`edges` is empty", "leave it out, or say where the step leads", "edges");
    }
    return;
  }
  for (const key of ["needs", "join"] as const) {
    if (step[key] === undefined) continue;
    const message = "steps of a walk do not wait for others: each is led to by one";
    add("walk-word", message, "leave it out, and add an edge to the step that leads here", key);
  }
  if (step.branches === undefined && step.join_policy !== undefined) {
    add("walk-word", "`join_policy` belongs to `branches`", "leave it out", "join_policy");
  }
  checkBranches(step, add);
  step.edges?.forEach((_, at) => {
    checkCondition(list, index, at, report);
  });
}

type Add = (rule: string, message: string, help: string, ...keys: (string | number)[]) => void;

function checkBranches({ branches = [] }: StepShape, add: Add): void {
  const taken = new Set<string>();
  branches.forEach(({ id, steps }, at) => {
    const name = id ?? steps[0]?.id;
    if (name === undefined) {
      const help = "add `id:`, the step at which it ends at once";
      add("walk-branch", "a branch without steps has no name", help, "branches", at, "steps");
    } else if (taken.has(name)) {
      const help = "give each branch an `id` of its own";
      add("walk-branch", `there are two branches \`${name}\``, help, "branches", at);
    } else taken.add(name);
  });
}

function checkCondition(list: StepList, index: number, at: number, report: Report): void {
  const { condition, when } = list.steps[index]?.edges?.[at] ?? {};
  if (condition === undefined) return;
  const path = [...pathIn(list, index), "edges", at, "condition"];
  if (when !== undefined) {
    const message = "an edge has both `when` and `condition`";
    report.add({ rule: "walk-word", message, help: "leave one of them out", path, on: "key" });
  }
  const parsed = parseCondition(condition);
  if (parsed.ok) return;
  for (const { message, help, start, end } of parsed.problems) {
    const length = Math.max(1, end - start);
    report.add({ rule: "bad-condition", message, help, path, offset: start, length });
  }
}

/** Steps that neither an edge nor a missed goal leads to. */
export function checkWalkReached(list: StepList, arrows: StepArrows, report: Report): void {
  const position = new Map(list.steps.map(({ id }, index) => [id, index]));
  const reached = new Set(
    list.steps.flatMap(({ goal, retry_target }) => {
      const target = goal && retry_target !== undefined ? position.get(retry_target) : undefined;
      return target === undefined ? [] : [target];
    }),
  );
  const outgoing = Map.groupBy(arrows.arrows, ({ from }) => from);
  for (const step of reached) for (const { to } of outgoing.get(step) ?? []) reached.add(to);
  for (const step of arrows.unreached) {
    if (reached.has(step) || isCut(list, step)) continue;
    const message = `step \`${list.steps[step]?.id}\` is never reached`;
    const help = "lead to it from another step, or leave it out";
    const path = pathIn(list, step, "id");
    report.add({ rule: "unreachable-step", severity: "warning", message, help, path });
  }
}
