/**
 * Events about a run as a whole, and about one instance of a composite step.
 *
 * Owns: their fields, as shapes. event.ts has the list of all events.
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
  variants,
} from "./shape.ts";

const origin = record({ run: text, seq: integer });
/** The run that a fork was made of, and the last event that both have. */
export type Origin = TypeOf<typeof origin>;

export const stopMode = oneOf("now", "after-turn", "after-step");
/** At once; when agents have finished their tools; when steps have finished. */
export type StopMode = TypeOf<typeof stopMode>;

const reached = { used: number, of: number };
const limitReached = variants("kind", {
  usd: reached,
  tokens: reached,
  turns: reached,
  time: reached,
  /** A limit in US dollars cannot be kept: this model has no price. */
  price: { model: text },
});
/** The limit of a budget that is reached, or that cannot be kept. */
export type LimitReached = TypeOf<typeof limitReached>;

const stopReason = variants("code", {
  /** A person or a program asked for it: a signal's name, `user@host`, or what they were doing. */
  requested: { by: text },
  budget: { limit: limitReached },
  /** Work that was done apart does not fit what others did in these files. */
  conflict: { paths: listOf(text) },
  /** It was only forked, and nobody has started it since. */
  forked: {},
});
/** Why a run stops. */
export type StopReason = TypeOf<typeof stopReason>;

export const retry = record({ at: number, delayMs: number });
/** When to try again. The delay is kept so that a clock that was set back cannot stretch it. */
export type Retry = TypeOf<typeof retry>;

const rerun = record({
  step: text,
  because: oneOf("new", "definition", "input", "upstream"),
  /** The fields, the inputs or the steps before it. */
  names: listOf(text),
});
/** Why an edit has a step begin anew. */
export type Rerun = TypeOf<typeof rerun>;

const recover: Shape<Recover> = oneOf("continue", "restart");
const budget: Shape<Budget> = record({
  usd: optional(number),
  tokens: optional(number),
  turns: optional(number),
  timeMs: optional(number),
});

/** The fields of events about a run and its instances, by their types. */
export const RUN_EVENTS = {
  "run.created": {
    pipeline: text,
    /** The author's file, as an absolute path. */
    file: text,
    /** The file's content, so that resume can say that it was edited. */
    fileSha256: optional(text),
    fingerprint: text,
    input: json,
    args: listOf(text),
    cwd: text,
    /** The project's directory, as an absolute path. */
    project: optional(text),
    /** Names of the environment that the expressions rely on. */
    envNames: listOf(text),
    ...environment,
    /** The directory that holds the run's log in the form of the DOT language; an absolute path. */
    logs: optional(text),
    /** Of a fork: where it comes from. The events up to `run.forked` are those of that run. */
    from: optional(origin),
  },
  "run.opened": {
    owner,
    epoch: integer,
    /** What a person wants done with work that was interrupted. */
    recover: optional(recover),
    /** The same for single visits (`fix@2`), where the person was asked about each. */
    choices: optional(mapOf(recover)),
    /** Work that continues starts from the files that are there: a person wants them. */
    files: optional(oneOf("keep")),
    ...environment,
  },
  /** The run has a directory to work in. */
  "run.placed": { workspace: placed },
  /** A person asked for the files of a checkpoint (`fix@1.1`) without rewinding to it. */
  "run.restoring": { commit: text, of: text },
  /** The files were put back to a snapshot; what was there before is kept in `aside`. */
  "run.restored": { commit: text, aside: optional(text) },
  "run.stopping": { mode: stopMode, reason: stopReason },
  "run.stopped": { reason: stopReason },
  "run.completed": {},
  "run.failed": {
    message: text,
    /** No step failed, but continuing from this one could help. */
    from: optional(text),
  },
  /** A person asked to continue from a step: it and all that lies after it is open again. */
  "run.rewound": {
    step: text,
    /** Steps of the root scope that will run again, the first one included. */
    reopened: listOf(text),
    /** Unfinished steps before it that the person declared done. */
    assumed: listOf(text),
    /** The files that those hand on: step -> name -> file. */
    outputs: optional(mapOf(mapOf(output))),
    /** The snapshot to which the files are put back before anything starts. */
    restore: optional(text),
    /** The visit to whose beginning the person went back, when it is not the last one. */
    visit: optional(integer),
    /** Of a fan-out that completed: its failed visits that run again. It and the others stay. */
    items: optional(listOf(text)),
    /** The step must not happen twice and has happened; the person wants it to happen again. */
    repeat: optional(flag),
  },
  /** What came before belongs to another run; from here on this one has its own future. */
  "run.forked": {
    from: origin,
    /** The input that takes the place of the other run's. */
    input: optional(json),
    /** The snapshot to which its files are put before anything starts. */
    restore: optional(text),
    /** What must happen once and has happened in the other run by now, or may have. */
    effects: optional(listOf(knownEffect)),
  },
  /** The run was carried from another machine, by export and import, or its project was moved. */
  "run.moved": {
    /** The project's directory there and here, as absolute paths. */
    from: text,
    to: text,
    /** The snapshot of the files as they were when it left. */
    commit: optional(text),
    /** What becomes of the files of a run that works in the project itself. */
    files: optional(oneOf("keep", "restore")),
  },
  /** A person adopted an edit of the pipeline: from here on the run has another plan. */
  "run.updated": {
    /** The new plan, which is stored in the same moment. */
    fingerprint: text,
    fileSha256: optional(text),
    envNames: listOf(text),
    /** The input with the defaults of the new schema, when they change it. */
    input: optional(json),
    /** Steps that the edit does not touch: they stay what they were, done or not. */
    kept: listOf(text),
    /** Steps that begin anew, and why. */
    rerun: listOf(rerun),
    /** Steps that the new plan does not have; what they did stays in the history. */
    gone: listOf(text),
    /** The snapshot to which the files are put back before anything starts. */
    restore: optional(text),
  },
  /** A scope would have ended without its `goal` step: the run returns to a step in it. */
  "run.returned": { scope: text, step: text, goal: text },
  /** An edge began a scope anew: what was done in it is history, and so is its context. */
  "run.restarted": {
    scope: text,
    /** Where it continues. */
    step: text,
    /** How often that has happened, this time included. */
    number: integer,
    /** Keys of the context that stay. */
    keep: listOf(text),
  },
  /** A person added to the budget. */
  "run.funded": {
    added: budget,
    /** What earlier attempts cost whose model had no price then. */
    lateCostUsd: optional(number),
  },
  /** A person left a message for the agent of a step. A later attempt's prompt delivers it. */
  "run.messaged": { scope: text, step: text, message },
  /** The workspace of an instance is made from this snapshot of the files around it. */
  "scope.based": { scope: text, base: text },
  /** An instance ended well, and its work is part of the files around it, now this snapshot. */
  "scope.merged": {
    scope: text,
    snapshot: saved,
    /** Its own files as they were merged; what it does from here on is merged on top of that. */
    base: text,
  },
  /**
   * An instance ended well, and its work does not fit what others did. Its workspace holds the merge
   * with markers, on top of `base`.
   */
  "scope.conflicted": { scope: text, paths: listOf(text), message: text, base: text },
};
