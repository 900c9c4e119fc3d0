/**
 * Writes `test/journals/v<version>.db`, a journal with every type of event, and beside it
 * `v<version>.json`, what a program must read from it for ever. Run once for each version of the
 * tables or the events, with `node scripts/fixture-journal.ts`; it never replaces a fixture.
 */

import { existsSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { EVENT_VERSION, type RunEvent } from "../src/core/event.ts";
import { takeLease } from "../src/journal/journal.ts";
import { MIGRATIONS, newestVersion } from "../src/journal/sqlite/migrations.ts";
import { openSqliteJournal } from "../src/journal/sqlite/sqlite.ts";
import { canonicalJson, sha256 } from "../src/util/json.ts";

const TIME = Date.UTC(2026, 0, 31, 12);
const RUN_ID = "a1b2c3d4-e5f6-4890-abcd-ef1234567890";
const OWNER = { pid: 4711, started: "8812345", boot: "3f2a", host: "laptop", user: "ada" };
const PLAN = canonicalJson({ name: "speckit-flow", steps: ["plan", "implement"], version: 1 });

const place = { scope: "", step: "implement", visit: 1 };
const attempt = { ...place, attempt: 1 };
const check = { kind: "command", subject: "npm test", exit: 1, outputPath: "check.log" } as const;
const retry = { at: TIME + 60_000, delayMs: 30_000 };

const EVENTS: readonly RunEvent[] = [
  { type: "run.opened", owner: OWNER, epoch: 1 },
  { type: "step.started", ...attempt },
  {
    type: "step.failed",
    ...attempt,
    reason: "check",
    message: "no",
    exit: 0,
    check,
    retry,
    edges: [],
  },
  { type: "step.started", ...attempt, attempt: 2, items: ["a", { b: [1, null] }] },
  { type: "step.lost", ...attempt, attempt: 2, message: "the machine was switched off", retry },
  { type: "step.interrupted", ...attempt, attempt: 3, message: "Ctrl-C" },
  { type: "step.granted", ...place, attempts: 3 },
  {
    type: "step.completed",
    ...attempt,
    attempt: 4,
    exit: 0,
    outputs: { report: { path: "out/report.md", sha256: sha256("report"), bytes: 6 } },
    context: { summary: 'ünï 日本 "quoted"\n', "10": 1, "2": null },
    check: { ...check, exit: 0, outputSha256: sha256("") },
    edges: [0, 1],
  },
  { type: "step.skipped", ...place, step: "release", edges: [2] },
  { type: "run.rewound", step: "plan", reopened: ["plan", "implement"], assumed: ["setup"] },
  { type: "run.stopping", mode: "after-step", reason: { code: "requested", by: "ada" } },
  { type: "run.stopped", reason: { code: "requested", by: "ada" } },
  { type: "run.failed", message: "the last step failed" },
  { type: "run.completed" },
];

const name = `v${newestVersion(MIGRATIONS)}${EVENT_VERSION > 1 ? `-events-${EVENT_VERSION}` : ""}`;
const file = join(import.meta.dirname, "..", "test", "journals", `${name}.db`);
if (existsSync(file)) throw new Error(`${file} exists; a fixture is never replaced`);

const journal = await openSqliteJournal(file, { mode: "create" });
await journal.log.create({
  runId: RUN_ID,
  planText: PLAN,
  created: {
    type: "run.created",
    pipeline: "speckit-flow",
    file: "/project/speckit.yaml",
    fingerprint: sha256(PLAN),
    input: "add a login page",
    args: ["--fast"],
    cwd: "/project",
    envNames: ["HOME"],
  },
  time: TIME,
  summary: {
    status: "queued",
    stepsCompleted: 0,
    stepsTotal: 2,
    steps: ["plan", "implement"].map((stepId) => ({ stepId, state: "pending", retryCount: 0 })),
  },
});
await takeLease(journal.leases, RUN_ID, { owner: OWNER, isAlive: () => false });
for (const [index, event] of EVENTS.entries()) {
  await journal.log.append(RUN_ID, {
    epoch: 1,
    afterSeq: 1 + index,
    time: TIME + 1_000 * index,
    facts: JSON.stringify({ turns: [{ time: TIME + 1_000 * index, facts: [] }] }),
    events: [event],
    summary: {
      status: "running",
      stepsCompleted: 1,
      stepsTotal: 2,
      steps: [
        {
          stepId: "implement",
          state: "retrying",
          retryCount: 1,
          startedAt: TIME,
          completedAt: TIME + 1,
          workspacePath: "/project",
          errorMessage: "no",
        },
      ],
    },
  });
}
await journal.inbox.send(RUN_ID, { type: "stop", mode: "now", by: "ada" });
const { plans: _, ...run } = await journal.log.load(RUN_ID);
const expected = {
  run,
  list: await journal.log.list({}),
  steps: await journal.log.stepsOf(RUN_ID),
  requests: await journal.inbox.after(RUN_ID, 0),
};
await journal.close();
for (const suffix of ["-wal", "-shm", "-newest", "-inbox"]) rmSync(file + suffix, { force: true });
writeFileSync(join(file, "..", `${name}.json`), `${JSON.stringify(expected, null, 2)}\n`);
