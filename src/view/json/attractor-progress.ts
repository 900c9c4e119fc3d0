/**
 * The events of a run by the names of the attractor language, as the lines of `progress.ndjson`.
 *
 * Owns: these names, and which of our events each one is.
 * Does not: write the file. Programs that know Perdure read its own events instead.
 */
import type { AttemptRef, Recorded, RunEvent } from "../../core/event.ts";
import { ROOT_SCOPE } from "../../core/step-path.ts";
import type { Graph, Plan, Work } from "../../plan/plan.ts";
import { isObject, type Json, type JsonObject } from "../../util/json.ts";
import { isoText } from "../text.ts";

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
