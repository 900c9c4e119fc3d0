/**
 * `checkpoint.json`: the documented picture of a run right after a step. A projection for people
 * and tools; resume reads the journal, never this file.
 *
 * Owns: the fields and their bounds.
 * Does not: write files, or hold anything that the journal does not.
 */
import type { VisitEnd } from "../core/event.ts";
import { stepPath } from "../core/place.ts";
import { placeOf, type Run, waitingFor } from "../core/run.ts";
import { isReached } from "../core/run-end.ts";
import type { Json, JsonObject } from "../util/json.ts";
import { pathsOf } from "./done-text.ts";
import { HISTORY_MAX, type NodeHistory } from "./node-history.ts";
import { originJson, outputsJson } from "./run-json.ts";
import { rootSteps, stepTree } from "./step-tree.ts";
import { isoText } from "./time-text.ts";
import { toldJson } from "./told-text.ts";

/** The version of the file's shape. */
export const CHECKPOINT_VERSION = 1;

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
        ...toldJson(end.told),
      };
    case "step.skipped":
      return { status: "skipped" };
    case "step.failed":
      return {
        status: "failed",
        reason: end.reason,
        message: end.message,
        exit: end.exit ?? null,
        ...toldJson(end.told),
      };
    default:
      return { status: "failed", reason: "lost", message: end.message, exit: null };
  }
}

/** The goals of the pipeline itself: whether each is reached as things stand. */
function goalsOf(run: Run): JsonObject {
  const goals = Array.from(rootSteps(run)).filter(({ step }) => step.goal !== undefined);
  const word = (done: boolean): string => (done ? "satisfied" : "unsatisfied");
  return Object.fromEntries(goals.map(({ path, visit }) => [path, word(isReached(visit?.state))]));
}

interface Nodes {
  readonly completed: readonly string[];
  readonly leftOut: number;
  /** Tries beyond the first, by step; never reset by resume. */
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
    else completed.push(stepPath(placeOf(visit)));
    const { outputs } = visit.state;
    if (Object.keys(outputs).length > 0 && artifacts.length < HISTORY_MAX) {
      artifacts.push([path, outputsJson(outputs)]);
    }
  }
  // From entries, so that a step called `__proto__` is only a name.
  const named = { retries: Object.fromEntries(retries), artifacts: Object.fromEntries(artifacts) };
  return { completed, leftOut, ...named };
}
