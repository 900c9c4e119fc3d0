/** Agents and their settings, in the words of YAML. */
import type { PipelineShape, StepShape } from "../pipeline/schema.ts";
import type { JsonObject } from "../util/json.ts";
import type { AgentDefinition, AgentSettings, Plan } from "./plan.ts";

type AgentShape = NonNullable<PipelineShape["agents"]>[string];

/** The agents that a file has to declare: all but those that are what their name says. */
export function agentShapes(plan: Plan): Readonly<Record<string, AgentShape>> {
  return Object.fromEntries(
    Object.entries(plan.agents)
      .filter(([name, agent]) => !isPlain(name, agent))
      .map(([name, agent]) => [name, agentShape(agent)]),
  );
}

function isPlain(
  name: string,
  { adapter, command, args, env, settings }: AgentDefinition,
): boolean {
  const bare = args.length === 0 && command === undefined && Object.keys(env).length === 0;
  return name === adapter && bare && Object.keys(settings).length === 0;
}

function agentShape({ adapter, command, args, env, settings }: AgentDefinition): AgentShape {
  const long = {
    ...(adapter === "command" ? {} : { adapter: adapter as "claude" }),
    ...(command === undefined ? {} : { command }),
    ...(args.length === 0 ? {} : { args: [...args] }),
    ...(Object.keys(env).length === 0 ? {} : { env }),
    ...settingsShape(settings),
  };
  const [only] = Object.keys(long);
  return only === "command" && Object.keys(long).length === 1 ? (command ?? "") : long;
}

/** What a step or an agent says about its calls. */
export function settingsShape(settings: AgentSettings): Partial<StepShape> {
  const { model, system, permissions, maxTurns, outputSchema, billing, relay } = settings;
  const { tools, onDenied, effort, mcp, directories } = settings;
  const at = relay && ("tokens" in relay ? relay.tokens : `${Math.round(relay.share * 100)}%`);
  return {
    ...(model === undefined ? {} : { model }),
    ...(system === undefined ? {} : { system }),
    ...(permissions === undefined ? {} : { permissions }),
    ...(maxTurns === undefined ? {} : { max_turns: maxTurns }),
    ...(outputSchema === undefined ? {} : { output_schema: outputSchema as JsonObject }),
    ...(billing === undefined ? {} : { billing }),
    ...(at === undefined ? {} : { relay: { at } }),
    ...(tools === undefined ? {} : { tools: { allow: [...tools.allow], deny: [...tools.deny] } }),
    ...(onDenied === undefined ? {} : { on_denied: onDenied }),
    ...(effort === undefined ? {} : { effort: effort as StepShape["effort"] }),
    ...(mcp === undefined ? {} : { mcp: mcp as StepShape["mcp"] }),
    ...(directories === undefined ? {} : { directories: [...directories] }),
  };
}
