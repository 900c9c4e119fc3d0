/**
 * Events: what happened in a run, as one union of past-tense, dotted names. The journal stores
 * them, and every state, table, file and screen is a fold over them.
 *
 * Owns: the vocabulary and its version. One table lists the fields of each event; its type and the
 * check of stored events follow from the table.
 * Does not: decide anything (decide.ts) or change a run (evolve.ts).
 * Invariants:
 * - core/V1 An event holds JSON only, and everything that replay needs: replay reads no clock,
 *   evaluates no expression and draws no random number.
 * - core/V2 A released event type never changes its meaning; a new meaning is a new version.
 */
import {
  type AgentProblem,
  ask,
  attempt,
  briefing,
  conversation,
  exposure,
  type FailureReason,
  findings,
  found,
  held,
  jsonObject,
  lastTool,
  output,
  type PauseReason,
  place,
  probeAnswer,
  reported,
  saved,
  spent,
  trace,
  uncertainty,
  verdict,
} from "./event-parts.ts";
import { answer, deadline, question } from "./question-parts.ts";
import { RUN_EVENTS, retry } from "./run-event.ts";
import {
  flag,
  integer,
  json,
  listOf,
  mapOf,
  oneOf,
  optional,
  record,
  type TypeOf,
  text,
  time,
  type Variants,
  word,
} from "./shape.ts";

export type * from "./event-parts.ts";
export type * from "./question-parts.ts";
export type * from "./run-event.ts";

/** The version of the vocabulary, stored with each event. */
export const EVENT_VERSION = 1;

/** The attempt of an earlier run whose result a step takes. */
const earlier = record({
  run: text,
  /** The attempt that did the work: `build@1.1`. */
  attempt: text,
  /** When it completed. */
  time,
  /** What it used. */
  spent: optional(spent),
});

const foundResult = record({
  from: earlier,
  /** The result, with the paths that its outputs have in this run. */
  held,
  /** The secrets in it. */
  exposes: optional(listOf(exposure)),
  /** The snapshots before and after its work: the difference is what it changed. */
  base: text,
  after: text,
});
/** The result of an earlier run that a step can take. */
export type FoundResult = TypeOf<typeof foundResult>;

const rejectedResult = record({
  run: text,
  attempt: text,
  /** It is damaged or too large, or its changes do not fit the files. */
  why: word<"damaged" | "size" | "files" | "changed">(),
  message: text,
});
/** An earlier result with the same key that is not used. */
export type RejectedResult = TypeOf<typeof rejectedResult>;

/**
 * Why a step with `cache` runs: no earlier result has its key, its own run or the person wants it
 * to run (`off`), files that no snapshot holds may matter (`left-out`), another step works in the
 * same files (`shared`), the files changed while a result was taken (`changed`), the results that
 * there are cannot be used (`rejected`), or the runs of a fleet share no results (`fleet`).
 */
export type RecallMiss =
  | "none"
  | "off"
  | "left-out"
  | "shared"
  | "changed"
  | "damaged"
  | "rejected"
  | "fleet";

/** Which edges of the graph were followed. */
const edges = listOf(integer);

