/** What is done in a run and what comes next, in one line: "3 of 5 steps done: plan, ...". */

import { stepPath } from "../core/place.ts";
import { hidesFailures } from "../core/rewind.ts";
import { placeOf, type Run, stepOf, type Visit, waitingFor } from "../core/run.ts";
import { shortList } from "./display-text.ts";
import { STEP_LOOKS } from "./step-status.ts";
import { rootSteps } from "./step-tree.ts";

/** How many names a line holds before it says "and 4 more". */
export const NAMES_MAX = 6;

/** The line. Of a run that ended it names what was `not-done`, of another what comes `next`. */
export function doneText(run: Run, rest: "next" | "not-done"): string {
  const { names, open } = split(run);
  const count = `${run.stepsDone} of ${run.stepsTotal} steps done`;
  const list = shortList(names, NAMES_MAX, Math.max(names.length, run.stepsDone));
  const done = names.length === 0 ? count : `${count}: ${list}`;
  const left = rest === "next" ? next(run) : notDone(open);
  return `${[done, ...itemsText(run), ...(left === "" ? [] : [left])].join("; ")}.`;
}

/** The steps of the pipeline that completed although items of theirs failed. */
export function fanOutsWithFailures(run: Run): readonly Visit[] {
  return [...rootSteps(run)].flatMap(({ visit }) =>
    visit !== undefined && hidesFailures(visit) ? [visit] : [],
  );
}

/** Failed items that their fan-out goes on without: they count as done, and are said. */
function itemsText(run: Run): readonly string[] {
  return fanOutsWithFailures(run).map(({ instances, record }) => {
    const { failed = 0, total = 0 } = instances ?? {};
    return `${failed} of ${total} items of ${stepOf(record).id} failed`;
  });
}

/** The paths of these visits. */
export function pathsOf(visits: Iterable<Visit>): readonly string[] {
  return Array.from(visits, (visit) => stepPath(placeOf(visit)));
}

interface Split {
  readonly names: readonly string[];
  readonly open: readonly string[];
}

function split(run: Run): Split {
  const names: string[] = [];
  const open: string[] = [];
  for (const { label, status, record } of rootSteps(run)) {
    const marked = status === "done" ? label : `${label} (${STEP_LOOKS[status].word})`;
    if (record?.counted === true) names.push(marked);
    else open.push(status === "pending" ? label : marked);
  }
  return { names, open };
}

function notDone(open: readonly string[]): string {
  return open.length === 0 ? "" : `not done: ${shortList(open, NAMES_MAX)}`;
}

/** What moves when the run goes on. */
function next(run: Run): string {
  if (run.state.status === "completed") return "";
  const waiting = waitingFor(run, "person", "time", "probe", "owner", "retry", "start", "slot");
  const names = pathsOf([...run.running, ...waiting]);
  const next = names.length === 0 ? [] : [`next: ${shortList(names, NAMES_MAX)}`];
  return [...failedText(run), ...next].join("; ");
}

/** What has failed already while others still move: the run will not end well without it. */
function failedText(run: Run): readonly string[] {
  const causes = [...run.failed].filter(
    ({ state }) => state.status === "failed" && state.reason !== "items",
  );
  return causes.length === 0 ? [] : [`failed: ${shortList(pathsOf(causes), NAMES_MAX)}`];
}
