/**
 * `checkpoint.json`: the documented state of a run right after a step, with the order in which its
 * steps ended. A projection for people and tools; resume reads the journal, never this file.
 *
 * Owns: the fields and their limits.
 * Does not: write files, or hold anything that the journal does not.
 */
import type { Recorded, RunEvent, VisitEnd } from "../../core/event.ts";
import { type Run, visitRef, waitingFor } from "../../core/run.ts";
import { isReached } from "../../core/run-end.ts";
import { stepPath } from "../../core/step-path.ts";
import type { Json, JsonObject } from "../../util/json.ts";
import { stepReportJson } from "../attempt-history.ts";
import { pathsOf, rootSteps, stepTree } from "../step-tree.ts";
import { isoText } from "../text.ts";
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
