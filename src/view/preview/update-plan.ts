/**
 * `resume --update`: what adopting an edit would do with each step, why, and at what cost.
 *
 * Owns: the table, and the words for why a step runs again.
 * Does not: choose (core/graph/update.ts) or measure (estimate.ts).
 */
import type { EventOf, Rerun } from "../../core/event.ts";
import type { PlanUpdate } from "../../core/graph/update.ts";
import { currentVisit, findRecord, isDone, type Run } from "../../core/run.ts";
import { ROOT_SCOPE } from "../../core/step-path.ts";
import type { Plan } from "../../plan/plan.ts";
import { formatDuration } from "../../util/duration.ts";
import { repeatText } from "../failure-text.ts";
import { statusOf } from "../step-status.ts";
import { countText, shortList, tableLines } from "../text.ts";
import { costText, type Estimate, estimateText, sumOf } from "./estimate.ts";
import { type Evidence, type ResumeAction, resumePlan } from "./resume-plan.ts";

interface UpdatePlanInput {
  /** The run under the plan that it has. */
  readonly run: Run;
  readonly changes: PlanUpdate;
  /** The plan that it is to have. */
  readonly plan: Plan;
  /** By attempt, for every attempt that the journal says is running. */
  readonly evidence: ReadonlyMap<string, Evidence>;
  readonly estimates: ReadonlyMap<string, Estimate>;
  readonly now: number;
}

interface UpdateStep {
  readonly step: string;
  readonly action: ResumeAction | "run again" | "leave out";
  readonly why: string;
  /** Of a step that runs; absent when nothing is known. */
  readonly estimate?: Estimate;
}

/** Actions of steps that will work. */
const WORKING: ReadonlySet<string> = new Set(["run", "run again", "continue"]);

/** What an update would do: the steps of the new plan, then the removed ones. */
export function updatePlan(input: UpdatePlanInput): readonly UpdateStep[] {
  const { run, changes, plan, evidence, now, estimates } = input;
  const kept = new Map(resumePlan({ plan, run, evidence, now }).map((row) => [row.step, row]));
  const rerun = new Map(changes.rerun.map((one) => [one.step, one]));
  const rows = plan.graph.steps.map(({ id }): UpdateStep => {
    const begun = rerun.get(id);
    if (begun !== undefined) return { step: id, ...anew(run, begun) };
    const row = kept.get(id) ?? { step: id, action: "run", why: "it has not started" };
    const done = statusOf(recordOf(run, id)) === "completed";
    return done ? { ...row, why: "it completed, and the edit does not change it" } : row;
  });
  const gone = changes.gone.map((step): UpdateStep => {
    const visited = (recordOf(run, step)?.visits.length ?? 0) > 0;
    const history = visited ? "; its results stay in the history" : "";
    return { step, action: "leave out", why: `it is no longer in the file${history}` };
  });
  return [...rows, ...gone].map((row) => {
    const estimate = WORKING.has(row.action) ? estimates.get(row.step) : undefined;
    return estimate === undefined ? row : { ...row, estimate };
  });
}

function anew(run: Run, rerun: Rerun): Pick<UpdateStep, "action" | "why"> {
  const record = recordOf(run, rerun.step);
  const visit = currentVisit(record);
  const started = (visit?.attempts ?? 0) > 0;
  const open = rerun.because === "new" || isDone(record) ? "" : "; it had not completed";
  const why = rerunText(rerun) + open + repeatText(run, rerun.step);
  return { action: started ? "run again" : "run", why };
}

function recordOf(run: Run, id: string): ReturnType<typeof findRecord> {
  const scope = run.scopes.get(ROOT_SCOPE);
  return scope && findRecord(scope, id);
}

/** The plan as an aligned table, and a line that sums it up. */
export function updatePlanLines(steps: readonly UpdateStep[], width?: number): readonly string[] {
  const rows = steps.map(({ step, action, why, estimate }) => [
    step,
    action,
    why,
    WORKING.has(action) ? estimateText(estimate) : "",
  ]);
  const header = ["STEP", "UPDATE WILL", "BECAUSE", "TAKES ABOUT"];
  return [...tableLines([header, ...rows], { width }), sum(steps)];
}

function sum(steps: readonly UpdateStep[]): string {
  const working = steps.filter(({ action }) => WORKING.has(action));
  if (working.length === 0) return "Nothing runs again.";
  const known = working.flatMap(({ estimate }) => (estimate === undefined ? [] : [estimate]));
  const total = sumOf(known);
  const unknown = working.length - known.length;
  const count = working.length === 1 ? "1 step runs" : `${working.length} steps run`;
  if (total === undefined) return `${count}; how long that takes is unknown.`;
  const rest = unknown === 0 ? "" : `; the time of ${unknown} is unknown`;
  const { workMs, ...spent } = total;
  const cost = Object.keys(spent).length === 0 ? "" : ` and ${costText(spent)}`;
  return `${count}: about ${formatDuration(Math.round(workMs))} of work${cost}${rest}.`;
}

const NAMES_MAX = 4;

/** "2 steps run again, 3 are kept, 1 is removed". */
export function updateText({ kept, rerun, gone }: EventOf<"run.updated">): string {
  const steps = (count: number): string => countText(count, "step");
  const parts = [
    `${steps(rerun.length)} ${rerun.length === 1 ? "runs" : "run"} again`,
    `${kept.length} ${kept.length === 1 ? "is" : "are"} kept`,
    `${gone.length} ${gone.length === 1 ? "is" : "are"} removed`,
  ];
  return parts.filter((part) => !part.startsWith("0 ")).join(", ");
}

/** "its `prompt` changed": why a step runs again. */
export function rerunText({ because, names }: Omit<Rerun, "step">): string {
  const list = shortList(names, NAMES_MAX);
  const words = shortList(
    names.map((name) => `\`${name}\``),
    NAMES_MAX,
  );
  switch (because) {
    case "new":
      return "it is new";
    case "definition":
      return `its ${words} changed`;
    case "input":
      return `${words} changed`;
    case "upstream":
      return `it depends on ${list}, which ${names.length === 1 ? "runs" : "run"} again`;
  }
}
