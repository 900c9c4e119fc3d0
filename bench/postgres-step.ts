/**
 * A durable step of a fleet run that does nothing: the turn of the engine and its append to a journal in
 * PostgreSQL. Floor: one commit of the same bytes (the events and facts of such a step) into one table
 * of the same server with the same settings, over one connection.
 *
 * The server is a real one on the disk of the checkout, with `fsync` on.
 */
import { chmodSync } from "node:fs";
import { join } from "node:path";
import { Client, Pool } from "pg";
import { openPostgresJournal } from "../src/journal/postgres/postgres.ts";
import { type PostgresServer, startPostgres } from "../test/rig/postgres.ts";
import { NO_FILES } from "./durable-step.ts";
import { compare, inDirectory, type Line, median, ms, timed, timeLine } from "./measure.ts";
import { NoopRun } from "./noop-run.ts";
import { frozenPlan } from "./plans.ts";

const BLOCK = 50;
const ROUNDS = 20;
/** How many runs at once the second line has, in one process, and how many steps each does. */
const RUNS = 1_000;
const STEPS = 5;
/** The number of connections that the journal uses. */
const CONNECTIONS = 8;

export async function bench(): Promise<readonly Line[]> {
  return inDirectory(async (directory) => {
    // The server runs as another user when this process runs as root.
    chmodSync(directory, 0o755);
    process.env.TMPDIR = directory;
    const server = await startPostgres({
      settings: ["fsync=on", "full_page_writes=on", "shared_buffers=128MB", "autovacuum=on"],
    });
    try {
      return [await oneStep(server, directory), await manyRuns(server, directory)];
    } finally {
      await server.close();
    }
  });
}

async function oneStep(server: PostgresServer, directory: string): Promise<Line> {
  const url = await server.newDatabase();
  const journal = await openPostgresJournal(url, { mode: "create" });
  const { plan, planText } = frozenPlan(BLOCK * (ROUNDS + 3), "sequence");
  const run = await NoopRun.open(join(directory, "one"), plan, planText, {
    ...{ follower: NO_FILES, journal },
  });
  const block = async (work: () => unknown): Promise<number> => {
    const took = await timed(async () => {
      for (let count = 0; count < BLOCK; count++) await work();
    });
    return took / BLOCK;
  };
  await block(() => run.step());
  const text =
    "SELECT sum(length(data) + coalesce(length(facts), 0))::int AS all FROM perdure.events";
  const { rows } = await journal.executeSql(text);
  const bytes = Math.round(Number(rows[0]?.all) / BLOCK);
  const client = new Client({ connectionString: url });
  await client.connect();
  await client.query("CREATE TABLE plain (data text)");
  const insert = {
    name: "plain",
    text: "INSERT INTO plain VALUES ($1)",
    values: ["x".repeat(bytes)],
  };
  const compared = await compare(ROUNDS, {
    floor: () => block(() => client.query(insert)),
    subject: () => block(() => run.step()),
  });
  await client.end();
  await run.close();
  await journal.close();
  const what = "a durable step of a fleet run that does nothing, in PostgreSQL";
  return timeLine(what, `one commit of ${bytes} bytes`, compared, 2.5);
}

/**
 * Many runs at once: their appends share the flushes of the server's disk. Floor: as many commits of the
 * same bytes, over as many connections as the journal has.
 */
async function manyRuns(server: PostgresServer, directory: string): Promise<Line> {
  const url = await server.newDatabase();
  const journal = await openPostgresJournal(url, { mode: "create" });
  const { plan, planText } = frozenPlan(STEPS + 2, "sequence");
  const options = { follower: NO_FILES, journal };
  const runs = await Promise.all(
    Array.from({ length: RUNS }, (_, n) =>
      NoopRun.open(join(directory, `many-${n}`), plan, planText, options),
    ),
  );
  const samples: number[] = [];
  const subjectMs = await timed(() =>
    Promise.all(
      runs.map(async (run) => {
        for (let step = 0; step < STEPS; step++) samples.push(await timed(() => run.step()));
      }),
    ),
  );
  for (const run of runs) await run.close();
  await journal.close();
  const floorMs = await plainCommits(url);
  const sorted = samples.toSorted((a, b) => a - b);
  const p99 = sorted[Math.floor(sorted.length * 0.99)] ?? Number.NaN;
  return {
    what: `${samples.length} steps of ${RUNS} runs at once, in PostgreSQL`,
    floor: `as many commits: ${ms(floorMs)}`,
    measured: `${ms(subjectMs)} (a step: p50 ${ms(median(samples))}, p99 ${ms(p99)})`,
    ratio: subjectMs / floorMs,
  };
}

async function plainCommits(url: string): Promise<number> {
  const pool = new Pool({ connectionString: url, max: CONNECTIONS });
  await pool.query("CREATE TABLE plain (data text)");
  const insert = {
    name: "plain",
    text: "INSERT INTO plain VALUES ($1)",
    values: ["x".repeat(350)],
  };
  const all = Array.from({ length: RUNS * STEPS });
  const took = await timed(() => Promise.all(all.map(() => pool.query(insert))));
  await pool.end();
  return took;
}
