/**
 * A run as the program drives it (engine, journal, files), whose steps do nothing: each attempt reports
 * success at once. What remains is the cost of Perdure itself.
 */

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { RunFiles } from "../src/app/drive/run-files.ts";
import type { Turn } from "../src/core/advance.ts";
import type { AttemptRef, Recorded } from "../src/core/event.ts";
import { replay } from "../src/core/evolve.ts";
import type { Fact } from "../src/core/fact.ts";
import type { Run } from "../src/core/run.ts";
import { initialSummary } from "../src/core/summary.ts";
import { type Executors, NO_FILES, NO_RESULTS } from "../src/engine/executors/executor.ts";
import { Loop, Mailbox } from "../src/engine/loop.ts";
import { createStateDir, type RunDir, runDirOf, stateDirOf } from "../src/engine/state-dir.ts";
import type { Journal } from "../src/journal/journal.ts";
import { takeLease } from "../src/journal/leases.ts";
import { openSqliteJournal } from "../src/journal/sqlite/sqlite.ts";
import type { Plan } from "../src/plan/plan.ts";
import { systemClock } from "../src/util/clock.ts";
import { sha256 } from "../src/util/json.ts";
import { frozenPlan } from "./plans.ts";

const OWNER = { pid: 4711, started: "8812345", boot: "b7c1", host: "bench", user: "bench" };

export interface OpenRun {
  readonly runId: string;
  readonly dir: RunDir;
  readonly journal: Journal;
  readonly engine: Loop;
  readonly close: () => Promise<void>;
}

/** Gets each batch of events, as the files of a run do. */
export interface Follower {
  record(events: readonly Recorded[], run: Run): void;
  close(run: Run): void;
}

/** The parts of a run that a benchmark may replace. */
export interface RunOptions {
  readonly follower?: Follower;
  /** The journal to use; without it, one in a file of the project. */
  readonly journal?: Journal;
  readonly executors?: (site: { run: () => Run; dir: RunDir }) => Executors;
}

/** Opens a new run, wired as the program does it. */
export async function openRun(
  project: string,
  plan: Plan,
  planText: string,
  options: RunOptions = {},
): Promise<OpenRun> {
  mkdirSync(project, { recursive: true });
  const state = stateDirOf(project);
  createStateDir(state);
  const journal = options.journal ?? (await openSqliteJournal(state.database, { mode: "create" }));
  const runId = crypto.randomUUID();
  const dir = runDirOf(state, runId);
  await createRun(journal, { runId, plan, planText, project, time: Date.now() });
  const acquired = await takeLease(journal.leases, runId, { owner: OWNER, isAlive: () => false });
  if (!acquired.ok) throw new Error("the lease is free");
  const { events } = await journal.log.load(runId);
  const run = replay(plan, runId, events);
  const recorded = { dir, run, events, planText, planTexts: new Map<string, string>() };
  const files = options.follower ?? RunFiles.open(recorded);
  const engine: Loop = new Loop({
    log: journal.log,
    runId,
    plan,
    run,
    owner: OWNER,
    epoch: acquired.epoch,
    clock: systemClock(),
    env: {},
    keepsFiles: false,
    queue: new Mailbox(),
    executors: options.executors?.({ run: () => engine.run, dir }) ?? IDLE,
    stay: () => false,
    watch: (recorded, after) => files.record(recorded, after),
  });
  const close = async (): Promise<void> => {
    files.close(engine.run);
    if (options.journal === undefined) await journal.close();
  };
  return { runId, dir, journal, engine, close };
}

export class NoopRun {
  readonly runId: string;
  readonly #engine: Loop;
  readonly #close: () => Promise<void>;
  #turn: Turn;

  private constructor({ runId, engine, close }: OpenRun, turn: Turn) {
    this.runId = runId;
    this.#engine = engine;
    this.#close = close;
    this.#turn = turn;
    engine.show();
  }

  static async open(
    project: string,
    plan: Plan,
    planText: string,
    options: RunOptions = {},
  ): Promise<NoopRun> {
    const opened = await openRun(project, plan, planText, options);
    return new NoopRun(opened, await opened.engine.open([]));
  }

  get over(): boolean {
    return this.#engine.run.state.status !== "running";
  }

  /** Takes one turn: all running attempts succeed, and the next ones start. */
  async step(): Promise<void> {
    this.#turn = await this.#engine.turn(launchedIn(this.#turn).map(succeeded));
    this.#engine.show();
  }

  async finish(): Promise<void> {
    while (!this.over) await this.step();
  }

  close(): Promise<void> {
    return this.#close();
  }
}

/** Executors that do nothing: the benchmark reports in their place. */
export const IDLE: Executors = {
  processes: { begin: () => undefined, close: () => Promise.resolve() },
  files: NO_FILES,
  gates: { begin: () => undefined, look: async () => undefined, close: () => Promise.resolve() },
  probes: { begin: () => undefined, close: () => Promise.resolve() },
  results: NO_RESULTS,
};

/** The attempts that a turn starts. */
export function launchedIn({ operations }: Turn): readonly AttemptRef[] {
  return operations.flatMap((operation) => (operation.type === "launch" ? [operation.at] : []));
}

/** The fact that a process has done its work. */
export function succeeded(at: AttemptRef): Fact {
  const ending = { how: "exited", exit: 0, outputs: {}, context: {} } as const;
  return { type: "attempt-ended", at, ending };
}

/** Creates a run that nobody has opened yet. */
export async function createRun(
  journal: Journal,
  run: { runId: string; plan: Plan; planText: string; project: string; time: number },
): Promise<void> {
  await journal.log.create({
    runId: run.runId,
    planText: run.planText,
    created: {
      type: "run.created",
      pipeline: run.plan.name,
      file: join(run.project, "bench.yaml"),
      fingerprint: sha256(run.planText),
      input: "add a login page",
      args: ["run", "bench.yaml"],
      cwd: run.project,
      envNames: [],
    },
    time: run.time,
    summary: initialSummary(run.plan),
  });
}

/** How many steps each of the runs has that `createRuns` makes. */
export const LISTED_STEPS = 20;
const MINUTE_MS = 60_000;

/** Creates a project with runs, a minute apart, through the journal, as the program does. */
export async function createRuns(project: string, count: number): Promise<void> {
  const { plan, planText } = frozenPlan(LISTED_STEPS, "sequence");
  const state = stateDirOf(project);
  createStateDir(state);
  const journal = await openSqliteJournal(state.database, { mode: "create" });
  const start = Date.now() - count * MINUTE_MS;
  for (let index = 0; index < count; index++) {
    const runId = crypto.randomUUID();
    const time = start + index * MINUTE_MS;
    await createRun(journal, { runId, plan, planText, project, time });
  }
  await journal.close();
}
