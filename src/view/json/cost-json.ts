/**
 * What the agents of runs used, by day, model, agent, pipeline and project.
 *
 * Owns: which attempt counts to which day, model and agent (a fold over the events of one run), and
 * the sums over many runs.
 * Does not: know prices.
 */
import type { Recorded, Spent } from "../../core/event.ts";
import { unpricedIn } from "../../core/spending.ts";
import { graphsIn, graphsOf } from "../../plan/graph-index.ts";
import type { Graph, Plan } from "../../plan/plan.ts";
import { isoText } from "../text.ts";
import type { cost } from "./dashboard-documents.ts";
import type { DocumentOf } from "./document-parts.ts";
import type { DocumentJson } from "./documents.ts";

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

/** `map@1.1[3]/` becomes `map/`. The steps of `finally` are at the top, as the plan's own. */
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
    found.push(spendingIn(spent, agent, dayOf(time)));
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

type Cost = DocumentOf<typeof cost>;

/** A run and what its attempts used. */
interface RunSpending {
  readonly runId: string;
  readonly pipeline: string;
  readonly attempts: readonly AttemptSpending[];
}

const DAY_MS = 24 * 3_600_000;
/** How many names a table lists: the dearest. */
const NAMES_MAX = 100;
/** The most days of a chart. */
const DAYS_MAX = 400;

interface Period {
  readonly since: number;
  readonly now: number;
}

/** A sum, and the runs in it. */
interface Sum {
  usd: number;
  tokens: number;
  readonly runs: Set<string>;
}

/** The columns by which `perdure cost` groups. */
export const COST_COLUMNS = ["pipeline", "model", "agent", "day", "project"] as const;
type CostColumn = (typeof COST_COLUMNS)[number];
type Names = Partial<Record<CostColumn, string>>;

/** What one attempt used, with the columns by which it can be grouped. */
type Spending = AttemptSpending & { readonly runId: string } & Readonly<Names>;

/** What the attempts since a day used. */
function spendingSince(runs: readonly RunSpending[], since: number): readonly Spending[] {
  const first = dayOf(since);
  return runs.flatMap(({ attempts, ...run }) =>
    attempts.filter(({ day }) => day >= first).map((attempt) => ({ ...run, ...attempt })),
  );
}

/** A row for each combination of the columns, the dearest first. */
function sumsBy(spent: readonly Spending[], by: readonly CostColumn[]): readonly SumRow[] {
  const rows = new Map<string, { readonly names: Names; readonly sum: Sum }>();
  for (const one of spent) {
    const names: Names = Object.fromEntries(by.map((column) => [column, one[column]]));
    const key = JSON.stringify(names);
    const row = rows.get(key) ?? { names, sum: { usd: 0, tokens: 0, runs: new Set() } };
    rows.set(key, row);
    row.sum.usd += one.usd;
    row.sum.tokens += one.tokens;
    row.sum.runs.add(one.runId);
  }
  const sums = [...rows.values()].map(({ names, sum: { usd, tokens, runs } }) => ({
    ...names,
    ...{ usd, tokens, runs: runs.size },
  }));
  return sums.sort((a, b) => b.usd - a.usd || b.tokens - a.tokens);
}

type SumRow = Names & { readonly usd: number; readonly tokens: number; readonly runs: number };

const NOTHING = { usd: 0, tokens: 0, runs: 0 };

function totalOf(spent: readonly Spending[]): Cost["total"] {
  const unpriced = new Set(spent.filter((one) => one.isUnpriced).map(({ runId }) => runId));
  return { ...(sumsBy(spent, [])[0] ?? NOTHING), unknown_price: unpriced.size };
}

/** The sums of these runs; attempts before the period do not count. */
export function costJson(
  runs: readonly RunSpending[],
  { since, now }: Period,
): Omit<Cost, "dearest" | "unread"> {
  const spent = spendingSince(runs, since);
  const days = new Map(sumsBy(spent, ["day"]).map(({ day = "", ...sum }) => [day, sum]));
  const shares = Map.groupBy(sumsBy(spent, ["day", "pipeline"]), ({ day = "" }) => day);
  const named = (column: "pipeline" | "model" | "agent"): Cost["by_model"] =>
    sumsBy(spent, [column])
      .slice(0, NAMES_MAX)
      .map(({ [column]: name = "", usd, tokens, runs: count }) => {
        return { name, usd, tokens, runs: count };
      });
  return {
    since: isoText(since),
    total: totalOf(spent),
    days: daysBetween(since, now).map((day) => {
      const parts = shares.get(day) ?? [];
      const by = Object.fromEntries(parts.map(({ pipeline = "", usd }) => [pipeline, usd]));
      return { day, ...(days.get(day) ?? NOTHING), by };
    }),
    by_pipeline: named("pipeline"),
    by_model: named("model"),
    by_agent: named("agent"),
  };
}

/** What the agents of runs used, a row for each combination of the columns, the dearest first. */
export function costsJson(
  runs: readonly (RunSpending & { readonly project: string })[],
  { since, by }: { readonly since: number; readonly by: readonly CostColumn[] },
): DocumentJson<"costs"> {
  const spent = spendingSince(runs, since);
  return { since: isoText(since), by: [...by], total: totalOf(spent), rows: sumsBy(spent, by) };
}

/** The ids of the runs that cost most, the dearest first. */
export function dearestRuns(runs: readonly RunSpending[], runsMax: number): readonly string[] {
  const costs = runs.map(({ runId, attempts }) => ({
    runId,
    usd: attempts.reduce((sum, { usd }) => sum + usd, 0),
  }));
  return costs
    .filter(({ usd }) => usd > 0)
    .sort((a, b) => b.usd - a.usd)
    .slice(0, runsMax)
    .map(({ runId }) => runId);
}

function dayOf(time: number): string {
  return isoText(time).slice(0, DAY_LENGTH);
}

/** Every day of a period, including those without a run. */
function daysBetween(since: number, now: number): readonly string[] {
  const days = new Set<string>();
  for (let at = Math.max(since, now - DAYS_MAX * DAY_MS); at < now; at += DAY_MS) {
    days.add(dayOf(at));
  }
  days.add(dayOf(now));
  return [...days];
}