/** The fields of events about one step, by their types. */
const STEP_EVENTS = {
  "step.started": {
    ...attempt,
    /** The items of a fan-out; one instance each. */
    items: optional(listOf(json)),
    /** The input of a sub-pipeline, when it differs from that of the outer scope. */
    input: optional(jsonObject),
    conversation: optional(conversation),
    /** For an agent: the ids of the messages that its prompt holds. */
    messages: optional(listOf(text)),
    /** For an agent: its briefing. */
    fidelity: optional(briefing),
    /** For an agent: the report of the failure that led to it. */
    report: optional(text),
    /** The snapshot that it starts from; absent when `step.based` will name it. */
    base: optional(text),
    /** The files are restored to it first. */
    restore: optional(flag),
    /** A person chose the current files: later attempts start from them too. */
    keep: optional(flag),
    /** Of a wait: when it ends. */
    wake: optional(deadline),
    /** The agent that judges the work of an earlier attempt; the work is not repeated. */
    judge: optional(text),
  },
  /** A person is asked; no later step starts before there is an answer. */
  "step.asked": { ...attempt, ...question },
  /** A question was answered. The next event says what follows. */
  "step.answered": { ...attempt, ...answer, label: optional(text) },
  /** It succeeded, but the work in its own workspace conflicts with that of others. */
  "step.conflicted": {
    ...attempt,
    /** The files in conflict, up to a limit. */
    paths: listOf(text),
    message: text,
    /** Its workspace now holds the merge with markers, on top of this snapshot. */
    base: text,
    held,
    ...trace,
  },
  /**
   * The workspace was saved right before the attempt; the files of `aside` were replaced by the
   * base.
   */
  "step.based": { ...attempt, base: text, aside: optional(text) },
  /** The results of earlier runs were looked at, before the process of the attempt starts. */
  "step.recalled": {
    ...attempt,
    /** The hash of everything that its work depends on: equal keys mean equal work. */
    key: text,
    /** The result that it takes in place of a process; absent: the process starts. */
    found: optional(foundResult),
    why: optional(word<RecallMiss>()),
    /** Results with the same key that are not used. */
    rejected: optional(listOf(rejectedResult)),
  },
  /** The workspace was saved while the attempt was running. */
  "step.saved": { ...attempt, snapshot: saved },
  /** An iteration of a loop ended and its condition does not hold: the next one starts. */
  "step.iterated": { ...attempt, iteration: integer },
  /** The agent has named its conversation. */
  "step.session": { ...attempt, session: text },
  /** A new owner adopted an attempt that an earlier owner had started. */
  "step.adopted": { ...attempt, found },
  /** The attempt ended, and its conversation continues with a request. */
  "step.continued": { ...attempt, ask, ...trace },
  /** The conversation ended with a handoff; the next one starts from this file. */
  "step.relayed": {
    ...attempt,
    checkpoint: output,
    /** Why the notes were made without the agent: its conversation was full. */
    why: optional(text),
    ...trace,
  },
  /** The work is done and has passed its other checks: a judge must give a verdict. */
  "step.submitted": {
    ...attempt,
    /** The result of the work. */
    held,
    /** Why the judge is asked again; absent the first time. */
    message: optional(text),
    ...trace,
  },
  "step.completed": {
    ...attempt,
    exit: integer,
    outputs: mapOf(output),
    /** Key-values that the step passed on. */
    context: jsonObject,
    /** The answer of an agent: a value that fits its schema, or its text. */
    answer: optional(json),
    /** The end of what it printed, where the plan refers to it. */
    output: optional(text),
    /** The identity of its effect, when a probe or a person named it. */
    identity: optional(text),
    /** The probe or the person that declared it done, in place of an exit status. */
    settledBy: optional(text),
    reported: optional(reported),
    /** The secrets in what it passes on. */
    exposes: optional(listOf(exposure)),
    /** The attempt of an earlier run whose result it took; no process ran. */
    from: optional(earlier),
    /** Later runs may reuse it: the key of its work, and the snapshots before and after it. */
    reusable: optional(
      record({
        key: text,
        base: text,
        after: text,
        /** What all attempts of the visit used. */
        spent: optional(spent),
      }),
    ),
    ...findings,
    ...trace,
    edges,
  },
  "step.failed": {
    ...attempt,
    reason: word<FailureReason>(),
    message: text,
    exit: optional(integer),
    reported: optional(reported),
    /** The answer of a person who rejected it. */
    answer: optional(json),
    /** The end of what it printed, where the plan refers to it. */
    output: optional(text),
    /** For an effect that must happen once: it happened although the step failed, or may have. */
    effect: optional(oneOf("done", "uncertain")),
    /** Key-values that it passed on although it failed, and the secrets in them. */
    context: optional(jsonObject),
    exposes: optional(listOf(exposure)),
    ...findings,
    /** For an agent: the problem that a person must fix first. */
    trouble: optional(word<AgentProblem>()),
    /** The next attempt continues the agent's conversation; absent: it starts a new one. */
    conversation: optional(oneOf("continue")),
    ...trace,
    /** When the next attempt starts; absent when no attempts are left. */
    retry: optional(retry),
    /** The signature of the failure, for a step that may be visited again. */
    signature: optional(text),
    /** The author lets the run continue although no edge for failures applies. */
    handled: optional(flag),
    /**
     * Edges that are followed after the failure. Without any, and if not `handled`, nothing
     * follows.
     */
    edges,
  },
  "step.lost": {
    ...attempt,
    message: text,
    /** When the next attempt may start; absent when the limit on losses is reached. */
    retry: optional(retry),
    tool: optional(lastTool),
    /** It is proven that nothing of it ran. */
    unstarted: optional(flag),
    ...trace,
  },
  "step.paused": {
    ...attempt,
    reason: word<PauseReason>(),
    message: text,
    /** When the next attempt may start; absent when the limit on pauses is reached. */
    retry: optional(retry),
    ...trace,
  },
  "step.interrupted": {
    ...attempt,
    message: text,
    tool: optional(lastTool),
    /** The run stopped before anything of it ran. */
    unstarted: optional(flag),
    ...trace,
  },
  /** The attempt of a step that must happen once ended: its effect may or may not have happened. */
  "step.uncertain": { ...attempt, ...uncertainty, spent: optional(spent) },
  /** The probe has answered. The next event says what follows. */
  "step.probed": {
    ...attempt,
    answer: probeAnswer,
    /** The identity of the effect, for example the address of a pull request. */
    identity: optional(text),
    /** Why the answer is unknown. */
    message: optional(text),
  },
  /** A person has given a verdict. The next event says what follows. */
  "step.settled": { ...attempt, as: verdict, by: text, identity: optional(text) },
  "step.skipped": {
    ...place,
    edges,
    /** The person who skipped it; absent when its condition is false. */
    by: optional(text),
  },
  "step.granted": {
    ...place,
    attempts: integer,
    /** The next attempt continues with the current files. */
    files: optional(oneOf("keep")),
    /** How many more turns its model may have. */
    turns: optional(integer),
  },
};

