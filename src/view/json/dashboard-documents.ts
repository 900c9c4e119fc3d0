/**
 * What the server of the dashboard sends beside the documents of the command line: rows and details
 * for its pages. docs/HTTP.md lists the addresses.
 *
 * Owns: the fields of these documents.
 * Does not: repeat a document of the command line; where one serves, the server sends that one.
 */
import {
  boolean,
  integer,
  json,
  listOf,
  mapOf,
  nullable,
  number,
  oneOf,
  optional,
  record,
  text,
  time,
} from "../../core/shape.ts";
import * as part from "./document-parts.ts";
import { document } from "./document-parts.ts";

/** How many there are in each state; of items, of steps, of runs. */
const counts = record({
  total: integer,
  completed: integer,
  failed: integer,
  running: integer,
  waiting: integer,
});

const runRow = record({
  ...part.run,
  /** The shortest id that the commands accept. */
  short_id: text,
  /** The key of its project in `projects`. */
  project: text,
  pipeline: text,
  /** Its input in one line; null when that says nothing. */
  about: nullable(text),
  status: part.runStatus,
  created_at: time,
  updated_at: time,
  /** From its start to its end, or until now; waiting times included. */
  elapsed_ms: number,
  steps_completed: integer,
  steps_total: integer,
  /** The path of a step that runs, waits or has failed. */
  current_step: nullable(text),
  cost_usd: nullable(number),
  tokens: nullable(number),
  /** `ann on laptop`; null when nobody drives it. */
  owner: nullable(text),
  file: text,
  forked_from: part.origin,
  cleaned_at: nullable(time),
});

export const projects = document(
  "The projects of this machine that have runs, or pipelines to start here.",
  {
    projects: listOf(
      record({
        project: text,
        name: text,
        directory: text,
        /** The one in whose directory the server was started. */
        current: boolean,
        /** Why it cannot be read now; null when it can. */
        problem: nullable(text),
      }),
    ),
    user: text,
    version: text,
    read_only: boolean,
    /** The server knows the store of a fleet. */
    fleet: boolean,
  },
);

export const runRows = document("Runs of all projects, newest first, a page at a time.", {
  runs: listOf(runRow),
  /** Of all runs that the filters let through, not only of this page. */
  total: integer,
  by_status: mapOf(integer),
  pipelines: listOf(text),
  /** Where the next page starts; null on the last. */
  next: nullable(text),
});

export const runChanges = document("Runs that are new or changed.", {
  runs: listOf(runRow),
  by_status: mapOf(integer),
});

export const inbox = document("The open questions of all projects, the oldest first.", {
  questions: listOf(
    record({
      ...part.run,
      short_id: text,
      project: text,
      pipeline: text,
      status: part.runStatus,
      ...part.questionFields,
    }),
  ),
  /** Effects that must happen once and about which a person has to say what happened. */
  uncertain: listOf(
    record({
      ...part.run,
      short_id: text,
      project: text,
      pipeline: text,
      ...part.attempt,
      since: time,
      message: text,
    }),
  ),
});

const stepRow = record({
  /** Its path: `build`, `map[3]/fix`. */
  step: text,
  /** The composite step that it is in; null at the top. */
  parent: nullable(text),
  label: text,
  kind: text,
  status: part.stepStatus,
  detail: text,
  visit: integer,
  attempt: integer,
  started_at: nullable(time),
  ended_at: nullable(time),
  worked_ms: number,
  cost_usd: nullable(number),
  tokens: nullable(number),
  turns: nullable(integer),
  /** The tool that its agent uses now. */
  tool: nullable(text),
  /** Of a fan-out: its items. */
  items: nullable(counts),
  /** Why it failed or waits, in one line. */
  message: nullable(text),
});

/** The head of every page of a run. */
const overview = record({
  ...part.standing,
  short_id: text,
  project: text,
  sequence: integer,
  created_at: time,
  updated_at: time,
  ended_at: nullable(time),
  elapsed_ms: number,
  worked_ms: number,
  /** Until the end, from earlier runs; null when that is unknown. */
  estimate_ms: nullable(number),
  steps: counts,
  spent: part.used,
  /** What the agents that work now have used so far, beside `spent`. */
  running_usd: number,
  budget: record({
    usd: nullable(number),
    tokens: nullable(number),
    turns: nullable(number),
    time_ms: nullable(number),
  }),
  owner: nullable(record({ ...part.owner, alive: boolean })),
  forked_from: part.origin,
  file: nullable(text),
  directory: nullable(text),
  input: json,
  /** Of a run in a worktree: what it leaves for its user. */
  result: nullable(
    record({
      branch: nullable(text),
      directory: nullable(text),
      base: nullable(text),
      base_moved: nullable(integer),
      commits: integer,
      files: listOf(part.file),
    }),
  ),
  /** The end of the output of a failed step, for the card. */
  failed_output: listOf(text),
  warnings: listOf(text),
  cleaned_at: nullable(time),
});

export const runPage = document("A run with a row for each of its steps.", {
  overview,
  /** In the order of the plan, each after the composite step that it is in. */
  steps: listOf(stepRow),
  /** Changes when steps, items or edges were added or an edge was taken: read the graph again. */
  graph_version: text,
});

/** An event as the terminal prints it, and the step that it is about. */
const eventFields = {
  sequence: integer,
  time,
  text,
  tone: nullable(text),
  step: nullable(text),
};

export const runNews = document("What changed in a run since a sequence number.", {
  overview,
  /** The rows that changed. */
  steps: listOf(stepRow),
  graph_version: text,
  /** The new events. */
  lines: listOf(record(eventFields)),
});

export const events = document("The events of a run, as the commands print them with --json.", {
  ...part.run,
  events: listOf(json),
  last_sequence: integer,
});

