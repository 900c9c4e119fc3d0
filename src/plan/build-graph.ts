/**
 * Lowers lists of steps, nested ones included, to graphs.
 *
 * Owns: the meaning of `defaults`, the built-in defaults, and the limits on visits.
 * Does not: derive edges from keys (pipeline/step-list.ts) or validate: the pipeline is valid.
 */

import type { Check, RetrySettings } from "../pipeline/key-values.ts";
import type { StepFields } from "../pipeline/keys.ts";
import type { Env, Pipeline, PipelineBody, PipelineStep } from "../pipeline/pipeline.ts";
import { edgesOf } from "../pipeline/step-list.ts";
import { assert, unreachable } from "../util/assert.ts";
import { defined } from "../util/defined.ts";
import type { JsonObject } from "../util/json.ts";
import { closureOfAll, indexOf, repeatableSteps } from "./graph-index.ts";
import {
  type Edge,
  type Graph,
  markBackEdges,
  type RetryPolicy,
  type Step,
  type Work,
} from "./plan.ts";

/** The retry rule of a step when neither it nor `defaults` has one. */
const RETRY_DEFAULT: RetryPolicy = {
  attempts: 1,
  backoff: { initialMs: 1_000, factor: 2, maxMs: 60_000, jitter: 0.5 },
  onResume: "fresh",
};
/** How many times a run may visit a step of a loop, unless the author sets `max_visits`. */
const LOOP_VISITS_MAX = 10;

/** The files and settings around a list of steps. */
interface Surroundings {
  /** The file that holds it, and the file that the run started with. */
  readonly pipeline: Pipeline;
  readonly main: Pipeline;
  /** How many steps of the whole run may run at once. */
  readonly maxParallel: number;
  /** Variables that the files and groups around the list set for each step. */
  readonly env: Env;
  /** The name that an agent of a file has in the plan. */
  readonly agentIn: (pipeline: Pipeline, name: string) => string;
}

/** The graph of a list of steps. */
export function buildGraph(list: readonly PipelineStep[], around: Surroundings): Graph {
  const { edges, roots, unreached, above } = edgesOf(list);
  const all = edges.map(({ when, ...edge }) => ({
    ...edge,
    ...defined({ condition: when }),
  }));
  // A step without incoming edges starts at once, but an unreachable step must never start.
  for (const to of unreached) {
    const from = above.get(to);
    if (from !== undefined) {
      all.push({ from, to, on: "completed", condition: "false", weight: 0 });
    }
  }
  const marked = markBackEdges(list.length, all, roots);
  const position = new Map(list.map(({ id }, index) => [id, index]));
  const steps = list.map((step) => buildStep(step, position, around));
  const visited = withVisits(
    list,
    { steps, edges: marked },
    around.pipeline.defaults.step.maxVisits,
  );
  return { steps: visited, edges: marked };
}

/** Allows several visits of steps that loops, missed goals or several edges can lead to. */
function withVisits(
  list: readonly PipelineStep[],
  graph: Graph,
  visitsMax = LOOP_VISITS_MAX,
): readonly Step[] {
  const starts = new Set(repeatableSteps(graph));
  const { forwardCount } = indexOf(graph);
  for (const [index, { join }] of graph.steps.entries()) {
    if (join === "any" && (forwardCount[index] ?? 0) > 1) starts.add(index);
  }
  const again = closureOfAll(graph, starts);
  return graph.steps.map((step, index) => {
    const written = list[index]?.settings.maxVisits;
    return { ...step, visitsMax: written ?? (again.has(index) ? visitsMax : step.visitsMax) };
  });
}

function buildStep(
  step: PipelineStep,
  position: ReadonlyMap<string, number>,
  around: Surroundings,
): Step {
  const leaf = step.work.kind === "shell" || step.work.kind === "agent";
  const settings = leaf ? inherited(step, around) : step.settings;
  // These have another form in a plan; every other field is copied.
  const { check, env, goal, isolate, join, maxVisits: _, retry, retryTarget, ...others } = settings;
  const { runsIn, ...rest } = others;
  const target = retryTarget === undefined ? undefined : position.get(retryTarget);
  return {
    outputs: {},
    once: false,
    ...rest,
    id: step.id,
    join: join ?? "all",
    split: step.exits === undefined ? "all" : "one",
    work: buildWork(step, around),
    // The steps in a group already contain the environment of the group.
    env: leaf ? { ...around.env, ...env } : {},
    retry: buildRetry(retry ?? {}),
    ...(check === undefined ? {} : { check: buildCheck(check, around) }),
    ...(isolate === true ? { isolate } : {}),
    ...(runsIn === undefined || runsIn === "host" ? {} : { runsIn }),
    visitsMax: 1,
    ...(step.onFailure === "continue" ? { onFailure: step.onFailure } : {}),
    ...(goal === undefined ? {} : { goal: { holds: goal, ...defined({ retryTarget: target }) } }),
  };
}

