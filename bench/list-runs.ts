/**
 * `perdure list runs` in a project with 10,000 runs of 20 steps, from the start of the process to
 * its end. Floor: an empty `node -e 0`.
 */
import { createStateDir, stateDirOf } from "../src/engine/state-dir.ts";
import { openSqliteJournal } from "../src/journal/sqlite/sqlite.ts";
import {
  compare,
  emptyNodeMs,
  inDirectory,
  type Line,
  PROGRAM,
  run,
  timed,
  timeLine,
} from "./measure.ts";
import { createRun } from "./noop-run.ts";
import { frozenPlan } from "./plans.ts";

const RUNS = 10_000;
const STEPS = 20;
const ROUNDS = 20;
const MINUTE_MS = 60_000;

export async function bench(): Promise<readonly Line[]> {
  return inDirectory(async (directory) => {
    await createRuns(directory);
    const compared = await compare(ROUNDS, {
      floor: emptyNodeMs,
      subject: () => timed(() => run([PROGRAM, "list", "runs"], directory)),
    });
    return [timeLine("`list runs` over 10,000 runs of 20 steps", "`node -e 0`", compared, 3)];
  });
}

/** Through the journal, as the program does; only the disk is not waited for. */
export async function createRuns(project: string, count = RUNS): Promise<void> {
  const { plan, planText } = frozenPlan(STEPS, "sequence");
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
