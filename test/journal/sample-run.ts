/** Sample runs for journals: deterministic, with texts that are hard to store. */

import type { Owner, Recorded, RunEvent } from "../../src/core/event.ts";
import type { StepSummary, SummaryChange } from "../../src/core/summary.ts";
import type { Journal } from "../../src/journal/journal.ts";
import { takeLease } from "../../src/journal/leases.ts";
import type { NewRun, Write } from "../../src/journal/run-log.ts";
import { canonicalJson, sha256 } from "../../src/util/json.ts";

/** The creation time of the first sample run. */
export const TIME = Date.UTC(2026, 0, 31, 12);
/** The steps of every sample run. */
export const STEPS = ["plan", "implement", "test"];
/** The owner of the sample runs. */
export const OWNER: Owner = { pid: 4711, started: "881", boot: "b1", host: "h", user: "u" };
const AWKWARD = 'ünï 日本 "quoted" \n\t\u0000\ud800 end';

/** The id of the n-th sample run. */
export function runIdOf(n: number): string {
  return `${sha256(`run ${n}`).slice(0, 8)}-e5f6-4890-abcd-${String(n).padStart(12, "0")}`;
}

/** The plan of the n-th sample run; every second one shares its plan with the one before. */
function planTextOf(n: number): string {
  return canonicalJson({ name: `pipeline-${n >> 1}`, steps: STEPS, note: "x".repeat(300) });
}

/** The creation of the n-th sample run. */
export function newRun(n: number): NewRun {
  const planText = planTextOf(n);
  const pending = STEPS.map((stepId): StepSummary => ({ stepId, state: "pending", retryCount: 0 }));
  return {
    runId: runIdOf(n),
    planText,
    created: {
      type: "run.created",
      pipeline: `pipeline-${n >> 1}`,
      file: `/project/pipeline-${n >> 1}.yaml`,
      fingerprint: sha256(planText),
      input: n % 2 === 0 ? "add a login page" : { text: AWKWARD, 2: [1, null, true], 10: -0.5 },
      args: ["--fast"],
      cwd: "/project",
      envNames: ["HOME"],
    },
    time: TIME + n,
    summary: { status: "queued", stepsCompleted: 0, stepsTotal: STEPS.length, steps: pending },
  };
}

/** The n-th batch of events of a run: a step that ends and the next one that starts. */
export function batch(n: number): RunEvent[] {
  const step = STEPS[n % STEPS.length] ?? "";
  const place = { scope: "", step, visit: 1 + Math.floor(n / STEPS.length), attempt: 1 };
  return [
    { type: "step.started", ...place },
    {
      type: "step.completed",
      ...place,
      exit: 0,
      outputs: { report: { path: `out/${n}.md`, sha256: sha256(String(n)), bytes: n } },
      context: { note: n % 5 === 0 ? AWKWARD : "fine", nested: { list: [n, null, "x"] } },
      edges: [0, n],
    },
  ];
}

/** The summary of a sample run's events; it replaces the fold of core. */
export function summarise(_plans: unknown, events: readonly Recorded[]): SummaryChange {
  const done = new Set<string>();
  for (const { event } of events) if (event.type === "step.completed") done.add(event.step);
  const steps = STEPS.map(
    (stepId): StepSummary => ({
      stepId,
      state: done.has(stepId) ? "completed" : "pending",
      retryCount: 0,
    }),
  );
  const status = events.length === 1 ? "queued" : "running";
  return { status, stepsCompleted: done.size, stepsTotal: STEPS.length, steps };
}

/** The turns that produced the n-th batch, as text. */
export function factsOf(n: number): string {
  const fact = { type: "looked-up", place: { scope: "", step: AWKWARD, visit: n } };
  return JSON.stringify({ turns: [{ time: TIME, facts: [fact, { 10: n, 2: AWKWARD }] }] });
}

/** The n-th append of a run that started with `run.created` and `run.opened`. */
export function writeOf(n: number, epoch: number): Write {
  const step = STEPS[n % STEPS.length] ?? "";
  return {
    epoch,
    afterSeq: 2 + 2 * n,
    time: TIME + 1_000 + n,
    facts: factsOf(n),
    events: batch(n),
    summary: {
      status: "running",
      stepsCompleted: Math.min(n + 1, STEPS.length),
      stepsTotal: STEPS.length,
      steps: [{ stepId: step, state: "completed", retryCount: 0, startedAt: TIME }],
    },
  };
}

/** The plan that a sample run is updated to. */
export const NEW_PLAN = canonicalJson({ name: "new", steps: ["other"] });

/** An append that updates a sample run. */
export function updateOf(epoch: number, afterSeq: number): Write & { readonly planText: string } {
  return {
    epoch,
    afterSeq,
    time: TIME + 2_000,
    events: [
      {
        type: "run.updated",
        fingerprint: sha256(NEW_PLAN),
        envNames: [],
        kept: [],
        rerun: [{ step: "other", because: "new", names: [] }],
        gone: STEPS,
      },
    ],
    summary: {
      status: "running",
      stepsCompleted: 0,
      stepsTotal: 1,
      steps: [{ stepId: "other", state: "pending", retryCount: 0 }],
    },
    planText: NEW_PLAN,
  };
}

/** Creates the n-th run, owns it and appends some batches; returns the epoch. */
export async function fill(journal: Journal, n: number, batches: number): Promise<number> {
  await journal.log.create(newRun(n));
  const epoch = await open(journal, runIdOf(n), OWNER);
  for (let index = 0; index < batches; index++) {
    await journal.log.append(runIdOf(n), writeOf(index, epoch));
  }
  return epoch;
}

/** Acquires the lease of a new run and records it. */
export async function open(journal: Journal, runId: string, owner: Owner): Promise<number> {
  const acquired = await takeLease(journal.leases, runId, { owner, isAlive: () => false });
  if (!acquired.ok) throw new Error("nobody is alive, so the lease is free");
  await journal.log.append(runId, {
    epoch: acquired.epoch,
    afterSeq: 1,
    time: TIME + 500,
    events: [{ type: "run.opened", owner, epoch: acquired.epoch }],
    summary: { status: "running", stepsCompleted: 0, stepsTotal: STEPS.length, steps: [] },
  });
  return acquired.epoch;
}
