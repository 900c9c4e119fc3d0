/**
 * From the steps that an author wrote to a graph, list by list, with what stands in each other.
 *
 * Owns: what `defaults` mean, the built-in defaults, and how often a run may come to a step.
 * Does not: read links (pipeline/step-arrows.ts) or validate; a pipeline is valid.
 */
import type {
  Env,
  Pipeline,
  PipelineBody,
  PipelineCheck,
  PipelineStep,
  PipelineWork,
  RetrySettings,
} from "../pipeline/pipeline.ts";
import { arrowsOf } from "../pipeline/step-arrows.ts";
import { assert, unreachable } from "../util/assert.ts";
import type { JsonObject } from "../util/json.ts";
import { closureOfAll, comeAgain, indexOf } from "./graph-index.ts";
import type { Work } from "./plan.ts";
import { type Arrow, type Graph, markBackArrows, type RetryPolicy, type Step } from "./plan.ts";

/** What a step gets when neither it nor `defaults` say anything on retries. */
export const RETRY_DEFAULT: RetryPolicy = {
  attempts: 1,
  backoff: { initialMs: 1_000, factor: 2, maxMs: 60_000, jitter: 0.5 },
  onResume: "fresh",
};
/** How often a run may come to a step that can come again, unless the author says otherwise. */
export const LOOP_VISITS_MAX = 10;

/** What surrounds a list of steps. */
export interface Surroundings {
  /** The file that it stands in, and the file that the run began with. */
  readonly pipeline: Pipeline;
  readonly main: Pipeline;
  /** How many steps of the whole run may run at once. */
  readonly maxParallel: number;
  /** What the files and groups around it add to the environment of each step. */
  readonly env: Env;
  /** The name in the plan of an agent that a file names. */
  readonly agentIn: (pipeline: Pipeline, name: string) => string;
}

/** The graph of a list of steps. */
export function buildGraph(list: readonly PipelineStep[], around: Surroundings): Graph {
  const { arrows, roots, unreached, above } = arrowsOf(list);
  const all = arrows.map(({ when, ...arrow }) => ({
    ...arrow,
    ...(when === undefined ? {} : { condition: when }),
  }));
  // A step that waits for nothing would start at once; what nothing leads to must never start.
  for (const to of unreached) {
    const from = above.get(to);
    if (from !== undefined) {
      all.push({ from, to, on: "completed", condition: "false", weight: 0 });
    }
  }
  const marked = markBackArrows(list.length, all, roots);
  const position = new Map(list.map(({ id }, index) => [id, index]));
  const steps = list.map((step) => buildStep(step, position, around));
  const visited = withVisits(list, { steps, arrows: marked }, around.pipeline.defaults.maxVisits);
  return { steps: visited, arrows: marked };
}

/** Steps that a loop or a missed goal can lead back to, or several arrows to, may be visited again. */
function withVisits(
  list: readonly PipelineStep[],
  graph: Graph,
  visitsMax = LOOP_VISITS_MAX,
): readonly Step[] {
  const starts = new Set(comeAgain(graph));
  const { forwardCount } = indexOf(graph);
  for (const [index, { join }] of graph.steps.entries()) {
    if (join === "any" && (forwardCount[index] ?? 0) > 1) starts.add(index);
  }
  const again = closureOfAll(graph, starts);
  return graph.steps.map((step, index) => {
    const said = list[index]?.maxVisits;
    return { ...step, visitsMax: said ?? (again.has(index) ? visitsMax : step.visitsMax) };
  });
}

function buildStep(
  step: PipelineStep,
  position: ReadonlyMap<string, number>,
  around: Surroundings,
): Step {
  const { exits, onFailure, goal } = step;
  const target = goal?.retryTarget === undefined ? undefined : position.get(goal.retryTarget);
  return {
    id: step.id,
    join: step.join ?? "all",
    split: exits === undefined ? "all" : "one",
    work: buildWork(step, around),
    ...(step.when === undefined ? {} : { when: step.when }),
    ...(isLeaf(step.work) ? leafSettings(step, around) : compositeSettings(step)),
    visitsMax: 1,
    ...(onFailure === "continue" ? { onFailure } : {}),
    ...(step.stallAfter === undefined ? {} : { stallAfter: step.stallAfter }),
    ...(goal === undefined
      ? {}
      : { goal: { holds: goal.holds, ...(target === undefined ? {} : { retryTarget: target }) } }),
  };
}

function isLeaf(work: PipelineWork): boolean {
  return work.kind === "shell" || work.kind === "agent";
}

type Settings = Omit<Step, "id" | "join" | "split" | "work" | "when" | "visitsMax">;

