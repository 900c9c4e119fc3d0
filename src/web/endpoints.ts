/**
 * The addresses of the dashboard's server: one row for each, from which its routes, the rule of
 * `--read-only`, the OpenAPI document and docs/HTTP.md follow.
 *
 * Owns: method, path, parameters and document of every address.
 * Does not: answer (`routes/`), or say who may ask (access.ts).
 */

import { verdict } from "../core/event-parts.ts";
import { boolean, integer, json, listOf, number, oneOf, optional, text } from "../core/shape.ts";
import * as attractor from "../view/json/attractor-documents.ts";
import * as dashboard from "../view/json/dashboard-documents.ts";
import { DOCUMENTS } from "../view/json/documents.ts";
import { bytes, document, type Endpoint, get, post, type Route, stream } from "./endpoint.ts";

const AFTER = "the number after which the stream starts; `Last-Event-ID` takes precedence";

/** The addresses of this machine: projects, runs, the fleet and the inbox. */
const MACHINE_ENDPOINTS = {
  projects: get(
    "/api/projects",
    "The projects of this machine that have runs.",
    document(dashboard.projects),
  ),
  runs: get("/api/runs", "A page of the runs of all projects.", document(dashboard.runRows), {
    project: "the key of a project",
    status: "one status, or several with commas between them",
    pipeline: "the name of a pipeline",
    q: "a part of an id, of the name of a pipeline or a step, or of the input",
    limit: "how many runs; 50 by default",
    cursor: "`next` of the previous page",
  }),
  runChanges: get(
    "/api/runs/changes",
    "Runs that are new or changed, as a stream.",
    stream("runs", dashboard.runChanges),
    { after: AFTER },
  ),
  fleet: get(
    "/api/fleet",
    "The workers of the fleet, its queues, groups, schedules and dead letters.",
    document(DOCUMENTS.workers),
  ),
  inbox: get("/api/inbox", "Everything that waits for a person.", document(dashboard.inbox)),
  inboxChanges: get(
    "/api/inbox/changes",
    "Everything that waits for a person, again after each change.",
    stream("inbox", dashboard.inbox),
    { after: AFTER },
  ),
} as const;

const { show, why, timeline, report, questions, explain, graph } = DOCUMENTS;

