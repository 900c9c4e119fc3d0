/**
 * Lowers a validated pipeline to the plan that a run freezes.
 *
 * Owns: the agents of a plan, and the environment variables that it reads.
 * Does not: build the graph (build-graph.ts) or validate: the pipeline is valid.
 */
import type { Env, Pipeline, PipelineStep } from "../pipeline/pipeline.ts";
import { assert, unreachable } from "../util/assert.ts";
import { defined } from "../util/defined.ts";
import { parseExpression } from "../util/expression.ts";
import { canonicalJson, isObject, type Json } from "../util/json.ts";
import { parseTemplate } from "../util/template.ts";
import { buildGraph } from "./build-graph.ts";
import { graphsIn, graphsOf } from "./graph-index.ts";
import {
  type AgentDefinition,
  type AgentSettings,
  type Check,
  checksOf,
  type Graph,
  PLAN_FORMAT,
  type Plan,
  type Work,
  type WorkspaceSettings,
} from "./plan.ts";

/** The workspace when the author does not set one. */
export const WORKSPACE_DEFAULT: WorkspaceSettings = {
  kind: "here",
  include: [],
  snapshots: true,
  snapshotEveryMs: 120_000,
};

/** The plan of a pipeline: a list of steps is a graph that joins all and splits all. */
export function buildPlan(pipeline: Pipeline): Plan {
  const { name, maxParallel, inputSchema, env, steps } = pipeline;
  const { context, budget, prices, cache, concurrency, schedule, notify } = pipeline;
  const { fidelity, thread, resumeFidelity } = pipeline.defaults.step;
  const agents = new AgentNames();
  agents.add(pipeline);
  const around = {
    pipeline,
    main: pipeline,
    maxParallel,
    env: {},
    agentIn: (file: Pipeline, agent: string) => agents.nameOf(file, agent),
  };
  const graph = buildGraph(steps, around);
  const secrets = [...new Set(inAllFiles(pipeline, (file) => file.secrets))];
  const envFiles = [...new Set(inAllFiles(pipeline, (file) => file.envFiles))];
  const requires = [...new Set(inAllFiles(pipeline, (file) => file.requires))];
  return {
    format: PLAN_FORMAT,
    name,
    maxParallel,
    ...defined({ inputSchema }),
    env,
    ...(envFiles.length === 0 ? {} : { envFiles }),
    ...(secrets.length === 0 ? {} : { secrets }),
    ...(requires.length === 0 ? {} : { requires }),
    agents: agents.definitions,
    ...defined({ context, budget, prices, cache, concurrency, schedule, notify }),
    workspace: { ...WORKSPACE_DEFAULT, ...pipeline.workspace },
    ...defined({ fidelity, thread, resumeFidelity }),
    graph,
    ...(pipeline.finally === undefined ? {} : { finally: buildGraph(pipeline.finally, around) }),
  };
}

/** The agents of all files of a plan; two files may use one name for different agents. */
class AgentNames {
  readonly definitions: Record<string, AgentDefinition> = {};
  readonly #names = new Map<Pipeline, ReadonlyMap<string, string>>();

  /** Adds the agents of a file: those that it declares, and those that its steps name. */
  add(pipeline: Pipeline): void {
    const own = { ...knownAgents(pipeline), ...pipeline.agents };
    const complete = Object.entries(withDefaults(own, pipeline.defaults.agent));
    const named = complete.map(([name, agent]) => {
      const nameAt = (number: number) => (number === 1 ? name : `${name}#${number}`);
      return [name, claimAgent(this.definitions, agent, nameAt)] as const;
    });
    this.#names.set(pipeline, new Map(named));
  }

