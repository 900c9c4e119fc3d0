/**
 * What each command prints with `--json`: the one table of documents. docs/JSON.md explains it.
 *
 * Owns: the fields of every document, and which command prints which.
 * Does not: get loaded to print a document; printing code imports only the types.
 * Invariants:
 * - view/J1 A command with `--json` has a row here, and prints nothing else on stdout.
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
import { type DocumentOf, document } from "./document-parts.ts";
import * as machine from "./machine-documents.ts";

const error = document("Why a command could not do what was asked.", {
  error: record({
    code: text,
    message: text,
    next: listOf(part.next),
    /** Of a pipeline with mistakes. */
    diagnostics: optional(listOf(part.diagnostic)),
    /** Of an input that does not fit its schema: what is wrong, by the path of the value. */
    fields: optional(mapOf(text)),
  }),
});

const runs = document("The runs of the project, newest first.", {
  runs: listOf(
    record({
      ...part.run,
      pipeline: text,
      status: part.runStatus,
      created_at: time,
      updated_at: time,
      cleaned_at: nullable(time),
      steps_completed: integer,
      steps_total: integer,
      file: text,
      input: json,
      forked_from: part.origin,
      /** Of its project; only with `--all-projects`. */
      directory: optional(text),
    }),
  ),
});

const show = document("Everything about a run.", {
  ...part.standing,
  created_at: nullable(time),
  updated_at: time,
  cleaned_at: nullable(time),
  steps_completed: integer,
  steps_total: integer,
  file: nullable(text),
  cwd: nullable(text),
  input: json,
  args: listOf(text),
  fingerprint: nullable(text),
  forked_from: part.origin,
  owner: nullable(record({ ...part.owner, alive: boolean })),
  context: mapOf(json),
  spent: part.used,
  result: part.result,
  messages: listOf(part.leftMessage),
  notices: listOf(part.sentNotice),
  steps: listOf(part.step),
});

const material = document("What a gate shows with its question.", {
  ...part.run,
  step: text,
  material: listOf(record({ name: text, text, left_out: integer })),
});

const why = document("What happened, what is done, and what to do next.", {
  ...part.standing,
  check_output: listOf(text),
  interrupted_work: listOf(part.interruptedWork),
  result: part.result,
  warnings: listOf(text),
});

const standing = document("The state of a run that has nothing left to do.", part.standing);

const explain = document("Why the attempts of a step were started.", {
  ...part.run,
  step: text,
  attempts: listOf(
    record({
      visit: integer,
      attempt: nullable(integer),
      time,
      cause: text,
      notes: listOf(text),
      end: nullable(text),
    }),
  ),
  kept: listOf(record({ time, why: text })),
  now: text,
});

const logs = document("One line that an attempt printed.", {
  ...part.run,
  ...part.attempt,
  /** Of a check or a judge: its name. */
  by: nullable(text),
  line: text,
});

const timeline = document("The checkpoints of a run in order.", {
  ...part.run,
  checkpoints: listOf(
    record({
      sequence: integer,
      time,
      type: text,
      step: nullable(text),
      visit: nullable(integer),
      attempt: nullable(integer),
      outcome: text,
      snapshot: nullable(text),
      set_aside: nullable(text),
      files: nullable(listOf(part.file)),
      note: text,
    }),
  ),
});

const point = record({ name: text, sequence: integer, snapshot: nullable(text) });

const diff = document("What changed between two checkpoints.", {
  ...part.run,
  from: point,
  to: point,
  files: listOf(part.file),
  context: record({
    added: mapOf(json),
    changed: mapOf(record({ from: json, to: json })),
    removed: listOf(text),
  }),
  patch: nullable(text),
  patch_cut: boolean,
});

const pointInPicture = record({ x: number, y: number });

const graph = document("The steps and edges of a pipeline, or of a run.", {
  title: text,
  nodes: listOf(
    record({
      id: text,
      /** Null for an item of a fan-out or a branch, which holds steps. */
      step: nullable(text),
      /** Null in the graph of a pipeline. */
      status: nullable(part.stepStatus),
      label: text,
      /** What the pipeline says about it, and its state. */
      notes: listOf(text),
      /** The first part of `notes`, which no event changes. */
      about: listOf(text),
      /** The name of its colour. */
      tint: part.tint,
      /** The node that it is in. */
      parent: nullable(text),
      /** Where its box is in that of its parent, or in the picture. */
      x: number,
      y: number,
      width: number,
      height: number,
    }),
  ),
  edges: listOf(
    record({
      from: text,
      to: text,
      label: text,
      taken: nullable(boolean),
      on_failure: boolean,
      back: boolean,
      /** Its corners in the picture, from one box to the other. */
      points: listOf(pointInPicture),
      /** It goes around the boxes, with right angles. */
      square: boolean,
      /** The middle of its label; with `square`, the left end. */
      label_at: pointInPicture,
    }),
  ),
  width: number,
  height: number,
  nodes_left_out: integer,
  edges_left_out: integer,
});

const report = document("The report of a run.", {
  ...part.standing,
  check_output: listOf(text),
  file: nullable(text),
  cwd: nullable(text),
  input: json,
  fingerprint: nullable(text),
  started_at: nullable(time),
  ended_at: time,
  elapsed_ms: number,
  worked_ms: number,
  spent: part.used,
  budget: record({
    usd: nullable(number),
    tokens: nullable(number),
    turns: nullable(number),
    time_ms: nullable(number),
  }),
  ...part.reportParts,
});

