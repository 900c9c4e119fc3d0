/** What runs cost over time, for a page: sums of what their attempts used. */
import type { AttemptSpending } from "../spending-history.ts";
import { isoText } from "../text.ts";
import type { cost } from "./dashboard-documents.ts";
import type { DocumentOf } from "./document-parts.ts";
import type { DocumentJson } from "./documents.ts";

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
const DAY_LENGTH = "2026-02-01".length;

interface Period {
  readonly since: number;
  readonly now: number;
}

/** A sum, and the runs in it. */
interface Sum {
  usd: number;
  tokens: number;
  readonly runs: Set<string>;
  readonly by: Map<string, number>;
}

/** The sums of these runs; attempts before the period do not count. */
export function costJson(
  runs: readonly RunSpending[],
  { since, now }: Period,
): Omit<Cost, "dearest" | "unread"> {
  const first = dayOf(since);
  const total = newSum();
  const unpriced = new Set<string>();
  const tables = { day: new Sums(), pipeline: new Sums(), model: new Sums(), agent: new Sums() };
  for (const { runId, pipeline, attempts } of runs) {
    for (const attempt of attempts) {
      if (attempt.day < first) continue;
      add(total, runId, attempt);
      if (attempt.isUnpriced) unpriced.add(runId);
      const day = add(tables.day.of(attempt.day), runId, attempt);
      day.by.set(pipeline, (day.by.get(pipeline) ?? 0) + attempt.usd);
      add(tables.pipeline.of(pipeline), runId, attempt);
      add(tables.model.of(attempt.model), runId, attempt);
      add(tables.agent.of(attempt.agent), runId, attempt);
    }
  }
  return {
    since: isoText(since),
    total: { ...sumJson(total), unknown_price: unpriced.size },
    days: daysBetween(since, now).map((day) => {
      const sum = tables.day.of(day);
      return { day, ...sumJson(sum), by: Object.fromEntries(sum.by) };
    }),
    by_pipeline: tables.pipeline.json(),
    by_model: tables.model.json(),
    by_agent: tables.agent.json(),
  };
}

/** The columns by which `perdure cost` groups. */
export const COST_COLUMNS = ["pipeline", "model", "agent", "day", "project"] as const;
type CostColumn = (typeof COST_COLUMNS)[number];

/** What the agents of runs used, a row for each combination of the columns, the dearest first. */
export function costsJson(
  runs: readonly (RunSpending & { readonly project: string })[],
  { since, by }: { readonly since: number; readonly by: readonly CostColumn[] },
): DocumentJson<"costs"> {
  const first = dayOf(since);
  const total = newSum();
  const unpriced = new Set<string>();
  const rows = new Map<string, { readonly names: Partial<Record<CostColumn, string>>; sum: Sum }>();
  for (const { runId, pipeline, project, attempts } of runs) {
    for (const attempt of attempts) {
      if (attempt.day < first) continue;
      const all = { pipeline, project, ...attempt };
      const names = Object.fromEntries(by.map((column) => [column, all[column]]));
      const key = JSON.stringify(names);
      const row = rows.get(key) ?? { names, sum: newSum() };
      rows.set(key, row);
      add(row.sum, runId, attempt);
      add(total, runId, attempt);
      if (attempt.isUnpriced) unpriced.add(runId);
    }
  }
  const sums = [...rows.values()].map(({ names, sum }) => ({ ...names, ...sumJson(sum) }));
  return {
    since: isoText(since),
    by: [...by],
    total: { ...sumJson(total), unknown_price: unpriced.size },
    rows: sums.sort((a, b) => b.usd - a.usd || b.tokens - a.tokens),
  };
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

/** Sums by name. */
class Sums {
  readonly #sums = new Map<string, Sum>();

  of(name: string): Sum {
    const known = this.#sums.get(name) ?? newSum();
    this.#sums.set(name, known);
    return known;
  }

  json(): Cost["by_model"] {
    return [...this.#sums]
      .map(([name, sum]) => ({ name, ...sumJson(sum) }))
      .sort((a, b) => b.usd - a.usd || b.tokens - a.tokens)
      .slice(0, NAMES_MAX);
  }
}

function newSum(): Sum {
  return { usd: 0, tokens: 0, runs: new Set(), by: new Map() };
}

function add(sum: Sum, runId: string, { usd, tokens }: AttemptSpending): Sum {
  sum.usd += usd;
  sum.tokens += tokens;
  sum.runs.add(runId);
  return sum;
}

function sumJson({ usd, tokens, runs }: Sum): { usd: number; tokens: number; runs: number } {
  return { usd, tokens, runs: runs.size };
}

function dayOf(time: number): string {
  return isoText(time).slice(0, DAY_LENGTH);
}

/** Every day of a period, also those without a run. */
function daysBetween(since: number, now: number): readonly string[] {
  const days = new Set<string>();
  for (let at = Math.max(since, now - DAYS_MAX * DAY_MS); at < now; at += DAY_MS) {
    days.add(dayOf(at));
  }
  days.add(dayOf(now));
  return [...days];
}
