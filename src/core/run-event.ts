/**
 * Events about a run as a whole, and about one instance of a composite step.
 *
 * Owns: their fields, as shapes. event.ts lists all events.
 */
import type { Budget, Recover } from "../plan/plan.ts";
import { environment, knownEffect, message, output, owner, placed, saved } from "./event-parts.ts";
import {
  flag,
  integer,
  json,
  listOf,
  mapOf,
  number,
  oneOf,
  optional,
  record,
  type Shape,
  type TypeOf,
  text,
  time,
  variants,
} from "./shape.ts";

const origin = record({ run: text, seq: integer });
/** The run that a fork was made from, and the last event that both share. */
export type Origin = TypeOf<typeof origin>;

export const stopMode = oneOf("now", "after-turn", "after-step");
/** When a run stops: at once, after the current turns of agents, or after the running steps. */
export type StopMode = TypeOf<typeof stopMode>;

const reached = { used: number, of: number };
const limitReached = variants("kind", {
  usd: reached,
  tokens: reached,
  turns: reached,
  time: reached,
  /** A limit in US dollars cannot be enforced: this model has no price. */
  price: { model: text },
});
/** The limit of a budget that is reached, or that cannot be enforced. */
export type LimitReached = TypeOf<typeof limitReached>;

const stopReason = variants("code", {
  /** A person or a program asked for it: the name of a signal, `user@host`, or a command. */
  requested: { by: text },
  budget: { limit: limitReached },
  /** Work in an own workspace conflicts with that of others in these files. */
  conflict: { paths: listOf(text) },
  /** It was only forked, and has not been started since. */
  forked: {},
});
/** Why a run stops. */
export type StopReason = TypeOf<typeof stopReason>;

export const retry = record({ at: time, delayMs: number });
/**
 * When the next attempt starts. The delay is kept so that a clock that was set back cannot make it
 * longer.
 */
export type Retry = TypeOf<typeof retry>;

const rerun = record({
  step: text,
  because: oneOf("new", "definition", "input", "upstream"),
  /** The fields, the inputs or the steps before it that changed. */
  names: listOf(text),
});
/** Why an update runs a step again. */
export type Rerun = TypeOf<typeof rerun>;

const refusedRequest = record({
  code: text,
  message: text,
  /** What helps, where the code alone does not say it. */
  next: optional(
    listOf(
      record({
        when: optional(text),
        first: optional(text),
        command: optional(listOf(text)),
        note: optional(text),
      }),
    ),
  ),
});
/** Why a request was refused. */
export type RefusedRequest = TypeOf<typeof refusedRequest>;

const recover: Shape<Recover> = oneOf("continue", "restart");
const budget = record({
  usd: optional(number),
  tokens: optional(number),
  turns: optional(number),
  timeMs: optional(number),
}) satisfies Shape<Budget, unknown>;

