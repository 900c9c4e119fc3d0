/**
 * The steps of a run as a tree: the plan's own in their order, below a composite step those of the
 * instances that its current attempt has opened, and last the `finally` steps of its last end. Then what
 * of it has completed and what comes next, in words: "3 of 5 steps completed: plan, ...".
 *
 * Owns: the order and the depth in which steps are shown.
 * Does not: show scopes of earlier attempts or visits; they are history.
 */

import { hasFailed, hidesFailures } from "../core/graph/retry.ts";
import {
  childScopes,
  currentVisit,
  findStep,
  type Run,
  type Scope,
  type StepRecord,
  stepOf,
  type Visit,
  visitRef,
  waitingFor,
} from "../core/run.ts";
import { itemName, ROOT_SCOPE, stepPath } from "../core/step-path.ts";
import type { Step } from "../plan/plan.ts";
import type { Json } from "../util/json.ts";
import { STEP_STYLES, type StepStatus, statusOf } from "./step-status.ts";
import { countText, cutText, displayWidth, plainText, shortList } from "./text.ts";

/** The widest text of an item in a label. */
const ITEM_WIDTH_MAX = 20;

export interface StepNode {
  /** `build`, or `each@1.1[3]/test` below. */
  readonly path: string;
  /** The id, and in a fan-out or loop the item or iteration. */
  readonly label: string;
  /** The item alone, where a fan-out has only this step for each. */
  readonly item?: string;
  readonly depth: number;
  readonly step: Step;
  readonly record: StepRecord | undefined;
  /** The current visit. */
  readonly visit: Visit | undefined;
  readonly status: StepStatus;
}

/** Every step of a run, composite steps before the steps in them. */
export function* stepTree(run: Run): Generator<StepNode> {
  const root = run.scopes.get(ROOT_SCOPE);
  if (root !== undefined) yield* scopeTree(run, root, 0);
  if (run.finally !== undefined) yield* scopeTree(run, run.finally, 0);
}

function* scopeTree(run: Run, scope: Scope, depth: number): Generator<StepNode> {
  const mark = markOf(scope);
  const item = loneItem(scope);
  for (const [position, step] of scope.graph.steps.entries()) {
    const record = scope.steps[position];
    const visit = currentVisit(record);
    const path = stepPath({ scope: scope.id, step: step.id });
    const label = mark + step.id;
    yield { path, label, ...item, depth, step, record, visit, status: statusOf(record) };
    if (visit?.instances === undefined) continue;
    for (const child of childScopes(run, visit)) yield* scopeTree(run, child, depth + 1);
  }
}

/** One step by its path, even in the scope of an earlier attempt. */
export function stepNode(run: Run, path: string): StepNode | undefined {
  const record = findStep(run, path);
  if (record === undefined) return [...stepTree(run)].find((node) => node.path === path);
  const step = stepOf(record);
  const label = markOf(record.scope) + step.id;
  const visit = currentVisit(record);
  return { path, label, depth: 0, step, record, visit, status: statusOf(record) };
}

/** The steps of the pipeline itself, without the steps in them. */
export function* rootSteps(run: Run): Generator<StepNode> {
  const scope = run.scopes.get(ROOT_SCOPE);
  for (const [position, step] of scope?.graph.steps.entries() ?? []) {
    const record = scope?.steps[position];
    const visit = currentVisit(record);
    const status = statusOf(record);
    yield { path: step.id, label: step.id, depth: 0, step, record, visit, status };
  }
}

/** A visit alone, with its whole path as its label. */
export function nodeOf(visit: Visit): StepNode {
  const { record } = visit;
  const step = stepOf(visit);
  const path = stepPath({ scope: record.scope.id, step: step.id });
  return { path, label: path, depth: 0, step, record, visit, status: statusOf(record) };
}

/** Which of several instances a scope is. */
function markOf({ parent, outer, index, item }: Scope): string {
  if (outer !== undefined) return "[finally] ";
  const work = parent && stepOf(parent).work;
  if (work?.kind === "branches") return `[${work.branches[index]?.id ?? index}] `;
  if (work?.kind === "each") return `[${index} ${itemText(item ?? null)}] `;
  return work?.kind === "loop" ? `[${index}] ` : "";
}

function loneItem({ parent, graph, item }: Scope): Pick<StepNode, "item"> {
  const isEach = parent !== undefined && stepOf(parent).work.kind === "each";
  return isEach && graph.steps.length === 1 ? { item: itemText(item ?? null) } : {};
}

/** An item by its position and its text: "map[3] (docs/a.md)". */
function itemLabel(step: string, { index, item = null }: Scope): string {
  return `${itemName(step, index)} (${itemText(item)})`;
}

/** " (docs/a.md)" for a step in an item of a fan-out; empty for other steps. */
export function itemNote({ parent, item = null }: Scope): string {
  const isEach = parent !== undefined && stepOf(parent).work.kind === "each";
  return isEach ? ` (${itemText(item)})` : "";
}

/** A short text of an item; of a long one its end, because paths differ there. */
function itemText(item: Json): string {
  const text = plainText(typeof item === "string" ? item : JSON.stringify(item)).trim();
  if (displayWidth(text) <= ITEM_WIDTH_MAX) return text;
  if (typeof item !== "string") return cutText(text, ITEM_WIDTH_MAX);
  const letters = [...text].slice(1 - ITEM_WIDTH_MAX);
  while (displayWidth(letters.join("")) >= ITEM_WIDTH_MAX) letters.shift();
  return `…${letters.join("")}`;
}

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
