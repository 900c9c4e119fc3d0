/**
 * Writes the stored journals of this version, which later versions must read and resume. It never
 * replaces one. Run it once for each version of the tables or the events:
 * `npm run build && node scripts/fixture-journal.ts`.
 *
 * - `test/journals/v<version>.db`: events of many types, written through the port, and
 *   `v<version>.json`, which contains the values that a program must read from it.
 * - `test/journals/resume/v<version>.db`: runs of the real program that can be resumed: one waits for a
 *   person (`waiting`), one failed (`failed`), and one was interrupted in a step (`interrupted`).
 */

import { execFileSync, spawn } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { EVENT_VERSION, type RunEvent } from "../src/core/event.ts";
import { takeLease } from "../src/journal/leases.ts";
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

const JOURNALS = join(import.meta.dirname, "..", "test", "journals");
const NAME = `v${newestVersion(MIGRATIONS)}${EVENT_VERSION > 1 ? `-events-${EVENT_VERSION}` : ""}`;

async function writeSample(file: string): Promise<void> {
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
  for (const suffix of ["-wal", "-shm", "-newest", "-inbox"])
    rmSync(file + suffix, { force: true });
  writeFileSync(file.replace(/db$/, "json"), `${JSON.stringify(expected, null, 2)}\n`);
}

/** Each step adds a line to `effects`; `deploy` fails until the file `ready` exists. */
const PIPELINE = `name: release
workspace: { snapshots: false }
steps:
  - id: build
    run: |
      mkdir -p out && echo app > out/app.txt
      echo "version=1.2" >> "$PERDURE_CONTEXT"
      echo build >> effects
    outputs: { app: out/app.txt }
  - id: test
    for_each: [unit, lint]
    run: echo "test \${{ item }}" >> effects
  - id: review
    when: input.review
    gate: Release \${{ context.version }}?
  - id: deploy
    run: echo deploy >> effects; if [ "\${{ input.hold }}" = true ] && [ ! -e ready ]; then sleep 600; fi; test -e ready
    retry: { attempts: 2, backoff: { initial: 1ms } }
`;

/** Makes the runs with the real program in a temporary directory. */
async function writeRuns(file: string): Promise<void> {
  const project = mkdtempSync(join(tmpdir(), "perdure-release-"));
  const program = join(import.meta.dirname, "..", "bin", "perdure.js");
  const env = { PATH: process.env.PATH ?? "", HOME: project };
  const start = (input: string) =>
    spawn(process.execPath, [program, "run", "release.yaml", "-i", input], { cwd: project, env });
  const ended = async (input: string): Promise<void> => {
    const child = start(input);
    await new Promise((done) => child.on("close", done));
  };
  try {
    writeFileSync(join(project, "release.yaml"), PIPELINE);
    await ended('{"name": "waiting", "review": true, "hold": false}');
    await ended('{"name": "failed", "review": false, "hold": false}');
    const child = start('{"name": "interrupted", "review": false, "hold": true}');
    const closed = new Promise((done) => child.on("close", done));
    const effects = (): readonly string[] =>
      readFileSync(join(project, "effects"), "utf8").split("\n");
    while (effects().filter((line) => line === "deploy").length < 3) await sleep(20);
    child.kill("SIGINT");
    await closed;
    execFileSync(process.execPath, [program, "list", "runs"], { cwd: project, env });
    mkdirSync(dirname(file), { recursive: true });
    copyFileSync(join(project, ".perdure", "state.db"), file);
  } finally {
    rmSync(project, { recursive: true, force: true });
  }
}

for (const [path, write] of [
  [join(JOURNALS, `${NAME}.db`), writeSample],
  [join(JOURNALS, "resume", `${NAME}.db`), writeRuns],
] as const) {
  if (existsSync(path)) throw new Error(`${path} exists; a stored journal is never replaced`);
  await write(path);
}
