/**
 * The rules on ids and edges: unique ids, existing targets, no cycles in `needs`, no ambiguous
 * edges, retry targets that lead to their goal, and no unreachable steps.
 *
 * Owns: these rules.
 * Does not: derive edges or search graphs (step-list.ts).
 */
import type { Mistake, Report } from "../diagnostic.ts";
import type { StepShape } from "../schema.ts";
import {
  createReach,
  createStepGraph,
  edgesOf,
  failureTarget,
  isCut,
  type LinkedStep,
  pathIn,
  type StepEdges,
  type StepGraph,
  type StepList,
} from "../step-list.ts";

/** How many steps of a cycle a message shows. */
const CYCLE_SHOWN_MAX = 10;

/** The position of each step by its id; the first of two with the same id counts. */
export function indexSteps(list: StepList, report: Report): Map<string, number> {
  const ids = new Map<string, number>();
  list.steps.forEach(({ id }, index) => {
    if (isCut(list, index, "id")) return;
    const first = ids.get(id);
    if (first === undefined) {
      ids.set(id, index);
      return;
    }
    const message = `the id \`${id}\` is already taken by step ${first + 1}`;
    const path = pathIn(list, index, "id");
    report.add({ rule: "duplicate-id", message, help: "give each step an id of its own", path });
  });
  return ids;
}

/** The graph; undefined when a mistake in `needs` makes it unreliable. */
export function resolveNeeds(
  list: StepList,
  links: readonly LinkedStep[],
  ids: ReadonlyMap<string, number>,
  report: Report,
): StepGraph | undefined {
  let sound = !list.cut.has(list.path.join("."));
  const needs = list.steps.map((step, index) => {
    if (isCut(list, index, "id", "needs")) sound = false;
    if (step.needs === undefined) return implicitNeeds(links, ids, index);
    const found = new Set<number>();
    [step.needs].flat().forEach((id, position) => {
      const need = ids.get(id);
      const mistake = needMistake({ id, need, index, found, ids, report });
      if (mistake !== undefined) {
        const at = Array.isArray(step.needs) ? [position] : [];
        report.add({ ...mistake, path: [...pathIn(list, index, "needs"), ...at] });
        if (mistake.severity !== "warning") sound = false;
      } else if (need !== undefined) found.add(need);
    });
    return [...found];
  });
  return sound ? createStepGraph(needs) : undefined;
}

/** The step above, unless its own keys lead elsewhere. */
function implicitNeeds(
  links: readonly LinkedStep[],
  ids: ReadonlyMap<string, number>,
  index: number,
): readonly number[] {
  return (links[index]?.needs ?? []).flatMap((id) => {
    const need = ids.get(id);
    return need === undefined || links[need]?.exits !== undefined ? [] : [need];
  });
}

interface Need {
  readonly id: string;
  readonly need: number | undefined;
  readonly index: number;
  readonly found: ReadonlySet<number>;
  readonly ids: ReadonlyMap<string, number>;
  readonly report: Report;
}

function needMistake(at: Need): Omit<Mistake, "path"> | undefined {
  const { id, need } = at;
  if (need === undefined) {
    const message = `there is no step \`${id}\` to wait for`;
    const help = at.report.suggest(id, at.ids.keys(), "steps");
    return { rule: "unknown-need", message, help };
  }
  if (need === at.index) {
    const help = "leave it out; `needs: []` waits for nothing";
    return { rule: "self-need", message: "a step cannot wait for itself", help };
  }
  if (!at.found.has(need)) return undefined;
  const message = `\`${id}\` is listed twice`;
  return { rule: "duplicate-need", severity: "warning", message, help: "leave one of them out" };
}

