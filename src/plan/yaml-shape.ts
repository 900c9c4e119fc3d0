/**
 * A plan as the content of a YAML file: the way back from what will be run to what was written.
 *
 * Owns: the file as a whole.
 * Does not: promise that the file means the same; who converts reads it again and compares.
 */
import { PARALLEL_DEFAULT, WALK_PARALLEL_MAX } from "../pipeline/parallel.ts";
import { pricesShape } from "../pipeline/price-schema.ts";
import type { PipelineShape } from "../pipeline/schema.ts";
import { durationText } from "../util/duration.ts";
import { canonicalJson, type JsonObject } from "../util/json.ts";
import { WORKSPACE_DEFAULT } from "./build.ts";
import type { Budget, Plan, WorkspacePlan } from "./plan.ts";
import { WALK_FIDELITY, WALK_VISITS_MAX } from "./walk.ts";
import { agentShapes } from "./yaml-agents.ts";
import { defaultRetry, type YamlDefaults, yamlDefaults } from "./yaml-defaults.ts";
import { stepShapes } from "./yaml-steps.ts";

const MEGABYTE = 1024 * 1024;

/** The content of the file that says this plan. */
export function yamlShape(plan: Plan): PipelineShape {
  const defaults = yamlDefaults(plan);
  const { walk } = defaults;
  const { name, maxParallel, inputSchema, env, secrets, context, workspace } = plan;
  const { budget, prices } = plan;
  const agents = agentShapes(plan);
  const shared = defaultsShape(plan, defaults);
  return {
    name,
    ...(walk ? { language: "attractor" } : {}),
    ...(maxParallel === (walk ? WALK_PARALLEL_MAX : PARALLEL_DEFAULT)
      ? {}
      : { max_parallel: maxParallel }),
    ...(inputSchema === undefined ? {} : { input: inputSchema as JsonObject }),
    ...(context === undefined ? {} : { context: { ...context } }),
    ...(Object.keys(env).length === 0 ? {} : { env }),
    ...(secrets === undefined ? {} : { secrets: [...secrets] }),
    ...(Object.keys(agents).length === 0 ? {} : { agents }),
    ...(budget === undefined ? {} : { budget: budgetShape(budget) }),
    ...(prices === undefined ? {} : { prices: pricesShape(prices) }),
    ...workspaceShape(workspace),
    ...(Object.keys(shared).length === 0 ? {} : { defaults: shared }),
    steps: [...stepShapes({ graph: plan.graph }, defaults)],
  };
}

function defaultsShape(plan: Plan, defaults: YamlDefaults): NonNullable<PipelineShape["defaults"]> {
  const { walk, agent, env, visitsMax } = defaults;
  const { fidelity, thread, resumeFidelity } = plan;
  const told = fidelity === undefined || (walk && fidelity === WALK_FIDELITY);
  const retry = defaultRetry(defaults);
  return {
    ...(agent === undefined ? {} : { agent }),
    ...(Object.keys(env).length === 0 ? {} : { env }),
    ...(retry === undefined ? {} : { retry }),
    ...(told ? {} : { fidelity }),
    ...(thread === undefined ? {} : { thread }),
    ...(resumeFidelity === undefined ? {} : { resume_fidelity: resumeFidelity }),
    ...(walk && visitsMax !== WALK_VISITS_MAX ? { max_visits: visitsMax } : {}),
  };
}

function budgetShape({ usd, tokens, turns, timeMs }: Budget) {
  return {
    ...(usd === undefined ? {} : { usd }),
    ...(tokens === undefined ? {} : { tokens }),
    ...(turns === undefined ? {} : { turns }),
    ...(timeMs === undefined ? {} : { time: durationText(timeMs) }),
  };
}

function workspaceShape(workspace: WorkspacePlan | undefined): Pick<PipelineShape, "workspace"> {
  if (workspace === undefined) return {};
  if (canonicalJson(workspace) === canonicalJson(WORKSPACE_DEFAULT)) return {};
  const { kind, base, include, snapshots, snapshotEveryMs, fileBytesMax } = workspace;
  const long = {
    ...(kind === WORKSPACE_DEFAULT.kind ? {} : { kind }),
    ...(base === undefined ? {} : { base }),
    ...(include.length === 0 ? {} : { include: [...include] }),
    ...(snapshots ? {} : { snapshots }),
    ...(snapshotEveryMs === WORKSPACE_DEFAULT.snapshotEveryMs
      ? {}
      : { snapshot_every: durationText(snapshotEveryMs) }),
    ...(fileBytesMax === undefined ? {} : { max_file_mb: fileBytesMax / MEGABYTE }),
  };
  return { workspace: Object.keys(long).join() === "kind" ? kind : long };
}