/** The fields of every event, by its type. */
export const EVENTS = { ...RUN_EVENTS, ...STEP_EVENTS };

export type RunEvent = Variants<"type", typeof EVENTS>;

/** The event of a type, or of one of several types. */
export type EventOf<T extends RunEvent["type"]> = Extract<RunEvent, { type: T }>;

/** An event about one step. */
export type StepEvent = Extract<RunEvent, { type: `step.${string}` }>;

/** The failure of an attempt, as the next one learns it. */
export type AttemptFailure = Pick<
  EventOf<"step.failed">,
  "attempt" | "reason" | "message" | "check" | "checks"
>;

/** The events that end an attempt. */
export type AttemptEnd = EventOf<
  | "step.completed"
  | "step.failed"
  | "step.lost"
  | "step.paused"
  | "step.interrupted"
  | "step.continued"
  | "step.relayed"
  | "step.submitted"
  | "step.conflicted"
>;

/** The events that end a visit, unless another attempt follows. */
export type VisitEnd = EventOf<"step.completed" | "step.failed" | "step.lost" | "step.skipped">;

/** An event with its position in the journal. */
export interface Recorded<E extends RunEvent = RunEvent> {
  readonly seq: number;
  readonly time: number;
  readonly version: number;
  readonly event: E;
  /** On the first event of an append: the recorded turns, as text (turn.ts). */
  readonly facts?: string;
}
