/**
 * What happened in a run: one union of events, past tense and dotted. The journal stores them, and
 * every state, table, file and screen is a fold over them.
 *
 * Owns: the vocabulary and its version. One table says which fields an event has: its type and the
 * check of what is read from disk follow from it.
 * Does not: decide anything (decide.ts) or change a run (evolve.ts).
 * Invariants:
 * - V1 An event holds JSON only, and everything that replay needs: no clock, no expression and no
 *   random number is consulted again.
 * - V2 A released event type never changes its meaning; a new meaning is a new version.
 */
import {
  type AgentTrouble,
  answer,
  ask,
  attempt,
  briefing,
  conversation,
  deadline,
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
  question,
  reported,
  saved,
  spent,
  trace,
  uncertainty,
  verdict,
} from "./event-parts.ts";
import { RUN_EVENTS, retry } from "./run-event.ts";
import {
  flag,
  integer,
  json,
  listOf,
  mapOf,
  oneOf,
  optional,
  text,
  type Variants,
  word,
} from "./shape.ts";

export type * from "./event-parts.ts";
export type * from "./run-event.ts";

/** The version of the vocabulary, stored with each event. */
export const EVENT_VERSION = 1;

/** Which edges of the graph were followed. */
const edges = listOf(integer);

/** The fields of events about one step, by their types. */
const STEP_EVENTS = {
  "step.started": {
    ...attempt,
    /** The items of a fan-out; one instance each. */
    items: optional(listOf(json)),
    /** The input of a sub-pipeline, when it is not that of the scope around it. */
    input: optional(jsonObject),
    conversation: optional(conversation),
    /** For an agent: the ids of the messages that its prompt holds. */
    messages: optional(listOf(text)),
    /** For an agent: what of the run its prompt tells first. */
    fidelity: optional(briefing),
    /** For an agent: what failed before it, and led to it. */
    report: optional(text),
    /** The snapshot that it works on; absent when `step.based` is to name it. */
    base: optional(text),
    /** The files are put back to it first. */
    restore: optional(flag),
    /** A person chose the files that are there: they are what its work begins with from now on. */
    keep: optional(flag),
    /** Of a wait: when it is over. */
    wake: optional(deadline),
    /** The agent that judges what an earlier attempt did: nothing of the work is done again. */
    judge: optional(text),
  },
  /** A person is asked; nothing after it continues before there is an answer. */
  "step.asked": { ...attempt, ...question },
  /** There is an answer. What follows from it is the next event. */
  "step.answered": { ...attempt, ...answer, label: optional(text) },
  /** It ended well, and what it did in a workspace of its own does not fit what others did. */
  "step.conflicted": {
    ...attempt,
    /** The files in conflict, as many as are named. */
    paths: listOf(text),
    message: text,
    /** Its workspace now holds the merge with markers, on top of this snapshot. */
    base: text,
    held,
    ...trace,
  },
  /** The workspace was saved right before the attempt; the base takes the place of `aside`. */
  "step.based": { ...attempt, base: text, aside: optional(text) },
  /** The workspace was saved while the attempt was running. */
  "step.saved": { ...attempt, snapshot: saved },
  /** One iteration of a loop is over and its condition does not hold: the next one begins. */
  "step.iterated": { ...attempt, iteration: integer },
  /** The agent has said which conversation it is in. */
  "step.session": { ...attempt, session: text },
  /** A new owner took over what an earlier one had started. */
  "step.adopted": { ...attempt, found },
  /** The attempt is over and its conversation continues with a request of ours. */
  "step.continued": { ...attempt, ask, ...trace },
  /** The conversation has handed over; the next one starts from this file. */
  "step.relayed": {
    ...attempt,
    checkpoint: output,
    /** Why the notes were made without the agent: its conversation was full. */
    why: optional(text),
    ...trace,
  },
  /** The work is done and has passed its other checks: a judge is to say whether it is good. */
  "step.submitted": {
    ...attempt,
    /** What the work has to show. */
    held,
    /** Why the judge is asked again; absent when it was not asked before. */
    message: optional(text),
    ...trace,
  },
  "step.completed": {
    ...attempt,
    exit: integer,
    outputs: mapOf(output),
    /** Key-values that the step handed to the run. */
    context: jsonObject,
    /** What an agent answered: the value that its schema asked for, or its text. */
    answer: optional(json),
    /** The end of what it printed, where the plan refers to it. */
    output: optional(text),
    /** What tells its effect from others, when a probe or a person named it. */
    identity: optional(text),
    /** Who vouches for it in place of an exit status: its probe, or a person. */
    settledBy: optional(text),
    reported: optional(reported),
    /** The secrets that it put into what it hands on. */
    exposes: optional(listOf(exposure)),
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
    /** What a person answered when they rejected it. */
    answer: optional(json),
    /** The end of what it printed, where the plan refers to it. */
    output: optional(text),
    /** Of a step that must not happen twice: it has happened nevertheless, or may have. */
    effect: optional(oneOf("done", "uncertain")),
    /** Key-values that it handed to the run nevertheless. */
    context: optional(jsonObject),
    ...findings,
    /** Of an agent: what a person has to change first. */
    trouble: optional(word<AgentTrouble>()),
    /** The next attempt continues the agent's conversation; absent: it starts a new one. */
    conversation: optional(oneOf("continue")),
    ...trace,
    /** When the next attempt starts; absent when the allowance is used up. */
    retry: optional(retry),
    /** What tells this failure from others of its step, for a step that may come again. */
    signature: optional(text),
    /** The author lets the run continue although no edge is for failures. */
    handled: optional(flag),
    /** Edges that lead on from the failure. Without any, and if not `handled`, nothing does. */
    edges,
  },
  "step.lost": {
    ...attempt,
    message: text,
    /** When the next attempt may start; absent when the losses are used up. */
    retry: optional(retry),
    tool: optional(lastTool),
    ...trace,
  },
  "step.paused": {
    ...attempt,
    reason: word<PauseReason>(),
    message: text,
    /** When the next attempt may start; absent when the pauses are used up. */
    retry: optional(retry),
    ...trace,
  },
  "step.interrupted": { ...attempt, message: text, tool: optional(lastTool), ...trace },
  /** The attempt of a step that must not happen twice is over: it may have happened or not. */
  "step.uncertain": { ...attempt, ...uncertainty, spent: optional(spent) },
  /** Its probe has answered. What follows from that is the next event. */
  "step.probed": {
    ...attempt,
    answer: probeAnswer,
    /** What tells the effect from others, such as the address of a pull request. */
    identity: optional(text),
    /** Why nothing is known. */
    message: optional(text),
  },
  /** A person has said what is the case. What follows from that is the next event. */
  "step.settled": { ...attempt, as: verdict, by: text, identity: optional(text) },
  "step.skipped": { ...place, edges },
  "step.granted": {
    ...place,
    attempts: integer,
    /** The next attempt continues with the files that are there. */
    files: optional(oneOf("keep")),
    /** How many answers more its model may give. */
    turns: optional(integer),
  },
};

/** The fields of every event, by its type. */
export const EVENTS = { ...RUN_EVENTS, ...STEP_EVENTS };

export type RunEvent = Variants<"type", typeof EVENTS>;

/** The event of a type. */
export type EventOf<T extends RunEvent["type"]> = Extract<RunEvent, { type: T }>;

export type RunCreated = EventOf<"run.created">;
export type RunForked = EventOf<"run.forked">;
export type RunMoved = EventOf<"run.moved">;
export type RunRewound = EventOf<"run.rewound">;
export type RunUpdated = EventOf<"run.updated">;
export type RunReturned = EventOf<"run.returned">;
export type RunRestarted = EventOf<"run.restarted">;
export type RunMessaged = EventOf<"run.messaged">;
export type ScopeEvent = EventOf<"scope.based" | "scope.merged" | "scope.conflicted">;
export type StepSubmitted = EventOf<"step.submitted">;
export type StepCompleted = EventOf<"step.completed">;
export type StepFailed = EventOf<"step.failed">;

/** How an attempt failed, as the next one is told it. */
export type AttemptFailure = Pick<
  StepFailed,
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
  /** Of the first event of an append: the turns behind it, as text (turn.ts). */
  readonly facts?: string;
}
