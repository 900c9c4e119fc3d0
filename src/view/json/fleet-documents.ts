/** The documents about runs of a fleet and its workers. */
import { integer, listOf, nullable, number, oneOf, record, text } from "../../core/shape.ts";
import * as part from "./document-parts.ts";
import { document } from "./document-parts.ts";

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
