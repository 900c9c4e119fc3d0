/**
 * Files about a run for people and tools, as projections of its events that can be made again at any time
 * (run-log/J5). `checkpoint.json` is the state of a run right after a step, with the order in which its
 * steps ended. Each attempt has a receipt with its evidence; that of a completed attempt is also its
 * handoff: it contains what the attempt passes on, and has a second name among the handoffs.
 *
 * Owns: the fields of these files, their limits, and the names of receipts.
 * Does not: write files, or hold anything that the journal does not. Resume reads the journal, never
 * these files.
 * Invariants:
 * - view/K1 A value that was not measured is `{ measured: false }`; a receipt never invents a number.
 */

import { type CheckFindings, checksFound } from "../../core/attempt/check.ts";
import type {
  AttemptEnd,
  AttemptRef,
  EventOf,
  LeftRunning,
  Recorded,
  RunEvent,
  Spent,
  VisitEnd,
} from "../../core/event.ts";
import { findVisit, type Run, stepOf, visitRef, waitingFor } from "../../core/run.ts";
import { isReached } from "../../core/run-end.ts";
import { stepPath } from "../../core/step-path.ts";
import type { Graph, Step } from "../../plan/plan.ts";
import { type Json, type JsonObject, sha256 } from "../../util/json.ts";
import { briefingJson, stepReportJson } from "../attempt-history.ts";
import { checkJson } from "../failure-text.ts";
import { pathsOf, rootSteps, stepTree } from "../step-tree.ts";
import { commandText, isoText } from "../text.ts";
import { originJson, outputsJson } from "./part-json.ts";

/** The version of the file's shape. */
const CHECKPOINT_VERSION = 1;

/** The content of `checkpoint.json`. */
export function checkpointJson(run: Run, history: NodeHistory, now: number): JsonObject {
  const { last } = history;
  const { completed, retries, artifacts, leftOut } = nodesOf(run);
  const waiting = waitingFor(run, "person", "time", "probe", "owner", "retry", "start", "slot");
  const next = [...run.running, ...waiting];
  return {
    version: CHECKPOINT_VERSION,
    run_id: run.id,
    pipeline_name: run.created?.pipeline ?? "",
    sequence: run.seq,
    forked_from: originJson(run.origin),
    timestamp: isoText(now),
    current_node: last === undefined ? null : stepPath(last.event),
    outcome: last === undefined ? null : outcomeJson(last.event),
    context: Object.fromEntries(run.context),
    completed_nodes: completed,
    completed_nodes_omitted: leftOut,
    next_nodes: pathsOf(next).slice(0, HISTORY_MAX),
    node_retries: retries,
    node_history: history.entries(),
    node_history_omitted: history.leftOut,
    artifacts,
    goal_gate_status: goalsOf(run),
    fidelity_state: {},
  };
}

function outcomeJson(end: VisitEnd): Json {
  switch (end.type) {
    case "step.completed":
      return {
        status: "completed",
        exit: end.exit,
        outputs: outputsJson(end.outputs),
        context_updates: end.context,
        ...stepReportJson(end.reported),
      };
    case "step.skipped":
      return { status: "skipped" };
    case "step.failed":
      return {
        status: "failed",
        reason: end.reason,
        message: end.message,
        exit: end.exit ?? null,
        ...stepReportJson(end.reported),
      };
    default:
      return { status: "failed", reason: "lost", message: end.message, exit: null };
  }
}

/** Whether each goal of the pipeline is reached now. */
function goalsOf(run: Run): JsonObject {
  const goals = Array.from(rootSteps(run)).filter(({ step }) => step.goal !== undefined);
  const word = (done: boolean): string => (done ? "satisfied" : "unsatisfied");
  return Object.fromEntries(goals.map(({ path, visit }) => [path, word(isReached(visit?.state))]));
}

interface Nodes {
  readonly completed: readonly string[];
  readonly leftOut: number;
  /** Attempts beyond the first, by step; a resume does not reset them. */
  readonly retries: Readonly<Record<string, number>>;
  readonly artifacts: Readonly<Record<string, JsonObject>>;
}

function nodesOf(run: Run): Nodes {
  const completed: string[] = [];
  const retries: [string, number][] = [];
  const artifacts: [string, JsonObject][] = [];
  let leftOut = 0;
  for (const { path, visit } of stepTree(run)) {
    if (visit === undefined) continue;
    if (visit.attempts > 1 && retries.length < HISTORY_MAX)
      retries.push([path, visit.attempts - 1]);
    if (visit.state.status !== "completed") continue;
    if (completed.length === HISTORY_MAX) leftOut++;
    else completed.push(stepPath(visitRef(visit)));
    const { outputs } = visit.state;
    if (Object.keys(outputs).length > 0 && artifacts.length < HISTORY_MAX) {
      artifacts.push([path, outputsJson(outputs)]);
    }
  }
  // From entries, so that a step called `__proto__` is only a name.
  const named = { retries: Object.fromEntries(retries), artifacts: Object.fromEntries(artifacts) };
  return { completed, leftOut, ...named };
}

