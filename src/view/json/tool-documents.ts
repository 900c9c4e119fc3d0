/**
 * What tools for agents return where a command prints a stream, or needs several calls. The other
 * tools return the documents of the commands (documents.ts).
 */
import { integer, listOf, nullable, record, text, time } from "../../core/shape.ts";
import * as part from "./document-parts.ts";
import { document } from "./document-parts.ts";

export const logsPage = document("A part of what the attempts of a run printed.", {
  ...part.run,
  /** The step that was asked for; null for all steps. */
  step: nullable(text),
  /** The number of the first line here; the first of all is 0. */
  first: integer,
  lines: listOf(record({ ...part.attempt, by: nullable(text), line: text })),
  /** Where the next part starts; null when this is the end of what was printed so far. */
  next: nullable(integer),
});

export const openQuestions = document("What people are asked, with what they need to see.", {
  questions: listOf(
    record({
      ...part.run,
      pipeline: text,
      ...part.questionFields,
      material: listOf(record({ name: text, text, left_out: integer })),
    }),
  ),
  /** Steps whose effect may or may not have happened; a person settles them. */
  uncertain: listOf(
    record({ ...part.run, pipeline: text, ...part.attempt, since: time, message: text }),
  ),
});
