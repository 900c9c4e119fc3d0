/** The addresses of whole projects: what runs cost, the pipelines to start, and this interface. */
import { listPipelines } from "../../app/pipeline/pipeline-list.ts";
import { packageVersion } from "../../app/this-process.ts";
import { costJson, dearestRuns } from "../../view/json/cost-json.ts";
import { runRowJson } from "../../view/json/run-row-json.ts";
import { RequestError, type Routes } from "../answer.ts";
import { ENDPOINTS } from "../endpoints.ts";
import { openApi } from "../openapi.ts";

const DEAREST_MAX = 20;
const COST_PERIOD = "30d";
const DAY_MS = 24 * 3_600_000;

/** The milliseconds of `30d`. */
function periodOf(text: string): number {
  const days = /^(\d{1,4})d$/.exec(text)?.[1];
  if (days !== undefined) return Number(days) * DAY_MS;
  throw new RequestError(400, "bad-request", "since takes a number of days, such as 30d");
}

export const projectRoutes = {
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