/** How many of the newest entries are kept; older ones are only counted. */
export const HISTORY_MAX = 10_000;

type NodeOutcome = "completed" | "failed" | "skipped";

/** The ended visits in their order, up to the limit: a fold over the events. */
export class NodeHistory {
  private readonly ring: (readonly [string, NodeOutcome])[] = [];
  private next = 0;
  private count = 0;
  private newest: Recorded<VisitEnd> | undefined;

  /** Adds the next event; only ends of visits matter. */
  add(recorded: Recorded): void {
    const end = visitEnd(recorded.event);
    if (end === undefined) return;
    this.newest = { ...recorded, event: end };
    this.ring[this.next] = [stepPath(end), outcomeOf(end)];
    this.next = (this.next + 1) % HISTORY_MAX;
    this.count++;
  }

  /** Oldest first. */
  entries(): readonly (readonly [string, NodeOutcome])[] {
    if (this.count <= HISTORY_MAX) return this.ring.slice();
    return [...this.ring.slice(this.next), ...this.ring.slice(0, this.next)];
  }

  /** How many entries were too old to keep. */
  get leftOut(): number {
    return Math.max(0, this.count - HISTORY_MAX);
  }

  /** The last visit that ended. */
  get last(): Recorded<VisitEnd> | undefined {
    return this.newest;
  }
}

/** The event, if it ends a visit, so that no further attempt follows. */
export function visitEnd(event: RunEvent): VisitEnd | undefined {
  switch (event.type) {
    case "step.completed":
    case "step.skipped":
      return event;
    case "step.failed":
    case "step.lost":
      return event.retry === undefined ? event : undefined;
    default:
      return undefined;
  }
}

function outcomeOf(end: VisitEnd): NodeOutcome {
  if (end.type === "step.completed") return "completed";
  return end.type === "step.skipped" ? "skipped" : "failed";
}

/** The version of the file's shape. */
const RECEIPT_VERSION = 1;

interface ReceiptInput {
  /** The run after the event. */
  readonly run: Run;
  readonly end: Recorded<AttemptEnd>;
  /** When the attempt started; from AttemptClock. */
  readonly startedAt: number;
  /** The program's own version. */
  readonly engineVersion: string;
}

const STATUSES = {
  "step.completed": "succeeded",
  "step.failed": "failed",
  "step.lost": "lost",
  "step.paused": "interrupted",
  "step.interrupted": "interrupted",
  "step.continued": "continued",
  "step.relayed": "relayed",
  "step.submitted": "submitted",
  "step.conflicted": "conflicted",
} as const;

const NOT_MEASURED = { measured: false } as const;

/** The receipt of one attempt; for a completed one it is the handoff, too. */
export function receiptJson(input: ReceiptInput): JsonObject {
  const { end, startedAt } = input;
  const { event, time } = end;
  const failed = event.type === "step.failed" ? event : undefined;
  const found = checksFound("held" in event ? event.held : (event as CheckFindings));
  const check = "check" in event ? event.check : undefined;
  const savedMs = event.snapshot?.tookMs ?? 0;
  return {
    ...headOf(input, event),
    started_at: isoText(startedAt),
    ended_at: isoText(time),
    duration_ms: Math.max(0, time - startedAt - savedMs),
    snapshot_ms: savedMs,
    status: STATUSES[event.type],
    exit: exitOf(event),
    reason: failed?.reason ?? reasonOf(event),
    message: messageOf(event),
    check: check === undefined ? NOT_MEASURED : checkJson(check),
    checks: found.map(checkJson),
    outputs: event.type === "step.completed" ? outputsJson(event.outputs) : {},
    snapshot: snapshotJson(event),
    left_running: (event.left ?? []).map(leftJson),
    exposed_secrets: exposedJson(event),
    denied: [...(event.denied ?? [])],
    ...confirmedJson(event),
    ...reusedJson(event),
    ...fidelityJson(input),
    ...stepReportJson("reported" in event ? event.reported : undefined),
    last_tool: "tool" in event && event.tool !== undefined ? { ...event.tool } : null,
    cost: costJson(event.spent),
    resume: resumeJson(input),
    ...(event.type === "step.completed" ? handoffJson(input, { ...end, event }) : {}),
  };
}

/** What the attempt used of a model. */
function costJson(spent: Spent | undefined): Json {
  if (spent === undefined) return NOT_MEASURED;
  return {
    measured: spent.unmeasured === undefined,
    input_tokens: spent.inputTokens,
    cached_tokens: spent.cachedTokens,
    output_tokens: spent.outputTokens,
    turns: spent.turns,
    cost_usd: spent.costUsd ?? null,
    estimated: spent.estimated === true,
    ...(spent.unpriced === undefined ? {} : { unpriced: spent.unpriced }),
    model: spent.model ?? null,
    session: spent.session ?? null,
  };
}

/** The briefing of an agent; other steps have none. */
function fidelityJson({ run, end }: ReceiptInput): JsonObject {
  const briefing = findVisit(run, end.event)?.briefing;
  return briefing === undefined ? {} : { fidelity: briefingJson(briefing) };
}

