/**
 * The run as a value: what its events add up to. Only evolve.ts changes it; everything else reads.
 *
 * Owns: the shape of a run, its scopes and visits, and how to look things up in it.
 * Does not: know how it came about (evolve.ts) or what comes next (next-actions.ts).
 * Invariants:
 * - C2 Only `evolve` makes a Run from a Run. It takes the old one over: after
 *   `run = evolve(plan, run, event)` the argument is gone, like a moved value. A run of 100,000
 *   steps would otherwise be copied 200,000 times.
 * - C4 Each visit that is not over stands in exactly one of the sets `running`, `composites` and those
 *   in `waiting`: the set that its state names.
 */
import { graphsIn, indexOf } from "../plan/graph-index.ts";
import type { Budget, Graph, Plan, Recover, Step } from "../plan/plan.ts";
import type { Json, JsonObject } from "../util/json.ts";
import type { SecretMarks } from "../util/secrets.ts";
import type { ConversationState } from "./conversation/conversation-state.ts";
import type {
  AttemptRef,
  Briefing,
  Held,
  KnownEffect,
  Message,
  Origin,
  Placed,
  RunCreated,
  Spent,
  StopMode,
  StopReason,
  Uncertainty,
  VisitRef,
} from "./event.ts";
import { type VisitState, type WaitReason, waitsFor } from "./graph/visit-state.ts";
import { childScopeId, parseStepPath } from "./step-path.ts";

export interface Run {
  readonly id: string;
  /** Sequence number of the last event. */
  readonly seq: number;
  /** How it was created, as the last update of its plan changed that. */
  readonly created?: RunCreated & { readonly time: number };
  readonly state: RunState;
  readonly updatedAt: number;
  readonly context: ReadonlyMap<string, Json>;
  /** The context that it began with. */
  readonly given: JsonObject;
  /** The language whose built-in keys it keeps. */
  readonly keys?: Plan["keys"];
  readonly scopes: ReadonlyMap<string, Scope>;
  /** Steps that an update removed from the plan; the visits of one that comes back are numbered on. */
  readonly gone: ReadonlyMap<string, StepRecord>;
  /** Visits that do not run, by what they wait for; each set is in the order of arrival. */
  readonly waiting: Readonly<Record<WaitReason, ReadonlySet<Visit>>>;
  /** How many visits left the queue for slots since its set was made. */
  readonly slotGaps: number;
  /** Visits that have a process. */
  readonly running: ReadonlySet<Visit>;
  /** Visits that have open instances. */
  readonly composites: ReadonlySet<Visit>;
  /** Failures that nothing handles. */
  readonly failed: ReadonlySet<Visit>;
  /** Effects that must happen once and have happened, or may have, by name. */
  readonly effects: ReadonlyMap<string, Effect>;
  /** What all attempts together used of their models. */
  readonly spent: Spent;
  /** What each conversation has used, by its id. */
  readonly conversations: ReadonlyMap<string, Spent>;
  /** The conversations that steps share, by name. */
  readonly shared: ReadonlyMap<string, SharedConversation>;
  /** The messages that people left for agents, by the path of the step. */
  readonly messages: ReadonlyMap<string, readonly LeftMessage[]>;
  /** The workspace in which its steps work, once it is made. */
  readonly workspace?: Placed;
  /** The last snapshot of that workspace. */
  readonly snapshot?: string;
  /** What is known of the files in each workspace: the run's own (""), and those of instances. */
  readonly files: ReadonlyMap<string, WorkspaceFiles>;
  /** Instances whose own workspace is still to be made. */
  readonly unmade: ReadonlySet<Scope>;
  /** Instances that ended well, and whose own workspace is not merged yet. */
  readonly merging: ReadonlySet<Scope>;
  /** The snapshot to which its files go back before anything starts, and the event that asked for it. */
  readonly restoring?: { readonly commit: string; readonly since: number };
  /** Of a fork: where it comes from, and the commit that the other run's worktree began with. */
  readonly origin?: Origin & { readonly base?: string };
  /** What its owner wants done with work that was interrupted. */
  readonly recover?: Recover;
  /** The variables that its expressions rely on, as they were when it first met them. */
  readonly variables: ReadonlyMap<string, string>;
  /** Marks that recognise the secrets of every environment in which it was driven. */
  readonly secrets: readonly SecretMarks[];
  /** How long all attempts together have run. */
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
  /** For each visit of the step that got it: the last attempt whose prompt held it. */
  readonly reported?: readonly { readonly visit: number; readonly attempt: number }[];
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
  /** The agent in it, by its name in the plan. */
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
  /** Its own `input`, when it is not that of the scope around it. */
  readonly input?: JsonObject;
  readonly index: number;
  /** Of a branch: its own context, which hides the one around it. */
  readonly context?: ReadonlyMap<string, Json>;
  /** How often it was restarted. */
  readonly restarts?: number;
  /** The visit that ended last; a step that only passes on does not count. */
  readonly last?: Visit;
  /** By position; made when first needed. */
  readonly steps: readonly (StepRecord | undefined)[];
  /** What has come along each edge of the graph. */
  readonly edges: readonly EdgeState[];
  /** Per step: forward edges that are not resolved yet, and those that were followed. */
  readonly unresolved: readonly number[];
  readonly live: readonly number[];
  /** Visits that are not over. */
  readonly active: number;
  /** Failures in it that nothing handles. */
  readonly failures: number;
}

