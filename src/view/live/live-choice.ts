/**
 * What the person at the terminal sees: the step that they choose with keys, or the newest output.
 *
 * Owns: the meaning of the keys that only change the view, and which output is the newest one.
 * Does not: act on the run; those keys belong to the screen.
 */
import { hasProcess, type Run } from "../../core/run.ts";
import { stepTree } from "../step-tree.ts";
import type { LiveChoice, LiveOutput } from "./live-input.ts";

/** Nothing is chosen. */
export const NOTHING_CHOSEN: LiveChoice = { isExpanded: false, showsHelp: false, scrolledBy: 0 };

/** The keys that change the view. */
export type LiveKey = "up" | "down" | "enter" | "escape" | "page-up" | "page-down" | "?";

const PAGE_LINES = 10;
/** The pane stays with a step that has printed something in this time. */
const STAY_MS = 3_000;

/** The choice after a key. `steps` are the paths that can be chosen, in their order. */
export function choiceAfter(
  choice: LiveChoice,
  key: LiveKey,
  steps: readonly string[],
): LiveChoice {
  switch (key) {
    case "up":
    case "down":
      return { ...choice, showsHelp: false, scrolledBy: 0, step: neighbour(choice, key, steps) };
    case "enter":
      return { ...choice, showsHelp: false, isExpanded: !choice.isExpanded };
    case "escape":
      return choice.showsHelp ? { ...choice, showsHelp: false } : NOTHING_CHOSEN;
    case "page-up":
      return { ...choice, showsHelp: false, scrolledBy: choice.scrolledBy + PAGE_LINES };
    case "page-down":
      return { ...choice, scrolledBy: Math.max(0, choice.scrolledBy - PAGE_LINES) };
    case "?":
      return { ...choice, showsHelp: !choice.showsHelp };
  }
}

/** From nothing, "up" leads to the last step and "down" to the first one. */
function neighbour(
  { step }: LiveChoice,
  key: "up" | "down",
  steps: readonly string[],
): string | undefined {
  const at = step === undefined ? -1 : steps.indexOf(step);
  if (at < 0) return key === "up" ? steps.at(-1) : steps[0];
  const next = key === "up" ? Math.max(0, at - 1) : Math.min(steps.length - 1, at + 1);
  return steps[next];
}

/** The steps that have, or had, a process: their paths, in the order of the view. */
export function choosableSteps(run: Run): readonly string[] {
  const paths: string[] = [];
  for (const { path, step, visit } of stepTree(run)) {
    if (visit !== undefined && visit.attempts > 0 && hasProcess(step)) paths.push(path);
  }
  return paths;
}

/** The attempt whose output is shown when nothing is chosen; it changes only after a pause. */
export function newestOutput(
  before: string | undefined,
  running: ReadonlyMap<string, LiveOutput>,
  now: number,
): string | undefined {
  const current = before === undefined ? undefined : running.get(before);
  if (current !== undefined && current.lines.length > 0 && now - current.changedAt < STAY_MS) {
    return before;
  }
  let newest: readonly [string, LiveOutput] | undefined;
  for (const [at, output] of running) {
    if (output.lines.length === 0) continue;
    if (newest === undefined || output.changedAt > newest[1].changedAt) newest = [at, output];
  }
  return newest?.[0];
}
