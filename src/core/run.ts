/**
 * The run as a value: what its events add up to. Only evolve.ts changes it; everything else reads.
 *
 * Owns: the shape of a run, its scopes and visits, and how to look things up in it.
 * Does not: know how it came about (evolve.ts) or what comes next (next-actions.ts).
 * Invariants:
 * - C2 Only `evolve` makes a Run from a Run. It takes the old one over: after
 *   `run = evolve(plan, run, event)` the argument is gone, like a moved value. A run of 100,000
 *   steps would otherwise be copied 200,000 times.
 * - C4 Each visit that is not over stands in exactly one of the sets ready, running, waiting,
 *   interrupted, unsettled, asked, sleeping, composites. (`prompt` repeats some of the ready ones.)
 */
import { graphsIn, indexOf } from "../plan/graph-index.ts";
import type { Budget, Graph, Plan, Recover, Step } from "../plan/plan.ts";
import type { Json, JsonObject } from "../util/json.ts";
import type { SecretMarks } from "../util/secrets.ts";
import type { ConversationState } from "./conversation-state.ts";
import type {
  AgentTrouble,
  AttemptRef,
  Briefing,
  CheckEvidence,
  Deadline,
  FailureReason,
  Held,
  KnownEffect,
  Message,
  Origin,
  Output,
  Place,
  Placed,
  Question,
  RunCreated,
  Spent,
  StopMode,
  StopReason,
  Told,
  Uncertainty,
} from "./event.ts";
import { parseStepPath } from "./place.ts";

export interface Run {
  readonly id: string;
  /** Sequence number of the last event. */
  readonly seq: number;
  /** What it goes by: as it was created, and as the last update of its plan changed that. */
  readonly created?: RunCreated & { readonly time: number };
  readonly state: RunState;
  readonly updatedAt: number;
  readonly context: ReadonlyMap<string, Json>;
  /** The context that it began with. */
  readonly given: JsonObject;
  /** The language whose built-in keys it keeps. */
  readonly keys?: Plan["keys"];
  readonly scopes: ReadonlyMap<string, Scope>;
  /** Steps that an update took out of the plan; one that comes back is numbered on. */
  readonly gone: ReadonlyMap<string, StepRecord>;
  /** Wait for room, in the order in which they became ready. */
  readonly ready: ReadonlySet<Visit>;
  /** How many were taken out of `ready` since that set was made. */
  readonly readyGaps: number;
  /** Those of them that need no room: gates and waits. */
  readonly prompt: ReadonlySet<Visit>;
  /** Have a process. */
  readonly running: ReadonlySet<Visit>;
  /** Wait for the time of their next attempt. */
  readonly waiting: ReadonlySet<Visit>;
  readonly interrupted: ReadonlySet<Visit>;
  /** Have a probe that is to say whether they happened. */
  readonly unsettled: ReadonlySet<Visit>;
  /** Wait for a person's answer. */
  readonly asked: ReadonlySet<Visit>;
  /** Wait for a time that their author set. */
  readonly sleeping: ReadonlySet<Visit>;
  /** Have open instances. */
  readonly composites: ReadonlySet<Visit>;
  /** Composites all of whose instances have ended. */
  readonly closing: ReadonlySet<Visit>;
  /** Failures that nothing handles. */
  readonly failed: ReadonlySet<Visit>;
  /** Effects that must happen once and have happened, or may have, by name. */
  readonly effects: ReadonlyMap<string, Effect>;
  /** What all attempts together used of models. */
  readonly spent: Spent;
  /** What each conversation has used, by its id. */
  readonly conversations: ReadonlyMap<string, Spent>;
  /** The conversations that steps share: name -> where it is and who was the last in it. */
  readonly shared: ReadonlyMap<string, SharedConversation>;
  /** The messages that people left for agents, by the path of the step. */
  readonly messages: ReadonlyMap<string, readonly LeftMessage[]>;
  /** Where its steps work, once that is made. */
  readonly workspace?: Placed;
  /** The last snapshot of it. */
  readonly snapshot?: string;
  /** What is known of the files in each workspace: the run's own (""), and those of instances. */
  readonly files: ReadonlyMap<string, WorkspaceFiles>;
  /** Instances that are to work in a workspace of their own, which is still to be made. */
  readonly unmade: ReadonlySet<Scope>;
  /** Instances that ended well, and whose work in a workspace of their own is not merged yet. */
  readonly merging: ReadonlySet<Scope>;
  /** The snapshot to which its files are to be put back before anything starts, and since when. */
  readonly restoring?: { readonly commit: string; readonly since: number };
  /** Of a fork: where it comes from, and the commit that the other run's worktree began with. */
  readonly origin?: Origin & { readonly base?: string };
  /** What its owner wants done with conversations that were cut off. */
  readonly recover?: Recover;
  /** The variables that its expressions rely on, as they were when it met them first. */
  readonly variables: ReadonlyMap<string, string>;
  /** What recognises the secrets of all environments that it was driven in. */
  readonly secrets: readonly SecretMarks[];
  /** How long attempts have run, all together. */
  readonly workedMs: number;
  /** What it may use: the plan's budget and what was added to it. */
  readonly funds: Budget;
  /** What was added to the plan's budget. */
  readonly added: Budget;
  readonly stepsTotal: number;
  readonly stepsDone: number;
  /** Steps whose summary has changed since it was last taken (see takeChanges). */
  readonly changes: ReadonlySet<StepRecord>;
}