function leafSettings(step: PipelineStep, around: Surroundings): Settings {
  const { defaults } = around.pipeline;
  const cwd = step.cwd ?? defaults.cwd;
  const timeoutMs = step.timeoutMs ?? defaults.timeoutMs;
  const idleTimeoutMs = step.idleTimeoutMs ?? defaults.idleTimeoutMs;
  const graceMs = step.graceMs ?? defaults.graceMs;
  const isolate = step.isolate ?? defaults.isolate ?? false;
  const recover = step.recover ?? defaults.recover;
  return {
    env: { ...around.env, ...defaults.env, ...step.env },
    ...(cwd === undefined ? {} : { cwd }),
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
    ...(idleTimeoutMs === undefined ? {} : { idleTimeoutMs }),
    ...(graceMs === undefined ? {} : { graceMs }),
    retry: buildRetry({ ...defaults.retry, ...step.retry }),
    ...(step.check === undefined ? {} : { check: buildCheck(step.check, around) }),
    outputs: step.outputs,
    once: step.once,
    ...(step.probe === undefined ? {} : { probe: step.probe }),
    ...(step.notDone === undefined ? {} : { notDone: step.notDone }),
    ...(step.capture === undefined ? {} : { capture: step.capture }),
    ...(step.own === true ? { own: true } : {}),
    ...(isolate ? { isolate } : {}),
    ...(step.leavesRunning === true ? { leavesRunning: true } : {}),
    ...(recover === undefined ? {} : { recover }),
    ...(step.work.kind === "agent" ? toldSettings(step, around) : {}),
  };
}

/** One check stands for itself, so that its plan is the same as ever. */
function buildCheck(
  checks: readonly PipelineCheck[],
  around: Surroundings,
): NonNullable<Step["check"]> {
  const built = checks.map((check) =>
    check.kind === "judge"
      ? { ...check, agent: around.agentIn(around.pipeline, check.agent) }
      : check,
  );
  const [only] = built;
  return built.length === 1 && only !== undefined ? only : built;
}

/** What an agent is told. The first file's defaults are those of the plan, which all files share. */
function toldSettings(
  step: PipelineStep,
  { pipeline, main }: Surroundings,
): Pick<Step, "fidelity" | "thread" | "resumeFidelity"> {
  const { defaults } = pipeline;
  const own = pipeline === main ? undefined : defaults;
  const fidelity = step.fidelity ?? own?.fidelity;
  const thread = step.thread ?? own?.thread;
  const resumeFidelity = step.resumeFidelity ?? own?.resumeFidelity;
  return {
    ...(fidelity === undefined ? {} : { fidelity }),
    ...(thread === undefined ? {} : { thread }),
    ...(resumeFidelity === undefined ? {} : { resumeFidelity }),
  };
}

/** `defaults` are for the steps in it; trying all of them again is for the author to ask for. */
function compositeSettings({ retry, own }: Pick<PipelineStep, "retry" | "own">): Settings {
  const apart = own === true ? { own } : {};
  return { env: {}, retry: buildRetry(retry), outputs: {}, once: false, ...apart };
}

function buildRetry(retry: RetrySettings): RetryPolicy {
  const { attempts, backoff, onResume } = RETRY_DEFAULT;
  const { on } = retry;
  const initialMs = retry.initialMs ?? backoff.initialMs;
  return {
    attempts: retry.attempts ?? attempts,
    ...(on === undefined ? {} : { on }),
    backoff: {
      initialMs,
      factor: retry.factor ?? backoff.factor,
      // An author who asks for a first delay of 5m does not want it cut to the default of 1m.
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
        ...(work.input === undefined ? {} : { input: work.input }),
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
      const named = as === undefined ? {} : { as };
      return { kind: "each", items, ...named, graph, maxParallel, onItemFailure };
    }
    default:
      return unreachable(work);
  }
}

/** What is repeated; with an input of its own it stands in a step that gives it that, each time. */
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
    ...compositeSettings({ retry: {} }),
    visitsMax: 1,
  };
  return { steps: [inner], arrows: [] satisfies Arrow[] };
}

function buildBody(step: PipelineStep, body: PipelineBody, around: Surroundings): Graph {
  const own = { ...around.env, ...(isSingle(step, body) ? {} : step.env) };
  if (!("steps" in body)) return buildGraph(body, { ...around, env: own });
  assert(body !== around.pipeline, "a pipeline cannot stand in itself");
  return buildGraph(body.steps, { ...around, pipeline: body, env: { ...own, ...body.env } });
}

/** A fan-out of one step, whose own settings these are. */
function isSingle(step: PipelineStep, body: PipelineBody): boolean {
  return !("steps" in body) && body.length === 1 && body[0]?.id === step.id;
}