/** Cycles, and the steps that never start because of them. */
export function reportCycles(graph: StepGraph, list: StepList, report: Report): void {
  const { steps } = list;
  const idOf = (step: number): string => steps[step]?.id ?? "";
  const pathOf = (step: number) =>
    pathIn(list, step, steps[step]?.needs === undefined ? "id" : "needs");
  for (const cycle of graph.cycles) {
    const first = cycle[0] as number;
    const shown = cycle.slice(0, CYCLE_SHOWN_MAX).map(idOf);
    if (cycle.length > CYCLE_SHOWN_MAX) shown.push("...");
    const message = `these steps wait for each other: ${[...shown, idOf(first)].join(" -> ")}`;
    const help = "remove one of them from the `needs` of another";
    report.add({ rule: "cycle", message, help, path: pathOf(first) });
  }
  for (const step of graph.stuck) {
    const message = `step \`${idOf(step)}\` never starts: it waits for steps that wait for each other`;
    const help = "fix that cycle first";
    const path = pathOf(step);
    report.add({ rule: "unreachable-step", severity: "warning", message, help, path });
  }
}

const LINK_KEYS = ["id", "needs", "goto", "edges", "on_failure", "retry_target"];

interface Jumps {
  readonly list: StepList;
  readonly links: readonly LinkedStep[];
  readonly ids: ReadonlyMap<string, number>;
  readonly report: Report;
}

/** Adds the mistakes in the edges of a list; returns the edges if they have none. */
export function checkJumps(jumps: Jumps): StepEdges | undefined {
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
  const edges = edgesOf(links);
  checkReached(edges, jumps);
  checkGoals(edges, jumps);
  return edges;
}

function checkTargets(step: StepShape, index: number, { list, ids, report }: Jumps): void {
  const check = (name: string | undefined, ...keys: (string | number)[]): void => {
    if (name === undefined || ids.has(name)) return;
    const help = report.suggest(name, ids.keys(), "steps of the same list");
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
    const help = "use `edges` with a `when`, or `retry` to repeat a step that fails";
    add("endless-loop", "a step that always goes to itself never ends", help, "goto");
  }
  if (retry_target !== undefined && (goal ?? false) === false) {
    add("goal-target", "`retry_target` belongs to a `goal`", "add `goal: true`", "retry_target");
  }
  // A step may report a preferred label.
  const open = (edges ?? []).filter(({ when, label }) => when === undefined && label === undefined);
  if (open.length < 2) return;
  const message =
    "of several edges without `when` and label, only the one with the highest weight is followed";
  const help = "give the others a `when` or a `label`, or leave them out";
  const path = pathIn(list, index, "edges");
  report.add({ rule: "dead-edge", severity: "warning", message, help, path, on: "key" });
}

/** A step with `goto` or `edges` cannot also be in the `needs` of another. */
function checkNeeded(step: StepShape, index: number, jumps: Jumps): void {
  const { list, links, ids, report } = jumps;
  const exits = (name: string): boolean => links[ids.get(name) ?? -1]?.exits !== undefined;
  [step.needs ?? []].flat().forEach((name, position) => {
    if (!exits(name)) return;
    const message = `step \`${name}\` has \`goto\` or \`edges\`, so no step can wait for it`;
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

function checkReached({ unreached, above }: StepEdges, { list, report }: Jumps): void {
  const idOf = (step: number): string => list.steps[step]?.id ?? "";
  for (const step of unreached) {
    const from = above.get(step);
    // The steps after this one would only repeat the warning.
    if (from === undefined) continue;
    const message = `step \`${idOf(step)}\` is unreachable: \`${idOf(from)}\` above it goes elsewhere`;
    const help = "add an edge to it from another step, or remove it";
    const path = pathIn(list, step, "id");
    report.add({ rule: "unreachable-step", severity: "warning", message, help, path });
  }
}

/** A retry target must lead to its goal. */
function checkGoals({ edges }: StepEdges, { list, ids, report }: Jumps): void {
  const leads = createReach(list.steps.length, edges);
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
    const help = "name a step that comes before the goal";
    report.add({ rule: "goal-target", message, help, path: pathIn(list, index, "retry_target") });
  });
}
