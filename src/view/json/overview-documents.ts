/** The documents of commands that look at many runs, or at none. */
import { integer, listOf, number, oneOf, optional, record, text, time } from "../../core/shape.ts";
import * as part from "./document-parts.ts";
import { document } from "./document-parts.ts";

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
