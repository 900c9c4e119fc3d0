/** Writes the events of a run by hand and replays them through the real core. */
import {
  type AttemptRef,
  EVENT_VERSION,
  type Recorded,
  type RunEvent,
} from "../../src/core/event.ts";
import { replay } from "../../src/core/evolve.ts";
import type { Run } from "../../src/core/run.ts";
import { parseStepPath } from "../../src/core/step-path.ts";
import {
  type Graph,
  markBackEdges,
  PLAN_FORMAT,
  type Plan,
  type Step,
} from "../../src/plan/plan.ts";
import type { WhyInput } from "../../src/view/why.ts";

export const RUN_ID = "a1b2c3d4-e5f6-4890-abcd-ef1234567890";
export const T0 = Date.UTC(2026, 1, 1, 10, 0, 0);
export const OWNER = { pid: 4711, started: "1", boot: "b", host: "laptop", user: "ada" };

/** A shell step with three tries. */
export function step(id: string, change: Partial<Step> = {}): Step {
  return {
    id,
    join: "all",
    split: "all",
    work: { kind: "shell", run: "true" },
    env: {},
    retry: {
      attempts: 3,
      backoff: { initialMs: 1_000, factor: 2, maxMs: 60_000, jitter: 0 },
      onResume: "fresh",
    },
    outputs: {},
    once: false,
    visitsMax: 10,
    ...change,
  };
}

/** Steps one after the other. */
export function chain(...steps: readonly Step[]): Graph {
  const edges = steps.slice(1).map((_step, index) => ({
    from: index,
    to: index + 1,
    on: "completed" as const,
    weight: 0,
  }));
  return { steps, edges: markBackEdges(steps.length, edges) };
}

/** Steps that wait for nothing. */
export function loose(count: number, change: Partial<Step> = {}): Graph {
  const name = (index: number): string => `step-${String(index + 1).padStart(4, "0")}`;
  return {
    steps: Array.from({ length: count }, (_, index) => step(name(index), change)),
    edges: [],
  };
}

export function planOf(graph: Graph, name = "release"): Plan {
  return { format: PLAN_FORMAT, name, maxParallel: 4, env: {}, agents: {}, graph };
}

/** Times are seconds after T0; `at` moves the clock. */
export class Scribe {
  readonly events: Recorded[] = [];
  readonly plan: Plan;
  private time = T0;

  constructor(plan: Plan, options: { readonly opened?: boolean } = {}) {
    this.plan = plan;
    this.write({
      type: "run.created",
      pipeline: plan.name,
      file: "/home/ann/release.yaml",
      fingerprint: "f",
      input: { goal: "ship" },
      args: [],
      cwd: "/work",
      envNames: [],
    });
    if (options.opened !== false) this.write({ type: "run.opened", owner: OWNER, epoch: 1 });
  }

  at(seconds: number): this {
    this.time = T0 + seconds * 1_000;
    return this;
  }

  write(event: RunEvent): this {
    const seq = this.events.length + 1;
    this.events.push({ seq, time: this.time, version: EVENT_VERSION, event });
    return this;
  }

  start(path: string, attempt = 1): this {
    return this.write({ type: "step.started", ...ref(path, attempt) });
  }

  complete(path: string, attempt = 1, change: Partial<RunEvent> = {}): this {
    const base = { type: "step.completed", ...ref(path, attempt), exit: 0, outputs: {} } as const;
    const edges = this.edgesOf(path, "completed");
    return this.write({ ...base, context: {}, edges, ...change } as RunEvent);
  }

  /** Starts and completes these steps, one second each. */
  done(...paths: readonly string[]): this {
    for (const path of paths) {
      this.start(path);
      this.time += 1_000;
      this.complete(path);
    }
    return this;
  }

  fail(path: string, attempt = 1, change: Partial<RunEvent> = {}): this {
    const base = { type: "step.failed", ...ref(path, attempt), reason: "exit", exit: 2 } as const;
    return this.write({ ...base, message: "it exited with 2", edges: [], ...change } as RunEvent);
  }

  retry(path: string, attempt: number, delayMs: number): this {
    return this.fail(path, attempt, { retry: { at: this.time + delayMs, delayMs } });
  }

  run(): Run {
    return replay(this.plan, RUN_ID, this.events);
  }

  /** What `why` and `show` ask for, at a number of seconds after T0. */
  input(seconds: number, change: Partial<WhyInput> = {}): WhyInput & { events: Recorded[] } {
    return {
      runId: RUN_ID,
      shortId: RUN_ID.slice(0, 8),
      pipeline: this.plan.name,
      run: this.run(),
      liveness: "free",
      now: T0 + seconds * 1_000,
      events: this.events,
      ...change,
    };
  }

  private edgesOf(path: string, on: "completed" | "failed"): readonly number[] {
    const { scope, step: id } = parseStepPath(path);
    const graph = scope === "" ? this.plan.graph : undefined;
    const from = graph?.steps.findIndex((candidate) => candidate.id === id);
    return (graph?.edges ?? []).flatMap((edge, index) =>
      edge.from === from && edge.on === on ? [index] : [],
    );
  }
}

export function ref(path: string, attempt = 1, visit = 1): AttemptRef {
  return { ...parseStepPath(path), visit, attempt };
}