export const runEvent = document("One event of a run.", { ...part.run, event: json });

const check = record({
  name: text,
  passed: boolean,
  exit: nullable(integer),
  message: nullable(text),
  evidence: json,
});

const stepAttempt = record({
  /** `fix@2.1`. */
  name: text,
  ...part.attempt,
  status: text,
  started_at: time,
  ended_at: nullable(time),
  worked_ms: number,
  exit: nullable(integer),
  reason: nullable(text),
  message: nullable(text),
  /** Why it was started. */
  cause: nullable(text),
  agent: nullable(text),
  model: nullable(text),
  session: nullable(text),
  /** What the agent was told, or the command that ran. */
  prompt: nullable(text),
  spent: part.used,
  checks: listOf(check),
  receipt: json,
  /** What it printed: the work, its checks, a judge. */
  output: listOf(record({ file: text, label: text, bytes: integer })),
  /** It has a conversation to read. */
  conversation: boolean,
  /** The names of the snapshots before and after, for `diff`. */
  from: nullable(text),
  to: nullable(text),
});

export const stepPage = document("A step with all its visits and attempts.", {
  ...part.run,
  row: stepRow,
  /** What the pipeline says about it, without what it does not set. */
  settings: mapOf(json),
  attempts: listOf(stepAttempt),
  artifacts: listOf(record({ path: text, sha256: text, bytes: integer, media: text, name: text })),
  question: nullable(record(part.questionFields)),
  messages: listOf(part.leftMessage),
  /** Why each attempt was started, and what holds now. */
  explained: listOf(text),
});

export const output = document("A part of what an attempt printed.", {
  ...part.run,
  attempt: text,
  file: text,
  /** The bytes of the file that the text stands for. */
  from: integer,
  to: integer,
  bytes: integer,
  /** Nothing more will come. */
  ended: boolean,
  text,
});

const call = record({
  name: text,
  input: text,
  result: nullable(text),
  ok: nullable(boolean),
  at: nullable(time),
});

export const conversation = document("What an agent and its tools said.", {
  ...part.run,
  attempt: text,
  turns: listOf(
    record({
      by: oneOf("person", "agent", "perdure"),
      text,
      calls: listOf(call),
      tokens: nullable(number),
      at: nullable(time),
    }),
  ),
  /** Turns before these that are left out. */
  left_out: integer,
  ended: boolean,
});

export const moment = document("A run as it was after one of its events.", {
  ...part.run,
  sequence: integer,
  last_sequence: integer,
  time,
  /** The event as the terminal prints it. */
  line: text,
  status: part.runStatus,
  steps: listOf(stepRow),
  context: mapOf(json),
  spent: part.used,
  /** The snapshot of the files at that time; null when there is none. */
  snapshot: nullable(text),
  /** The step to rewind to, or to fork from, for this moment; null when there is none. */
  checkpoint: nullable(text),
});

export const moments = document("Every event of a run, for a slider.", {
  ...part.run,
  moments: listOf(
    record({
      ...eventFields,
      /** What makes it a place to go to. */
      mark: nullable(oneOf("failure", "answer", "checkpoint")),
    }),
  ),
});

export const files = document("The files in a snapshot.", {
  ...part.run,
  snapshot: text,
  files: listOf(record({ path: text, bytes: integer })),
  left_out: integer,
});

export const fileText = document("One file of a snapshot.", {
  ...part.run,
  snapshot: text,
  path: text,
  bytes: integer,
  binary: boolean,
  text,
  cut: boolean,
});

const side = record({
  ...part.run,
  short_id: text,
  pipeline: text,
  status: part.runStatus,
  elapsed_ms: number,
  cost_usd: nullable(number),
  tokens: nullable(number),
});

export const comparison = document("Two runs side by side.", {
  left: side,
  right: side,
  steps: listOf(
    record({ step: text, left: nullable(stepRow), right: nullable(stepRow), same: boolean }),
  ),
  context: record({
    added: mapOf(json),
    changed: mapOf(record({ from: json, to: json })),
    removed: listOf(text),
  }),
  input: record({ left: json, right: json }),
  /** Null when the files of the runs cannot be compared. */
  files: nullable(listOf(part.file)),
});

export const pipelines = document("The pipelines that can be started in a project.", {
  project: text,
  pipelines: listOf(
    record({
      /** What `perdure run` takes. */
      name: text,
      file: text,
      description: nullable(text),
      steps: integer,
      /** JSON Schema of its input; null when it says nothing about it. */
      input: json,
      problem: nullable(text),
    }),
  ),
});

export const cost = document("What runs cost over time.", {
  since: time,
  total: record({ usd: number, tokens: number, runs: integer, unknown_price: integer }),
  days: listOf(
    record({ day: text, usd: number, tokens: number, runs: integer, by: mapOf(number) }),
  ),
  by_pipeline: listOf(record({ name: text, usd: number, tokens: number, runs: integer })),
  by_model: listOf(record({ name: text, usd: number, tokens: number, runs: integer })),
  by_agent: listOf(record({ name: text, usd: number, tokens: number, runs: integer })),
  dearest: listOf(runRow),
  /** Runs that are not read yet, and not counted: ask again. */
  unread: integer,
});

/** What a request of the page did. */
export const done = document("What a request did.", {
  /** The run that it was about, or the new one. */
  ...part.run,
  /** In words: what happened, or what would happen. */
  lines: listOf(text),
  dry_run: boolean,
  /** Null when it needs no owner. */
  request: nullable(oneOf("handled", "owner-ended", "not-read")),
  preview: optional(
    record({
      runs_again: listOf(text),
      kept: listOf(text),
      files: listOf(part.file),
      warnings: listOf(text),
    }),
  ),
});