  nameOf(pipeline: Pipeline, agent: string): string {
    if (!this.#names.has(pipeline)) this.add(pipeline);
    const name = this.#names.get(pipeline)?.get(agent);
    assert(name !== undefined, `the pipeline has no agent ${agent}`);
    return name;
  }
}

/**
 * The name of an agent in a plan: the first of `nameAt(1)`, `nameAt(2)` ... that no other agent has.
 */
export function claimAgent(
  definitions: Record<string, AgentDefinition>,
  agent: AgentDefinition,
  nameAt: (number: number) => string,
): string {
  const text = canonicalJson(agent);
  for (let number = 1; ; number++) {
    const name = nameAt(number);
    const taken = Object.hasOwn(definitions, name) ? definitions[name] : undefined;
    if (taken !== undefined && canonicalJson(taken) !== text) continue;
    definitions[name] = agent;
    return name;
  }
}

/** Agents that steps name without a declaration: the name is that of an adapter. */
function knownAgents({ agents, steps, finally: end = [] }: Pipeline): Plan["agents"] {
  return Object.fromEntries(
    agentsNamed([...steps, ...end])
      .filter((name) => !Object.hasOwn(agents, name))
      .map((name) => [name, { adapter: name, args: [], env: {}, settings: {} }]),
  );
}

/** The names in a list of a file and of the files of its sub-pipelines. */
function inAllFiles(
  pipeline: Pipeline,
  namesIn: (file: Pipeline) => readonly string[] | undefined,
): readonly string[] {
  const inside = (steps: readonly PipelineStep[]): readonly string[] =>
    steps.flatMap(({ work }) => {
      if (!("body" in work)) return [];
      return "steps" in work.body ? inAllFiles(work.body, namesIn) : inside(work.body);
    });
  return [...(namesIn(pipeline) ?? []), ...inside(pipeline.steps)];
}

/** The agents that the steps of one file name, nested steps included. */
function agentsNamed(steps: readonly PipelineStep[]): readonly string[] {
  return steps.flatMap(({ work, settings: { check = [] } }) => {
    const judges = check.flatMap((one) => (one.kind === "judge" ? [one.agent] : []));
    if (work.kind === "agent") return [work.agent, ...judges];
    return "body" in work && !("steps" in work.body) ? agentsNamed(work.body) : judges;
  });
}

/** An agent's own settings override `defaults`; a plain command has no settings. */
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

/** The environment variables that the expressions of a plan read, sorted. */
export function envNamesOf(plan: Plan): string[] {
  const names = new EnvNames();
  names.addTexts(values(plan.env), {});
  for (const { command, env, settings } of Object.values(plan.agents)) {
    const texts = [command, settings.system, ...accessTexts(settings), ...values(env)];
    names.addTexts(texts, plan.env);
  }
  for (const graph of graphsOf(plan)) addGraph(graph, plan.env, names);
  return [...names.found].sort();
}

function addGraph(graph: Graph, around: Env, names: EnvNames): void {
  for (const step of graph.steps) {
    const { work, when, env, outputs, cwd, probe } = step;
    const own = { ...around, ...env };
    names.addTexts(values(env), around);
    for (const source of [when, ...expressionsOf(work)]) names.addExpression(source, own);
    names.addTexts([cwd, probe, ...values(outputs), ...textsOf(work)], own);
    names.addTexts(checksOf(step).map(checkText), own);
    for (const inner of graphsIn(work)) addGraph(inner, around, names);
  }
}

/** Collects the environment variables that expressions read and the file does not set. */
class EnvNames {
  readonly found = new Set<string>();

  addExpression(source: string | undefined, set: Env): void {
    const parsed = source?.includes("env") ? parseExpression(source) : undefined;
    if (!parsed?.ok) return;
    for (const { variable, keys } of parsed.expression.references) {
      const name = variable === "env" ? keys[0]?.name : undefined;
      if (name !== undefined && !Object.hasOwn(set, name)) this.found.add(name);
    }
  }

  addTexts(texts: readonly (string | undefined)[], set: Env): void {
    for (const text of texts) {
      const parsed = text?.includes("${{") ? parseTemplate(text) : undefined;
      if (!parsed?.ok) continue;
      for (const part of parsed.parts) {
        if (part.kind === "expression") this.addExpression(part.source, set);
      }
    }
  }
}

/** The template of a check. */
function checkText(check: Check): string {
  if (check.kind === "command") return check.run;
  return check.kind === "judge" ? check.rubric : check.file;
}

function expressionsOf(work: Work): readonly string[] {
  if (work.kind === "each") {
    const { where, sortBy } = work.selection ?? {};
    const items = typeof work.items === "string" ? work.items : undefined;
    return [items, where, sortBy].filter((source) => source !== undefined);
  }
  return work.kind === "loop" && work.until !== undefined ? [work.until] : [];
}

function textsOf(work: Work): readonly (string | undefined)[] {
  switch (work.kind) {
    case "shell":
      return [work.run];
    case "agent":
      return [work.prompt, work.settings.system, ...accessTexts(work.settings)];
    case "pipeline":
      return textsIn(work.input ?? null);
    case "each":
      return typeof work.items === "string" || "list" in work.items ? [] : values(work.items);
    case "gate":
      return [work.ask, ...(work.show ?? [])];
    case "fail":
      return [work.message];
    case "wait":
      return "until" in work ? [work.until] : [];
    case "loop":
    case "branches":
    case "pass":
    case "pick":
      return [];
    default:
      return unreachable(work);
  }
}

function accessTexts({ mcp, directories = [] }: AgentSettings): readonly string[] {
  return [...textsIn(mcp ?? null), ...directories];
}

/** All texts in a value, however deep. */
function textsIn(value: Json): readonly string[] {
  if (typeof value === "string") return [value];
  const inner = Array.isArray(value) ? value : isObject(value) ? Object.values(value) : [];
  return (inner as readonly Json[]).flatMap(textsIn);
}

function values(texts: Env): readonly string[] {
  return Object.values(texts);
}
