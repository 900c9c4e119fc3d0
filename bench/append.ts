/**
 * What the journal's promises cost: an append of two events and two step rows, held against a
 * plain durable commit of the same bytes into one table. Also the size per step and the time to
 * list 10,000 runs. The first rounds run code that is not compiled yet, as a short run does; the
 * next ones do not. Run with `node bench/append.ts`.
 */
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { RunEvent } from "../src/core/event.ts";
import type { StepSummary } from "../src/core/summary.ts";
import type { Journal } from "../src/journal/journal.ts";
import { openSqliteJournal } from "../src/journal/sqlite.ts";
import { sha256 } from "../src/util/hash.ts";

const ROUNDS = 500;
const RUNS = 10_000;
const STEPS = 20;
const RATIO_MAX = 1.3;
const TIME = Date.UTC(2026, 0, 1);
const OWNER = { pid: 4711, started: "8812345", boot: "b7c1", host: "bench", user: "bench" };
const PLAN = JSON.stringify({ steps: Array.from({ length: STEPS }, (_, n) => `step-${n}`) });

function newRun(journal: Journal, runId: string, steps: readonly StepSummary[], time: number) {
  journal.create({
    runId,
    planText: PLAN,
    created: {
      type: "run.created",
      pipeline: "bench",
      file: "/home/someone/project/bench.yaml",
      fingerprint: sha256(PLAN),
      input: "add a login page",
      args: [],
      cwd: "/home/someone/project",
      envNames: ["HOME"],
    },
    time,
    summary: { status: "queued", stepsCompleted: 0, stepsTotal: STEPS, steps },
  });
}

const runIdOf = (n: number): string => `${String(n).padStart(8, "0")}-e5f6-7890-abcd-ef1234567890`;
const place = (n: number) => ({ scope: "", step: `step-${n % STEPS}`, visit: 1, attempt: 1 });
const pending = Array.from(
  { length: STEPS },
  (_, n): StepSummary => ({ stepId: `step-${n}`, state: "pending", retryCount: 0 }),
);

function batch(n: number): { events: RunEvent[]; steps: StepSummary[] } {
  const output = { path: `artifacts/step-${n}.md`, sha256: sha256(String(n)), bytes: 4096 };
  return {
    events: [
      {
        type: "step.completed",
        ...place(n),
        exit: 0,
        outputs: { report: output },
        context: { summary: "The login page was added, and its tests pass." },
        arrows: [n],
      },
      { type: "step.started", ...place(n + 1) },
    ],
    steps: [
      {
        stepId: `step-${n % STEPS}`,
        state: "completed",
        retryCount: 0,
        startedAt: TIME,
        completedAt: TIME + 1,
        workspacePath: "/home/someone/project",
      },
      {
        stepId: `step-${(n + 1) % STEPS}`,
        state: "running",
        retryCount: 0,
        startedAt: TIME + 1,
        workspacePath: "/home/someone/project",
      },
    ],
  };
}

function median(samples: readonly number[]): number {
  return samples.toSorted((a, b) => a - b)[samples.length >> 1] ?? Number.NaN;
}

function timed(operation: () => void): number {
  const start = performance.now();
  operation();
  return performance.now() - start;
}

/** Both commits by turns, so that the disk treats them alike. */
function compareCommits(directory: string): { appends: number[]; commits: number[] } {
  const journal = openSqliteJournal(join(directory, "journal.db"), { mode: "create" });
  newRun(journal, runIdOf(0), pending, TIME);
  const acquired = journal.acquire(runIdOf(0), OWNER, () => false);
  if (!acquired.ok) throw new Error("the lease is free");
  const plain = new DatabaseSync(join(directory, "plain.db"));
  plain.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
  plain.exec("CREATE TABLE rows (data TEXT)");
  const insert = plain.prepare("INSERT INTO rows (data) VALUES (?)");
  const appends: number[] = [];
  const commits: number[] = [];
  for (let n = 0; n < 2 * ROUNDS; n++) {
    const { events, steps } = batch(n);
    const summary = { status: "running", stepsCompleted: n, stepsTotal: STEPS, steps } as const;
    const text = JSON.stringify({ events, summary });
    const write = { epoch: acquired.epoch, afterSeq: 1 + 2 * n, time: TIME + n, events, summary };
    const append = (): void => {
      appends.push(timed(() => journal.append(runIdOf(0), write)));
    };
    const commit = (): void => {
      commits.push(
        timed(() => {
          plain.exec("BEGIN IMMEDIATE");
          insert.run(text);
          plain.exec("COMMIT");
        }),
      );
    };
    for (const turn of n % 2 === 0 ? [append, commit] : [commit, append]) turn();
  }
  journal.close();
  plain.close();
  return { appends, commits };
}

/** A project with many runs. Durability is left out here: it would only take longer. */
function listRuns(file: string): void {
  const journal = openSqliteJournal(file, { mode: "create" });
  for (let n = 0; n < RUNS; n++) newRun(journal, runIdOf(n), pending, TIME + n);
  const bytesBefore = sizeOf(file, journal);
  const steps = 200;
  const acquired = journal.acquire(runIdOf(1), OWNER, () => false);
  for (let n = 0; n < steps && acquired.ok; n++) {
    const { events, steps: rows } = batch(n);
    const summary = { status: "running", stepsCompleted: n, stepsTotal: STEPS } as const;
    const write = { epoch: acquired.epoch, afterSeq: 1 + 2 * n, time: TIME + n, events };
    journal.append(runIdOf(1), { ...write, summary: { ...summary, steps: rows } });
  }
  journal.close();
  const bytes = statSync(file).size;
  console.log(`size of ${RUNS} new runs of ${STEPS} steps   ${(bytesBefore / 1e6).toFixed(1)} MB`);
  console.log(`bytes per step row and its share    ${Math.round(bytesBefore / RUNS / STEPS)}`);
  console.log(`bytes per completed step (2 events) ${Math.round((bytes - bytesBefore) / steps)}`);
  for (const limit of [50, undefined]) {
    const start = performance.now();
    const opened = openSqliteJournal(file, { mode: "read-only" });
    const middle = performance.now();
    const { length } = opened.list(limit === undefined ? {} : { limit });
    const end = performance.now();
    opened.close();
    const parts = `open ${(middle - start).toFixed(1)} ms, list ${(end - middle).toFixed(1)} ms`;
    console.log(`list ${length} of ${RUNS} runs: ${parts}`);
  }
}

function sizeOf(file: string, journal: Journal): number {
  journal.close();
  const { size } = statSync(file);
  Object.assign(journal, openSqliteJournal(file, { mode: "read-write" }));
  return size;
}

const directory = mkdtempSync(join(tmpdir(), "perdure-bench-"));
try {
  const { appends, commits } = compareCommits(directory);
  const ratios = [0, ROUNDS].map((from) => {
    const appendMs = median(appends.slice(from, from + ROUNDS));
    const plainMs = median(commits.slice(from, from + ROUNDS));
    const times = `append ${appendMs.toFixed(3)} ms, plain commit ${plainMs.toFixed(3)} ms`;
    const ratio = appendMs / plainMs;
    const limit = from === 0 ? ` (at most ${RATIO_MAX})` : "";
    console.log(
      `${from === 0 ? "first" : "next"} ${ROUNDS}: ${times}, ratio ${ratio.toFixed(2)}${limit}`,
    );
    return ratio;
  });
  if (!process.argv.includes("--commits-only")) listRuns(join(directory, "many.db"));
  if ((ratios[0] ?? 0) > RATIO_MAX) process.exitCode = 1;
} finally {
  rmSync(directory, { recursive: true });
}
