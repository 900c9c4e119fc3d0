/**
 * The steps of a file as a graph: who waits for whom, who waits in a circle, and who comes before
 * whom.
 *
 * Owns: these questions, for 100,000 steps in linear time.
 * Does not: read files or word mistakes.
 * Invariants:
 * - G1 `comesBefore` is exact until its work is used up; then it says yes, and a reference that is
 *   wrong after all fails when the run comes to it.
 */

/** How many steps all searches of `comesBefore` together may look at. */
const SEARCH_STEPS_MAX = 20_000_000;

/** The steps by position; `needs[i]` are the positions of the steps that step i waits for. */
export interface StepGraph {
  readonly needs: readonly (readonly number[])[];
  readonly followers: readonly (readonly number[])[];
  /** Circles: each step waits for the next one, the last one for the first. */
  readonly cycles: readonly (readonly number[])[];
  /** Steps that wait for a circle without being in one of `cycles`. */
  readonly stuck: readonly number[];
  /** Length of the longest path to a step; -1 for those that never start. */
  readonly level: Int32Array;
}

/** Reads the graph out of the needs of each step. */
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

/** Every step that never starts waits for another such step: going there must end in a circle. */
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

/** Answers whether one step is always over before another one starts. */
export function createPrecedence(graph: StepGraph): (first: number, second: number) => boolean {
  const { enter, leave } = numberTree(graph);
  const { level, needs } = graph;
  let work = 0;
  return (first, second) => {
    // Almost every question ends here: the first step is on the way that the tree took.
    const from = enter[first] ?? 0;
    const to = enter[second] ?? 0;
    if (from < to && to < (leave[first] ?? 0)) return true;
    const floor = level[first] ?? 0;
    if (floor >= (level[second] ?? 0)) return false;
    const seen = new Set<number>();
    const open = [second];
    for (let step = open.pop(); step !== undefined; step = open.pop()) {
      for (const need of needs[step] ?? []) {
        if (need === first || ++work > SEARCH_STEPS_MAX) return true;
        if ((level[need] ?? 0) <= floor || seen.has(need)) continue;
        seen.add(need);
        open.push(need);
      }
    }
    return false;
  };
}

/** Answers whether any way along arrows leads from one step to another. */
export function createReach(
  count: number,
  arrows: readonly { readonly from: number; readonly to: number }[],
): (first: number, second: number) => boolean {
  const outgoing: number[][] = Array.from({ length: count }, () => []);
  for (const { from, to } of arrows) outgoing[from]?.push(to);
  let work = 0;
  return (first, second) => {
    const seen = new Set<number>();
    const open = [first];
    for (let step = open.pop(); step !== undefined; step = open.pop()) {
      for (const next of outgoing[step] ?? []) {
        if (next === second || ++work > SEARCH_STEPS_MAX) return true;
        if (seen.has(next)) continue;
        seen.add(next);
        open.push(next);
      }
    }
    return false;
  };
}

/** A tree in the graph, depth first: who lies under a step has a number in the step's range. */
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
