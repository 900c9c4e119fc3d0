/** The documents about runs of a fleet and its workers. */
import { boolean, integer, listOf, number, oneOf, record, text } from "../../core/shape.ts";
import * as part from "./document-parts.ts";
import { document } from "./document-parts.ts";

export const submitted = document("A run that was given to a fleet.", {
  ...part.run,
  requires: listOf(text),
  priority: number,
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