/** A message for the agent of a step, and what became of it. */
export interface LeftMessage extends Message {
  /** For each visit of the step that was told: the last attempt whose prompt held it. */
  readonly told?: readonly { readonly visit: number; readonly attempt: number }[];
  /** The model has answered a prompt that held it. */
  readonly delivered?: true;
}

/** What is known of the files in one workspace. */
export interface WorkspaceFiles {
  /** Of an instance's own workspace: the snapshot that it was made from. */
  readonly base?: string;
  /** The last snapshot of it. */
  readonly snapshot?: string;
  /** The files equal the last snapshot. */
  readonly clean: boolean;
  /** The visit whose process was started in it last. */
  readonly latest?: Visit;
  /** Paths that could not be merged; the workspace holds the merge with markers. */
  readonly conflicts?: readonly string[];
}

/** An effect that must happen once and that has happened, or may have. */
export interface Effect extends KnownEffect {
  /** The visit that it belongs to; absent when that is a visit of another run. */
  readonly visit?: Visit;
}

export interface SharedConversation {
  readonly session: string;
  readonly step: string;
  /** Who talks in it, by the plan's name. */
  readonly agent: string;
  /** It stays with the run that this one was forked from. */
  readonly left?: true;
}

export type RunState =
  | { readonly status: "created" }
  | { readonly status: "running" }
  | { readonly status: "stopping"; readonly mode: StopMode; readonly reason: StopReason }
  | { readonly status: "stopped"; readonly reason: StopReason }
  | { readonly status: "completed" }
  | { readonly status: "failed"; readonly message: string; readonly from?: string };

/** One execution of a graph: the plan's own, a sub-pipeline's, or one item's. */
export interface Scope {
  readonly id: string;
  readonly graph: Graph;
  readonly parent?: Visit;
  readonly item?: Json;
  /** What `input` is in it, when it is not that of the scope around it. */
  readonly input?: JsonObject;
  readonly index: number;
  /** Key-values of its own, which hide those around it; of a branch. */
  readonly context?: ReadonlyMap<string, Json>;
  /** How often it was begun anew. */
  readonly restarts?: number;
  /** The visit that ended last, those apart that only pass on. */
  readonly last?: Visit;
  /** By position; made when first needed. */
  readonly steps: readonly (StepRecord | undefined)[];
  /** What has come along each arrow. */
  readonly arrows: readonly ArrowState[];
  /** Per step: forward arrows that have not been settled yet, and those that were followed. */
  readonly unsettled: readonly number[];
  readonly live: readonly number[];
  /** Visits that are not over. */
  readonly active: number;
  /** Failures in it that nothing handles. */
  readonly failures: number;
}

export type ArrowState = "open" | "live" | "dead";

/** A step in a scope with everything that was done for it. */
export interface StepRecord {
  readonly scope: Scope;
  readonly position: number;
  readonly visits: readonly Visit[];
  /** How many visits lie before the last rewind; they are history. */
  readonly past: number;
  /** No arrow can reach it any more. */
  readonly unreachable: boolean;
  /** Whether it is among `stepsDone`. */
  readonly counted: boolean;
}

