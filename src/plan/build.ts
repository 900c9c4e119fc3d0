/**
 * Lowers a validated pipeline to the plan that a run freezes.
 *
 * Owns: what `defaults` mean, the built-in defaults, and the arrows that `needs` stand for.
 * Does not: validate; a pipeline is valid.
 */
import type { Env, Pipeline, PipelineStep, RetrySettings } from "../pipeline/pipeline.ts";
import { assert } from "../util/assert.ts";
import { parseExpression } from "../util/expression.ts";
import { parseTemplate } from "../util/template.ts";
import {
  type AgentSettings,
  type Arrow,
  type Graph,
  markBackArrows,
  PLAN_FORMAT,
  type Plan,
  type RetryPolicy,
  type Step,
  type WorkspacePlan,
} from "./plan.ts";

/** What a step gets when neither it nor `defaults` say anything on retries. */
const RETRY_DEFAULT: RetryPolicy = {
  attempts: 1,
  backoff: { initialMs: 1_000, factor: 2, maxMs: 60_000, jitter: 0.5 },
  onResume: "fresh",
};

/** Where steps work when the author says nothing about it. */
const WORKSPACE_DEFAULT: WorkspacePlan = {
  kind: "here",
  include: [],
  snapshots: true,
  snapshotEveryMs: 120_000,
};

/** The plan of a pipeline: a list of steps is a graph that joins all and splits all. */
export function buildPlan(pipeline: Pipeline): Plan {
  const { name, maxParallel, inputSchema, env, agents, steps } = pipeline;
  return {
    format: PLAN_FORMAT,
    name,
    maxParallel,
    ...(inputSchema === undefined ? {} : { inputSchema }),
    env,
    agents: withDefaults({ ...knownAgents(pipeline), ...agents }, pipeline.defaults.agent),
    ...(pipeline.budget === undefined ? {} : { budget: pipeline.budget }),
    workspace: { ...WORKSPACE_DEFAULT, ...pipeline.workspace },
    graph: {
      steps: steps.map((step) => buildStep(step, pipeline)),
      arrows: buildArrows(steps),
    },
  };
}

/** Agents that steps name without declaring them: their adapter's name is theirs. */
function knownAgents({ agents, steps }: Pipeline): Plan["agents"] {
  const named = steps.flatMap(({ work }) => (work.kind === "agent" ? [work.agent] : []));
  return Object.fromEntries(
    named
      .filter((name) => !Object.hasOwn(agents, name))
      .map((name) => [name, { adapter: name, args: [], env: {}, settings: {} }]),
  );
}

/** What an agent says itself outweighs what is said for all; a plain command takes no settings. */
function withDefaults(agents: Plan["agents"], defaults: AgentSettings): Plan["agents"] {
  return Object.fromEntries(
    Object.entries(agents).map(([name, agent]) => [
      name,
      agent.adapter === "command"
        ? agent
        : { ...agent, settings: { ...defaults, ...agent.settings } },
    ]),
  );
}

function buildStep(step: PipelineStep, { defaults }: Pipeline): Step {
  const cwd = step.cwd ?? defaults.cwd;
  const timeoutMs = step.timeoutMs ?? defaults.timeoutMs;
  const idleTimeoutMs = step.idleTimeoutMs ?? defaults.idleTimeoutMs;
  const isolate = step.isolate ?? defaults.isolate ?? false;
  const recover = step.recover ?? defaults.recover;
  return {
    id: step.id,
    join: "all",
    split: "all",
    work: step.work,
    ...(step.when === undefined ? {} : { when: step.when }),
    env: { ...defaults.env, ...step.env },
    ...(cwd === undefined ? {} : { cwd }),
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
    ...(idleTimeoutMs === undefined ? {} : { idleTimeoutMs }),
    retry: buildRetry({ ...defaults.retry, ...step.retry }),
    ...(step.check === undefined ? {} : { check: step.check }),
    outputs: step.outputs,
    once: step.once,
    ...(step.probe === undefined ? {} : { probe: step.probe }),
    ...(step.own === true ? { own: true } : {}),
    ...(isolate ? { isolate } : {}),
    ...(recover === undefined ? {} : { recover }),
    visitsMax: 1,
  };
}

function buildRetry(retry: RetrySettings): RetryPolicy {
  const { attempts, backoff, onResume } = RETRY_DEFAULT;
  const initialMs = retry.initialMs ?? backoff.initialMs;
  return {
    attempts: retry.attempts ?? attempts,
    backoff: {
      initialMs,
      factor: retry.factor ?? backoff.factor,
      // An author who asks for a first delay of 5m does not want it cut to the default of 1m.
      maxMs: retry.maxMs ?? Math.max(initialMs, backoff.maxMs),
      jitter: retry.jitter ?? backoff.jitter,
    },
    onResume: retry.onResume ?? onResume,
  };
}

function buildArrows(steps: readonly PipelineStep[]): readonly Arrow[] {
  const position = new Map(steps.map(({ id }, index) => [id, index]));
  const arrows = steps.flatMap(({ needs }, to) =>
    needs.map((need) => {
      const from = position.get(need);
      assert(from !== undefined, `the pipeline has no step ${need}`);
      return { from, to, on: "completed", weight: 0 } as const;
    }),
  );
  return markBackArrows(steps.length, arrows);
}

/** The names of the environment that the expressions of a plan rely on, sorted. */
export function envNamesOf(plan: Plan): string[] {
  const names = new Set<string>();
  const addExpression = (source: string): void => {
    const parsed = source.includes("env") ? parseExpression(source) : undefined;
    if (!parsed?.ok) return;
    for (const { variable, keys } of parsed.expression.references) {
      if (variable === "env" && keys[0] !== undefined) names.add(keys[0].name);
    }
  };
  const addTexts = (texts: readonly (string | undefined)[]): void => {
    for (const text of texts) {
      const parsed = text?.includes("${{") ? parseTemplate(text) : undefined;
      if (!parsed?.ok) continue;
      for (const part of parsed.parts) if (part.kind === "expression") addExpression(part.source);
    }
  };
  addTexts(Object.values(plan.env));
  for (const { command, env, settings } of Object.values(plan.agents)) {
    addTexts([command, settings.system, ...values(env)]);
  }
  visitGraph(plan.graph, addExpression, addTexts);
  return [...names].sort();
}

function visitGraph(
  graph: Graph,
  addExpression: (source: string) => void,
  addTexts: (texts: readonly (string | undefined)[]) => void,
): void {
  for (const { condition } of graph.arrows) if (condition !== undefined) addExpression(condition);
  for (const { work, when, check, env, outputs, cwd, probe } of graph.steps) {
    if (when !== undefined) addExpression(when);
    addTexts([cwd, probe, ...values(env), ...values(outputs)]);
    if (check !== undefined) addTexts([check.kind === "command" ? check.run : check.file]);
    if (work.kind === "shell") addTexts([work.run]);
    else if (work.kind === "agent") addTexts([work.prompt, work.settings.system]);
    else {
      if (work.kind === "each") addExpression(work.items);
      visitGraph(work.graph, addExpression, addTexts);
    }
  }
}

function values(texts: Env): readonly string[] {
  return Object.values(texts);
}