/** The fields of events about a run and its instances, by their types. */
export const RUN_EVENTS = {
  "run.created": {
    pipeline: text,
    /** The author's file, as an absolute path. */
    file: text,
    /** The hash of the file's content, so that resume can report an edit. */
    fileSha256: optional(text),
    fingerprint: text,
    input: json,
    args: listOf(text),
    cwd: text,
    /** The project's directory, as an absolute path. */
    project: optional(text),
    /** Names of the environment variables that the expressions use. */
    envNames: listOf(text),
    ...environment,
    /** The directory of the run's log in the format of the DOT language, as an absolute path. */
    logs: optional(text),
    /** Perdure's list of prices at the start, for a run with a limit in US dollars. */
    prices: optional(json),
    /** The trace that the run was started in (W3C `traceparent`), if its spans are exported. */
    traceparent: optional(text),
    /** For a fork: its origin. The events up to `run.forked` are those of that run. */
    from: optional(origin),
  },
  "run.opened": {
    owner,
    epoch: integer,
    /** A person's choice for interrupted work. */
    recover: optional(recover),
    /** The same for single visits (`fix@2`), if the person was asked about each. */
    choices: optional(mapOf(recover)),
    /** Unfinished work starts from the current files, because a person chose them. */
    files: optional(oneOf("keep")),
    /** No step of the run takes the result of an earlier run from now on. */
    cache: optional(oneOf("off")),
    ...environment,
  },
  /** The run has a directory to work in. */
  "run.placed": { workspace: placed },
  /** A person asked for the files of a checkpoint (`fix@1.1`) without rewinding to it. */
  "run.restoring": { commit: text, of: text },
  /** The files were restored to a snapshot; the earlier files are kept in `aside`. */
  "run.restored": { commit: text, aside: optional(text) },
  /** The files that these steps and instances left are committed on the run's branch. */
  "run.committed": {
    steps: listOf(text),
    /** The new commit; absent when there was nothing to commit. */
    commit: optional(text),
    /** Why nothing was committed, although files have changed. */
    skipped: optional(text),
  },
  "run.stopping": { mode: stopMode, reason: stopReason },
  "run.stopped": { reason: stopReason },
  /** The run has reached this end, and its `finally` steps run before it is recorded. */
  "run.finishing": {
    /** How many ends it has reached, this one included. */
    number: integer,
    end: variants("status", {
      completed: {},
      failed: { message: text, from: optional(text) },
      stopped: { reason: stopReason },
    }),
  },
  "run.completed": {},
  "run.failed": {
    message: text,
    /** No step failed, but continuing from this one could help. */
    from: optional(text),
  },
  /** A person asked to continue from a step: it and every step after it reopen. */
  "run.rewound": {
    step: text,
    /** Steps of the root scope that will run again, the first one included. */
    reopened: listOf(text),
    /** Unfinished steps before it that the person declared done. */
    assumed: listOf(text),
    /** The outputs of those steps: step -> name -> file. */
    outputs: optional(mapOf(mapOf(output))),
    /** The snapshot to which the files are restored before anything starts. */
    restore: optional(text),
    /** The visit to whose start the person rewound, when it is not the last one. */
    visit: optional(integer),
    /**
     * Of a fan-out: its failed visits (`map@1.1[3]/test@1`) and its completed items
     * (`map@1.1[0]/`) that run again. The fan-out and its other items stay.
     */
    items: optional(listOf(text)),
    /** The effect that must happen once has happened; the person wants it to happen again. */
    repeat: optional(flag),
  },
  /** The events before belong to another run; from here on this run continues by itself. */
  "run.forked": {
    from: origin,
    by: optional(text),
    /** The input that replaces the other run's. */
    input: optional(json),
    /** The snapshot that its files start from. */
    restore: optional(text),
    /** The effects of the other run that must happen once and have happened by now, or may have. */
    effects: optional(listOf(knownEffect)),
  },
  /** The run was moved: by export and import, or with its project's directory. */
  "run.moved": {
    /** The project's directory there and here, as absolute paths. */
    from: text,
    to: text,
    /** The snapshot of its files at that time. */
    commit: optional(text),
    /** Whether the files of a run that works in the project itself are kept or restored. */
    files: optional(oneOf("keep", "restore")),
  },
  /** A person adopted an edit of the pipeline: the run has another plan from here on. */
  "run.updated": {
    /** The new plan, which is stored in the same transaction. */
    fingerprint: text,
    fileSha256: optional(text),
    envNames: listOf(text),
    /** The input with the defaults of the new schema, when they change it. */
    input: optional(json),
    /** Steps that the edit does not change; they stay as they were, done or not. */
    kept: listOf(text),
    /** Steps that run again, and why. */
    rerun: listOf(rerun),
    /** Steps that the new plan does not have; their visits stay in the history. */
    gone: listOf(text),
    /** The snapshot to which the files are restored before anything starts. */
    restore: optional(text),
  },
  /** A scope would have ended without its `goal` step: the run returns to a step in it. */
  "run.returned": { scope: text, step: text, goal: text },
  /** An edge restarted a scope: its visits and its context are history. */
  "run.restarted": {
    scope: text,
    /** The step where it continues. */
    step: text,
    /** How many restarts there were, this one included. */
    number: integer,
    /** Keys of the context that stay. */
    keep: listOf(text),
  },
  /** A person added to the budget. */
  "run.funded": {
    added: budget,
    /** The cost of earlier attempts whose model had no price then. */
    lateCostUsd: optional(number),
  },
  /** A person or a manager left a message for the agent of a step. A later attempt's prompt delivers it. */
  "run.messaged": { scope: text, step: text, message },
  /** The run took in a request from outside, or refused it. The next events say what it caused. */
  "request.handled": {
    /** The key of the request, which no other request of any journal has. */
    request: text,
    by: text,
    asks: oneOf("retry", "rewind", "settle", "skip", "add-budget"),
    step: optional(text),
    refused: optional(refusedRequest),
  },
  /** A person skips a step that the run has not reached yet. */
  "run.skipping": { scope: text, step: text, by: text },
  /** The workspace of an instance is made from this snapshot of the outer workspace. */
  "scope.based": { scope: text, base: text },
  /** An instance succeeded and was merged: the outer workspace now equals this snapshot. */
  "scope.merged": {
    scope: text,
    snapshot: saved,
    /** Its own files as they were merged; its later work is merged on top of them. */
    base: text,
  },
  /**
   * An instance succeeded, but its work conflicts with that of others. Its workspace holds the
   * merge with markers, on top of `base`.
   */
  "scope.conflicted": { scope: text, paths: listOf(text), message: text, base: text },
};