export interface Visit {
  readonly record: StepRecord;
  readonly number: number;
  /** The arrow that started it, by its position; absent when none did. */
  readonly via?: number;
  readonly state: VisitState;
  /** The event that ended it, by its sequence number. */
  readonly endSeq?: number;
  /** Attempts started so far. */
  readonly attempts: number;
  readonly failures: number;
  readonly losses: number;
  /** How many failures it may have in all; granted anew by resume and retry. */
  readonly failuresMax: number;
  readonly lossesMax: number;
  /** Failures before its present allowance; its pauses are counted from there. */
  readonly failuresBefore?: number;
  /** Times that it could not go on through no fault of its own. */
  readonly pauses: number;
  readonly startedAt?: number;
  /** The snapshot that its work began with. */
  readonly base?: string;
  /** Its files are put back to that before its current attempt begins. */
  readonly restore?: true;
  /** It is done but for the merge of its work, which these files stand against. */
  readonly held?: Held;
  readonly conflicts?: readonly string[];
  /** Its work is done, and a judge is to look at it, or is looking at it. */
  readonly submitted?: Submission;
  /** Its attempts that only judged. */
  readonly judgements?: readonly number[];
  /** Others were at work in the same workspace when it was. */
  readonly crowded?: true;
  /** It was cut off by a loss or a stop, not by its own end. */
  readonly cut?: true;
  /** Nobody knew whether its last attempt happened. */
  readonly doubt?: Uncertainty;
  /** Where the effect was attempted first that an earlier visit may have had: its key stays. */
  readonly attemptedAt?: Pick<KnownEffect, "place" | "run">;
  /** What a person wants done with it after it was cut off; holds for its next attempt. */
  readonly recover?: Recover;
  /** Its next attempt goes on with the files that are there: a person chose them. */
  readonly files?: "keep";
  /** For a step that talks to an agent. */
  readonly talk?: ConversationState;
  /** What its agent was told of the run, and how often it had failed by then. */
  readonly telling?: Briefing & { readonly failures: number };
  /** What failed before it, as its agent is told. */
  readonly report?: string;
  readonly spent?: Spent;
  /** Calls that its agent was not permitted in the last attempt that ended. */
  readonly denied?: readonly string[];
  /** What a person said about such calls; it holds for all later attempts of the visit. */
  readonly permits?: Permits;
  readonly instances?: Instances;
}

/** Work that waits for a judge. */
export interface Submission {
  /** What the work has to show. */
  readonly held: Held;
  /** The attempt that did the work. */
  readonly attempt: number;
  /** How often the judge that is to be asked gave no verdict. */
  readonly asks: number;
}

/** Calls that a person allowed to the agent of a visit, and those that a person refused. */
export interface Permits {
  readonly allow: readonly string[];
  readonly refuse: readonly string[];
}

/** The instances of a composite visit. */
export interface Instances {
  readonly items?: readonly Json[];
  readonly input?: JsonObject;
  /** How many there are to be; of a loop, as far as that is known. */
  readonly total: number;
  readonly opened: number;
  readonly ended: number;
  readonly failed: number;
}

