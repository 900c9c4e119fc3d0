/**
 * From the submission of a run to its first step on an idle worker, with a real PostgreSQL on the
 * disk of the checkout: the step's own process writes down the time. Floor: an empty `node -e 0`, start
 * to end.
 *
 * The first line submits from a process that is already connected, as a server is; the second
 * one starts `perdure submit`.
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, readFileSync, rmSync, watch, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Dispatch } from "../src/app/fleet/dispatch.ts";
import { submitRun } from "../src/app/fleet/submit.ts";
import { requirePlan } from "../src/app/pipeline/pipeline-file.ts";
import { createdStateDir } from "../src/app/project/project.ts";
import { openPostgresJournal } from "../src/journal/postgres/postgres.ts";
import { startPostgres } from "../test/rig/postgres.ts";
import { compare, emptyNodeMs, inDirectory, type Line, PROGRAM, timeLine } from "./measure.ts";

const ROUNDS = 10;
/** That is 200 ms where an empty Node takes 40. */
const LIMIT = 5;
const FLOOR = "`node -e 0`";

export async function bench(): Promise<readonly Line[]> {
  return inDirectory(async (directory) => {
    // The server runs as another user when this process runs as root.
    chmodSync(directory, 0o755);
    process.env.TMPDIR = directory;
    const server = await startPostgres({ settings: ["fsync=on", "full_page_writes=on"] });
    const store = await server.newDatabase();
    const env = { ...process.env, PERDURE_STORE: store, XDG_STATE_HOME: join(directory, "state") };
    const stamp = join(directory, "stamp");
    const file = join(directory, "bench.yaml");
    const run = `date +%s%N > ${stamp}.new; mv ${stamp}.new ${stamp}`;
    writeFileSync(
      file,
      `name: bench\nworkspace: directory\nsteps:\n  - id: first\n    run: ${run}\n`,
    );
    const worker = await startWorker(env, directory);
    const journal = await openPostgresJournal(store);
    const dispatch = await Dispatch.open(journal, "client");
    try {
      const { plan } = await requirePlan(file);
      const submission = {
        plan,
        origin: { file, input: {}, args: [], cwd: directory },
        queue: { requires: [], priority: 0 },
      };
      const site = { journal, dispatch };
      const dir = createdStateDir(directory);
      const warm = await compare(ROUNDS, {
        floor: emptyNodeMs,
        subject: () => untilStep(stamp, () => submitRun(site, dir, submission)),
      });
      const cold = await compare(ROUNDS, {
        floor: emptyNodeMs,
        subject: () =>
          untilStep(stamp, async () => {
            const args = [PROGRAM, "submit", file];
            const { status, stderr } = spawnSync(process.execPath, args, { cwd: directory, env });
            if (status !== 0) throw new Error(`perdure submit: ${String(stderr)}`);
          }),
      });
      return [
        timeLine("a submitted run to its first step on a worker", FLOOR, warm, LIMIT),
        timeLine("start of `perdure submit` to the first step on a worker", FLOOR, cold),
      ];
    } finally {
      worker.kill("SIGTERM");
      await once(worker, "exit");
      await dispatch.close();
      await journal.close();
      await server.close();
    }
  });
}

/** Starts a worker; resolves when it takes runs. */
async function startWorker(env: NodeJS.ProcessEnv, directory: string): Promise<ChildProcess> {
  const args = [PROGRAM, "worker", "--directory", join(directory, "worker")];
  const worker = spawn(process.execPath, args, { env, stdio: ["ignore", "pipe", "inherit"] });
  let output = "";
  await new Promise<void>((resolve, reject) => {
    worker.once("exit", () => reject(new Error(`the worker has ended: ${output}`)));
    worker.stdout.on("data", (chunk: Buffer) => {
      output += chunk.toString();
      if (output.includes("takes runs")) resolve();
    });
  });
  return worker;
}

/** The time from a submission to the start of its step. */
async function untilStep(stamp: string, submit: () => Promise<unknown>): Promise<number> {
  rmSync(stamp, { force: true });
  const { promise: written, resolve } = Promise.withResolvers<void>();
  const watcher = watch(join(stamp, ".."), () => {
    if (existsSync(stamp)) resolve();
  });
  const start = performance.timeOrigin + performance.now();
  await submit();
  if (!existsSync(stamp)) await written;
  watcher.close();
  return Number(readFileSync(stamp, "utf8")) / 1e6 - start;
}
