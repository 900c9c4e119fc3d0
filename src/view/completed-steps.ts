/** What has completed in a run and what comes next: "3 of 5 steps completed: plan, ...". */

import { hidesFailures } from "../core/graph/rewind.ts";
import { type Run, stepOf, type Visit, visitRef, waitingFor } from "../core/run.ts";
import { stepPath } from "../core/step-path.ts";
import { STEP_STYLES, type StepStatus } from "./step-status.ts";
import { rootSteps, stepTree } from "./step-tree.ts";
import { countText, shortList } from "./text.ts";

/** How many names a line lists before it says "and 4 more". */
export const NAMES_MAX = 6;

/** The line. For a failed run it lists what is `not-done`, for others what comes `next`. */
export function doneText(run: Run, rest: "next" | "not-done"): string {
  const { completed, unneeded, open } = split(run);
  const unneededCount = countUnneeded(run);
  const completedCount = run.stepsDone - unneededCount;
  const left = rest === "next" ? next(run) : notDone(open);
  const parts = [
    listed(`${completedCount} of ${run.stepsTotal} steps completed`, completed, completedCount),
    ...(unneededCount === 0
      ? []
      : [listed(`${unneededCount} not needed`, unneeded, unneededCount)]),
    ...itemsText(run),
    ...(left === "" ? [] : [left]),
  ];
  return `${parts.join("; ")}.`;
}

/** What a completed run did: "5 steps", "3 steps; 2 not needed: a, b; 1 of 9 items of each failed". */
export function completedCounts(run: Run): string {
  const unneededCount = countUnneeded(run);
  const parts = [
    countText(run.stepsDone - unneededCount, "step"),
    ...(unneededCount === 0
      ? []
      : [listed(`${unneededCount} not needed`, split(run).unneeded, unneededCount)]),
    ...itemsText(run),
  ];
  return parts.join("; ");
}

/** "3 of 5 steps completed: plan, build and 1 more". */
function listed(count: string, names: readonly string[], total: number): string {
  if (names.length === 0) return count;
  return `${count}: ${shortList(names, NAMES_MAX, Math.max(names.length, total))}`;
}

/** Skipped and unreached steps have ended, but nothing was done in them. */
function countUnneeded(run: Run): number {
  let count = 0;
  for (const { status, record } of stepTree(run)) {
    if (record?.counted === true && UNNEEDED.has(status)) count++;
  }
  return count;
}

const UNNEEDED: ReadonlySet<StepStatus> = new Set(["skipped", "unreached"]);

/** The steps of the pipeline that completed although items of theirs failed. */
export function fanOutsWithFailures(run: Run): readonly Visit[] {
  return [...rootSteps(run)].flatMap(({ visit }) =>
    visit !== undefined && hidesFailures(visit) ? [visit] : [],
  );
}

/** Failed items of fan-outs that continued without them. */
function itemsText(run: Run): readonly string[] {
  return fanOutsWithFailures(run).map(({ instances, record }) => {
    const { failed = 0, total = 0 } = instances ?? {};
    return `${failed} of ${total} items of ${stepOf(record).id} failed`;
  });
}

/** The paths of these visits. */
export function pathsOf(visits: Iterable<Visit>): readonly string[] {
  return Array.from(visits, (visit) => stepPath(visitRef(visit)));
}

interface Split {
  readonly completed: readonly string[];
  /** Skipped, or not reached. */
  readonly unneeded: readonly string[];
  readonly open: readonly string[];
}

function split(run: Run): Split {
  const completed: string[] = [];
  const unneeded: string[] = [];
  const open: string[] = [];
  for (const { label, status, record } of rootSteps(run)) {
    const marked = status === "completed" ? label : `${label} (${STEP_STYLES[status].word})`;
    if (record?.counted !== true) open.push(status === "pending" ? label : marked);
    else if (UNNEEDED.has(status)) unneeded.push(label);
    else completed.push(marked);
  }
  return { completed, unneeded, open };
}

function notDone(open: readonly string[]): string {
  return open.length === 0 ? "" : `not completed: ${shortList(open, NAMES_MAX)}`;
}

/** The steps that continue when the run continues. */
function next(run: Run): string {
  if (run.state.status === "completed") return "";
  const waiting = waitingFor(run, "person", "time", "probe", "owner", "retry", "start", "slot");
  const names = pathsOf([...run.running, ...waiting]);
  const next = names.length === 0 ? [] : [`next: ${shortList(names, NAMES_MAX)}`];
  return [...failedText(run), ...next].join("; ");
}

/** Steps that have failed while others still run. */
function failedText(run: Run): readonly string[] {
  const causes = [...run.failed].filter(
    ({ state }) => state.status === "failed" && state.reason !== "items",
  );
  return causes.length === 0 ? [] : [`failed: ${shortList(pathsOf(causes), NAMES_MAX)}`];
}
