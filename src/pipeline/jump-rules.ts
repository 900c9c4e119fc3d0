/**
 * The rules on where steps lead: targets that exist, no two answers to one question, goals that
 * can be reached again, and steps that nothing leads to.
 *
 * Owns: these rules.
 * Does not: read links (step-links.ts) or know `needs` (need-rules.ts).
 */
import type { Report } from "./report.ts";
import type { StepShape } from "./schema.ts";
import { arrowsOf, type LinkedStep, type StepArrows } from "./step-arrows.ts";
import { createReach } from "./step-graph.ts";
import { failureTarget } from "./step-links.ts";
import { isCut, pathIn, type StepList } from "./step-list.ts";

const LINK_KEYS = ["id", "needs", "goto", "edges", "on_failure", "retry_target"];

interface Jumps {
  readonly list: StepList;
  readonly links: readonly LinkedStep[];
  readonly ids: ReadonlyMap<string, number>;
  readonly report: Report;
}

/** Adds every mistake in the jumps of a list; gives its arrows, if they are what was meant. */
export function checkJumps(jumps: Jumps): StepArrows | undefined {
  const { list, links, report } = jumps;
  const before = report.diagnostics.length;
  list.steps.forEach((step, index) => {
    if (isCut(list, index)) return;
    checkTargets(step, index, jumps);
    checkExits(step, index, jumps);
    checkNeeded(step, index, jumps);
  });
  const whole = !list.steps.some((_, index) => isCut(list, index, ...LINK_KEYS));
  const wrong = report.diagnostics.slice(before).some(({ severity }) => severity === "error");
  if (!whole || wrong) return undefined;
  const arrows = arrowsOf(links);
  checkReached(arrows, jumps);
  checkGoals(arrows, jumps);
  return arrows;
}

function checkTargets(step: StepShape, index: number, { list, ids, report }: Jumps): void {
  const check = (name: string | undefined, ...keys: (string | number)[]): void => {
    if (name === undefined || ids.has(name)) return;
    const help = report.suggest(name, ids.keys(), "steps beside it");
    const path = [...pathIn(list, index), ...keys];
    const message = `there is no step \`${name}\` to go to`;
    report.add({ rule: "unknown-target", message, help, path });
  };
  check(step.goto, "goto");
  step.edges?.forEach(({ to }, position) => {
    check(to, "edges", position, "to");
  });
  check(failureTarget(step), "on_failure");
  check(step.retry_target, "retry_target");
}

function checkExits(step: StepShape, index: number, { list, report }: Jumps): void {
  const { id, goto, edges, goal, retry_target } = step;
  const add = (rule: string, message: string, help: string, key: string): void => {
    report.add({ rule, message, help, path: pathIn(list, index, key), on: "key" });
  };
  if (goto !== undefined && edges !== undefined) {
    const help = `add \`{to: ${goto}}\` to \`edges\`, and leave \`goto\` out`;
    add("two-exits", `step \`${id}\` has both \`goto\` and \`edges\``, help, "goto");
  }
  if (goto === id) {
    const help = "write `edges` with a `when`, or `retry` for tries of a step that fails";
    add("endless-loop", "a step that always goes to itself never ends", help, "goto");
  }
  if (retry_target !== undefined && (goal ?? false) === false) {
    add("goal-target", "`retry_target` belongs to a `goal`", "add `goal: true`", "retry_target");
  }
  // A label is what a step may ask for.
  const open = (edges ?? []).filter(({ when, label }) => when === undefined && label === undefined);
  if (open.length < 2) return;
  const message = "of several edges without `when` and label, only the heaviest is taken";
  const help = "give the others a `when` or a `label`, or leave them out";
  const path = pathIn(list, index, "edges");
  report.add({ rule: "dead-edge", severity: "warning", message, help, path, on: "key" });
}

/** What a step with exits of its own cannot say, and what is said about it, must agree. */
function checkNeeded(step: StepShape, index: number, jumps: Jumps): void {
  const { list, links, ids, report } = jumps;
  const exits = (name: string): boolean => links[ids.get(name) ?? -1]?.exits !== undefined;
  [step.needs ?? []].flat().forEach((name, position) => {
    if (!exits(name)) return;
    const message = `step \`${name}\` says itself where it leads, so it cannot be waited for`;
    const help = `add \`{to: ${step.id}}\` to the \`edges\` of \`${name}\``;
    const at = Array.isArray(step.needs) ? [position] : [];
    report.add({
      rule: "needs-exit",
      message,
      help,
      path: [...pathIn(list, index, "needs"), ...at],
    });
  });
  const failure = failureTarget(step);
  const target = failure === undefined ? undefined : ids.get(failure);
  if (failure === undefined || target === undefined || target <= index) return;
  const [above] = links[target]?.needs ?? [];
  if (list.steps[target]?.needs !== undefined || above === undefined || exits(above)) return;
  const message = `step \`${failure}\` is for failures, but also follows \`${above}\` above it`;
  const help = `add \`needs: []\` to \`${failure}\` if it is only for failures, else \`needs: ${above}\``;
  const path = pathIn(list, index, "on_failure");
  report.add({ rule: "ambiguous-target", message, help, path });
}

function checkReached({ unreached, above }: StepArrows, { list, report }: Jumps): void {
  const idOf = (step: number): string => list.steps[step]?.id ?? "";
  for (const step of unreached) {
    const from = above.get(step);
    // What lies behind such a step says nothing new.
    if (from === undefined) continue;
    const message = `step \`${idOf(step)}\` is never reached: \`${idOf(from)}\` above it goes elsewhere`;
    const help = "lead to it from another step, or leave it out";
    const path = pathIn(list, step, "id");
    report.add({ rule: "unreachable-step", severity: "warning", message, help, path });
  }
}

/** Going back to a step that does not lead to the goal could never help. */
function checkGoals({ arrows }: StepArrows, { list, ids, report }: Jumps): void {
  const leads = createReach(list.steps.length, arrows);
  list.steps.forEach(({ id, goal, retry_target }, index) => {
    const target = retry_target === undefined ? undefined : ids.get(retry_target);
    if (
      (goal ?? false) === false ||
      target === undefined ||
      target === index ||
      leads(target, index)
    )
      return;
    const message = `step \`${retry_target}\` does not lead to the goal \`${id}\``;
    const help = "name a step that lies before the goal";
    report.add({ rule: "goal-target", message, help, path: pathIn(list, index, "retry_target") });
  });
}
