/** What a trace says about a step of the plan: its kind, and the agent that works in it. */
import { graphsIn, indexOf } from "../../plan/graph-index.ts";
import type { Graph, Plan, Step } from "../../plan/plan.ts";
import type { SpanAttributes } from "./span.ts";

/** The agent of a step, or of the judge of its work. */
export interface TracedAgent {
  readonly name: string;
  readonly adapter?: string;
  readonly model?: string;
}

/** A step of the plan, as a trace shows it. */
interface TracedStep {
  readonly kind: Step["work"]["kind"];
  readonly agent?: TracedAgent;
}

/** The step at a step path; undefined when the plan no longer has it. */
export function tracedStep(
  plan: Plan,
  at: { readonly scope: string; readonly step: string },
): TracedStep | undefined {
  const outer = at.scope.split("/").slice(0, -1);
  const [first = ""] = outer;
  const isFinal = plan.finally !== undefined && /^finally@\d+$/.test(first);
  let graphs: readonly Graph[] = isFinal && plan.finally ? [plan.finally] : [plan.graph];
  for (const part of isFinal ? outer.slice(1) : outer) {
    const composite = stepIn(graphs, part.replace(/@\d+\.\d+\[\d+\]$/, ""));
    if (composite === undefined) return undefined;
    graphs = graphsIn(composite.work);
  }
  const work = stepIn(graphs, at.step)?.work;
  if (work === undefined) return undefined;
  if (work.kind !== "agent") return { kind: work.kind };
  const { model } = work.settings;
  const own = model === undefined ? {} : { model };
  return { kind: work.kind, agent: { ...tracedAgent(plan, work.agent), ...own } };
}

/** An agent of the plan. */
export function tracedAgent({ agents }: Plan, name: string): TracedAgent {
  const { adapter, settings } = agents[name] ?? {};
  const model = settings?.model;
  return {
    name,
    ...(adapter === undefined ? {} : { adapter }),
    ...(model === undefined ? {} : { model }),
  };
}

function stepIn(graphs: readonly Graph[], id: string): Step | undefined {
  for (const graph of graphs) {
    const position = indexOf(graph).byId.get(id);
    if (position !== undefined) return graph.steps[position];
  }
  return undefined;
}

const PROVIDERS: Readonly<Record<string, string>> = {
  claude: "anthropic",
  codex: "openai",
  gemini: "gcp.gen_ai",
};

/** Who serves the model of an agent, in the words of the conventions where they have one. */
function providerOf({ name, adapter, model = "" }: TracedAgent): string {
  const known = PROVIDERS[adapter ?? ""];
  if (known !== undefined) return known;
  // opencode names the provider before the model: `anthropic/claude-sonnet-4-5`.
  return model.includes("/") ? model.slice(0, model.indexOf("/")) : (adapter ?? name);
}

/** The attributes that every span of an agent has. */
export function agentAttributes(agent: TracedAgent): SpanAttributes {
  return {
    "gen_ai.agent.name": agent.name,
    "gen_ai.provider.name": providerOf(agent),
    ...(agent.model === undefined ? {} : { "gen_ai.request.model": agent.model }),
  };
}
