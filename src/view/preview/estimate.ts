/**
 * How long a step will take and what it will cost, judged by its earlier visits; and how long the rest
 * of a run will take: the longest path through the steps that are left.
 *
 * Owns: the arithmetic: the median of the visits that were completed.
 * Does not: guess. A step that never completed has no estimate, and says so; a run that still needs
 * such a step has no remaining time.
 */
import type { Recorded, RunEvent } from "../../core/event.ts";
import { currentVisit, isDone, isPrompt, type Run, type Scope } from "../../core/run.ts";
import { usdText } from "../../core/spending.ts";
import { parseStepPath, ROOT_SCOPE } from "../../core/step-path.ts";
import { formatDuration } from "../../util/duration.ts";
import { attemptEnd } from "../attempt-history.ts";

/** Time and cost of a step; absent values were not measured. */
export interface Estimate {
  /** The time that its attempts worked. */
  readonly workMs: number;
  readonly usd?: number;
  readonly tokens?: number;
}

/** One estimate for each step of the pipeline itself that was completed in these events. */
export function estimatesOf(events: Iterable<Recorded>): ReadonlyMap<string, Estimate> {
  const visits = new Map<string, Cost>();
  const completed = new Map<string, Cost[]>();
  for (const { event, time } of events) {
    const root = rootVisitOf(event);
    if (root === undefined) continue;
    const cost = visits.get(root.visit) ?? { workMs: 0, usd: 0, tokens: 0, startedAt: time };
    visits.set(root.visit, cost);
    addSpending(cost, event);
    if (!root.isItself) continue;
    if (event.type === "step.started") cost.startedAt = time;
    if (attemptEnd(event) !== undefined) cost.workMs += Math.max(0, time - cost.startedAt);
    // A step that took the result of an earlier run shows nothing about its work.
    if (event.type !== "step.completed" || event.from !== undefined) continue;
    completed.set(root.step, [...(completed.get(root.step) ?? []), cost]);
  }
  return new Map([...completed].map(([step, costs]) => [step, medianOf(costs)]));
}

interface Cost {
  workMs: number;
  usd: number;
  tokens: number;
  startedAt: number;
}

/** The visit of a step of the pipeline itself to which an event belongs, in it or at it. */
function rootVisitOf(
  event: RunEvent,
): { readonly step: string; readonly visit: string; readonly isItself: boolean } | undefined {
  if (!("scope" in event && "visit" in event)) return undefined;
  if (event.scope === "") {
    return { step: event.step, visit: `${event.step}@${event.visit}`, isItself: true };
  }
  const [outer = ""] = event.scope.split(".", 1);
  const { step } = parseStepPath(outer.slice(0, outer.lastIndexOf("@")));
  return { step, visit: outer, isItself: false };
}

function addSpending(cost: Cost, event: RunEvent): void {
  const spent = "spent" in event ? event.spent : undefined;
  cost.usd += spent?.costUsd ?? 0;
  cost.tokens += (spent?.inputTokens ?? 0) + (spent?.outputTokens ?? 0);
}

function medianOf(costs: readonly Cost[]): Estimate {
  const usd = median(costs.map((cost) => cost.usd));
  const tokens = median(costs.map((cost) => cost.tokens));
  return {
    workMs: median(costs.map(({ workMs }) => workMs)),
    ...(usd > 0 ? { usd } : {}),
    ...(tokens > 0 ? { tokens } : {}),
  };
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((one, other) => one - other);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? 0;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? upper) + upper) / 2;
}

/** "4m 10s, $0.32"; "unknown" when there is none. */
export function estimateText(estimate: Estimate | undefined): string {
  if (estimate === undefined) return "unknown";
  const { workMs, ...spent } = estimate;
  const time = formatDuration(Math.round(workMs));
  return Object.keys(spent).length === 0 ? time : `${time}, ${costText(spent)}`;
}

/** "$0.32"; if the cost was not measured, "12345 tokens". */
export function costText({ usd, tokens }: Omit<Estimate, "workMs">): string {
  return usd === undefined ? `${Math.round(tokens ?? 0)} tokens` : usdText(usd);
}

/** All of them together; undefined when there is none. */
export function sumOf(estimates: readonly Estimate[]): Estimate | undefined {
  if (estimates.length === 0) return undefined;
  const sum = (of: (one: Estimate) => number | undefined): number =>
    estimates.reduce((before, one) => before + (of(one) ?? 0), 0);
  const [usd, tokens] = [sum((one) => one.usd), sum((one) => one.tokens)];
  return {
    workMs: sum(({ workMs }) => workMs),
    ...(usd > 0 ? { usd } : {}),
    ...(tokens > 0 ? { tokens } : {}),
  };
}

/** Larger graphs get no estimate: it is computed for each frame. */
const STEPS_MAX = 500;

/** The remaining time; undefined where nobody knows. `estimates` are those of the root's steps. */
export function remainingMs(
  run: Run,
  estimates: ReadonlyMap<string, Estimate>,
  now: number,
): number | undefined {
  const root = run.scopes.get(ROOT_SCOPE);
  if (root === undefined || root.graph.steps.length > STEPS_MAX || estimates.size === 0) {
    return undefined;
  }
  const own = root.graph.steps.map((_, position) => stepMs(root, position, estimates, now));
  if (own.includes(undefined)) return undefined;
  const longest = own.map(() => 0);
  // Edges that do not lead back form no cycle, and a plan lists steps in any order.
  for (let round = 0, changed = true; changed && round <= own.length; round++) {
    changed = false;
    for (const { from, to, back } of root.graph.edges) {
      const until = (longest[from] ?? 0) + (own[from] ?? 0);
      if (back || until <= (longest[to] ?? 0)) continue;
      longest[to] = until;
      changed = true;
    }
  }
  return Math.max(0, ...own.map((ms, position) => (ms ?? 0) + (longest[position] ?? 0)));
}

/** What is left of one step; a gate waits for a person, and nobody knows how long. */
function stepMs(
  root: Scope,
  position: number,
  estimates: ReadonlyMap<string, Estimate>,
  now: number,
): number | undefined {
  const record = root.steps[position];
  const step = root.graph.steps[position];
  if (step === undefined || isDone(record) || isPrompt(step)) return 0;
  if (["pass", "pick", "fail"].includes(step.work.kind)) return 0;
  const estimate = estimates.get(step.id)?.workMs;
  const started = currentVisit(record)?.startedAt;
  if (estimate === undefined)
    return started === undefined && isOptional(root, position) ? 0 : undefined;
  return started === undefined ? estimate : Math.max(0, estimate - (now - started));
}

/** True for a step that a run may do without: one with a condition, or one that handles a failure. */
function isOptional({ graph }: Scope, position: number): boolean {
  if (graph.steps[position]?.when !== undefined) return true;
  const incoming = graph.edges.filter(({ to, back }) => to === position && !back);
  const isCertain = incoming.some(
    ({ on, condition }) => on === "completed" && condition === undefined,
  );
  return incoming.length > 0 && !isCertain;
}
