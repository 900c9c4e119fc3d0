/** The addresses that send what is inside of a run: steps, outputs, files, earlier moments, costs. */
import * as dashboard from "../view/json/dashboard-documents.ts";
import { DOCUMENTS } from "../view/json/documents.ts";
import { bytes, document, get, stream } from "./endpoint.ts";

const attempt = "`fix@2.1`; for a step or a visit, its last attempt";
const file = "which of its outputs; the first one by default";
const snapshot = "a snapshot or a checkpoint that the run names";

export const CONTENT_ENDPOINTS = {
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
    "What the agent of an attempt was told, its answers, its tool calls and their results.",
    document(dashboard.conversation),
    { attempt },
  ),
  material: get(
    "/api/runs/:run/material",
    "What a gate shows with its question.",
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
