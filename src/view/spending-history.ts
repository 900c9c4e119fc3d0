/**
 * What the agents of a run used, by day, model and agent: a fold over its events.
 *
 * Owns: which attempt counts to which day, model and agent.
 * Does not: know prices, or add up several runs.
 */
import type { Recorded, Spent } from "../core/event.ts";
import { unpricedIn } from "../core/spending.ts";
import { graphsIn, graphsOf } from "../plan/graph-index.ts";
import type { Graph, Plan } from "../plan/plan.ts";
import { isoText } from "./text.ts";

/** What one attempt used. */
export interface AttemptSpending {
  /** `2026-02-01`, in UTC. */
  readonly day: string;
  readonly model: string;
  readonly agent: string;
  readonly usd: number;
  readonly tokens: number;
  /** It has tokens without a known price. */
  readonly isUnpriced: boolean;
}

const UNKNOWN_MODEL = "unknown model";
const DAY_LENGTH = "2026-02-01".length;

/** The agents of a plan by the path of their step, without visits and items: `map/fix`. */
export type AgentsByStep = ReadonlyMap<string, string>;

/** The agent of each step of a plan. */
export function agentsByStep(plan: Plan): AgentsByStep {
  return new Map(graphsOf(plan).flatMap((graph) => [...agentsIn(graph, "")]));
}

function* agentsIn({ steps }: Graph, above: string): Generator<readonly [string, string]> {
  for (const { id, work } of steps) {
    if (work.kind === "agent") yield [above + id, work.agent];
    for (const graph of graphsIn(work)) yield* agentsIn(graph, `${above}${id}/`);
  }
}

/** `map@1.1[3]/` becomes `map/`. The steps of `finally` stand at the top, as the plan's own. */
function plainScope(scope: string): string {
  return scope.replace(/^finally@\d+\//, "").replaceAll(/@\d+\.\d+\[\d+\]\//g, "/");
}

/** What each attempt of a run used. Attempts that a fork took over belong to the other run. */
export function spendingOf(
  events: Iterable<Recorded>,
  agents: AgentsByStep,
): readonly AttemptSpending[] {
  let found: AttemptSpending[] = [];
  const judges = new Map<string, string>();
  for (const { event, time } of events) {
    if (event.type === "run.forked") found = [];
    if (event.type === "step.started" && event.judge !== undefined) {
      judges.set(placeOf(event), event.judge);
    }
    const spent = "spent" in event ? event.spent : undefined;
    if (spent === undefined || !("attempt" in event)) continue;
    const step = plainScope(event.scope) + event.step;
    const agent = judges.get(placeOf(event)) ?? agents.get(step) ?? step;
    found.push(spendingIn(spent, agent, isoText(time).slice(0, DAY_LENGTH)));
  }
  return found;
}

interface Place {
  readonly scope: string;
  readonly step: string;
  readonly visit: number;
  readonly attempt: number;
}

function placeOf({ scope, step, visit, attempt }: Place): string {
  return `${scope}${step}@${visit}.${attempt}`;
}

function spendingIn(spent: Spent, agent: string, day: string): AttemptSpending {
  return {
    day,
    agent,
    model: spent.model ?? UNKNOWN_MODEL,
    usd: spent.costUsd ?? 0,
    tokens: spent.inputTokens + spent.outputTokens,
    isUnpriced: unpricedIn(spent) !== undefined,
  };
}
