/**
 * The addresses of this machine: its projects with their pipelines and costs, its runs, everything that
 * waits for a person, and the description of this interface.
 */
import { thisUser } from "../../app/drive/owner.ts";
import { listPipelines } from "../../app/pipeline/pipeline-name.ts";
import { packageVersion } from "../../app/this-process.ts";
import type { RunStatus } from "../../core/summary.ts";
import { fleetJson } from "../../view/fleet-overview.ts";
import { costJson, dearestRuns } from "../../view/json/cost-json.ts";
import type * as documents from "../../view/json/dashboard-documents.ts";
import type { DocumentOf } from "../../view/json/document-parts.ts";
import { inboxJson, runRowJson } from "../../view/json/run-row-json.ts";
import { type Dashboard, wakeups } from "../dashboard.ts";
import { RequestError, type StreamEvent, wholeNumber } from "../endpoint.ts";
import { ENDPOINTS, type Routes } from "../endpoints.ts";
import { openApi } from "../openapi.ts";

const ROWS_DEFAULT = 50;
const ROWS_MAX = 500;
const TEXT_LENGTH_MAX = 200;
/** The first message of a stream repeats the changes of this time, so that the page misses none. */
const LOOK_BACK_MS = 10_000;
const STATUSES: readonly RunStatus[] = [
  "queued",
  "running",
  "waiting",
  "interrupted",
  "completed",
  "failed",
];

export const machineRoutes = {
  projects: async ({ projects, readOnly, readFleet }) => ({
    projects: [projects.fresh() ?? [], await projects.all()].flat().map((one) => ({
      project: one.key,
      name: one.name,
      directory: one.directory,
      current: one.isCurrent,
      problem: "problem" in one ? one.problem : null,
    })),
    user: thisUser(),
    version: packageVersion(),
    read_only: readOnly,
    fleet: readFleet !== undefined,
  }),

  fleet: async (dashboard) => fleetJson(await dashboard.fleet()),

  runs: async ({ runs }, { query }) => {
    const limit = Math.min(wholeNumber("limit", query.limit) ?? ROWS_DEFAULT, ROWS_MAX);
    const status = query.status
      ?.split(",")
      .filter((word) => word !== "")
      .map(statusNamed);
    const found = await runs.page({
      limit,
      status: status?.length === 0 ? undefined : status,
      project: query.project,
      pipeline: query.pipeline,
      text: query.q?.trim().slice(0, TEXT_LENGTH_MAX) || undefined,
      after: query.cursor === undefined ? undefined : cursorIn(query.cursor),
    });
    const shown = status ?? STATUSES;
    const last = found.runs.at(-1);
    const now = Date.now();
    return {
      runs: found.runs.map((row) => runRowJson(row, now)),
      total: shown.reduce((sum, one) => sum + (found.byStatus[one] ?? 0), 0),
      by_status: found.byStatus,
      pipelines: found.pipelines,
      next: found.hasMore && last !== undefined ? `${last.createdAt}.${last.runId}` : null,
    };
  },

  runChanges: async (dashboard, { query, lastId, signal }) =>
    runChanges(dashboard, wholeNumber("after", lastId ?? query.after) ?? Date.now(), signal),

  inbox: async (dashboard) => inboxOf(dashboard),

  inboxChanges: async (dashboard, { signal }) => inboxChanges(dashboard, signal),

  cost: async (dashboard, { query }) => {
    const now = Date.now();
    const since = now - periodOf(query.since ?? COST_PERIOD);
    const all = await dashboard.projects.readable();
    const wanted = all.filter(({ key }) => query.project === undefined || key === query.project);
    const found = await dashboard.spendings.since(
      wanted.map(({ project }) => project),
      since,
    );
    const runs = found.runs.map(({ summary, attempts }) => ({
      runId: summary.runId,
      pipeline: summary.pipeline,
      attempts,
    }));
    const ids = dearestRuns(runs, DEAREST_MAX);
    const page = await dashboard.runs.page({ runIds: ids, limit: DEAREST_MAX });
    const rows = new Map(page.runs.map((row) => [row.runId, runRowJson(row, now)]));
    const dearest = ids.flatMap((id) => rows.get(id) ?? []);
    return { ...costJson(runs, { since, now }), dearest, unread: found.unread };
  },
  pipelines: async (dashboard, { path }) => {
    const { project: key } = path;
    const isFresh = key === dashboard.projects.fresh()?.key;
    const known = isFresh ? undefined : await dashboard.projects.named(key);
    const listed = await listPipelines(known?.directory ?? dashboard.from, known?.project);
    return {
      project: key,
      pipelines: listed.map(({ description = null, problem = null, ...pipeline }) => ({
        ...pipeline,
        description,
        problem,
      })),
    };
  },
  openapi: async () => ({
    type: "application/json",
    body: JSON.stringify(openApi(ENDPOINTS, packageVersion())),
  }),
} satisfies Partial<Routes>;

