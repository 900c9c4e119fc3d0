/**
 * Lists of steps: the pipeline's own list and those in steps, the edges between the steps of a list
 * (from `needs`, `goto`, `edges` and `on_failure`), and the order that follows from them.
 *
 * Owns: the nesting of lists, and the meaning of these keys, for the rules and for the plan. A step
 * follows the one above it, unless that one leads elsewhere.
 * Does not: check names (rules/edges.ts); an edge to a step that does not exist is left out.
 * Invariants:
 * - pipeline/G1 `comesBefore` is exact up to a limit on its work; beyond it the answer is yes, and
 *   a wrong reference fails when the run evaluates it.
 * - pipeline/G2 Linear in the number of steps and edges, for 100,000 steps.
 */
import { defined } from "../util/defined.ts";
import type { Path } from "./diagnostic.ts";
import type { CheckShape } from "./key-values.ts";
import type { Exit, Links } from "./pipeline.ts";
import { bareCondition } from "./rules/expression.ts";
import type { ForEachShape, StepShape } from "./schema.ts";
import type { ReadShape } from "./shape.ts";

export interface StepList {
  readonly steps: readonly StepShape[];
  /** The path of the list. */
  readonly path: Path;
  /** Paths whose values were removed (see ReadShape). */
  readonly cut: ReadonlySet<string>;
  /** Of the pipeline's own list: the steps that run when the run has reached its end. */
  readonly finally?: StepList;
}

/** The pipeline's own list. */
export function rootList({ shape, cut }: ReadShape): StepList {
  const list = { steps: shape.steps, path: ["steps"], cut };
  if (shape.finally === undefined) return list;
  return { ...list, finally: { steps: shape.finally, path: ["finally"], cut } };
}

/** The list in a step, in its `for_each` or beside it. */
export function listIn(list: StepList, index: number): StepList | undefined {
  const step = list.steps[index];
  const each = fanOutOf(step);
  const path = pathIn(list, index);
  const { cut } = list;
  if (each?.steps !== undefined) {
    return { steps: each.steps, path: [...path, "for_each", "steps"], cut };
  }
  return step?.steps && { steps: step.steps, path: [...path, "steps"], cut };
}

/** All lists of a file, outer ones first. */
export function* allLists(list: StepList): Generator<StepList> {
  yield list;
  for (const index of list.steps.keys()) {
    const inner = listIn(list, index);
    if (inner !== undefined) yield* allLists(inner);
  }
  if (list.finally !== undefined) yield* allLists(list.finally);
}

/** The long form of a step's fan-out, if it has one. */
export function fanOutOf(step: StepShape | undefined): ForEachShape | undefined {
  const each = step?.for_each;
  return typeof each === "object" && "in" in each ? each : undefined;
}

/** True when a step contains steps: its own, or those of another file. */
export function hasBody(step: StepShape): boolean {
  const own = step.steps ?? step.pipeline;
  return own !== undefined || fanOutOf(step)?.steps !== undefined;
}

/** The checks of a step, each with its path. */
export function checksIn(
  list: StepList,
  index: number,
): readonly { readonly check: CheckShape; readonly path: Path }[] {
  const check = list.steps[index]?.check;
  const path = pathIn(list, index, "check");
  if (!Array.isArray(check)) return check === undefined ? [] : [{ check, path }];
  return check.map((one, position) => ({ check: one, path: [...path, position] }));
}

/** The path of a step, or of one of its keys. */
export function pathIn({ path }: StepList, index: number, ...keys: readonly string[]): Path {
  return [...path, index, ...keys];
}

/** True when a step, or one of these keys of it, was removed. */
export function isCut(list: StepList, index: number, ...keys: readonly string[]): boolean {
  if (list.cut.size === 0) return false;
  const path = pathIn(list, index).join(".");
  return list.cut.has(path) || keys.some((key) => list.cut.has(`${path}.${key}`));
}

/** The links of each step of a list. */
export function linksOf({ steps }: StepList): readonly LinkedStep[] {
  const targets = new Set(steps.flatMap((step) => targetsOf(step)));
  let above: string | undefined;
  return steps.map((step) => {
    const linked = { id: step.id, needs: needsOf(step, above), ...exitsOf(step) };
    // A step with `needs: []` that another step jumps to is not part of the sequence.
    const aside = targets.has(step.id) && step.needs !== undefined && linked.needs.length === 0;
    if (!aside) above = step.id;
    return linked;
  });
}

function needsOf({ needs }: StepShape, above: string | undefined): readonly string[] {
  if (needs !== undefined) return [...new Set([needs].flat())];
  return above === undefined ? [] : [above];
}

