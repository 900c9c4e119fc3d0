/** The page of one run, and the stream of its changes. */
import { type LoadedRun, whyInputOf } from "../../app/loaded-run.ts";
import type { FollowedRun } from "../../app/look/followed-run.ts";
import type { AgentActivity } from "../../app/output/output.ts";
import { attemptOf, type Run, visitRef } from "../../core/run.ts";
import { attemptText, stepPath } from "../../core/step-path.ts";
import { exposureLines } from "../../view/attempt-history.ts";
import { fileJson } from "../../view/file-changes.ts";
import { type OverviewJson, overviewJson } from "../../view/json/run-row-json.ts";
import { type StepRowJson, stepRowJson } from "../../view/json/step-json.ts";
import { stepTree } from "../../view/step-tree.ts";
import { isoText } from "../../view/text.ts";
import { type AskedRun, askedRun, changesOf } from "../dashboard.ts";
import { type StreamEvent, wholeNumber } from "../endpoint.ts";
import type { Routes } from "../endpoints.ts";

export const liveRoutes = {
  run: async (dashboard, { path }) => {
    const asked = await askedRun(dashboard, path.run);
    await asked.followed.outcomeNow();
    const activities = await activitiesByStep(asked);
    return {
      overview: await overviewOf(asked, activities),
      steps: rowsOf(asked.known, undefined, activities),
      graph_version: asked.followed.graphVersion,
    };
  },

  live: async (dashboard, { path, query, lastId, signal }) => {
    const asked = await askedRun(dashboard, path.run);
    const after = wholeNumber("after", lastId ?? query.after) ?? 0;
    return newsOf(asked, changesOf(dashboard, asked, signal), after);
  },
} satisfies Partial<Routes>;

interface News {
  readonly overview: OverviewJson;
  readonly steps: readonly StepRowJson[];
  readonly graph_version: string;
  readonly lines: readonly {
    readonly sequence: number;
    readonly time: string;
    readonly text: string;
    readonly tone: string | null;
    readonly step: string | null;
  }[];
}

async function* newsOf(
  asked: AskedRun,
  changes: AsyncIterable<FollowedRun>,
  after: number,
): AsyncGenerator<StreamEvent<News>> {
  const sent = { seq: after, key: "", activities: new Map<string, string>(), liveness: "" };
  for await (const followed of changes) {
    const now: AskedRun = { ...asked, followed, known: followed.known };
    const { run, liveness } = now.known;
    const activities = await activitiesByStep(now);
    const overview = await overviewOf(now, activities);
    const key = keyOf(overview, activities);
    if (key === sent.key) continue;
    const { steps: changed, lines } = followed.changesSince(sent.seq);
    const steps = changed && new Set([...changed, ...changedActivities(sent, activities)]);
    // Running steps change when the owner dies: they are interrupted now.
    if (steps !== undefined && sent.liveness !== liveness) addRunning(steps, run);
    const value = {
      overview,
      steps: rowsOf(now.known, steps, activities),
      graph_version: followed.graphVersion,
      lines: lines.map(({ seq, time, text, tone = null, step = null }) => {
        return { sequence: seq, time: isoText(time), text, tone, step };
      }),
    };
    Object.assign(sent, { seq: run.seq, key, liveness });
    yield { id: run.seq, value };
  }
}

/** A text that changes with everything on the page except the passing of time. */
function keyOf(overview: OverviewJson, activities: ReadonlyMap<string, AgentActivity>): string {
  const { elapsed_ms: _, estimate_ms: __, ...rest } = overview;
  return JSON.stringify([rest, [...activities]]);
}

function changedActivities(
  sent: { activities: Map<string, string> },
  activities: ReadonlyMap<string, AgentActivity>,
): readonly string[] {
  const before = sent.activities;
  sent.activities = new Map([...activities].map(([step, one]) => [step, JSON.stringify(one)]));
  const steps = new Set([...before.keys(), ...sent.activities.keys()]);
  return [...steps].filter((step) => before.get(step) !== sent.activities.get(step));
}

function addRunning(steps: Set<string>, { running }: Run): void {
  for (const visit of running) steps.add(stepPath(visitRef(visit)));
}

/** What the agents of running steps do, by the path of the step. */
async function activitiesByStep({
  followed,
  known,
}: AskedRun): Promise<ReadonlyMap<string, AgentActivity>> {
  if (known.liveness !== "owned") return new Map();
  const activities = await followed.activities();
  const byStep = new Map<string, AgentActivity>();
  for (const visit of known.run.running) {
    const activity = activities.get(attemptText(attemptOf(visit)));
    if (activity !== undefined) byStep.set(stepPath(visitRef(visit)), activity);
  }
  return byStep;
}

/** The rows of these steps, or of all. */
function rowsOf(
  { run, liveness }: LoadedRun,
  only: ReadonlySet<string> | undefined,
  activities: ReadonlyMap<string, AgentActivity>,
): readonly StepRowJson[] {
  if (only?.size === 0) return [];
  const input = { liveness, now: Date.now(), activities };
  const rows: StepRowJson[] = [];
  for (const node of stepTree(run)) {
    if (only === undefined || only.has(node.path)) rows.push(stepRowJson(node, input));
  }
  return rows;
}

async function overviewOf(
  { in: { key }, known, followed }: AskedRun,
  activities: ReadonlyMap<string, AgentActivity>,
): Promise<OverviewJson> {
  const { result, failedOutput } = followed.outcome();
  const costs = [...activities.values()].map(({ costUsd = 0 }) => costUsd);
  return overviewJson({
    ...whyInputOf(known, Date.now()),
    project: key,
    estimates: await followed.estimates(),
    result:
      result === undefined
        ? null
        : {
            branch: result.branch ?? null,
            directory: result.directory ?? null,
            base: result.base ?? null,
            base_moved: result.baseMoved ?? null,
            commits: result.commits,
            files: result.files.map(fileJson),
          },
    failedOutput,
    runningUsd: costs.reduce((sum, cost) => sum + cost, 0),
    warnings: exposureLines(known.events),
  });
}
