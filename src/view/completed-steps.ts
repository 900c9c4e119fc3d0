/** What has completed in a run and what comes next: "3 of 5 steps completed: plan, ...". */

import { hasFailed, hidesFailures } from "../core/graph/retry.ts";
import { childScopes, type Run, stepOf, type Visit, visitRef, waitingFor } from "../core/run.ts";
import { stepPath } from "../core/step-path.ts";
import { STEP_STYLES, type StepStatus } from "./step-status.ts";
import { itemLabel, rootSteps, stepTree } from "./step-tree.ts";
import { countText, shortList } from "./text.ts";

/** How many names a line lists before it says "and 4 more". */
export const NAMES_MAX = 6;
/** How many fan-outs a line names. */
const FAN_OUTS_MAX = 3;

/** The line. For a failed run it lists what is `not-done`, for others what comes `next`. */
export function doneText(run: Run, rest: "next" | "not-done"): string {
  const { completed, failed, unneeded, open } = split(run);
  const count = countEnded(run);
  const left = rest === "next" ? next(run) : notDone(open);
  const parts = [
    listed(`${count.completed} of ${run.stepsTotal} steps completed`, completed, count.completed),
    ...(count.failed === 0 ? [] : [listed(`${count.failed} failed`, failed, count.failed)]),
    ...unneededText(count.unneeded, unneeded),
    ...itemsText(run),
    ...(left === "" ? [] : [left]),
  ];
  return `${parts.join("; ")}.`;
}

/** What a completed run did: "5 steps", "3 steps, 1 failed; 2 not needed: a, b". */
export function completedCounts(run: Run): string {
  const { completed, failed, unneeded } = countEnded(run);
  const parts = [
    countText(completed, "step") + (failed === 0 ? "" : `, ${failed} failed`),
    ...unneededText(unneeded, split(run).unneeded),
    ...itemsText(run),
  ];
  return parts.join("; ");
}

function unneededText(count: number, names: readonly string[]): readonly string[] {
  return count === 0 ? [] : [listed(`${count} not needed`, names, count)];
}

/** "3 of 5 steps completed: plan, build and 1 more". */
function listed(count: string, names: readonly string[], total: number): string {
  if (names.length === 0) return count;
  return `${count}: ${shortList(names, NAMES_MAX, Math.max(names.length, total))}`;
}

/**
 * How many steps have ended, and how: in skipped and unreached ones nothing was done, and the run
 * continued after failed ones.
 */
function countEnded(run: Run): Readonly<Record<"completed" | "failed" | "unneeded", number>> {
  let [failed, unneeded] = [0, 0];
  for (const { status, record } of stepTree(run)) {
    if (record?.counted !== true) continue;
    if (UNNEEDED.has(status)) unneeded++;
    if (status === "handled") failed++;
  }
  return { completed: run.stepsCompleted, failed, unneeded };
}

const UNNEEDED: ReadonlySet<StepStatus> = new Set(["skipped", "unreached"]);

/** The steps of the pipeline that completed although items of theirs failed. */
export function fanOutsWithFailures(run: Run): readonly Visit[] {
  return [...rootSteps(run)].flatMap(({ visit }) =>
    visit !== undefined && hidesFailures(visit) ? [visit] : [],
  );
}

/** The failed items of every fan-out: "2 of 9 items of map failed: map[1] (a), map[4] (b)". */
function itemsText(run: Run): readonly string[] {
  const texts: string[] = [];
  for (const { visit, path } of stepTree(run)) {
    const { failed = 0, total = 0 } = visit?.instances ?? {};
    if (visit === undefined || failed === 0 || stepOf(visit).work.kind !== "each") continue;
    const names = failedItems(run, visit, path);
    texts.push(listed(`${failed} of ${total} items of ${path} failed`, names, failed));
  }
  const left = texts.length - FAN_OUTS_MAX;
  if (left <= 0) return texts;
  const more = `items of ${countText(left, "more fan-out")} failed`;
  return [...texts.slice(0, FAN_OUTS_MAX), more];
}

/** The failed items of a fan-out, by position and text. */
function failedItems(run: Run, fanOut: Visit, path: string): readonly string[] {
  const names: string[] = [];
  for (const scope of childScopes(run, fanOut)) {
    if (hasFailed(scope)) names.push(itemLabel(path, scope));
  }
  return names;
}

/** The paths of these visits. */
export function pathsOf(visits: Iterable<Visit>): readonly string[] {
  return Array.from(visits, (visit) => stepPath(visitRef(visit)));
}

interface Split {
  readonly completed: readonly string[];
  /** Failed, and the run continued. */
  readonly failed: readonly string[];
  /** Skipped, or not reached. */
  readonly unneeded: readonly string[];
  readonly open: readonly string[];
}

function split(run: Run): Split {
  const completed: string[] = [];
  const failed: string[] = [];
  const unneeded: string[] = [];
  const open: string[] = [];
  for (const { label, status, record } of rootSteps(run)) {
    const marked = status === "completed" ? label : `${label} (${STEP_STYLES[status].word})`;
    if (record?.counted !== true) open.push(status === "pending" ? label : marked);
    else if (UNNEEDED.has(status)) unneeded.push(label);
    else if (status === "handled") failed.push(label);
    else completed.push(marked);
  }
  return { completed, failed, unneeded, open };
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
