/**
 * The prices that apply to a run, and the checks of a limit in US dollars before anything is paid for.
 *
 * Owns: the user's file of prices, the refusal of a limit that cannot be enforced, and the cost of
 * attempts whose model got a price later.
 * Does not: know prices (runner/agents/prices.ts) or stop an agent whose model turns out to have
 * none (core/spending.ts).
 * Invariants:
 * - prices/M1 No run with a limit in US dollars pays for a model without a known price: a model in
 *   the plan is refused here, and a model that only the stream names is stopped after its first
 *   answer.
 * - prices/M2 A run that starts with a limit in US dollars keeps Perdure's list of that time: a newer
 *   program does not change what the limit buys. What the user writes (file, pipeline) counts at
 *   once, and a model that the list did not know then has its price of now.
 */
import { join } from "node:path";
import { needsTurns } from "../core/conversation/conversation.ts";
import type { Recorded } from "../core/event.ts";
import { resumeGrants } from "../core/graph/retry.ts";
import { type Run, visitRef } from "../core/run.ts";
import { addBudget, unpricedIn, usdText } from "../core/spending.ts";
import { stepPath } from "../core/step-path.ts";
import { graphsIn, graphsOf } from "../plan/graph-index.ts";
import {
  type AgentSettings,
  type Budget,
  checksOf,
  type Graph,
  type Plan,
  type Step,
} from "../plan/plan.ts";
import type { PriceList, Prices } from "../runner/agents/usage.ts";
import { textOf } from "../runner/file-text.ts";
import { parseDuration } from "../util/duration.ts";
import { type Json, parseJson } from "../util/json.ts";
import { priceRemedy } from "../view/cost-text.ts";
import { TURNS_SUGGESTED } from "../view/failure-advice.ts";
import { shortList } from "../view/text.ts";
import type { LoadedRun } from "./loaded-run.ts";
import { userDirectory } from "./pipeline/configuration-file.ts";
import { after, command, Refusal } from "./refusal.ts";

const NAMES_SHOWN_MAX = 5;

/** True for a plan with agents that have an adapter: Perdure counts what they use. */
export function hasAgents({ agents }: Plan): boolean {
  return Object.values(agents).some(({ adapter }) => adapter !== "command");
}

/** The path of the user's file of prices, which need not exist. */
export function priceFile(): string {
  return join(userDirectory(), "prices.json");
}

/** The prices that hold for a plan: for a new run, or for one that has started with a list. */
export async function priceListOf({ prices }: Pick<Plan, "prices">, run?: Run): Promise<PriceList> {
  const { PriceList, pricesIn } = await import("../runner/agents/usage.ts");
  const file = ownPrices(pricesIn);
  const started = pricesIn(run?.created?.prices ?? {});
  return new PriceList({
    ...(prices === undefined ? {} : { pipeline: prices }),
    ...(file === undefined ? {} : { file }),
    ...(typeof started === "string" ? {} : { started }),
  });
}

/** The list that a run with a limit in dollars keeps (prices/M2). */
export async function pricesAtStart(plan: Plan): Promise<{ readonly prices?: Json }> {
  if (plan.budget?.usd === undefined || !hasAgents(plan)) return {};
  return { prices: (await import("../runner/agents/usage.ts")).LISTED };
}

function ownPrices(read: (value: Json) => Prices | string): Prices | undefined {
  const file = priceFile();
  const text = textOf(file);
  if (text === undefined) return undefined;
  const parsed = parseJson(text);
  const found = parsed.ok ? read(parsed.json as Json) : `it is not JSON: ${parsed.message}`;
  if (typeof found !== "string") return found;
  const form = '{ "MODEL": { "input": 1.5, "output": 6 } }';
  throw new Refusal(
    "bad-price-file",
    `${file} cannot be used: ${found}`,
    after(`correct it, for example ${form}`, "prices"),
  );
}

/**
 * Returns lines for a person before a run with a limit in dollars starts. Throws a refusal if a
 * model has no price.
 */
export async function checkPrices(
  plan: Plan,
  { usd }: Budget,
  typed: readonly string[],
  { used = [], run }: { readonly used?: readonly string[]; readonly run?: Run } = {},
): Promise<readonly string[]> {
  if (usd === undefined || !hasAgents(plan)) return [];
  const prices = await priceListOf(plan, run);
  const { agentAdapter } = await import("../runner/agents/registry.ts");
  const missing = new Set(used.filter((model) => prices.find(model) === undefined));
  const unnamed = new Set<string>();
  for (const { agent, settings } of graphsOf(plan).flatMap(stepsIn).flatMap(agentsAsked)) {
    const definition = plan.agents[agent];
    const adapter = definition && agentAdapter(definition.adapter);
    if (adapter === undefined || adapter.isFree === true) continue;
    const { billing, model } = { ...definition?.settings, ...settings };
    if (billing === "subscription") continue;
    if (model !== undefined && prices.find(model) !== undefined) continue;
    const isNamed = model !== undefined && adapter.modelAliases?.includes(model) !== true;
    if (isNamed && adapter.reportsCost !== true) missing.add(model);
    else unnamed.add(agent);
  }
  const [first] = missing;
  if (first !== undefined) throw noPrice([...missing], first, usd, typed);
  if (unnamed.size === 0) return [];
  const agents = shortList([...unnamed], NAMES_SHOWN_MAX);
  return [
    `The limit of ${usdText(usd)} needs the price of the model that ${agents} will use, which is ` +
      "not known yet; if it has none, the run stops after its first answer (see: perdure prices)",
  ];
}