/** The attempt of an earlier run whose result it took. */
function reusedJson(event: AttemptEnd): JsonObject {
  if (event.type !== "step.completed" || event.from === undefined) return {};
  const { run, attempt, time, spent } = event.from;
  const cost = spent === undefined ? {} : { cost: costJson(spent) };
  return { reused_from: { run_id: run, attempt, completed_at: isoText(time), ...cost } };
}

/** An effect that a probe or a person confirmed has no exit status. */
function exitOf(event: AttemptEnd): number | null {
  if (event.type === "step.completed" && event.settledBy !== undefined) return null;
  return ("exit" in event ? event.exit : undefined) ?? null;
}

/** Who confirmed an effect without an exit status, and the identity of the effect. */
function confirmedJson(event: AttemptEnd): JsonObject {
  if (event.type !== "step.completed" || event.settledBy === undefined) return {};
  return { settled_by: event.settledBy, identity: event.identity ?? null };
}

/** What a completed attempt passes on to later steps. */
function handoffJson(
  { run }: ReceiptInput,
  { event, time }: Recorded<EventOf<"step.completed">>,
): JsonObject {
  return {
    finalized_at: isoText(time),
    context_keys: Object.keys(event.context),
    answer: event.answer ?? null,
    ...(event.identity && { identity: event.identity }),
    next_steps: nextSteps(run, event),
  };
}

/** The name of the agent, "shell" for a command, else the kind of work. */
export function agentName(step: Step): string {
  return step.work.kind === "agent" ? step.work.agent : step.work.kind;
}

/** File systems allow 255 bytes; this leaves room for the agent, a hash and the ending. */
const NAME_LENGTH_MAX = 100;
const HASH_LENGTH = 8;

/** `build-shell.json`; a path that is not a valid file name is changed, and gets a hash. */
export function receiptFileName(path: string, agent: string): string {
  return `${fileWord(path)}-${fileWord(agent)}.json`;
}

function fileWord(text: string): string {
  const word = text.replace(/[^A-Za-z0-9._-]/g, "_").slice(0, NAME_LENGTH_MAX);
  return word === text && !word.startsWith(".")
    ? word
    : `_${word}.${sha256(text).slice(0, HASH_LENGTH)}`;
}

function headOf({ run, engineVersion }: ReceiptInput, at: AttemptRef): JsonObject {
  const step = stepOfAttempt(run, at);
  return {
    version: RECEIPT_VERSION,
    engine: { name: "perdure", version: engineVersion },
    run_id: run.id,
    forked_from: originJson(run.origin),
    pipeline: run.created?.pipeline ?? "",
    step: at.step,
    agent: step === undefined ? "shell" : agentName(step),
    scope: at.scope,
    visit: at.visit,
    attempt: at.attempt,
  };
}

function stepOfAttempt(run: Run, at: AttemptRef): Step | undefined {
  const visit = findVisit(run, at);
  return visit && stepOf(visit);
}

function snapshotJson({ snapshot }: AttemptEnd): Json {
  if (snapshot === undefined) return NOT_MEASURED;
  const skipped = (snapshot.skipped ?? []).map(({ path, bytes, why }) => ({ path, bytes, why }));
  return { measured: true, commit: snapshot.commit, skipped };
}

function leftJson({ pid, command, survived }: LeftRunning): JsonObject {
  return { pid, command, survived: survived === true };
}

function exposedJson(event: AttemptEnd): Json {
  const exposes = "exposes" in event ? (event.exposes ?? []) : [];
  return exposes.map(({ secret, in: where }) => ({ secret, in: where }));
}

function messageOf(event: AttemptEnd): string | null {
  if (event.type === "step.continued") return event.ask.why;
  return "message" in event ? event.message : null;
}

function reasonOf(event: AttemptEnd): string | null {
  if (event.type === "step.paused") return event.reason;
  return event.type === "step.lost" ? "lost" : null;
}

/** Where resume continues: after this attempt, or with the same step. */
function resumeJson({ run, end }: ReceiptInput): Json {
  const { event } = end;
  const command = commandText("resume", run.id);
  const edges = "edges" in event ? event.edges : [];
  if (event.type === "step.completed" || edges.length > 0) {
    return { from: "next", steps: nextSteps(run, event), command };
  }
  const retry = "retry" in event ? event.retry : undefined;
  return {
    from: "same",
    steps: [stepPath(event)],
    next_attempt_at: retry === undefined ? null : isoText(retry.at),
    command,
  };
}

function nextSteps(run: Run, event: AttemptEnd): readonly string[] {
  const graph: Graph | undefined = run.scopes.get(event.scope)?.graph;
  const edges = "edges" in event ? event.edges : [];
  return edges.flatMap((index) => {
    const to = graph?.edges[index]?.to;
    const step = to === undefined ? undefined : graph?.steps[to];
    return step === undefined ? [] : [stepPath({ scope: event.scope, step: step.id })];
  });
}
