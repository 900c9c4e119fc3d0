/**
 * A list of steps as the walk that comes nearest to it, so that DOT can say it.
 *
 * Owns: what becomes of `needs`, of defaults that walks have not, and naming what is no longer meant.
 * Does not: change a plan that is a walk.
 */
import { WALK_PARALLEL_MAX } from "../pipeline/parallel.ts";
import { WEIGHT_LAST } from "../pipeline/step-links.ts";
import { RETRY_DEFAULT } from "./build-graph.ts";
import { indexOf } from "./graph-index.ts";
import { type Arrow, type Graph, markBackArrows, type Plan, type Step } from "./plan.ts";
import type { Difference } from "./plan-difference.ts";
import { isTried, stallAfter, WALK_FIDELITY, WALK_RETRY, WALK_VISITS_MAX } from "./walk.ts";

export interface AsWalk {
  readonly plan: Plan;
  readonly differences: readonly Difference[];
}

const LIST_MESSAGE =
  "its steps are a list; in DOT they are a walk: one at a time, with that language's context, " +
  "retries and bounds on visits";

/** The walk for a plan, and what it no longer means; a walk stays as it is. */
export function asWalk(plan: Plan): AsWalk {
  if (plan.keys !== undefined) return { plan, differences: [] };
  const { graph } = plan;
  const walk: Plan = {
    ...plan,
    keys: "attractor",
    maxParallel: WALK_PARALLEL_MAX,
    context: { ...plan.context, "graph.goal": "" },
    fidelity: plan.fidelity ?? WALK_FIDELITY,
    graph: walkGraph(graph),
  };
  const whole = { steps: [], message: LIST_MESSAGE };
  return { plan: walk, differences: [whole, ...sideBySide(graph)] };
}

/** Where several steps begin, or several are waited for. */
function sideBySide(graph: Graph): readonly Difference[] {
  const { outgoing, forwardCount, entries } = indexOf(graph);
  const names = (positions: readonly number[]): string =>
    positions.map((position) => `\`${graph.steps[position]?.id}\``).join(", ");
  const first =
    entries.length > 1
      ? [{ steps: [], message: `${names(entries)} begin together; a walk begins with one of them` }]
      : [];
  return graph.steps.reduce<Difference[]>((found, step, position) => {
    const targets = (outgoing[position] ?? []).flatMap((index) => {
      const arrow = graph.arrows[index];
      return arrow?.on === "completed" ? [arrow.to] : [];
    });
    if (step.split === "all" && targets.length > 1) {
      const message = `${names(targets)} follow it together; in a walk only one of them does`;
      found.push({ steps: [step.id], message });
    }
    if (step.join === "all" && (forwardCount[position] ?? 0) > 1 && step.split === "all") {
      const message = "it waits for all steps that lead to it; in a walk each of them starts it";
      found.push({ steps: [step.id], message });
    }
    return found;
  }, first);
}

/** The same steps between a start and an exit. */
function walkGraph(graph: Graph): Graph {
  const { outgoing, entries } = indexOf(graph);
  const taken = new Set(graph.steps.map(({ id }) => id));
  const free = (name: string): string => (taken.has(name) ? free(`${name}_`) : name);
  const exit = graph.steps.length + 1;
  const moved = graph.arrows.map((drawn): Drawn => {
    const { back: _, ...arrow } = drawn;
    const last = arrow.on === "failed" && arrow.condition === undefined;
    const weight = last ? WEIGHT_LAST : arrow.weight;
    return { ...arrow, from: arrow.from + 1, to: arrow.to + 1, weight };
  });
  const open = graph.steps.flatMap((_, position) => {
    const goesOn = (outgoing[position] ?? []).some(
      (index) => graph.arrows[index]?.on === "completed",
    );
    return goesOn ? [] : [plain(position + 1, exit)];
  });
  const begin = entries.map((entry) => plain(0, entry + 1));
  const arrows = [...begin, ...moved, ...open].toSorted((one, other) => one.from - other.from);
  const steps = [passStep(free("start")), ...graph.steps.map(walkStep), passStep(free("exit"))];
  return { steps, arrows: markBackArrows(steps.length, arrows, [0]) };
}

type Drawn = Omit<Arrow, "back">;

function plain(from: number, to: number): Drawn {
  return { from, to, on: "completed", weight: 0 };
}

function passStep(id: string): Step {
  return {
    id,
    join: "any",
    split: "one",
    work: { kind: "pass" },
    env: {},
    retry: WALK_RETRY,
    outputs: {},
    once: false,
    visitsMax: WALK_VISITS_MAX,
    stallAfter: stallAfter(WALK_VISITS_MAX),
  };
}

function walkStep(step: Step): Step {
  const { work, retry, goal } = step;
  const tries = isTried(work) ? retry.attempts : 1;
  const on = work.kind === "shell" && tries > 1 ? "any" : "retry";
  const { initialMs } = retry.backoff;
  const usual = initialMs === RETRY_DEFAULT.backoff.initialMs;
  const backoff = usual ? WALK_RETRY.backoff : retry.backoff;
  const visitsMax = step.visitsMax === 1 ? WALK_VISITS_MAX : step.visitsMax;
  const target = goal?.retryTarget === undefined ? {} : { retryTarget: goal.retryTarget + 1 };
  return {
    ...step,
    join: "any",
    split: "one",
    env: work.kind === "shell" || work.kind === "agent" ? { ...step.env, goal: "" } : step.env,
    retry: { attempts: tries, on, backoff, onResume: "keep" },
    visitsMax,
    stallAfter: step.stallAfter ?? stallAfter(visitsMax),
    ...(goal === undefined ? {} : { goal: { ...goal, ...target } }),
  };
}