export type EdgeState = "open" | "live" | "dead";

/** A step in a scope, with all its visits. */
export interface StepRecord {
  readonly scope: Scope;
  readonly position: number;
  readonly visits: readonly Visit[];
  /** How many visits lie before the last rewind; they are history. */
  readonly past: number;
  /** No edge can reach it any more. */
  readonly unreachable: boolean;
  /** Whether it is among `stepsDone`. */
  readonly counted: boolean;
}

export interface Visit {
  readonly record: StepRecord;
  readonly number: number;
  /** The edge that started it, by its position; absent when none did. */
  readonly via?: number;
  readonly state: VisitState;
  /** The event that ended it, by its sequence number. */
  readonly endSeq?: number;
  /** Attempts started so far. */
  readonly attempts: number;
  readonly failures: number;
  readonly losses: number;
  /** How many failures it may have in all; resume and retry grant more. */
  readonly failuresMax: number;
  readonly lossesMax: number;
  /** Failures before its present allowance; the backoff counts from there. */
  readonly failuresBefore?: number;
  /** How often its agent could not continue through no fault of its own. */
  readonly pauses: number;
  readonly startedAt?: number;
  /** The snapshot that its work began with. */
  readonly base?: string;
  /** Its files are put back to that before its current attempt begins. */
  readonly restore?: true;
  /** Its result, while its work is still to be merged; `conflicts` are the files that do not fit. */
  readonly held?: Held;
  readonly conflicts?: readonly string[];
  /** Its work is done, and a judge is to look at it, or is looking at it. */
  readonly submitted?: Submission;
  /** Its attempts that only judged. */
  readonly judgements?: readonly number[];
  /** Other visits worked in the same workspace at the same time. */
  readonly crowded?: true;
  /** Its last attempt was interrupted by a loss or a stop. */
  readonly cut?: true;
  /** Why the effect of its last attempt was uncertain. */
  readonly uncertainty?: Uncertainty;
  /** Where its effect was attempted first, by an earlier visit: the key of the effect stays the same. */
  readonly attemptedAt?: Pick<KnownEffect, "place" | "run">;
  /** What a person wants done with it after an interruption; for its next attempt only. */
  readonly recover?: Recover;
  /** Its next attempt keeps the current files: a person chose them. */
  readonly files?: "keep";
  /** Of an agent: its conversation. */
  readonly conversation?: ConversationState;
  /** What its agent was told about the run, and how often the visit had failed by then. */
  readonly briefing?: Briefing & { readonly failures: number };
  /** The report of the failure that led to it, for its agent. */
  readonly report?: string;
  readonly spent?: Spent;
  /** Calls that were denied to its agent in the last attempt that ended. */
  readonly denied?: readonly string[];
  /** What a person said about such calls; for all later attempts of the visit. */
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
  /** How many there will be; of a loop, as far as that is known. */
  readonly total: number;
  readonly opened: number;
  readonly ended: number;
  readonly failed: number;
}

