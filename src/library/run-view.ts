/** A run as a program sees it, at one moment. */
import { type KnownRun, whyInputOf } from "../app/known-run.ts";
import type { Output } from "../core/event.ts";
import { type RunStatus, type StepState, stepStateOf } from "../core/summary.ts";
import type { Json, JsonObject } from "../util/json.ts";
import { runStatusOf } from "../view/step-status.ts";
import { type StepNode, stepTree } from "../view/step-tree.ts";
import { type Why, why } from "../view/why.ts";

export interface RunView {
  readonly id: string;
  readonly pipeline: string;
  readonly status: RunStatus;
  /** The sequence number of the last event that this tells of. */
  readonly seq: number;
  readonly input: Json;
  /** The run's key-value store. */
  readonly context: JsonObject;
  readonly steps: readonly StepView[];
  /** What happened in words, and the commands that go on from here. */
  readonly why: Why;
}

export interface StepView {
  /** `build`, or `each@1.1[3]/test` for a step in another one. */
  readonly id: string;
  readonly state: StepState;
  /** The n-th time that the run has come to it; 0 when it has not. */
  readonly visit: number;
  /** How often this visit was tried. */
  readonly attempts: number;
  readonly exit?: number;
  /** Why it failed, in a word and in a sentence. */
  readonly reason?: string;
  readonly message?: string;
  /** Files that it handed on, by their names. */
  readonly outputs: Readonly<Record<string, Output>>;
  /** What an agent answered. */
  readonly answer?: Json;
}

/** The run as it was loaded. */
export function runView(known: KnownRun): RunView {
  const { run, plan, liveness } = known;
  return {
    id: known.id,
    pipeline: plan.name,
    status: runStatusOf(run, liveness),
    seq: run.seq,
    input: run.created?.input ?? null,
    context: Object.fromEntries(run.context),
    steps: Array.from(stepTree(run), stepView),
    why: why(whyInputOf(known, Date.now())),
  };
}

function stepView({ path, record, visit }: StepNode): StepView {
  const state = visit?.state;
  const completed = state?.status === "completed" ? state : undefined;
  const failed = state?.status === "failed" ? state : undefined;
  const exit = completed?.exit ?? failed?.exit;
  return {
    id: path,
    state: record === undefined ? "pending" : stepStateOf(record),
    visit: visit?.number ?? 0,
    attempts: visit?.attempts ?? 0,
    ...(exit === undefined ? {} : { exit }),
    ...(failed === undefined ? {} : { reason: failed.reason }),
    ...(state !== undefined && "message" in state ? { message: state.message } : {}),
    outputs: completed?.outputs ?? {},
    ...(completed?.answer === undefined ? {} : { answer: completed.answer }),
  };
}
