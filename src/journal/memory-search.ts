/** The search of the journal in memory: the same runs as the SQLite journal finds, in the same order. */
import type { RunStatus, StepState, StepSummary } from "../core/summary.ts";
import { decode, type UnsealedEvent } from "./event-codec.ts";
import type { Lease } from "./leases.ts";
import {
  type FoundRun,
  type FoundRuns,
  type ResultIndex,
  type RunSearch,
  type RunSummary,
  resultIn,
  type StoredResult,
} from "./run-log.ts";

/** What the search reads of a run. */
interface SearchedRun {
  readonly runId: string;
  readonly events: readonly { readonly type: string }[];
  readonly summary: RunSummary;
  readonly steps: ReadonlyMap<string, StepSummary>;
  readonly lease?: Lease;
}

/** A page of the runs that match, newest first. */
export function searchRuns(runs: readonly SearchedRun[], query: RunSearch): FoundRuns {
  const { owned, status, pipeline, text, after, runIds, changedAfter, asking, limit } = query;
  const matching = runs
    .map(foundRun(owned))
    .filter(
      (found) =>
        (runIds === undefined || runIds.includes(found.runId)) &&
        (changedAfter === undefined || found.updatedAt >= changedAfter) &&
        (asking !== true || isAsking(runs, found)) &&
        (pipeline === undefined || found.pipeline === pipeline) &&
        (text === undefined || isNamed(runs, found, text.toLowerCase())),
    );
  const byStatus: Partial<Record<RunStatus, number>> = {};
  for (const found of matching) byStatus[found.status] = (byStatus[found.status] ?? 0) + 1;
  const isAfter = (found: FoundRun): boolean =>
    after === undefined || newestFirst(found, after) > 0;
  return {
    runs: matching
      .filter((found) => (status === undefined || status.includes(found.status)) && isAfter(found))
      .sort(newestFirst)
      .slice(0, limit),
    byStatus,
    pipelines: [...new Set(runs.map(({ summary }) => summary.pipeline))].sort(),
  };
}

function isAsking(runs: readonly SearchedRun[], { runId, status }: FoundRun): boolean {
  const { steps = new Map<string, StepSummary>(), events = [] } =
    runs.find((run) => run.runId === runId) ?? {};
  const waits = [...steps.values()].some(({ state }) => state === "waiting");
  return status !== "completed" && (waits || events.some(({ type }) => type === "step.uncertain"));
}

type Created = Pick<RunSummary, "createdAt" | "runId">;

function newestFirst(one: Created, other: Created): number {
  return other.createdAt - one.createdAt || (one.runId < other.runId ? 1 : -1);
}

const OPEN_STATES: readonly StepState[] = [
  ...(["running", "waiting", "retrying", "interrupted", "failed"] as const),
];

function foundRun(owned: readonly string[]): (run: SearchedRun) => FoundRun {
  return ({ summary, lease, steps }) => {
    const isOpen = summary.status === "queued" || summary.status === "running";
    const rank = ({ state }: StepSummary): number =>
      state === "running" ? 1 : state === "failed" ? 3 : 2;
    const [current] = [...steps.values()]
      .filter(({ state }) => OPEN_STATES.includes(state))
      .toReversed()
      .sort((a, b) => rank(a) - rank(b) || (b.startedAt ?? 0) - (a.startedAt ?? 0));
    return {
      ...summary,
      ...(lease === undefined ? {} : { lease }),
      ...(isOpen && !owned.includes(summary.runId) ? { status: "interrupted" as const } : {}),
      ...(current === undefined || summary.status === "completed"
        ? {}
        : { currentStep: current.stepId }),
    };
  };
}

function isNamed(
  runs: readonly SearchedRun[],
  { runId, pipeline, input }: FoundRun,
  text: string,
): boolean {
  const steps = runs.find((run) => run.runId === runId)?.steps.keys() ?? [];
  const typed = input === null ? "" : typeof input === "string" ? input : JSON.stringify(input);
  return (
    runId.startsWith(text) ||
    [pipeline, typed, ...steps].some((one) => one.toLowerCase().includes(text))
  );
}

/** The results with a key in these runs, the newest first. */
export function findResults(
  runs: readonly StoredEvents[],
  key: string,
  { since, limit, but }: Parameters<ResultIndex["withKey"]>[1],
): readonly StoredResult[] {
  return runs
    .filter(({ runId, summary }) => runId !== but && summary.cleanedAt === undefined)
    .flatMap(({ runId, events }) =>
      events.flatMap((stored) => resultIn(runId, decode(runId, stored), since)),
    )
    .filter(({ event }) => event.reusable.key === key)
    .sort((one, other) => other.time - one.time)
    .slice(0, limit);
}

interface StoredEvents {
  readonly runId: string;
  readonly events: readonly UnsealedEvent[];
  readonly summary: Pick<RunSummary, "cleanedAt">;
}
