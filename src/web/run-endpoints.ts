/** The addresses of everything on this machine, and of one run as a whole. */
import * as DASHBOARD from "../view/json/dashboard-documents.ts";
import { DOCUMENTS } from "../view/json/documents.ts";
import { document, get, stream } from "./endpoint.ts";

const AFTER = "the number after which the stream starts; `Last-Event-ID` counts first";

/** The addresses of everything on this machine. */
export const MACHINE_ENDPOINTS = {
  projects: get(
    "/api/projects",
    "The projects of this machine that have runs.",
    document(DASHBOARD.projects),
  ),
  runs: get("/api/runs", "A page of the runs of all projects.", document(DASHBOARD.runRows), {
    project: "the key of a project",
    status: "one status, or several with commas between them",
    pipeline: "the name of a pipeline",
    q: "a part of an id, of the name of a pipeline or a step, or of the input",
    limit: "how many runs; 50 by default",
    cursor: "`next` of the page before",
  }),
  runChanges: get(
    "/api/runs/changes",
    "Runs that are new or changed, as a stream.",
    stream("runs", DASHBOARD.runChanges),
    { after: AFTER },
  ),
  fleet: get(
    "/api/fleet",
    "The workers of the fleet, its queues, groups, schedules and dead letters.",
    document(DOCUMENTS.workers),
  ),
  inbox: get("/api/inbox", "Everything that waits for a person.", document(DASHBOARD.inbox)),
  inboxChanges: get(
    "/api/inbox/changes",
    "Everything that waits for a person, again after each change.",
    stream("inbox", DASHBOARD.inbox),
    { after: AFTER },
  ),
} as const;

const { show, why, timeline, report, questions, explain, graph } = DOCUMENTS;

/** The addresses of one run as a whole. */
export const RUN_ENDPOINTS = {
  run: get(
    "/api/runs/:run",
    "A run with a row for each of its steps.",
    document(DASHBOARD.runPage),
  ),
  live: get(
    "/api/runs/:run/live",
    "What changes in a run, as a stream.",
    stream("news", DASHBOARD.runNews),
    { after: AFTER },
  ),
  show: get("/api/runs/:run/show", "Everything about a run.", document(show)),
  why: get("/api/runs/:run/why", "What happened, and what to do next.", document(why)),
  timeline: get("/api/runs/:run/timeline", "The checkpoints of a run.", document(timeline)),
  report: get("/api/runs/:run/report", "The report of a run.", document(report)),
  questions: get("/api/runs/:run/questions", "The open questions of a run.", document(questions)),
  explain: get("/api/runs/:run/explain", "Why the attempts of a step ran.", document(explain), {
    step: "the step",
  }),
  graph: get("/api/runs/:run/graph", "The graph of a run, laid out.", document(graph), {
    at: "a sequence number: the graph as it was after that event",
  }),
  events: get("/api/runs/:run/events", "The events of a run.", document(DASHBOARD.events), {
    after: "only the events after this sequence number",
  }),
  eventStream: get(
    "/api/runs/:run/events/live",
    "The events of a run, and those that come, as a stream.",
    stream("event", DASHBOARD.runEvent),
    { after: AFTER },
  ),
} as const;
