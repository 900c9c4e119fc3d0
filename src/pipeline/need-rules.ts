/**
 * The rules on ids and `needs`: each id once, each need a step that exists, nobody in a circle.
 *
 * Owns: the way from the written `needs` to the graph, and what is wrong on it.
 * Does not: walk graphs (step-graph.ts).
 */
import type { Mistake, Report } from "./report.ts";
import type { LinkedStep } from "./step-arrows.ts";
import { createStepGraph, type StepGraph } from "./step-graph.ts";
import { isCut, pathIn, type StepList } from "./step-list.ts";

/** How many steps of a circle a message shows. */
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

/** The graph; undefined when a wrong `needs` makes it something else than what was meant. */
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

/** The step above, unless it goes elsewhere by its own word. */
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
  const message = `\`${id}\` is named twice`;
  return { rule: "duplicate-need", severity: "warning", message, help: "leave one of them out" };
}

/** Circles, and the steps that never start because of them. */
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
    const help = "take one of them out of the `needs` of another";
    report.add({ rule: "cycle", message, help, path: pathOf(first) });
  }
  for (const step of graph.stuck) {
    const message = `step \`${idOf(step)}\` never starts: it waits for steps that wait in a circle`;
    const help = "open the circle first";
    const path = pathOf(step);
    report.add({ rule: "unreachable-step", severity: "warning", message, help, path });
  }
}