/**
 * The settings of a step, completed from `defaults`. Groups inherit nothing: `defaults` apply to
 * the steps in them, and only the author decides that a whole group is retried.
 */
function inherited({ work, settings }: PipelineStep, { pipeline, main }: Surroundings): StepFields {
  const { step: defaults } = pipeline.defaults;
  const { fidelity: _, thread: _thread, resumeFidelity: _resume, ...usual } = defaults;
  // For the file that the run started with, these defaults are fields of the plan.
  const reported = pipeline === main || work.kind !== "agent" ? usual : defaults;
  return {
    ...reported,
    ...settings,
    env: { ...defaults.env, ...settings.env },
    retry: { ...defaults.retry, ...settings.retry },
  };
}

/** The checks of a step; a single one is not put in a list. */
function buildCheck(checks: readonly Check[], around: Surroundings): NonNullable<Step["check"]> {
  const built = checks.map((check) =>
    check.kind === "judge"
      ? { ...check, agent: around.agentIn(around.pipeline, check.agent) }
      : check,
  );
  const [only] = built;
  return built.length === 1 && only !== undefined ? only : built;
}

function buildRetry(retry: RetrySettings): RetryPolicy {
  const { attempts, backoff, onResume } = RETRY_DEFAULT;
  const { on } = retry;
  const initialMs = retry.initialMs ?? backoff.initialMs;
  return {
    attempts: retry.attempts ?? attempts,
    ...defined({ on }),
    backoff: {
      initialMs,
      factor: retry.factor ?? backoff.factor,
      // An author who asks for a first delay of 5m does not want the default limit of 1m.
      maxMs: retry.maxMs ?? Math.max(initialMs, backoff.maxMs),
      jitter: retry.jitter ?? backoff.jitter,
    },
    onResume: retry.onResume ?? onResume,
    ...(retry.conversation === "fresh" ? { conversation: retry.conversation } : {}),
  };
}

function buildWork(step: PipelineStep, around: Surroundings): Work {
  const { work } = step;
  switch (work.kind) {
    case "shell":
    case "pass":
    case "fail":
    case "gate":
    case "wait":
      return work;
    case "agent":
      return { ...work, agent: around.agentIn(around.pipeline, work.agent) };
    case "group": {
      const graph = buildBody(step, work.body, around);
      return {
        kind: "pipeline",
        graph,
        ...defined({ input: work.input }),
      };
    }
    case "loop": {
      const { until, iterationsMax, onExhausted } = work;
      const graph = repeatedGraph(step, work.body, work.input, around);
      const condition = until === undefined ? {} : { until };
      return { kind: "loop", graph, ...condition, iterationsMax, onExhausted };
    }
    case "each": {
      const { items, as, onItemFailure, maxParallel = around.maxParallel } = work;
      const graph = repeatedGraph(step, work.body, work.input, around);
      const named = defined({ as, selection: work.selection });
      return { kind: "each", items, ...named, graph, maxParallel, onItemFailure };
    }
    default:
      return unreachable(work);
  }
}

/** The graph that is repeated. If it has its own input, a step around it sets that input. */
function repeatedGraph(
  step: PipelineStep,
  body: PipelineBody,
  input: JsonObject | undefined,
  around: Surroundings,
): Graph {
  const graph = buildBody(step, body, around);
  if (input === undefined) return graph;
  const inner: Step = {
    id: step.id,
    join: "all",
    split: "all",
    work: { kind: "pipeline", graph, input },
    ...{ env: {}, retry: RETRY_DEFAULT, outputs: {}, once: false },
    visitsMax: 1,
  };
  return { steps: [inner], edges: [] satisfies Edge[] };
}

function buildBody(step: PipelineStep, body: PipelineBody, around: Surroundings): Graph {
  const own = { ...around.env, ...(isSingle(step, body) ? {} : step.settings.env) };
  if (!("steps" in body)) return buildGraph(body, { ...around, env: own });
  assert(body !== around.pipeline, "a pipeline cannot contain itself");
  return buildGraph(body.steps, { ...around, pipeline: body, env: { ...own, ...body.env } });
}

/** True for a fan-out of a single step: the settings are those of that step. */
function isSingle(step: PipelineStep, body: PipelineBody): boolean {
  return !("steps" in body) && body.length === 1 && body[0]?.id === step.id;
}