/** The plan's step of a record or visit. */
export function stepOf(at: StepRecord | Visit): Step {
  const record = "record" in at ? at.record : at;
  return record.scope.graph.steps[record.position] as Step;
}

/** The step, the scope and the number of a visit. */
export function visitRef(visit: Visit): VisitRef {
  return {
    scope: visit.record.scope.id,
    step: stepOf(visit).id,
    visit: visit.number,
  };
}

/** The attempt that a visit is at. */
export function attemptOf(visit: Visit): AttemptRef {
  return { ...visitRef(visit), attempt: visit.attempts };
}

/** The current visit of a step: the last one since the last rewind. */
export function currentVisit(record: StepRecord | undefined): Visit | undefined {
  return record !== undefined && record.visits.length > record.past
    ? record.visits.at(-1)
    : undefined;
}

/** The record of a step in a scope; undefined while nothing has happened to it. */
export function findRecord(scope: Scope, step: string): StepRecord | undefined {
  const position = indexOf(scope.graph).byId.get(step);
  return position === undefined ? undefined : scope.steps[position];
}

/** The visit that a scope, a step and a number name. */
export function findVisit(run: Run, place: VisitRef): Visit | undefined {
  const scope = run.scopes.get(place.scope);
  return scope && findRecord(scope, place.step)?.visits[place.visit - 1];
}

/** The record of a step by its path, such as `build` or `each@1.1[3]/test`. */
export function findStep(run: Run, path: string): StepRecord | undefined {
  const { scope, step } = parseStepPath(path);
  const found = run.scopes.get(scope);
  return found && findRecord(found, step);
}

/** The scopes that the current attempt of a composite visit has opened. */
export function* childScopes(run: Run, visit: Visit): Generator<Scope> {
  for (let index = 0; index < (visit.instances?.opened ?? 0); index++) {
    const scope = run.scopes.get(childScopeId(attemptOf(visit), index));
    if (scope !== undefined) yield scope;
  }
}

/** The visit of the pipeline's own step that a visit is, or is part of. */
export function outermost(visit: Visit): Visit {
  let at = visit;
  for (let up = at.record.scope.parent; up !== undefined; up = at.record.scope.parent) at = up;
  return at;
}

/** All visits in a scope. */
export function* visitsOf(scope: Scope): Generator<Visit> {
  for (const record of scope.steps) yield* record?.visits ?? [];
}

/** True when a step needs no more work as things stand. */
export function isDone(record: StepRecord | undefined): boolean {
  const state = currentVisit(record)?.state;
  if (state === undefined) return record?.unreachable === true;
  if (state.status === "failed") return state.handled;
  return state.status === "completed" || state.status === "skipped";
}

/** True when it is uncertain whether the effect of a step that must not happen twice has happened. */
export function isUncertain({ state }: Visit): boolean {
  if (state.status === "failed") return state.reason === "once" && !state.handled;
  return waitsFor(state, "probe");
}

/** What to do with interrupted work: as a person says for this visit or for all, or the author. */
export function recoverFor(run: Run, visit: Visit): Recover | undefined {
  return visit.recover ?? run.recover ?? stepOf(visit).recover;
}

/** True when the work of a step is done by steps of its own. */
export function isComposite({ work }: Step): boolean {
  return graphsIn(work).length > 0;
}

/** True when a step has a process of its own, which needs a slot. */
export function hasProcess({ work }: Step): boolean {
  return work.kind === "shell" || work.kind === "agent";
}

/** True for a step that only passes on the outcome of the step before it. */
export function passesOn({ work }: Step): boolean {
  return work.kind === "pass" && work.simulates === undefined;
}

/** True when a step asks a person, or waits for a time: it starts without a slot. */
export function isPrompt({ work }: Step): boolean {
  return work.kind === "gate" || work.kind === "wait";
}

/** The visits that wait for any of these, in the order in which the reasons are named. */
export function waitingFor(run: Run, ...reasons: readonly WaitReason[]): readonly Visit[] {
  return reasons.flatMap((reason) => [...run.waiting[reason]]);
}