const replay = document("Whether this version would decide the same.", {
  ...part.run,
  pipeline: text,
  events: integer,
  turns: integer,
  taken: integer,
  difference: nullable(
    record({ sequence: integer, time, event: text, field: text, recorded: json, now: json }),
  ),
});

const questions = document("The open questions of a run.", {
  ...part.run,
  questions: listOf(part.question),
});

const answer = document("An answer that was recorded.", {
  ...part.run,
  ...part.attempt,
  choice: nullable(text),
  text: nullable(text),
  by: text,
  /** A process drives the run and continues with the answer. */
  continues: boolean,
});

/** Whether the owner of a run has handled a request. */
const request = oneOf("handled", "owner-ended", "not-read");

const requested = document("What became of a request to the owner of a run.", {
  ...part.run,
  request,
});

const settle = document("A verdict on an effect that must happen once.", {
  ...part.run,
  step: text,
  verdict: oneOf("done", "redo", "abort"),
  by: text,
  request,
});

const skip = document("A step that a person skips.", {
  ...part.run,
  step: text,
  by: text,
  request,
});

const say = document("A message for the agent of a step.", {
  ...part.run,
  step: text,
  delivery: oneOf(
    ...(["not-recorded", "when-run-again", "when-resumed"] as const),
    ...(["after-turn", "at-start", "next-attempt"] as const),
  ),
});

const stop = document("A run that was asked to stop, or whose steps have ended.", {
  ...part.run,
  mode: oneOf("now", "after-turn", "after-step"),
  outcome: oneOf("asked", "ended"),
  steps: listOf(text),
});

const detached = document("A run that was left to a process in the background.", {
  ...part.run,
  /** Null when it has ended already. */
  pid: nullable(integer),
  alive: boolean,
});

const resumePlan = document("What `resume --dry-run` would do with each step.", {
  ...part.run,
  steps: listOf(record({ step: text, action: text, why: text })),
});

const updatePlan = document("What `resume --update --dry-run` would do with each step.", {
  ...part.run,
  steps: listOf(
    record({
      step: text,
      action: text,
      why: text,
      estimate: nullable(
        record({ worked_ms: number, cost_usd: nullable(number), tokens: nullable(number) }),
      ),
    }),
  ),
  stops_first: listOf(text),
});

const rewind = document("What a rewind does, or with `--dry-run` would do.", {
  ...part.run,
  /** A step, a visit (`fix@2`) or a snapshot. */
  to: text,
  dry_run: boolean,
  runs_again: listOf(text),
  kept: listOf(text),
  assumed: listOf(text),
  set_aside: nullable(text),
  /** With `--into`: the directory that got the files; the run is as it was. */
  into: nullable(text),
  /** Null when no other process drives the run. */
  request: nullable(request),
});

const fork = document("A new run from a checkpoint of another one.", {
  /** Null with `--dry-run`. */
  run_id: nullable(text),
  forked_from: record({ run_id: text, sequence: integer }),
  notes: listOf(text),
});

const merge = document("The branch of a run, merged.", {
  ...part.run,
  outcome: oneOf("merged", "already"),
  branch: nullable(text),
  target: nullable(text),
  commit: nullable(text),
  commits: integer,
  uncommitted: listOf(text),
});

const apply = document("The changes of a run, applied to the project's files.", {
  ...part.run,
  files: integer,
  checkout: text,
});

const pr = document("The pull request of a run.", { ...part.run, url: text, is_new: boolean });

/** Every document, by its name. */
export const DOCUMENTS = {
  ...{
    error,
    runs,
    show,
    material,
    why,
    standing,
    explain,
    logs,
    timeline,
    diff,
    graph,
    report,
    replay,
  },
  ...{
    questions,
    answer,
    requested,
    settle,
    skip,
    say,
    stop,
    detached,
    resumePlan,
    updatePlan,
    rewind,
  },
  ...{ fork, merge, apply, pr },
  ...machine,
};

/** The value of a document, without its version. */
export type DocumentJson<N extends keyof typeof DOCUMENTS> = DocumentOf<(typeof DOCUMENTS)[N]>;

/** What a command prints: documents, or events, one a line. */
type Printed = readonly (keyof typeof DOCUMENTS | "event")[];

/** Every command with `--json`, and what it prints when it does not fail. */
export const COMMANDS = {
  run: ["event", "detached", "validate"],
  submit: ["submitted", "scheduled"],
  workers: ["workers"],
  schedules: ["schedules"],
  store: ["store"],
  push: ["moved"],
  pull: ["moved"],
  resume: ["event", "queued", "detached", "resumePlan", "updatePlan", "requested", "standing"],
  retry: ["event", "resumePlan", "requested", "standing"],
  attach: ["event"],
  stop: ["stop"],
  answer: ["questions", "answer"],
  settle: ["settle"],
  skip: ["skip"],
  say: ["say"],
  list: ["runs"],
  show: ["show", "material"],
  why: ["why"],
  logs: ["logs"],
  explain: ["explain"],
  timeline: ["timeline"],
  diff: ["diff"],
  graph: ["graph"],
  report: ["report"],
  replay: ["replay"],
  cost: ["costs"],
  inbox: ["inbox"],
  notify: ["notified"],
  init: ["initialised"],
  merge: ["merge"],
  apply: ["apply"],
  pr: ["pr"],
  rewind: ["rewind"],
  fork: ["fork", "event"],
  validate: ["validate"],
  prices: ["prices"],
  export: ["exported"],
  import: ["imported"],
  service: ["service"],
  clean: ["clean"],
  doctor: ["doctor", "doctorPipeline", "doctorRepair"],
} as const satisfies Readonly<Record<string, Printed>>;
