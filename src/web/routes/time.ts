/** The addresses that look back: differences, moments, files of snapshots, two runs side by side. */

import { whyInputOf } from "../../app/loaded-run.ts";
import { comparedRuns } from "../../app/look/compare-runs.ts";
import { compareRun, maskedRun } from "../../app/look/inspect.ts";
import { fileIn, filesIn } from "../../app/look/run-content.ts";
import { diffJson } from "../../view/json/action-json.ts";
import { momentJson, momentsJson } from "../../view/json/moment-json.ts";
import { reportHtml } from "../../view/report/html.ts";
import { runReport } from "../../view/report/report.ts";
import { RequestError, type Routes } from "../answer.ts";
import { askedRun } from "../dashboard.ts";
import { needed, wholeNumber } from "./step.ts";

export const timeRoutes = {
  diff: async (dashboard, { path, query }) => {
    const { project, known } = await askedRun(dashboard, path.run);
    const names = [needed(query.from, "from"), query.to] as const;
    const difference = await compareRun(project, known, names, { patch: query.patch === "1" });
    return diffJson(known.id, difference);
  },
  moments: async (dashboard, { path }) => {
    const { known } = await askedRun(dashboard, path.run);
    return momentsJson(known.planOf, known.id, known.events);
  },
  moment: async (dashboard, { path }) => {
    const { known } = await askedRun(dashboard, path.run);
    const sequence = wholeNumber(path.sequence, "sequence") ?? 0;
    const moment = momentJson(known.planOf, known.id, known.events, sequence);
    if (moment !== undefined) return moment;
    throw new RequestError(404, "not-found", `the run has no event ${path.sequence}`);
  },
  files: async (dashboard, { path, query }) => {
    const { project, known } = await askedRun(dashboard, path.run);
    const found = await filesIn(project, known, needed(query.snapshot, "snapshot"));
    const { snapshot, files, leftOut } = found;
    return { run_id: known.id, snapshot, files, left_out: leftOut };
  },
  file: async (dashboard, { path, query }) => {
    const { project, known } = await askedRun(dashboard, path.run);
    const names = [needed(query.snapshot, "snapshot"), needed(query.path, "path")] as const;
    return { run_id: known.id, ...(await fileIn(project, known, ...names)) };
  },
  compare: async (dashboard, { query }) => {
    const left = await askedRun(dashboard, needed(query.left, "left"));
    const right = await askedRun(dashboard, needed(query.right, "right"));
    return comparedRuns(left, right, Date.now());
  },
  reportHtml: async (dashboard, { path }) => {
    const known = maskedRun((await askedRun(dashboard, path.run)).known);
    const { plan, events, shortId } = known;
    const report = runReport({ ...whyInputOf(known, Date.now()), plan, events });
    return {
      type: "text/html; charset=utf-8",
      body: reportHtml(report),
      headers: {
        "Content-Disposition": `inline; filename="report-${shortId}.html"`,
        "Content-Security-Policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'",
      },
    };
  },
} satisfies Partial<Routes>;
