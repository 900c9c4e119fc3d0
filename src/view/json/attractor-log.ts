/**
 * A run in the words of the DOT language, as folds over its events: its run directory as texts (the
 * manifest, a checkpoint, and the status of each node), and its events as the lines of `progress.ndjson`.
 *
 * Owns: the shapes of these files and their bounds, the names of the events, and which of our events
 * each one is.
 * Does not: write the files. Resume reads only the run's id from them; programs that know Perdure read
 * its own events instead.
 */
import type {
  AttemptRef,
  EventOf,
  Recorded,
  RunEvent,
  StepReport,
  VisitEnd,
} from "../../core/event.ts";
import { type Run, waitingFor } from "../../core/run.ts";
import { ROOT_SCOPE } from "../../core/step-path.ts";
import type { AttractorCheckpoint, Graph, Plan, Step, Work } from "../../plan/plan.ts";
import { isObject, type Json, type JsonObject } from "../../util/json.ts";
import { rootSteps } from "../step-tree.ts";
import { isoText } from "../text.ts";
import { visitEnd } from "./run-files.ts";

/** How many lines of its log and how many completed nodes a checkpoint holds: the newest. */
const LINES_MAX = 1_000;
const NODES_MAX = 10_000;
/** A value of the context that is larger than this gets a file of its own. */
const ARTIFACT_BYTES_MIN = 100 * 1024;

/** Steps that mark the end of a branch are not nodes of the file. */
const BRANCH_END = /^to\./;

/** The content of the directory of a run, event by event. */
export class AttractorLog {
  readonly #plan: Plan;
  /** The step that stands for the work of another engine; it is not a node of the file. */
  readonly #before: Step | undefined;
  #created: Recorded<EventOf<"run.created">> | undefined;
  #completed: string[] = [];
  #lines: string[] = [];
  #outcomes = new Map<string, string>();
  #visits = new Map<string, number>();
  /** How often each node was retried in its last visit; a lost attempt is not a retry. */
  #retries = new Map<string, number>();
  #current: string | undefined;
  /** The outcomes of goal gates in branches, by node; undefined before a visit. */
  readonly #branchGates: Map<string, string | undefined>;
  #restarts = 0;

