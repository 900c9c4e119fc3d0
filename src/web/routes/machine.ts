/**
 * The addresses of everything on this machine: projects with their pipelines and costs, runs, what
 * waits for a person, and this interface.
 */
import { thisUser } from "../../app/drive/owner.ts";
import { listPipelines } from "../../app/pipeline/pipeline-name.ts";
import { packageVersion } from "../../app/this-process.ts";
import type { RunStatus } from "../../core/summary.ts";
import { fleetJson } from "../../view/fleet-overview.ts";
import { costJson, dearestRuns } from "../../view/json/cost-json.ts";
import { inboxJson, runRowJson } from "../../view/json/run-row-json.ts";
import { RequestError, type Routes, type StreamEvent } from "../answer.ts";
import { type Dashboard, wakeups } from "../dashboard.ts";
import { ENDPOINTS } from "../endpoints.ts";
import { openApi } from "../openapi.ts";

const ROWS_DEFAULT = 50;
const ROWS_MAX = 500;
const TEXT_LENGTH_MAX = 200;
/** How far back the first message of a stream looks, for changes since the page was read. */
const LOOK_BACK_MS = 10_000;
const STATUSES: readonly RunStatus[] = [
  ...(["queued", "running", "waiting", "interrupted", "completed", "failed"] as const),
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
    const limit = numberIn("limit", query.limit ?? String(ROWS_DEFAULT), ROWS_MAX);
    const status = query.status
      ?.split(",")
      .filter((word) => word !== "")
      .map(statusNamed);
    const found = await runs.page({
      limit,
      status: status?.length === 0 ? undefined : status,
      project: query.project || undefined,
      pipeline: query.pipeline || undefined,
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
    runChanges(dashboard, timeIn(lastId ?? query.after), signal),

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
      ...{ runId: summary.runId, pipeline: summary.pipeline, attempts },
    }));
    const ids = dearestRuns(runs, DEAREST_MAX);
    const page = await dashboard.runs.page({ runIds: ids, limit: DEAREST_MAX });
    const rows = new Map(page.runs.map((row) => [row.runId, runRowJson(row, now)]));
    const dearest = ids.flatMap((id) => rows.get(id) ?? []);
    return { ...costJson(runs, { since, now }), dearest, unread: found.unread };
  },
  pipelines: async (dashboard, { path }) => {
    const { project: key } = path;
    const fresh = dashboard.projects.fresh();
    const known = key === fresh?.key ? undefined : await dashboard.projects.named(key);
    const directory = known?.directory ?? fresh?.directory ?? dashboard.from;
    const listed = await listPipelines(directory, known?.project);
    return {
      project: key,
      pipelines: listed.map(({ name, file, description, steps, input, problem }) => ({
        ...{ name, file, description: description ?? null, steps, input },
        problem: problem ?? null,
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

/** A whole number of a query, up to a limit. */
export function numberIn(name: string, text: string, max: number): number {
  const value = /^\d{1,15}$/.test(text) ? Number(text) : -1;
  if (value >= 0) return Math.min(value, max);
  throw new RequestError(400, "bad-request", `${name} takes a whole number`);
}

function cursorIn(text: string): { createdAt: number; runId: string } {
  const [, time = "", runId = ""] = /^(\d{1,15})\.([0-9a-f-]{1,40})$/.exec(text) ?? [];
  if (time !== "") return { createdAt: Number(time), runId };
  throw new RequestError(400, "bad-request", "cursor takes what the page before named as `next`");
}

function timeIn(text: string | undefined): number {
  const now = Date.now();
  return text === undefined || !/^\d{1,15}$/.test(text) ? now : Math.min(now, Number(text));
}

type Rows = Awaited<ReturnType<Dashboard["runs"]["changed"]>>;

/** The id of each message is the time at which it was read: a new server continues there as well. */
async function* runChanges(
  { projects, runs }: Dashboard,
  after: number,
  signal: AbortSignal,
): AsyncGenerator<StreamEvent<RunChangesValue>> {
  const seen = { marks: new Map(), owned: new Map() };
  const messageOf = async (rows: Rows): Promise<RunChangesValue> => ({
    runs: rows.map((row) => runRowJson(row, Date.now())),
    by_status: await runs.counts(),
  });
  let id = Date.now();
  await runs.changed(seen);
  yield { id, value: await messageOf(await runs.changedAfter(after - LOOK_BACK_MS)) };
  for await (const _ of wakeups(projects, signal)) {
    const at = Date.now();
    const rows = await runs.changed(seen);
    if (rows.length === 0) continue;
    id = Math.max(id + 1, at);
    yield { id, value: await messageOf(rows) };
  }
}

type RunChangesValue = {
  readonly runs: readonly ReturnType<typeof runRowJson>[];
  readonly by_status: Awaited<ReturnType<Dashboard["runs"]["counts"]>>;
};

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