/** The step that a failure leads to. */
export function failureTarget({ on_failure: on }: StepShape): string | undefined {
  return on === undefined || on === "continue" || on === "fail" ? undefined : on;
}

/** All steps that the keys of a step lead to. */
function targetsOf(step: StepShape): readonly string[] {
  const { goto } = step;
  const failure = failureTarget(step);
  return [
    ...(goto === undefined ? [] : [goto]),
    ...(step.edges ?? []).map(({ to }) => to),
    ...(failure === undefined ? [] : [failure]),
  ];
}

function exitsOf(step: StepShape): Omit<Links, "needs"> {
  const { goto, edges } = step;
  const failure = failureTarget(step);
  const exits = edges?.map(exitOf) ?? (goto === undefined ? undefined : [{ to: goto, weight: 0 }]);
  return {
    ...defined({ exits }),
    ...(failure === undefined ? {} : { onFailure: { goto: failure } }),
    ...(step.on_failure === "continue" ? { onFailure: "continue" } : {}),
  };
}

function exitOf(edge: NonNullable<StepShape["edges"]>[number]): Exit {
  const { to, when, label, weight = 0, fidelity, thread } = edge;
  return {
    to,
    ...(when === undefined ? {} : { when: bareCondition(String(when)).source }),
    ...defined({ label }),
    weight,
    ...defined({ fidelity, thread }),
  };
}

/** A step by its name, with its links. */
export interface LinkedStep extends Links {
  readonly id: string;
}

interface StepEdge extends Omit<Exit, "to"> {
  readonly from: number;
  readonly to: number;
  readonly on: "completed" | "failed";
}

export interface StepEdges {
  readonly edges: readonly StepEdge[];
  /** Steps without `needs`; a loop may lead back to them. */
  readonly roots: readonly number[];
  /** Steps that no edge leads to from any root. */
  readonly unreached: readonly number[];
  /** For each of those: the step above, which it would follow by default. */
  readonly above: ReadonlyMap<number, number>;
}

/** The edges between the steps of one list. */
export function edgesOf(steps: readonly LinkedStep[]): StepEdges {
  const position = new Map<string, number>();
  steps.forEach(({ id }, index) => {
    if (!position.has(id)) position.set(id, index);
  });
  const above = new Map<number, number>();
  const edges: StepEdge[] = [];
  steps.forEach(({ needs }, to) => {
    for (const need of needs) {
      const from = position.get(need);
      if (from === undefined) continue;
      if (steps[from]?.exits === undefined) edges.push({ from, to, on: "completed", weight: 0 });
      else above.set(to, from);
    }
  });
  steps.forEach(({ exits = [], onFailure }, from) => {
    for (const { to: name, ...rest } of exits) {
      const to = position.get(name);
      if (to !== undefined) edges.push({ from, to, on: "completed", ...rest });
    }
    if (typeof onFailure !== "object") return;
    const to = position.get(onFailure.goto);
    if (to !== undefined) edges.push({ from, to, on: "failed", weight: 0 });
  });
  return { edges, above, ...reach(steps, edges) };
}

function reach(
  steps: readonly LinkedStep[],
  edges: readonly StepEdge[],
): Pick<StepEdges, "roots" | "unreached"> {
  const outgoing: number[][] = steps.map(() => []);
  const entered = new Set<number>();
  for (const { from, to } of edges) {
    outgoing[from]?.push(to);
    if (from !== to) entered.add(to);
  }
  const seen = new Set<number>();
  const walk = (root: number): void => {
    const open = [root];
    seen.add(root);
    for (let step = open.pop(); step !== undefined; step = open.pop()) {
      for (const next of outgoing[step] ?? []) {
        if (seen.has(next)) continue;
        seen.add(next);
        open.push(next);
      }
    }
  };
  const roots: number[] = [];
  const candidates = steps.flatMap(({ needs }, step) => (needs.length === 0 ? [step] : []));
  const start = (root: number): void => {
    roots.push(root);
    walk(root);
  };
  for (const step of candidates) if (!entered.has(step)) start(step);
  for (const step of candidates) if (!seen.has(step)) start(step);
  const unreached = steps.flatMap((_, step) => (seen.has(step) ? [] : [step]));
  return { roots, unreached };
}

/** How many steps all searches in one list together may visit (pipeline/G1). */
const SEARCH_STEPS_MAX = 20_000_000;

/** The steps by position; `needs[i]` are the positions of the steps that step i waits for. */
export interface StepGraph {
  readonly needs: readonly (readonly number[])[];
  readonly followers: readonly (readonly number[])[];
  /** Cycles: each step waits for the next one, the last one for the first. */
  readonly cycles: readonly (readonly number[])[];
  /** Steps that wait for a cycle without being part of one. */
  readonly stuck: readonly number[];
  /** Length of the longest path to a step; -1 for those that never start. */
  readonly level: Int32Array;
}