  constructor(plan: Plan) {
    this.#plan = plan;
    this.#branchGates = new Map(branchGatesOf(plan.graph).map((id) => [id, undefined]));
    this.#before = plan.graph.steps.find(({ work }) => continuedFrom(work) !== undefined);
    const { completed = [], node } = (this.#before && continuedFrom(this.#before.work)) ?? {};
    this.#completed = [...completed];
    this.#current = node;
  }

  /** Adds an event; returns the end of a visit, if it is one. */
  add(recorded: Recorded): VisitEnd | undefined {
    const { event } = recorded;
    if (event.type === "run.created") this.#created = { ...recorded, event };
    if (event.type === "run.restarted" && event.scope === ROOT_SCOPE) this.#restart(event.number);
    if (event.type === "run.returned" && event.scope === ROOT_SCOPE) this.#leaveExit();
    if (event.type === "step.failed" && event.scope === ROOT_SCOPE) this.#countRetry(event);
    const end = visitEnd(event);
    if (end === undefined || BRANCH_END.test(end.step)) return undefined;
    if (end.scope === ROOT_SCOPE && end.step === this.#before?.id) return undefined;
    const outcome = outcomeOf(end);
    if (end.scope === ROOT_SCOPE) {
      this.#current = end.step;
      // The language records no outcome for a skipped stage.
      if (outcome !== "skipped") this.#outcomes.set(end.step, outcome);
      if (end.type === "step.completed") this.#retries.delete(end.step);
      this.#visits.set(end.step, end.visit);
      // A node that was visited too often did not run once more.
      if (end.type !== "step.failed" || end.reason !== "visits") this.#completed.push(end.step);
      if (this.#completed.length > NODES_MAX) this.#completed.shift();
    }
    if (this.#branchGates.has(end.step)) this.#branchGates.set(end.step, outcome);
    const notes =
      "reported" in end && end.reported?.notes !== undefined ? `: ${end.reported.notes}` : "";
    this.#lines.push(`${isoText(recorded.time)} ${end.scope}${end.step} ${outcome}${notes}`);
    if (this.#lines.length > LINES_MAX) this.#lines.shift();
    return end;
  }

  /** A run that returns for a goal was not through its exit. */
  #leaveExit(): void {
    const { steps, edges } = this.#plan.graph;
    const position = steps.findIndex(({ id }) => id === this.#completed.at(-1));
    if (edges.every(({ from }) => from !== position)) this.#completed.pop();
    this.#current = this.#completed.at(-1);
  }

  #countRetry({ step, visit, retry }: EventOf<"step.failed">): void {
    if (retry === undefined) return;
    const again = (this.#visits.get(step) ?? 0) < visit ? 0 : (this.#retries.get(step) ?? 0);
    this.#visits.set(step, visit);
    this.#retries.set(step, again + 1);
  }

  /** How often the run has restarted. */
  get restarts(): number {
    return this.#restarts;
  }

  /** After a restart, nothing counts as completed. */
  #restart(number: number): void {
    this.#restarts = number;
    this.#completed = [];
    this.#outcomes = new Map();
    for (const id of this.#branchGates.keys()) this.#branchGates.set(id, undefined);
    this.#current = undefined;
  }

  /** The content of manifest.json. */
  manifest(run: Run, project: string): JsonObject {
    return {
      name: this.#plan.name,
      goal: this.#plan.context?.["graph.goal"] ?? "",
      start_time: isoText(this.#created?.time ?? 0),
      run_id: run.id,
      file: run.created?.file ?? "",
      project,
    };
  }

  /** The content of final.json; undefined while the run has not ended. */
  final({ id, state, updatedAt }: Run): JsonObject | undefined {
    if (state.status !== "completed" && state.status !== "failed") return undefined;
    return {
      timestamp: isoText(updatedAt),
      run_id: id,
      status: state.status === "completed" ? "success" : "fail",
      last_node: this.#current ?? null,
      ...("message" in state ? { failure_reason: state.message ?? "" } : {}),
    };
  }

  /** The content of checkpoint.json, and the context values that are too large for it. */
  checkpoint(run: Run, project: string): Checkpoint {
    const artifacts = new Map<string, string>();
    const context = [...run.context].map(([key, value]): readonly [string, Json] => {
      const text = JSON.stringify(value);
      if (text.length < ARTIFACT_BYTES_MIN) return [key, value];
      const name = `${key.replaceAll(/[^\w.-]/g, "_")}.json`;
      artifacts.set(name, text);
      return [key, { artifact: `artifacts/${name}`, bytes: text.length }];
    });
    const json = {
      timestamp: isoText(run.updatedAt),
      current_node: this.#current ?? null,
      completed_nodes: [...this.#completed],
      node_retries: Object.fromEntries(this.#retries),
      node_outcomes: Object.fromEntries(this.#outcomes),
      context: Object.fromEntries(context),
      logs: [...this.#lines],
      perdure: {
        run_id: run.id,
        project,
        sequence: run.seq,
        status: run.state.status,
        next_nodes: nextNodes(run),
        outcomes: Object.fromEntries(this.#outcomes),
        visits: Object.fromEntries(this.#visits),
        goal_gates: this.#gates(run),
        restarts: this.#restarts,
      },
    };
    return { json, artifacts };
  }

  #gates(run: Run): JsonObject {
    const gates = Array.from(rootSteps(run)).filter(({ step }) => step.goal !== undefined);
    const word = (outcome: string | undefined): string => {
      if (outcome === undefined) return "not visited";
      return /^(partial_)?success$/.test(outcome) ? "satisfied" : "unsatisfied";
    };
    const own = gates.map(({ path }) => [path, word(this.#outcomes.get(path))] as const);
    const inner = [...this.#branchGates].map(([id, outcome]) => [id, word(outcome)] as const);
    return Object.fromEntries([...own, ...inner]);
  }
}

interface Checkpoint {
  readonly json: JsonObject & { readonly context: JsonObject };
  /** By the names of their files. */
  readonly artifacts: ReadonlyMap<string, string>;
}

/** The content of a node's status.json; an agent without notes gets those of the language. */
export function statusJson(end: VisitEnd, work: Work | undefined): JsonObject {
  const reported: StepReport = "reported" in end ? (end.reported ?? {}) : {};
  const attempt = "attempt" in end ? { attempt: end.attempt } : {};
  return {
    outcome: outcomeOf(end),
    preferred_label: reported.label ?? "",
    suggested_next_ids: reported.next ?? [],
    context_updates: "context" in end ? (end.context ?? {}) : {},
    notes: reported.notes ?? (isStage(end, work) ? `Stage completed: ${end.step}` : ""),
    ...("message" in end ? { failure_reason: reasonOf(end) } : {}),
    visit: end.visit,
    ...attempt,
  };
}

/** True for an agent that completed, simulated or not. */
function isStage({ type }: VisitEnd, work: Work | undefined): boolean {
  const asked = work?.kind === "agent" || (work?.kind === "pass" && work.simulates !== undefined);
  return type === "step.completed" && asked;
}

function reasonOf(end: Extract<VisitEnd, { readonly message: string }>): string {
  const spent = end.type === "step.failed" && end.reason === "retry";
  return spent ? `max retries exceeded: ${end.message}` : end.message;
}

/** The attempt whose prompt and answer the directory shows. */
export function attemptOfEnd(end: VisitEnd): AttemptRef | undefined {
  return "attempt" in end ? end : undefined;
}

function outcomeOf(end: VisitEnd): string {
  // A stage whose outcome no edge matches ends the run, but it did not fail.
  const ended = end.type === "step.failed" && end.reason === "no-edge";
  if (end.type === "step.completed" || ended) return end.reported?.outcome ?? "success";
  return end.type === "step.skipped" ? "skipped" : "fail";
}

/** The goal gates inside branches of a graph. */
function branchGatesOf({ steps }: Graph): readonly string[] {
  return steps.flatMap(({ work }) =>
    work.kind === "branches"
      ? work.branches.flatMap(({ graph }) => [
          ...graph.steps.flatMap(({ id, goal }) => (goal === undefined ? [] : [id])),
          ...branchGatesOf(graph),
        ])
      : [],
  );
}

function continuedFrom(work: Work): AttractorCheckpoint | undefined {
  return work.kind === "pass" ? work.continuesFrom : undefined;
}

function nextNodes(run: Run): readonly string[] {
  const waiting = waitingFor(run, "probe", "owner", "retry", "start", "slot");
  const open = [...run.running, ...waiting];
  const ids = open.map(({ record }) => record.scope.graph.steps[record.position]?.id ?? "");
  return [...new Set(ids)];
}

/** Writes events in the words of the language. */
export class AttractorProgress {
  readonly #works: ReadonlyMap<string, Work>;

  constructor({ graph }: Plan) {
    this.#works = new Map(worksIn(graph));
  }

  /** The lines of one event. */
  of({ event, time }: Recorded, runId: string): readonly JsonObject[] {
    const head = { timestamp: isoText(time), run_id: runId };
    return this.#named(event).map(([name, more]) => ({ ...head, event: name, ...more }));
  }

  #named(event: RunEvent): readonly Named[] {
    switch (event.type) {
      case "run.created":
        return [["PipelineStarted", { name: event.pipeline }]];
      case "run.completed":
        return [["PipelineCompleted", {}]];
      case "run.failed":
        return [["PipelineFailed", { error: "message" in event ? (event.message ?? "") : "" }]];
      case "step.started":
        return [["StageStarted", nodeOf(event)], ...this.#branches(event, "ParallelStarted")];
      case "step.completed":
        return [
          ...this.#results(event, event.context),
          ["StageCompleted", { ...nodeOf(event), outcome: event.reported?.outcome ?? "success" }],
          ...saved(event),
        ];
      case "step.failed": {
        const { retry, message } = event;
        const failed = { ...nodeOf(event), error: message, will_retry: retry !== undefined };
        const again: readonly Named[] =
          retry === undefined
            ? saved(event)
            : [["StageRetrying", { ...nodeOf(event), delay_ms: retry.delayMs }]];
        return [...this.#results(event, event.context), ["StageFailed", failed], ...again];
      }
      case "step.asked":
        return [["InterviewStarted", { ...nodeOf(event), question: event.question }]];
      case "step.answered": {
        const name = event.from === "timeout" ? "InterviewTimeout" : "InterviewCompleted";
        return [[name, { ...nodeOf(event), answer: event.label ?? event.choice ?? "" }]];
      }
      default:
        return [];
    }
  }

  /** The start of the branches of a step, which all begin with it. */
  #branches(event: AttemptRef, name: string): readonly Named[] {
    const work = this.#works.get(nodePath(event));
    if (work?.kind !== "branches") return [];
    const node = nodeOf(event);
    const branches = work.branches.map(({ id }): Named => {
      return ["ParallelBranchStarted", { ...node, branch: id }];
    });
    return [[name, { ...node, branches: work.branches.length }], ...branches];
  }

  /** How each branch of a step ended, and all of them. */
  #results(event: AttemptRef, context: JsonObject | undefined): readonly Named[] {
    if (this.#works.get(nodePath(event))?.kind !== "branches") return [];
    const results = context?.["parallel.results"];
    const list: readonly Json[] = Array.isArray(results) ? results : [];
    const ended = list.filter(isJsonObject).map(({ id = "", outcome = "" }): Named => {
      return ["ParallelBranchCompleted", { ...nodeOf(event), branch: id, outcome }];
    });
    return [...ended, ["ParallelCompleted", { ...nodeOf(event), branches: list.length }]];
  }
}

type Named = readonly [name: string, more: JsonObject];

function nodeOf({ scope, step, visit, attempt }: AttemptRef): JsonObject {
  return { node_id: step, visit, attempt, ...(scope === ROOT_SCOPE ? {} : { scope }) };
}

/** A checkpoint is saved when a node of the graph itself has ended. */
function saved(event: AttemptRef): readonly Named[] {
  return event.scope === ROOT_SCOPE ? [["CheckpointSaved", { node_id: event.step }]] : [];
}

function isJsonObject(value: Json): value is JsonObject {
  return isObject(value);
}

/** The position of a node in its file and the files around it, without visits: `manager/node`. */
function nodePath({ scope, step }: AttemptRef): string {
  return `${scope.replaceAll(/@\d+\.\d+\[\d+\]/g, "")}${step}`;
}

function* worksIn({ steps }: Graph, around = ""): Generator<readonly [string, Work]> {
  for (const { id, work } of steps) {
    const path = `${around}${id}`;
    yield [path, work];
    if (work.kind === "branches") {
      for (const { graph } of work.branches) yield* worksIn(graph, `${path}/`);
    }
    if (work.kind === "pipeline") yield* worksIn(work.graph, `${path}/`);
  }
}