/** The addresses of one run as a whole. */
const RUN_ENDPOINTS = {
  run: get(
    "/api/runs/:run",
    "A run with a row for each of its steps.",
    document(dashboard.runPage),
  ),
  live: get(
    "/api/runs/:run/live",
    "What changes in a run, as a stream.",
    stream("news", dashboard.runNews),
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
  events: get("/api/runs/:run/events", "The events of a run.", document(dashboard.events), {
    after: "only the events after this sequence number",
  }),
  eventStream: get(
    "/api/runs/:run/events/live",
    "The events of a run, and the new ones, as a stream.",
    stream("event", dashboard.runEvent),
    { after: AFTER },
  ),
} as const;

const attempt = "`fix@2.1`; for a step or a visit, its last attempt";
const file = "which of its outputs; the first one by default";
const snapshot = "a snapshot or a checkpoint that the run names";

/** The addresses of what a run contains: steps, outputs, files, earlier moments, costs. */
const CONTENT_ENDPOINTS = {
  step: get(
    "/api/runs/:run/step",
    "A step with all its visits and attempts.",
    document(dashboard.stepPage),
    { step: "its path, such as `build` or `map[3]/fix`" },
  ),
  output: get(
    "/api/runs/:run/output",
    "A part of what an attempt printed, as plain text without secrets.",
    document(dashboard.output),
    {
      attempt,
      file,
      from: "the first byte; a negative number counts from the end",
      limit: "how many bytes, up to 1 MiB; 64 KiB by default",
    },
  ),
  outputLive: get(
    "/api/runs/:run/output/live",
    "What an attempt prints, while it prints it; the id of an event is a byte.",
    stream("output", dashboard.output),
    { attempt, file, from: "the first byte; a negative number counts from the end" },
  ),
  outputDownload: get(
    "/api/runs/:run/output/download",
    "All that an attempt has printed so far, as plain text without secrets.",
    bytes("text/plain; charset=utf-8"),
    { attempt, file },
  ),
  conversation: get(
    "/api/runs/:run/conversation",
    "The prompts and answers of the agent of an attempt, its tool calls and their results.",
    document(dashboard.conversation),
    { attempt },
  ),
  material: get(
    "/api/runs/:run/material",
    "The material of a gate's question.",
    document(DOCUMENTS.material),
    { step: "the gate" },
  ),
  artifact: get(
    "/api/runs/:run/artifact/:sha256",
    "The content of a file that a step passed on.",
    bytes("application/octet-stream"),
  ),
  diff: get(
    "/api/runs/:run/diff",
    "What changed between two checkpoints, or in one step, visit or attempt.",
    document(DOCUMENTS.diff),
    {
      from: "a step, a visit, an attempt, a snapshot, `base` or `now`",
      to: "the same; without it, the work of `from` itself",
      patch: "`1` for the patch, too",
    },
  ),
  moments: get(
    "/api/runs/:run/moments",
    "Every event of a run in one line, for a slider.",
    document(dashboard.moments),
  ),
  moment: get(
    "/api/runs/:run/moment/:sequence",
    "A run as it was after one of its events.",
    document(dashboard.moment),
  ),
  files: get("/api/runs/:run/files", "The files in a snapshot.", document(dashboard.files), {
    snapshot,
  }),
  file: get(
    "/api/runs/:run/file",
    "One file of a snapshot as text.",
    document(dashboard.fileText),
    { snapshot, path: "its path in the snapshot" },
  ),
  compare: get("/api/compare", "Two runs side by side.", document(dashboard.comparison), {
    left: "a run",
    right: "another run",
  }),
  reportHtml: get(
    "/api/runs/:run/report.html",
    "The report of a run as one HTML file.",
    bytes("text/html; charset=utf-8"),
  ),
  cost: get(
    "/api/cost",
    "What runs cost over time, by pipeline, model and agent.",
    document(dashboard.cost),
    {
      since: "how many days back; `30d` by default",
      project: "the key of a project; all projects by default",
    },
  ),
  pipelines: get(
    "/api/projects/:project/pipelines",
    "The pipelines that can be started in a project, with the schemas of their inputs.",
    document(dashboard.pipelines),
  ),
  openapi: get(
    "/api/openapi.json",
    "This interface as an OpenAPI 3.1 document.",
    bytes("application/json"),
  ),
};

const sent = document(dashboard.done);
const files = optional(oneOf("keep", "restore"));
const dryRun = { dry_run: optional(boolean) };
/** The person agrees that effects which must happen once happen again. */
const agreed = { agreed: optional(boolean) };

/**
 * The addresses that change a run. A run with a living owner gets a request, which its owner handles;
 * a run that nobody drives continues in the background.
 */
const ACTION_ENDPOINTS = {
  start: post("/api/runs", "Starts a run in the background.", sent, {
    project: text,
    pipeline: text,
    input: optional(json),
    /** `5usd`, `2M tokens`, `1h`. */
    budget: optional(text),
    /** Starts beside other runs with agents in the same directory. */
    beside: optional(boolean),
  }),
  resume: post("/api/runs/:run/resume", "Continues a run in the background.", sent, {
    budget: optional(text),
    recover: optional(oneOf("continue", "restart")),
    files,
    turns: optional(integer),
    beside: optional(boolean),
    ...dryRun,
  }),
  retry: post("/api/runs/:run/retry", "Runs a step again, and every step after it.", sent, {
    step: text,
    /** Of a fan-out: the numbers of its items. */
    items: optional(listOf(integer)),
    /** Of a fan-out: only the items that failed. */
    failed: optional(boolean),
    files,
    turns: optional(integer),
    ...agreed,
    ...dryRun,
  }),
  stop: post("/api/runs/:run/stop", "Stops a run.", sent, {
    mode: oneOf("now", "after-turn", "after-step"),
  }),
  answer: post("/api/runs/:run/answer", "Answers a question.", sent, {
    /** The gate: a step, a visit or an attempt; `attempt` takes precedence. */
    step: optional(text),
    attempt: optional(text),
    choice: optional(text),
    text: optional(text),
  }),
  settle: post(
    "/api/runs/:run/settle",
    "Says what happened to an effect that must happen once.",
    sent,
    { step: text, as: verdict, identity: optional(text) },
  ),
  skip: post("/api/runs/:run/skip", "Skips a step.", sent, { step: text }),
  rewind: post(
    "/api/runs/:run/rewind",
    "Rewinds a run to the start of a step or a visit, or its files to a snapshot.",
    sent,
    { to: text, files, ...agreed, ...dryRun },
  ),
  fork: post(
    "/api/runs/:run/fork",
    "Makes a new run that shares the past of this one up to a step.",
    sent,
    {
      at: optional(text),
      input: optional(json),
      files,
      /** Starts the new run in the background. */
      start: optional(boolean),
      ...dryRun,
    },
  ),
  budget: post("/api/runs/:run/budget", "Adds to the budget of a run.", sent, {
    usd: optional(number),
    tokens: optional(integer),
    turns: optional(integer),
    /** Milliseconds, or a text such as `30m`. */
    time: optional(json),
  }),
  message: post("/api/runs/:run/message", "Leaves a message for the agent of a step.", sent, {
    step: text,
    text,
  }),
};

/** The addresses of the attractor language (its specification, 9.5): runs as pipelines. */
const ATTRACTOR_ENDPOINTS = {
  submit: post(
    "/pipelines",
    "Starts a pipeline in DOT, in the project of the server's directory or in `project`.",
    document(attractor.submitted),
    { dot_source: text, input: optional(json), project: optional(text) },
  ),
  pipelineStatus: get(
    "/pipelines/:run",
    "The status of a pipeline.",
    document(attractor.pipelineStatus),
  ),
  pipelineEvents: get(
    "/pipelines/:run/events",
    "The events of a pipeline by the names of the language, from the first one on.",
    stream("PipelineStarted", attractor.pipelineEvent),
  ),
  cancel: post(
    "/pipelines/:run/cancel",
    "Stops a pipeline; `perdure resume` can continue it.",
    document(attractor.cancelled),
    {},
  ),
  pipelineGraph: get(
    "/pipelines/:run/graph",
    "The graph of a pipeline with the states of its nodes.",
    bytes("image/svg+xml"),
  ),
  pipelineQuestions: get(
    "/pipelines/:run/questions",
    "The questions that a pipeline asks.",
    document(attractor.pipelineQuestions),
  ),
  pipelineAnswer: post(
    "/pipelines/:run/questions/:question/answer",
    "Answers a question; a pipeline that nobody drives continues.",
    document(attractor.pipelineAnswer),
    {
      /** The key or the label of an option. */
      value: optional(text),
      text: optional(text),
    },
  ),
  pipelineCheckpoint: get(
    "/pipelines/:run/checkpoint",
    "The checkpoint of a pipeline, as the language describes it.",
    document(attractor.pipelineCheckpoint),
  ),
  pipelineContext: get(
    "/pipelines/:run/context",
    "The context of a pipeline.",
    document(attractor.pipelineContext),
  ),
};

/** The addresses by their subject: the tables of docs/HTTP.md. */
export const ENDPOINT_TABLES = {
  machine: MACHINE_ENDPOINTS,
  run: RUN_ENDPOINTS,
  content: CONTENT_ENDPOINTS,
  actions: ACTION_ENDPOINTS,
  attractor: ATTRACTOR_ENDPOINTS,
};

/** Every address. */
export const ENDPOINTS = {
  ...MACHINE_ENDPOINTS,
  ...RUN_ENDPOINTS,
  ...CONTENT_ENDPOINTS,
  ...ACTION_ENDPOINTS,
  ...ATTRACTOR_ENDPOINTS,
} as const satisfies Readonly<Record<string, Endpoint>>;

/** The routes of all addresses. */
export type Routes = {
  readonly [N in keyof typeof ENDPOINTS]: Route<(typeof ENDPOINTS)[N]>;
};
