/**
 * The addresses of one run: the documents that commands print with `--json`, its events, and its past:
 * differences, moments, files of snapshots, two runs side by side.
 */
import { whyInputOf } from "../../app/loaded-run.ts";
import type { FollowedRun } from "../../app/look/followed-run.ts";
import {
  comparedRuns,
  compareRun,
  explain,
  maskedRun,
  timelineOfRun,
} from "../../app/look/inspect.ts";
import { fileIn, filesIn } from "../../app/look/run-content.ts";
import { openQuestions } from "../../app/request/answer.ts";
import { partialWork } from "../../app/rewind/interrupted-work.ts";
import { readableResult } from "../../app/take.ts";
import type { Recorded } from "../../core/event.ts";
import { replay } from "../../core/evolve.ts";
import type { Json } from "../../util/json.ts";
import { exposureLines } from "../../view/attempt-history.ts";
import { explainJson } from "../../view/explain.ts";
import { runDrawing } from "../../view/graph/drawing.ts";
import { diffJson, questionsJson, timelineJson } from "../../view/json/action-json.ts";
import { graphJson } from "../../view/json/graph-json.ts";
import { momentJson, momentsJson } from "../../view/json/moment-json.ts";
import { eventJson } from "../../view/json/part-json.ts";
import { showJson, whyJson } from "../../view/json/run-json.ts";
import { interruptedJson } from "../../view/preview/interrupted-work.ts";
import { reportHtml } from "../../view/report/html.ts";
import { runReport } from "../../view/report/report.ts";
import { reportJson } from "../../view/report/report-json.ts";
import { askedRun, changesOf } from "../dashboard.ts";
import { needed, RequestError, type StreamEvent, wholeNumber } from "../endpoint.ts";
import type { Routes } from "../endpoints.ts";

/** How many events one answer has. */
const EVENTS_MAX = 5_000;

export const runRoutes = {
  show: async (dashboard, { path }) => {
    const { project, known } = await askedRun(dashboard, path.run);
    const input = { ...whyInputOf(known, Date.now()), events: known.events };
    return showJson(input, await readableResult(project, known));
  },

  why: async (dashboard, { path }) => {
    const { project, known } = await askedRun(dashboard, path.run);
    const interrupted = (await partialWork(project, known)).map(({ work }) => work);
    const input = whyInputOf(known, Date.now());
    const works = interrupted.map(interruptedJson);
    const result = await readableResult(project, known);
    return whyJson(input, works, exposureLines(known.events), result);
  },

  timeline: async (dashboard, { path }) => {
    const { project, known } = await askedRun(dashboard, path.run);
    return timelineJson(known.id, await timelineOfRun(project, known));
  },

  report: async (dashboard, { path }) => {
    const known = maskedRun((await askedRun(dashboard, path.run)).known);
    const { plan, events } = known;
    return reportJson(runReport({ ...whyInputOf(known, Date.now()), plan, events }));
  },

  questions: async (dashboard, { path }) => {
    const { known } = await askedRun(dashboard, path.run);
    return questionsJson(known.id, openQuestions(known));
  },

  explain: async (dashboard, { path, query }) => {
    const { known } = await askedRun(dashboard, path.run);
    return explainJson(known.id, explain(known, query.step ?? ""));
  },

  graph: async (dashboard, { path, query }) => {
    const { known } = await askedRun(dashboard, path.run);
    const { plan, run, events, liveness, planOf, id } = known;
    const at = wholeNumber("at", query.at);
    if (at === undefined) return graphJson(runDrawing(plan, run, events, liveness));
    const past = events.slice(0, Math.max(1, at));
    const then = replay(planOf, id, past);
    const itsPlan = planOf(then.created?.fingerprint ?? "");
    // A step that ran at that moment is shown as running, whether the run has an owner now or not.
    return graphJson(runDrawing(itsPlan, then, past, "owned"));
  },

  events: async (dashboard, { path, query }) => {
    const { known } = await askedRun(dashboard, path.run);
    const after = wholeNumber("after", query.after) ?? 0;
    const events = known.events.slice(after, after + EVENTS_MAX);
    return {
      run_id: known.id,
      events: events.map((recorded) => printedEvent(known.id, recorded)),
      last_sequence: known.run.seq,
    };
  },

  eventStream: async (dashboard, { path, query, lastId, signal }) => {
    const asked = await askedRun(dashboard, path.run);
    const after = wholeNumber("after", lastId ?? query.after) ?? 0;
    const seen = Math.min(after, asked.known.events.length);
    return eventsOf(changesOf(dashboard, asked, signal), seen);
  },

  diff: async (dashboard, { path, query }) => {
    const { project, known } = await askedRun(dashboard, path.run);
    const names = [needed("from", query.from), query.to] as const;
    const difference = await compareRun(project, known, names, { patch: query.patch === "1" });
    return diffJson(known.id, difference);
  },
  moments: async (dashboard, { path }) => {
    const { known } = await askedRun(dashboard, path.run);
    return momentsJson(known.planOf, known.id, known.events);
  },
  moment: async (dashboard, { path }) => {
    const { known } = await askedRun(dashboard, path.run);
    const sequence = wholeNumber("sequence", path.sequence) ?? 0;
    const moment = momentJson(known.planOf, known.id, known.events, sequence);
    if (moment !== undefined) return moment;
    throw new RequestError(404, "not-found", `the run has no event ${path.sequence}`);
  },
  files: async (dashboard, { path, query }) => {
    const { project, known } = await askedRun(dashboard, path.run);
    const found = await filesIn(project, known, needed("snapshot", query.snapshot));
    const { snapshot, files, leftOut } = found;
    return { run_id: known.id, snapshot, files, left_out: leftOut };
  },
  file: async (dashboard, { path, query }) => {
    const { project, known } = await askedRun(dashboard, path.run);
    const names = [needed("snapshot", query.snapshot), needed("path", query.path)] as const;
    return { run_id: known.id, ...(await fileIn(project, known, ...names)) };
  },
  compare: async (dashboard, { query }) => {
    const left = await askedRun(dashboard, needed("left", query.left));
    const right = await askedRun(dashboard, needed("right", query.right));
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

/** The events of a run after the first `seen` ones, and the new ones until the client leaves. */
async function* eventsOf(
  changes: AsyncIterable<FollowedRun>,
  seen: number,
): AsyncGenerator<StreamEvent<{ readonly run_id: string; readonly event: Json }>> {
  let sent = seen;
  for await (const { known } of changes) {
    for (const recorded of known.events.slice(sent)) {
      const event = printedEvent(known.id, recorded);
      yield { id: recorded.seq, value: { run_id: known.id, event } };
      sent = recorded.seq;
    }
  }
}

/** An event as JSON: its type does not say that it is plain JSON. */
function printedEvent(runId: string, recorded: Recorded): Json {
  return eventJson(runId, recorded) as unknown as Json;
}
