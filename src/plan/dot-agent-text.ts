/** An agent's call as attributes of a DOT node: provider, model, effort and tool hooks. */
import type { Attributes } from "../pipeline/dot/print.ts";
import { type Json, parseJson } from "../util/json.ts";
import { EFFORTS, hooksOf, PROVIDERS, usualAdapter } from "./dot-agent.ts";
import { plainText } from "./dot-plain-text.ts";
import type { Plan, Work } from "./plan.ts";

type AgentWork = Extract<Work, { kind: "agent" }>;

/** The words for an agent's call. */
export function agentAttributes(plan: Plan, { agent, settings }: AgentWork): Attributes {
  const definition = plan.agents[agent];
  const adapter = definition?.adapter ?? agent;
  // A stylesheet may name a provider for nodes that do not.
  const styled = plan.context?.["graph.model_stylesheet"] !== undefined;
  const { model, system, maxTurns } = settings;
  const provider = [...PROVIDERS].find(([, known]) => known === adapter)?.[0] ?? adapter;
  return [
    ...(adapter === usualAdapter(model) && !styled ? [] : [["llm_provider", provider] as const]),
    ...(model === undefined ? [] : [["llm_model", model] as const]),
    ...(system === undefined ? [] : [["system_prompt", plainText(system)] as const]),
    ...(maxTurns === undefined ? [] : [["max_turns", maxTurns] as const]),
    ...argumentAttributes(adapter, definition?.args ?? []),
  ];
}

/** Arguments that stand for attributes; others have no words in DOT. */
function argumentAttributes(adapter: string, args: readonly string[]): Attributes {
  const last = args.find((_, index) => args[index - 1] === "--settings");
  const settings = last === undefined ? undefined : parseJson(last);
  const hooks = settings?.ok === true ? hooksOf(settings.json as Json) : {};
  const effort = effortOf(adapter, args);
  return [
    ...(effort === undefined ? [] : [["reasoning_effort", effort] as const]),
    ...(hooks.pre === undefined ? [] : [["tool_hooks.pre", hooks.pre] as const]),
    ...(hooks.post === undefined ? [] : [["tool_hooks.post", hooks.post] as const]),
  ];
}

function effortOf(adapter: string, args: readonly string[]): string | undefined {
  const [flag, value] = args;
  if (flag === undefined || value === undefined) return undefined;
  const effort = adapter === "codex" ? /^model_reasoning_effort="(.*)"$/.exec(value)?.[1] : value;
  const wanted = effort === undefined ? undefined : EFFORTS[adapter]?.(effort);
  return wanted?.[0] === flag && wanted[1] === value ? effort : undefined;
}
