/**
 * The steps of a run as a tree: the plan's own in their order, below a composite step those of the
 * instances that its current attempt has opened, and last the `finally` steps of its last end.
 *
 * Owns: the order and the depth in which steps are shown.
 * Does not: show scopes of earlier attempts or visits; they are history.
 */

import {
  childScopes,
  currentVisit,
  findStep,
  type Run,
  type Scope,
  type StepRecord,
  stepOf,
  type Visit,
} from "../core/run.ts";
import { itemName, ROOT_SCOPE, stepPath } from "../core/step-path.ts";
import type { Step } from "../plan/plan.ts";
import type { Json } from "../util/json.ts";
import { type StepStatus, statusOf } from "./step-status.ts";
import { cutText, displayWidth, plainText } from "./text.ts";

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

/** One step by its path, also in the scope of an earlier attempt. */
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
export function itemLabel(step: string, { index, item = null }: Scope): string {
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