/** The graph of the `needs` of each step. */
export function createStepGraph(needs: readonly (readonly number[])[]): StepGraph {
  const followers: number[][] = needs.map(() => []);
  needs.forEach((list, step) => {
    for (const need of list) followers[need]?.push(step);
  });
  const level = new Int32Array(needs.length).fill(-1);
  const waiting = Int32Array.from(needs, (list) => list.length);
  const ready = needs.flatMap((list, step) => (list.length === 0 ? [step] : []));
  for (const step of ready) {
    const above = (needs[step] ?? []).map((need) => level[need] ?? 0);
    level[step] = above.reduce((most, one) => Math.max(most, one), -1) + 1;
    for (const follower of followers[step] ?? []) {
      waiting[follower] = (waiting[follower] ?? 0) - 1;
      if (waiting[follower] === 0) ready.push(follower);
    }
  }
  const cycles = findCycles(needs, level);
  const inCycle = new Set(cycles.flat());
  const stuck = needs.flatMap((_, step) =>
    level[step] === -1 && !inCycle.has(step) ? [step] : [],
  );
  return { needs, followers, cycles, stuck, level };
}

/**
 * Every step that never starts waits for another one that never starts: this path ends in a cycle.
 */
function findCycles(needs: readonly (readonly number[])[], level: Int32Array): number[][] {
  const cycles: number[][] = [];
  const seenIn = new Map<number, number>();
  for (let start = 0; start < needs.length; start++) {
    const path: number[] = [];
    let step: number | undefined = level[start] === -1 ? start : undefined;
    while (step !== undefined && !seenIn.has(step)) {
      seenIn.set(step, start);
      path.push(step);
      step = needs[step]?.find((need) => level[need] === -1);
    }
    if (step !== undefined && path.length > 0 && seenIn.get(step) === start) {
      const cycle = path.slice(path.indexOf(step));
      const first = cycle.indexOf(Math.min(...cycle.slice(0, 1_000)));
      cycles.push([...cycle.slice(first), ...cycle.slice(0, first)]);
    }
  }
  return cycles;
}

/** Answers whether one step always ends before another one starts. */
export function createPrecedence(graph: StepGraph): (first: number, second: number) => boolean {
  const { enter, leave } = numberTree(graph);
  const { level, needs } = graph;
  const finds = createSearch(needs);
  return (first, second) => {
    // The usual case: the first step is an ancestor in the tree.
    const from = enter[first] ?? 0;
    const to = enter[second] ?? 0;
    if (from < to && to < (leave[first] ?? 0)) return true;
    const floor = level[first] ?? 0;
    if (floor >= (level[second] ?? 0)) return false;
    return finds(second, first, (step) => (level[step] ?? 0) > floor);
  };
}

/** Answers whether a path leads from one step to another. */
export function createReach(
  count: number,
  edges: readonly { readonly from: number; readonly to: number }[],
): (first: number, second: number) => boolean {
  const outgoing: number[][] = Array.from({ length: count }, () => []);
  for (const { from, to } of edges) outgoing[from]?.push(to);
  return createSearch(outgoing);
}

/** Answers whether a path leads from one step to another through steps that `mayLead`. */
function createSearch(next: readonly (readonly number[])[]) {
  let work = 0;
  return (from: number, to: number, mayLead = (_step: number): boolean => true): boolean => {
    const seen = new Set<number>();
    const open = [from];
    for (let step = open.pop(); step !== undefined; step = open.pop()) {
      for (const one of next[step] ?? []) {
        if (one === to || ++work > SEARCH_STEPS_MAX) return true;
        if (!mayLead(one) || seen.has(one)) continue;
        seen.add(one);
        open.push(one);
      }
    }
    return false;
  };
}

/** A depth-first tree of the graph: the numbers of the steps below a step are in its range. */
function numberTree({ needs, followers, level }: StepGraph) {
  const enter = new Int32Array(needs.length);
  const leave = new Int32Array(needs.length);
  let clock = 0;
  for (let root = 0; root < needs.length; root++) {
    if (level[root] !== 0) continue;
    const stack = [{ step: root, next: 0 }];
    enter[root] = ++clock;
    for (let frame = stack.at(-1); frame !== undefined; frame = stack.at(-1)) {
      const follower = followers[frame.step]?.[frame.next++];
      if (follower === undefined) {
        leave[frame.step] = ++clock;
        stack.pop();
      } else if (enter[follower] === 0 && level[follower] !== -1) {
        enter[follower] = ++clock;
        stack.push({ step: follower, next: 0 });
      }
    }
  }
  return { enter, leave };
}
