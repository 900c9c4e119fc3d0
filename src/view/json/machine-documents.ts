/**
 * What the commands print that are about no single run: pipeline files, the state of a project, this
 * machine, many runs together, and the workers of a fleet.
 */

import {
  boolean,
  integer,
  listOf,
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

export const validate = document("The mistakes in pipeline files.", {
  files: listOf(
    record({
      file: text,
      valid: boolean,
      steps: nullable(integer),
      diagnostics: listOf(part.diagnostic),
      /** The files for all pipelines that it takes settings from, and which. */
      settings: listOf(record({ file: text, keys: listOf(text) })),
    }),
  ),
});

export const prices = document("What models cost.", {
  date: text,
  unit: text,
  file: text,
  prices: listOf(part.price),
});

export const clean = document("The runs whose files were removed, or with `--dry-run` would be.", {
  dry_run: boolean,
  runs: listOf(record({ ...part.run, folder: text, kept_because: nullable(text) })),
  bytes: integer,
  outputs_kept: boolean,
});

export const service = document("How the service of this user stands.", {
  /** The file of its unit; null when it is not installed. */
  unit: nullable(text),
  /** Its process; null while it does not run. */
  pid: nullable(integer),
  seen_at: nullable(time),
  /** When it cleans for the first time, while that is in the future. */
  cleans_from: nullable(time),
  schedules: listOf(
    record({
      file: text,
      pipeline: text,
      schedule: text,
      directory: text,
      next: nullable(time),
      problem: nullable(text),
    }),
  ),
  /** What needs a person. */
  problems: listOf(record({ directory: text, run_id: nullable(text), message: text })),
});

export const exported = document("A run, written into a file.", {
  ...part.run,
  file: text,
  bytes: integer,
  events: integer,
  snapshots: integer,
  artifacts: integer,
  conversations: integer,
  holds_secrets: boolean,
  notes: listOf(text),
});

export const imported = document("A run, read from a file.", {
  ...part.run,
  pipeline: text,
  from: text,
  steps_completed: integer,
  steps_total: integer,
  /** It was here already, with the same content. */
  known: boolean,
  restores_files: boolean,
});

const program = { perdure_version: text, node_version: text, platform: text };
const leftovers = listOf(record({ path: text, what: text }));
const journalProblems = listOf(record({ run_id: nullable(text), message: text }));

export const doctor = document("The state of this machine and of the project.", {
  ...program,
  machine: listOf(text),
  /** The directory with the state of the project. */
  state: nullable(text),
  problems: journalProblems,
  leftovers,
  unfinished: listOf(record({ ...part.run, pipeline: text, status: part.runStatus })),
});

export const doctorPipeline = document("Whether a pipeline can run here.", {
  ...program,
  file: text,
  ready: boolean,
  findings: listOf(
    record({
      status: oneOf("there", "missing", "doubtful", "unknown"),
      text,
      remedy: nullable(text),
    }),
  ),
  permissions: listOf(text),
});

export const doctorRepair = document("What a repair found and changed.", {
  ...program,
  state: nullable(text),
  outcome: oneOf("healthy", "repaired"),
  problems: journalProblems,
  removed: leftovers,
  set_aside: listOf(text),
  runs: listOf(
    record({
      ...part.run,
      restored: nullable(record({ last_sequence: integer, status: part.runStatus, source: text })),
      notes: listOf(text),
    }),
  ),
});

export const costs = document("What the agents of runs used in a period, by what was asked for.", {
  since: time,
  by: listOf(oneOf("pipeline", "model", "agent", "day", "project")),
  total: record({ runs: integer, tokens: integer, usd: number, unknown_price: integer }),
  rows: listOf(
    record({
      pipeline: optional(text),
      model: optional(text),
      agent: optional(text),
      day: optional(text),
      project: optional(text),
      runs: integer,
      tokens: integer,
      usd: number,
    }),
  ),
});

const asking = { ...part.run, short_id: text, directory: text, pipeline: text };

export const inbox = document(
  "Everything that waits for a person, in all projects, the oldest first.",
  {
    questions: listOf(record({ ...asking, status: part.runStatus, ...part.questionFields })),
    /** Effects that must happen once and about which a person has to say what happened. */
    uncertain: listOf(record({ ...asking, ...part.attempt, since: time, message: text })),
  },
);

export const notified = document("What `notify` has sent.", {
  ...part.run,
  sent: integer,
  /** Notices whose next attempt is due later, or that were given up. */
  unsent: integer,
});

export const initialised = document("A pipeline that `init` has written.", {
  pipeline: text,
  file: text,
  agent: text,
});

export const submitted = document("A run that was given to a fleet.", {
  ...part.run,
  requires: listOf(text),
  priority: number,
});

const scheduleList = listOf(
  record({ name: text, schedule: text, next_at: nullable(text), last_run: nullable(text) }),
);

export const schedules = document("The pipelines that a fleet starts at certain times.", {
  schedules: scheduleList,
});

export const scheduled = document("A pipeline that a fleet starts at certain times from now on.", {
  name: text,
  schedule: text,
});

export const store = document("What setting up the store of a fleet did.", {
  store: text,
  version_before: integer,
  version: integer,
  lease_ms: integer,
  missing_roles: listOf(text),
});

export const workers = document(
  "The workers of a fleet, its queues, and the runs that no worker could drive.",
  {
    workers: listOf(
      record({
        worker: text,
        host: text,
        pid: integer,
        version: text,
        labels: listOf(text),
        concurrency: integer,
        runs: listOf(text),
        state: oneOf("working", "draining", "ended", "silent"),
        started_at: text,
        seen_at: text,
      }),
    ),
    queues: listOf(record({ requires: listOf(text), queued: integer, deferred: integer })),
    groups: listOf(record({ group: text, max: integer, running: integer, waiting: integer })),
    schedules: scheduleList,
    dead_letters: listOf(record({ run_id: text, reason: text, time: text })),
  },
);

export const queued = document("A run of a fleet that is queued again.", { ...part.run });

export const moved = document("A run that was moved between a project and a fleet.", {
  ...part.run,
  /** The place that has the run now: a store, or a directory of a machine. */
  place: text,
  /** It was there already. */
  was_there: boolean,
});
