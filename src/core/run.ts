/**
 * The run as a value: the fold of its events. Only evolve.ts changes it; everything else reads it.
 *
 * Owns: the types of a run, its scopes and visits, lookups in them, and `draft` to change them.
 * Does not: know how it came about (evolve.ts) or what comes next (next-actions.ts).
 * Invariants:
 * - run/C2 Only `evolve` makes a Run from a Run. It takes over the old one, without a copy: after
 *   `run = evolve(plan, run, event)` the argument must not be used again.
 * - core/C4 Each visit that is not over is in exactly one of the sets `running`, `composites` and
 *   those in `waiting`: the set that its state names.
 */
import { graphsIn, indexOf } from "../plan/graph-index.ts";
import type { Budget, Graph, Plan, Recover, Step } from "../plan/plan.ts";
import type { Json, JsonObject } from "../util/json.ts";
import type { SecretMarks } from "../util/secrets.ts";
import type { ConversationState } from "./conversation/conversation-state.ts";
import type {
  AttemptRef,
  Briefing,
  EventOf,
  FoundResult,
  Held,
  KnownEffect,
  Message,
  Origin,
  Spent,
  StopMode,
  StopReason,
  Uncertainty,
  VisitRef,
  WorkspaceUsed,
} from "./event.ts";
import { isOver, type VisitState, type WaitReason, waitsFor } from "./graph/visit-state.ts";
import { childScopeId, parseStepPath } from "./step-path.ts";

export interface Run {
  readonly id: string;
  /** Sequence number of the last event. */
  readonly seq: number;
  /** Its creation, with the changes of later updates. */
  readonly created?: EventOf<"run.created"> & { readonly time: number };
  readonly state: RunState;
  readonly updatedAt: number;
  readonly context: ReadonlyMap<string, Json>;
  /** The context that it started with. */
  readonly given: JsonObject;
  /** The language whose built-in keys it has. */
  readonly keys?: Plan["keys"];
  readonly scopes: ReadonlyMap<string, Scope>;
  /** Steps that an update removed; if one comes back, the numbers of its visits continue. */
  readonly gone: ReadonlyMap<string, StepRecord>;
  /** Visits that do not run, by what they wait for, in order of arrival. */
  readonly waiting: Readonly<Record<WaitReason, ReadonlySet<Visit>>>;
  /** How many visits left the queue for slots since its set was built. */
  readonly slotGaps: number;
  /** Visits that have a process. */
  readonly running: ReadonlySet<Visit>;
  /** Visits that have open instances. */
  readonly composites: ReadonlySet<Visit>;
  /** Failures that nothing handles. */
  readonly failed: ReadonlySet<Visit>;
  /** Effects that must happen once and have happened, or may have, by name. */
  readonly effects: ReadonlyMap<string, Effect>;
  /** The spending of all attempts together. */
  readonly spent: Spent;
  /** The spending of each conversation, by its id. */
  readonly conversations: ReadonlyMap<string, Spent>;
  /** The conversations that steps share, by name. */
  readonly shared: ReadonlyMap<string, SharedConversation>;
  /** The messages that people left for agents, by the path of the step. */
  readonly messages: ReadonlyMap<string, readonly LeftMessage[]>;
  /** Steps that people skipped before the run reached them: path -> who. */
  readonly skips: ReadonlyMap<string, string>;
  /** The keys of the requests that it has handled; those of messages are their ids. */
  readonly handled: ReadonlySet<string>;
  /** The workspace in which its steps work, once it is made. */
  readonly workspace?: WorkspaceUsed;
  /** The last snapshot of that workspace. */
  readonly snapshot?: string;
  /** What is known of the files in each workspace: the run's own (""), and those of instances. */
  readonly files: ReadonlyMap<string, WorkspaceFiles>;
  /** Instances whose own workspace must still be made. */
  readonly unmade: ReadonlySet<Scope>;
  /** Instances that succeeded and whose own workspace is not merged yet. */
  readonly merging: ReadonlySet<Scope>;
  /** The end that it has reached, while its `finally` steps run. */
  readonly finishing?: EventOf<"run.finishing">["end"];
  /** The last execution of its `finally` steps; its index counts the ends. */
  readonly finally?: Scope;
  /** Completed steps and merged instances whose changes no commit of its branch names yet. */
  readonly uncommitted: ReadonlySet<string>;
  /** The snapshot to restore before anything starts, and the event that asked for it. */
  readonly restoring?: { readonly commit: string; readonly since: number; readonly moved?: true };
  /** For a fork: its origin, and the commit that the other run's worktree started with. */
  readonly origin?: Origin & { readonly base?: string };
  /** The owner's choice for interrupted work. */
  readonly recover?: Recover;
  /** A person wants no result of an earlier run in it. */
  readonly cache?: "off";
  /** The variables that its expressions use, with the values of their first use. */
  readonly variables: ReadonlyMap<string, string>;
  /** Marks that recognise the secrets of every environment in which it was driven. */
  readonly secrets: readonly SecretMarks[];
  /** How long all attempts together have run. */
  readonly workedMs: number;
  /** Its limits: the plan's budget and what people added. */
  readonly funds: Budget;
  /** What people added to the plan's budget. */
  readonly added: Budget;
  readonly stepsTotal: number;
  /** How many steps need nothing more: completed, skipped, not reached, or failed and handled. */
  readonly stepsDone: number;
  readonly stepsCompleted: number;
  /** Steps whose summary has changed since the last `takeChanges`. */
  readonly changes: ReadonlySet<StepRecord>;
}

