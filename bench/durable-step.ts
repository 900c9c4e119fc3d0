/**
 * A durable step that does nothing: the turn of the engine, its commit, and all files of the run,
 * one step after the other on the real disk. Floor: one commit of the same bytes (all that such a
 * step leaves behind, rows and files) into one table of a SQLite file with the same settings.
 *
 * Both are measured in blocks, so that rare work (SQLite's own checkpoint, our checkpoint.json) is
 * included. The first line leaves out the files, because the program writes them while the next step
 * already runs.
 */
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { runBytes } from "./disk.ts";
import { compare, inDirectory, type Line, timed, timeLine } from "./measure.ts";
import { type Follower, NoopRun } from "./noop-run.ts";
import { frozenPlan } from "./plans.ts";

const BLOCK = 50;
const ROUNDS = 30;
/** The number of steps of the run that shows how many bytes a step has. */
const SAMPLE_STEPS = 500;

export const NO_FILES: Follower = { record: () => undefined, close: () => undefined };

export async function bench(): Promise<readonly Line[]> {
  return inDirectory(async (directory) => {
    const { plan, planText } = frozenPlan(BLOCK * (ROUNDS + 2), "sequence");
    const complete = await NoopRun.open(join(directory, "complete"), plan, planText);
    const bare = await NoopRun.open(join(directory, "bare"), plan, planText, {
      follower: NO_FILES,
    });
    const bytes = await stepBytes(join(directory, "sample"));
    const commit = plainCommit(join(directory, "plain.db"), "x".repeat(bytes));
    const line = async (what: string, run: NoopRun, limit?: number): Promise<Line> => {
      const floor = (): Promise<number> => perOne(commit);
      const subject = (): Promise<number> => perOne(() => run.step());
      const compared = await compare(ROUNDS, { floor, subject });
      await run.close();
      return timeLine(what, `one commit of ${bytes} bytes`, compared, limit);
    };
    return [
      await line("a durable step that does nothing, until the next one may start", bare, 2),
      await line("the same with all its files", complete),
    ];
  });
}

async function perOne(work: () => unknown): Promise<number> {
  const took = await timed(async () => {
    for (let count = 0; count < BLOCK; count++) await work();
  });
  return took / BLOCK;
}

/** The bytes that a step leaves on the disk, without its share of the plan. */
async function stepBytes(project: string): Promise<number> {
  const { planText } = frozenPlan(SAMPLE_STEPS, "sequence");
  // The plan is in state.db and in a file of its own.
  const plans = 2 * planText.length;
  return Math.round(((await runBytes(project, SAMPLE_STEPS)) - plans) / SAMPLE_STEPS);
}

function plainCommit(file: string, text: string): () => void {
  const database = new DatabaseSync(file);
  database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
  database.exec("CREATE TABLE rows (data TEXT)");
  const begin = database.prepare("BEGIN IMMEDIATE");
  const insert = database.prepare("INSERT INTO rows (data) VALUES (?)");
  const end = database.prepare("COMMIT");
  return () => {
    begin.run();
    insert.run(text);
    end.run();
  };
}