function statusNamed(word: string): RunStatus {
  const status = STATUSES.find((one) => one === word);
  if (status !== undefined) return status;
  throw new RequestError(400, "bad-request", `status takes ${STATUSES.join(", ")}`);
}

function cursorIn(text: string): { createdAt: number; runId: string } {
  const [, time = "", runId = ""] = /^(\d{1,15})\.([0-9a-f-]{1,40})$/.exec(text) ?? [];
  if (time !== "") return { createdAt: Number(time), runId };
  throw new RequestError(400, "bad-request", "cursor takes `next` of the previous page");
}

type Rows = Awaited<ReturnType<Dashboard["runs"]["changed"]>>;
type RunChanges = DocumentOf<typeof documents.runChanges>;

/** The id of each message is the time at which it was made, so another server can continue there. */
async function* runChanges(
  { projects, runs }: Dashboard,
  after: number,
  signal: AbortSignal,
): AsyncGenerator<StreamEvent<RunChanges>> {
  const seen = { marks: new Map(), owned: new Map() };
  const messageOf = async (rows: Rows): Promise<RunChanges> => ({
    runs: rows.map((row) => runRowJson(row, Date.now())),
    by_status: await runs.counts(),
  });
  let id = Date.now();
  await runs.changed(seen);
  const first = await runs.changedAfter(Math.min(after, id) - LOOK_BACK_MS);
  yield { id, value: await messageOf(first) };
  for await (const _ of wakeups(projects, signal)) {
    const at = Date.now();
    const rows = await runs.changed(seen);
    if (rows.length === 0) continue;
    id = Math.max(id + 1, at);
    yield { id, value: await messageOf(rows) };
  }
}

async function inboxOf({ questions }: Dashboard): Promise<ReturnType<typeof inboxJson>> {
  const asking = await questions.all();
  return inboxJson(
    asking.map(({ known, project, questions: open, uncertain }) => ({
      runId: known.id,
      shortId: known.shortId,
      project,
      pipeline: known.plan.name,
      run: known.run,
      liveness: known.liveness,
      questions: open,
      uncertain,
    })),
  );
}

async function* inboxChanges(
  dashboard: Dashboard,
  signal: AbortSignal,
): AsyncGenerator<StreamEvent<ReturnType<typeof inboxJson>>> {
  let sent = "";
  let id = Date.now();
  for await (const _ of wakeups(dashboard.projects, signal)) {
    const value = await inboxOf(dashboard);
    const text = JSON.stringify(value);
    if (text === sent) continue;
    sent = text;
    id = Math.max(id + 1, Date.now());
    yield { id, value };
  }
}

const DEAREST_MAX = 20;
const COST_PERIOD = "30d";
const DAY_MS = 24 * 3_600_000;

/** The milliseconds of `30d`. */
function periodOf(text: string): number {
  const days = /^(\d{1,4})d$/.exec(text)?.[1];
  if (days !== undefined) return Number(days) * DAY_MS;
  throw new RequestError(400, "bad-request", "since takes a number of days, such as 30d");
}