/** A message for the agent of a step, and its delivery. */
export interface LeftMessage extends Message {
  /** For each visit of the step that got it: the last attempt whose prompt held it. */
  readonly sent?: readonly { readonly visit: number; readonly attempt: number }[];
  /** The model has answered a prompt that held it. */
  readonly delivered?: true;
}

/** What is known of the files in one workspace. */
export interface WorkspaceFiles {
  /** Of an instance's own workspace: the snapshot that it was made from. */
  readonly base?: string;
  /** The last snapshot of it. */
  readonly snapshot?: string;
  /** Of the run's workspace: the commit that has the work in a snapshot, for those that lack it. */
  readonly commits?: ReadonlyMap<string, string>;
  /** The files equal the last snapshot. */
  readonly clean: boolean;
  /** The visit whose process was started in it last. */
  readonly latest?: Visit;
  /** Files in conflict; the workspace holds the merge with markers. */
  readonly conflicts?: readonly string[];
}

/** An effect that must happen once and that has happened, or may have. */
export interface Effect extends KnownEffect {
  /** The visit that had it; absent when that is a visit of another run. */
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
  /** Of `finally` steps: the pipeline's own scope, whose results they see. */
  readonly outer?: Scope;
  readonly item?: Json;
  /** Its own `input`, when it differs from that of the outer scope. */
  readonly input?: JsonObject;
  readonly index: number;
  /** Of a branch: its own context, which hides the outer one. */
  readonly context?: ReadonlyMap<string, Json>;
  /** How often it was restarted. */
  readonly restarts?: number;
  /** The visit that ended last; a step that only passes on does not count. */
  readonly last?: Visit;
  /** By position; made when first needed. */
  readonly steps: readonly (StepRecord | undefined)[];
  /** The state of each edge of the graph. */
  readonly edges: readonly EdgeState[];
  /** Per step: forward edges that are not resolved yet, and those that were followed. */
  readonly unresolved: readonly number[];
  readonly live: readonly number[];
  /** The number of visits that are not over. */
  readonly active: number;
  /** The number of unhandled failures in it. */
  readonly failures: number;
}

export type EdgeState = "open" | "live" | "dead";

/** A step in a scope, with all its visits. */
export interface StepRecord {
  readonly scope: Scope;
  readonly position: number;
  readonly visits: readonly Visit[];
  /** How many visits are history, because they are before the last rewind. */
  readonly past: number;
  /** No edge can reach it any more. */
  readonly unreachable: boolean;
  /** True when it is counted in `stepsDone`. */
  readonly counted: boolean;
  /** True when it is counted in `stepsCompleted`. */
  readonly completed: boolean;
}