export type VisitState =
  | { readonly status: "ready" }
  | {
      readonly status: "running";
      readonly since: number;
      /** From when its time has still to be counted; later than `since` under a second owner. */
      readonly uncounted: number;
    }
  | {
      readonly status: "waiting";
      readonly until: number;
      readonly delayMs: number;
      readonly message: string;
    }
  | { readonly status: "interrupted"; readonly message: string }
  /** It may have happened or not; its probe is asked. */
  | { readonly status: "unsettled"; readonly message: string }
  /** A person is asked. */
  | ({ readonly status: "asked"; readonly since: number } & Question)
  /** Nothing happens before a time. */
  | { readonly status: "sleeping"; readonly since: number; readonly wake: Deadline }
  | {
      readonly status: "completed";
      readonly at: number;
      readonly exit: number;
      readonly outputs: Readonly<Record<string, Output>>;
      readonly answer?: Json;
      /** The end of what it printed, where the plan refers to it. */
      readonly output?: string;
      /** What tells its effect from others. */
      readonly identity?: string;
      /** Who vouches for it in place of an exit status. */
      readonly settledBy?: string;
      readonly told?: Told;
      /** Checks that did not pass and only warn. */
      readonly checks?: readonly CheckEvidence[];
      /** A person declared it done. */
      readonly assumed: boolean;
    }
  | {
      readonly status: "failed";
      readonly at: number;
      readonly reason: FailureReason;
      readonly message: string;
      readonly exit?: number;
      readonly told?: Told;
      /** Checks that did not pass. */
      readonly checks?: readonly CheckEvidence[];
      /** Of an agent: what a person has to change first. */
      readonly trouble?: AgentTrouble;
      readonly answer?: Json;
      readonly output?: string;
      /** What tells it from other failures of the step. */
      readonly signature?: string;
      /** An arrow led on from the failure, or the author lets the run go on. */
      readonly handled: boolean;
      /** Nothing in its own scope handled it, but the composite step around it did. */
      readonly absorbed?: true;
    }
  | { readonly status: "skipped"; readonly at: number }
  /** Left behind by a rewind before it was over. */
  | { readonly status: "abandoned"; readonly at: number };

export type VisitStatus = VisitState["status"];

/** The plan's step of a record or visit. */
export function stepOf(at: StepRecord | Visit): Step {
  const record = "record" in at ? at.record : at;
  return record.scope.graph.steps[record.position] as Step;
}

/** Where a visit stands. */
export function placeOf(visit: Visit): Place {
  return {
    scope: visit.record.scope.id,
    step: stepOf(visit).id,
    visit: visit.number,
  };
}

/** The attempt that a visit is at. */
export function attemptOf(visit: Visit): AttemptRef {
  return { ...placeOf(visit), attempt: visit.attempts };
}

/** The current visit of a step: the last one since the last rewind. */
export function currentVisit(record: StepRecord | undefined): Visit | undefined {
  return record !== undefined && record.visits.length > record.past
    ? record.visits.at(-1)
    : undefined;
}

/** The record of a step in a scope, when anything has happened to it. */
export function findRecord(scope: Scope, step: string): StepRecord | undefined {
  const position = indexOf(scope.graph).byId.get(step);
  return position === undefined ? undefined : scope.steps[position];
}

/** The visit at a place. */
export function findVisit(run: Run, place: Place): Visit | undefined {
  const scope = run.scopes.get(place.scope);
  return scope && findRecord(scope, place.step)?.visits[place.visit - 1];
}

/** The record behind a step's path, such as `build` or `each@1.1[3]/test`. */
export function findStep(run: Run, path: string): StepRecord | undefined {
  const { scope, step } = parseStepPath(path);
  const found = run.scopes.get(scope);
  return found && findRecord(found, step);
}

/** True when a step needs no more work as things stand. */
export function isDone(record: StepRecord | undefined): boolean {
  const state = currentVisit(record)?.state;
  if (state === undefined) return record?.unreachable === true;
  if (state.status === "failed") return state.handled;
  return state.status === "completed" || state.status === "skipped";
}

/** True when nobody knows whether a step that must not happen twice has happened. */
export function isUncertain({ state }: Visit): boolean {
  if (state.status === "failed") return state.reason === "once" && !state.handled;
  return state.status === "unsettled";
}

/** What is wanted of work that was cut off: by a person for this visit or for all, or by the author. */
export function recoverFor(run: Run, visit: Visit): Recover | undefined {
  return visit.recover ?? run.recover ?? stepOf(visit).recover;
}

/** True when the work of a step is done by steps of its own. */
export function isComposite({ work }: Step): boolean {
  return graphsIn(work).length > 0;
}

/** True when a step has a process of its own, for which there must be room. */
export function hasProcess({ work }: Step): boolean {
  return work.kind === "shell" || work.kind === "agent";
}

/** True for a step that only passes on how the one before it went; a simulated one speaks for itself. */
export function passesOn({ work }: Step): boolean {
  return work.kind === "pass" && work.simulates === undefined;
}

/** True when a step asks a person, or waits for a time. */
export function isPrompt({ work }: Step): boolean {
  return work.kind === "gate" || work.kind === "wait";
}
