/**
 * Parts of the documents that the commands print: runs, steps, attempts, files, what to do next.
 * They are shapes, from which their types and the published schemas follow.
 *
 * Does not: get loaded to print a document; printing code imports only the types.
 */
import { reported, spent } from "../../core/event-parts.ts";
import {
  boolean,
  type Fields,
  integer,
  json,
  listOf,
  mapOf,
  nullable,
  number,
  oneOf,
  optional,
  type PrintedFieldsOf,
  record,
  type Shape,
  text,
  time,
} from "../../core/shape.ts";

/** A JSON object that a command prints; `schema_version` comes before its fields. */
export interface DocumentShape<F extends Fields = Fields> {
  readonly about: string;
  readonly fields: F;
}

/** A document with these fields. */
export function document<F extends Fields>(about: string, fields: F): DocumentShape<F> {
  return { about, fields };
}

/** The type of a document without its version. */
export type DocumentOf<D> = D extends DocumentShape<infer F> ? PrintedFieldsOf<F> : never;

/** The type of a part of a document. */
export type PartOf<S> = S extends Shape<unknown, infer P> ? P : never;

export const run = { run_id: text };
/** The n-th visit of a step. */
const visit = { step: text, visit: integer };
/** `fix@2.3` is step `fix`, visit 2, attempt 3. */
export const attempt = { ...visit, attempt: integer };

export const runStatus = oneOf(
  ...(["queued", "running", "waiting", "interrupted", "completed", "failed"] as const),
);
export const stepStatus = oneOf(
  ...(["pending", "running", "waiting", "completed"] as const),
  ...(["failed", "retrying", "skipped", "interrupted"] as const),
);
const attemptStatus = oneOf(
  ...(["running", "asked", "waiting", "uncertain", "completed", "failed", "lost"] as const),
  ...(["paused", "interrupted", "continued", "relayed", "submitted", "conflicted"] as const),
);

/** The colours of boxes (view/graph/markup.ts); `plain` is a step of a pipeline that is no run. */
export const tint = oneOf(
  ...(["plain", "pending", "running", "waiting", "done", "failed", "handled", "skipped"] as const),
);

/** Something to do, and the command for it if there is one. */
export const next = record({ text, command: nullable(text) });

/** How a run stands. */
export const standing = {
  ...run,
  pipeline: text,
  status: runStatus,
  happened: text,
  done: text,
  next: listOf(next),
};

/** What agents used; null when that was not measured. */
export const used = nullable(spent);
export const origin = nullable(record({ run_id: text, sequence: optional(integer) }));
export const owner = { pid: integer, host: text, user: text };

const output = record({ path: text, sha256: text, bytes: integer });

const attemptInStep = record({
  attempt: integer,
  status: attemptStatus,
  started_at: time,
  ended_at: nullable(time),
  exit: nullable(integer),
  reason: nullable(text),
  message: nullable(text),
  spent: used,
});

export const step = record({
  step: text,
  status: stepStatus,
  /** The status in finer words, for people. */
  detail: text,
  visit: integer,
  retries: integer,
  started_at: nullable(time),
  ended_at: nullable(time),
  exit: nullable(integer),
  reason: nullable(text),
  message: nullable(text),
  settled_by: nullable(text),
  identity: nullable(text),
  reported: nullable(reported),
  outputs: mapOf(output),
  attempts: listOf(attemptInStep),
});

export const leftMessage = record({
  step: text,
  id: text,
  text,
  by: text,
  given_at: time,
  visit: nullable(integer),
  attempt: nullable(integer),
  delivered: boolean,
});

export const file = record({
  path: text,
  from: nullable(text),
  status: oneOf("added", "changed", "removed", "renamed", "retyped"),
  binary: boolean,
  added: integer,
  removed: integer,
});

/** What a worktree run that is over left on its branch; null for other runs. */
export const result = nullable(
  record({
    branch: nullable(text),
    directory: text,
    base: text,
    base_moved: integer,
    commits: integer,
    files_changed: integer,
    lines_added: integer,
    lines_removed: integer,
    uncommitted: listOf(text),
    merged: boolean,
    /** The commands that show it and take it. */
    look: nullable(text),
    take: nullable(text),
  }),
);

export const tool = record({ name: text, input: text, ok: nullable(boolean) });

export const interruptedWork = record({
  ...attempt,
  files: nullable(listOf(file)),
  output: listOf(text),
  last_tool: nullable(tool),
  resume_will: oneOf("continue", "restart"),
});

export const diagnostic = record({
  severity: oneOf("error", "warning"),
  rule: text,
  message: text,
  file: text,
  line: integer,
  column: integer,
  end_line: nullable(integer),
  end_column: nullable(integer),
  path: nullable(text),
  help: nullable(text),
});

const rates = {
  input: number,
  cached_input: nullable(number),
  cache_write: nullable(number),
  cache_write_1h: nullable(number),
  output: number,
};

export const price = record({
  model: text,
  ...rates,
  over_200k: nullable(record(rates)),
  origin: oneOf("list", "file", "pipeline"),
  source: text,
});

export const questionFields = {
  ...attempt,
  question: text,
  choices: listOf(record({ key: text, label: text, fails: boolean })),
  text: oneOf("none", "optional", "required"),
  asked_at: time,
  deadline: nullable(time),
  default: nullable(text),
  answered: boolean,
};

export const question = record(questionFields);

/** What a receiver of `notify` was told, or is to be told. */
export const sentNotice = record({
  on: oneOf("waiting", "failed", "completed"),
  step: nullable(text),
  time,
  receiver: text,
  attempts: integer,
  sent_at: nullable(time),
  error: nullable(text),
  next_attempt_at: nullable(time),
});

/** The parts of a report (docs/REPORT.md). */
export const reportParts = {
  visits: listOf(
    record({
      ...visit,
      detail: text,
      started_at: time,
      ended_at: nullable(time),
      attempts: integer,
      led_to: listOf(text),
    }),
  ),
  steps: listOf(
    record({
      step: text,
      kind: text,
      status: stepStatus,
      detail: text,
      visits: integer,
      attempts: integer,
      worked_ms: number,
      spent: used,
      result: text,
    }),
  ),
  attempts: listOf(
    record({
      ...attempt,
      status: attemptStatus,
      started_at: time,
      ended_at: nullable(time),
      worked_ms: number,
      composite: boolean,
      spent: used,
    }),
  ),
  context: listOf(
    record({
      sequence: integer,
      time,
      by: text,
      key: text,
      before: json,
      is_new: boolean,
      after: json,
    }),
  ),
  problems: listOf(
    record({
      sequence: integer,
      time,
      ...attempt,
      kind: oneOf("failed", "lost", "paused", "interrupted", "orphaned"),
      why: text,
      handling: listOf(text),
    }),
  ),
  owners: listOf(record({ epoch: integer, ...owner, from: time, until: time, left: text })),
  decisions: listOf(record({ sequence: integer, time, what: text })),
  outputs: listOf(record({ ...attempt, output: text })),
};