export interface Visit {
  readonly record: StepRecord;
  readonly number: number;
  /** The edge that led to it, by its position; absent when none did. */
  readonly via?: number;
  readonly state: VisitState;
  /** The event that ended it, by its sequence number. */
  readonly endSeq?: number;
  /** Attempts started so far. */
  readonly attempts: number;
  /** Attempts that failed before anything of it ran, so that its condition is still open. */
  readonly failedAtStart?: number;
  readonly failures: number;
  readonly losses: number;
  /** How many failures it may have in total; resume and retry grant more. */
  readonly failuresMax: number;
  readonly lossesMax: number;
  /** Failures before its last grant; the backoff counts from there. */
  readonly failuresBefore?: number;
  /** How often its agent could not continue, through no fault of the step. */
  readonly pauses: number;
  readonly startedAt?: number;
  /** How long the run had no owner while its current attempt ran; for a watched sub-pipeline. */
  readonly unownedMs?: number;
  /** The snapshot that its work started from. */
  readonly base?: string;
  /** Its files are restored to that before its current attempt starts. */
  readonly restore?: true;
  /** Its result, while its work must still be merged; `conflicts` are the files in conflict. */
  readonly held?: Held;
  readonly conflicts?: readonly string[];
  /** Its work is done, and a judge must give a verdict on it, or is giving one. */
  readonly submitted?: {
    /** The result of the work, and the attempt that did it. */
    readonly held: Held;
    readonly attempt: number;
    /** How often the current judge gave no verdict. */
    readonly asks: number;
  };
  /** Its attempts that only judged. */
  readonly judgements?: readonly number[];
  /** Other visits worked in the same workspace at the same time. */
  readonly workedBesideOthers?: true;
  /** The key of its work, and the earlier result that it takes (attempt/reuse.ts). */
  readonly recall?: { readonly key?: string; readonly found?: FoundResult };
  /** Its attempts of which nothing ran. */
  readonly unstarted?: number;
  /** Its last attempt was interrupted by a loss or a stop. */
  readonly interrupted?: true;
  /** Why the effect of its last attempt was uncertain. */
  readonly uncertainty?: Uncertainty;
  /** The earlier visit that attempted its effect first: the key of the effect stays the same. */
  readonly attemptedAt?: Pick<KnownEffect, "place" | "run">;
  /** A person's choice after an interruption; for its next attempt only. */
  readonly recover?: Recover;
  /** Its next attempt keeps the current files: a person chose them. */
  readonly files?: "keep";
  /** Of an agent: its conversation. */
  readonly conversation?: ConversationState;
  /** The briefing of its agent, and how often the visit had failed by then. */
  readonly briefing?: Briefing & { readonly failures: number };
  /** The report of the failure that led to it, for its agent. */
  readonly report?: string;
  readonly spent?: Spent;
  /** Calls that its agent was denied in the last attempt that ended. */
  readonly denied?: readonly string[];
  /** Denied calls that a person has allowed or refused, for all later attempts of the visit. */
  readonly permits?: Readonly<Record<"allow" | "refuse", readonly string[]>>;
  readonly instances?: Instances;
}

/** The instances of a composite visit. */
export interface Instances {
  readonly items?: readonly Json[];
  readonly input?: JsonObject;
  /** How many there will be; for a loop, as far as it is known. */
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

/** The visit of a step in a scope, by its number. */
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

/** A scope and the scopes around it, the innermost first. */
export function* enclosingScopes(scope: Scope): Generator<Scope> {
  for (let at: Scope | undefined = scope; at !== undefined; at = at.parent?.record.scope) yield at;
}

/** The composite visits around a visit, the innermost first. */
export function* enclosingVisits({ record }: Visit): Generator<Visit> {
  for (const { parent } of enclosingScopes(record.scope)) if (parent !== undefined) yield parent;
}

/** The visit of the pipeline's own step that a visit is, or is part of. */
export function outermost(visit: Visit): Visit {
  return [...enclosingVisits(visit)].at(-1) ?? visit;
}

/** All visits in a scope. */
export function* visitsOf(scope: Scope): Generator<Visit> {
  for (const record of scope.steps) yield* record?.visits ?? [];
}

/** True when a step needs no more work at the moment. */
export function isDone(record: StepRecord | undefined): boolean {
  const state = currentVisit(record)?.state;
  if (state === undefined) return record?.unreachable === true;
  if (state.status === "failed") return state.handled;
  return state.status === "completed" || state.status === "skipped";
}

/** True when the effect of a step that must happen once is uncertain. */
export function isUncertain({ state }: Visit): boolean {
  if (state.status === "failed") return state.reason === "once" && !state.handled;
  return waitsFor(state, "probe");
}

/** How to recover interrupted work: as a person chose for this visit or for all, or the author. */
export function recoverFor(run: Run, visit: Visit): Recover | undefined {
  return visit.recover ?? run.recover ?? stepOf(visit).recover;
}

/** True when a step runs other steps. */
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

/** The `finally` visits that are not over, while the run finishes; they run one after the other. */
export function finishingVisits(run: Run): readonly Visit[] {
  if (run.finishing === undefined || run.finally === undefined) return [];
  return [...visitsOf(run.finally)].filter(({ state }) => !isOver(state));
}

/** True when no visit can move any more. While a run finishes, only `finally` steps move. */
export function isIdle(run: Run): boolean {
  if (run.finishing !== undefined) return run.finally?.active === 0;
  const { person, close } = run.waiting;
  return person.size + close.size + run.composites.size === 0 && !canMove(run);
}

/** True when a visit runs, or will run without a person. */
export function canMove(run: Run): boolean {
  const { start, slot, retry, owner, probe, time } = run.waiting;
  const waiting = start.size + slot.size + retry.size + owner.size + probe.size + time.size;
  return waiting + run.running.size > 0;
}

/** A value of the run without its readonly modifiers. */
type Draft<T> = {
  -readonly [K in keyof T]: T[K] extends ReadonlyMap<infer A, infer B> | undefined
    ? Map<A, B> | Extract<T[K], undefined>
    : T[K] extends ReadonlySet<infer A>
      ? Set<A>
      : T[K] extends readonly (infer A)[]
        ? A[]
        : T[K];
};

/** Opens a value for change. Only evolve.ts and the files that it calls may use it. */
export function draft<T extends object>(value: T): Draft<T> {
  return value as Draft<T>;
}