function noPrice(
  models: readonly string[],
  first: string,
  usd: number,
  typed: readonly string[],
): Refusal {
  const names = shortList(models, NAMES_SHOWN_MAX);
  const message =
    `no price is known for ${names}, so the limit of ${usdText(usd)} cannot be kept; ` +
    "nothing was started";
  const keys = "or set `billing: subscription` or `budget: { tokens }`";
  const others = `or into ${priceFile()}, ${keys}`;
  return new Refusal("unknown-price", message, after(`${priceRemedy(first)}, ${others}`, ...typed));
}

/** The same before a resume; the models that the run has used so far are known. */
export async function checkPricesOnResume(
  { run, plan, events, shortId }: LoadedRun,
  edited: Plan | undefined,
  added: string | undefined,
): Promise<readonly string[]> {
  const now = edited ?? plan;
  const budget = addBudget(now.budget ?? {}, run.added);
  const funds = added === undefined ? budget : addBudget(budget, parseBudget(added));
  const used = unpricedSpending(events).flatMap(({ model }) => model ?? []);
  return checkPrices(now, funds, ["resume", shortId, "--update"], { used, run });
}

/**
 * The cost of earlier attempts whose model had no price then; undefined while one still has none.
 */
export async function lateCostOf(
  plan: Plan,
  { run, events }: Pick<LoadedRun, "run" | "events">,
): Promise<number | undefined> {
  if (unpricedIn(run.spent) === undefined) return undefined;
  const named = unpricedSpending(events).filter(({ model }) => model !== undefined);
  if (named.length === 0) return run.funds.usd === undefined ? undefined : 0;
  const prices = await priceListOf(plan, run);
  let sum = 0;
  for (const { model = "", ...tokens } of named) {
    const cost = prices.costOf(model, tokens);
    if (cost === undefined) return undefined;
    sum += cost;
  }
  return sum;
}

interface UnpricedTokens {
  readonly model: string | undefined;
  readonly inputTokens: number;
  readonly cachedTokens: number;
  readonly outputTokens: number;
}

/** The tokens that attempts used without a price since the last late cost was recorded. */
function unpricedSpending(events: readonly Recorded[]): readonly UnpricedTokens[] {
  let found: UnpricedTokens[] = [];
  for (const { event } of events) {
    if (event.type === "run.funded" && event.lateCostUsd !== undefined) found = [];
    const spent = "spent" in event ? event.spent : undefined;
    if (spent === undefined || unpricedIn(spent) === undefined) continue;
    const { inputTokens, cachedTokens, outputTokens, model } = spent;
    found.push({ model, inputTokens, cachedTokens, outputTokens });
  }
  return found;
}

/** The agents of a step: the one that works, and its judges. */
export function agentsAsked(
  step: Step,
): readonly { readonly agent: string; readonly settings: AgentSettings }[] {
  const { work } = step;
  const judges = checksOf(step).filter((check) => check.kind === "judge");
  return [
    ...(work.kind === "agent" ? [{ agent: work.agent, settings: work.settings }] : []),
    ...judges.map(({ agent, model }) => ({
      agent,
      settings: model === undefined ? {} : { model },
    })),
  ];
}

/** Every step of a graph and of the graphs in it. */
function stepsIn(graph: Graph): readonly Step[] {
  return graph.steps.flatMap((step) => [step, ...graphsIn(step.work).flatMap(stepsIn)]);
}

/** Parses `+5usd`, `+100000tokens`, `+20turns` or `+30m`, or several of them with commas between. */
export function parseBudget(text: string): Budget {
  return text.split(",").map(parseAmount).reduce(addBudget);
}

/** Parses `+20`. */
export function parseTurns(text: string): number {
  const [, turns] = /^\+?(\d{1,6})$/.exec(text) ?? [];
  if (turns !== undefined && Number(turns) > 0) return Number(turns);
  throw new Refusal("bad-option", `--turns takes a number such as +20, not "${text}"`);
}

/** Refuses to continue agents that have used up their turns: each would reach its limit again. */
export function refuseWithoutTurns({ run, shortId }: LoadedRun): void {
  const visit = [...run.failed].find((one) => resumeGrants(one) && needsTurns(run, one));
  if (visit === undefined || run.state.status !== "failed") return;
  const message = `step ${stepPath(visitRef(visit))} has used up its turns (max_turns)`;
  throw new Refusal(
    "turns-used-up",
    message,
    command("resume", shortId, "--turns", `+${TURNS_SUGGESTED}`),
  );
}

function parseAmount(text: string): Budget {
  const [, amount, unit] = /^\+?(\d+(?:\.\d+)?)(usd|tokens|turns)$/.exec(text) ?? [];
  if (amount !== undefined && unit !== undefined && Number(amount) > 0) {
    return { [unit]: Number(amount) };
  }
  const timeMs = parseDuration(text.replace(/^\+/, ""));
  if (timeMs !== undefined && timeMs > 0) return { timeMs };
  const message = `--budget takes +5usd, +100000tokens, +20turns or +30m, not "${text}"`;
  throw new Refusal("bad-option", message);
}

/** All prices that are known for a plan, and the day of Perdure's own list. */
export async function knownPrices(plan: Parameters<typeof priceListOf>[0]): Promise<{
  readonly date: string;
  readonly prices: ReturnType<Awaited<ReturnType<typeof priceListOf>>["all"]>;
}> {
  const { LIST_DATE } = await import("../runner/agents/usage.ts");
  return { date: LIST_DATE, prices: (await priceListOf(plan)).all() };
}
