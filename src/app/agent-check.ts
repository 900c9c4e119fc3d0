/** Which agents this machine has, and what those of a plan may do: for `doctor`. */
import { execFile } from "node:child_process";
import { graphsIn } from "../plan/graph-index.ts";
import type { Graph, Plan, Step } from "../plan/plan.ts";
import { agentAdapter } from "../runner/agents/registry.ts";
import { KNOWN_AGENTS } from "../util/agent-access.ts";
import { agentProgram } from "./agent-program.ts";

/** How long an agent may take to say its version. */
const PATIENCE_MS = 15_000;

/** A line for each agent on PATH, with its version, and one for those that are not there. */
export async function agentLines(): Promise<readonly string[]> {
  const found = await Promise.all(KNOWN_AGENTS.map(versionOf));
  const missing = KNOWN_AGENTS.filter((_, index) => found[index] === undefined);
  const lines = KNOWN_AGENTS.flatMap((name, index) => {
    const version = found[index];
    const continues = agentAdapter(name)?.continues === true;
    const talk = continues ? "its conversations can be continued" : "it starts anew each time";
    return version === undefined ? [] : [`✓ ${name} ${version}: ${talk}`];
  });
  return missing.length === 0 ? lines : [...lines, `· not on PATH: ${missing.join(", ")}`];
}

/** What the agents of a plan may do, step by step, in the agents' own flags. */
export function permissionLines(plan: Plan): readonly string[] {
  return agentSteps(plan.graph).flatMap(({ id, work }) => {
    const definition = plan.agents[work.agent];
    const adapter = definition && agentAdapter(definition.adapter);
    if (definition === undefined || adapter === undefined) return [];
    const { permissions = "default", tools } = { ...definition.settings, ...work.settings };
    const { allow = [], deny = [] } = tools ?? {};
    const byItself = permissions === "default" ? agentProgram(adapter.name)?.byItself : undefined;
    const also = [
      ...(byItself === undefined ? [] : [byItself]),
      ...(allow.length === 0 ? [] : [`allowed: ${allow.join(", ")}`]),
      ...(deny.length === 0 ? [] : [`denied: ${deny.join(", ")}`]),
    ];
    const rest = also.length === 0 ? "" : ` (${also.join("; ")})`;
    return [`· step ${id} asks ${adapter.name} with \`permissions: ${permissions}\`${rest}`];
  });
}

type AgentStep = Step & { readonly work: Extract<Step["work"], { kind: "agent" }> };

function agentSteps({ steps }: Graph): readonly AgentStep[] {
  return steps.flatMap((step) => [
    ...(step.work.kind === "agent" ? [step as AgentStep] : []),
    ...graphsIn(step.work).flatMap(agentSteps),
  ]);
}

/** What an agent says of its version; undefined when there is no such program. */
function versionOf(name: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const child = execFile(name, ["--version"], { timeout: PATIENCE_MS }, (error, stdout) => {
      if (error === null) resolve(/\d+(\.\d+)+\S*/.exec(stdout)?.[0] ?? "of an unknown version");
      else resolve(error.code === "ENOENT" ? undefined : "which does not say its version");
    });
    child.stdin?.end();
  });
}
