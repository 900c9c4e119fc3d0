/**
 * Kills the real program at its failpoints, resumes it each time, and holds what is left against an
 * uninterrupted run.
 *
 * Owns: the walk, and everything that must be equal afterwards.
 * Invariants:
 * - Only the runner is killed, so a step that was started continues and must not be repeated: the
 *   effects are exactly those of the uninterrupted run, whatever the failpoint.
 */
import * as fs from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import {
  journalProblems,
  leftoversIn,
  unfinishedRuns,
  usedStateDir,
} from "../../src/app/doctor.ts";
import { readEventsFile } from "../../src/journal/events-file.ts";
import { checkJournal } from "../../src/journal/repair/check.ts";
import { type KillPlace, killAtEach } from "../rig/kill-walk.ts";
import { eventually, Project, type Result } from "../rig/project.ts";
import { attemptKey, type Remains, remainsOf, type StoredRun, storedRuns } from "./canonical.ts";
import type { CrashPipeline } from "./pipelines.ts";

const FILE = "p.yaml";
/** A run that is killed again and again moves on each time, so it ends long before this. */
const RESUMES_MAX = 60;
/** The last failpoint at which the run is not yet in the journal. */
const LAST_BEFORE_RUN = "journal.create.inside";

/** An uninterrupted run. */
export interface Baseline {
  readonly exit: number | null;
  readonly remains: Remains;
  /** The names of the failpoints that it passed. */
  readonly failpoints: readonly string[];
}

/** A program's end, and the failpoints that it passed; the last one killed it if it was killed. */
interface QuickScan {
  readonly result: Result;
  readonly failpoints: readonly string[];
}

/** The names of all failpoints at which a program was killed; the coverage test reads it. */
export const killedAt = new Set<string>();

export async function baselineOf(pipeline: CrashPipeline): Promise<Baseline> {
  return inProject(pipeline, async (project) => {
    const { result, failpoints } = await walk(project, runArgs(pipeline), undefined);
    const { exit } = result;
    const remains = await settledRemains(project, pipeline, "an uninterrupted run");
    return { exit, remains, failpoints };
  });
}

/** Kills the run, and those who continue it, at all of these failpoints. */
export async function killAt(
  pipeline: CrashPipeline,
  baseline: Baseline,
  places: readonly KillPlace[],
): Promise<void> {
  await killAtEach(places, (body) =>
    inProject(pipeline, async (project) => {
      let result: Result | undefined;
      await body({
        drive: async (place, where) => {
          const walked = await goOn(project, pipeline, place, where);
          if (isKilled(walked)) return walked.failpoints.at(-1);
          ({ result } = walked);
          return undefined;
        },
        check: async (where) => {
          const what = `${pipeline.name}: ${where}`;
          await expectSame(project, pipeline, baseline, result as Result, what);
        },
      });
    }),
  );
}

/** Resumes the run if there is one, and starts it otherwise. */
async function goOn(
  project: Project,
  pipeline: CrashPipeline,
  place: string | undefined,
  before: string,
): Promise<QuickScan> {
  if ((await storedRuns(project)).length > 0) {
    return walk(project, await resumeArgs(project, pipeline), place);
  }
  const walked = await walk(project, runArgs(pipeline), place);
  const where = `${pipeline.name}: ${before}, then at ${walked.failpoints.at(-1)}`;
  if (isKilled(walked) && !(await runExists(project, walked, where))) {
    await expectNoRun(project, walked, where);
  }
  return walked;
}

/** Kills the run at one failpoint, and its resumes at others; then resumes it in peace. */
export async function killResumesAt(
  pipeline: CrashPipeline,
  baseline: Baseline,
  nths: readonly number[],
): Promise<void> {
  await inProject(pipeline, async (project) => {
    let where = "";
    for (const nth of [...nths, undefined]) {
      const walked = await goOn(project, pipeline, nth?.toString(), where);
      where = `${where} failpoint ${nth} (${walked.failpoints.at(-1)})`;
      if (isKilled(walked)) continue;
      await expectSame(project, pipeline, baseline, walked.result, `${pipeline.name}:${where}`);
      return;
    }
  });
}

/** Kills the run and each of its resumes at their n-th failpoint, until one gets through. */
export async function killAgainAndAgain(
  pipeline: CrashPipeline,
  baseline: Baseline,
  nth: number,
): Promise<void> {
  await inProject(pipeline, async (project) => {
    let walked = await walk(project, runArgs(pipeline), String(nth));
    let kills = 0;
    for (; isKilled(walked) && kills < RESUMES_MAX; kills++) {
      walked = await walk(project, await resumeArgs(project, pipeline), String(nth));
    }
    expect(kills, "several owners were killed").toBeGreaterThan(1);
    const where = `${pipeline.name}: killed ${kills} times, each resume at its failpoint ${nth}`;
    await expectSame(project, pipeline, baseline, walked.result, where);
  });
}

/** Damages the second copy of a run and kills resumes at each failpoint until one has repaired it. */
export async function killRepairOfSecondCopy(
  pipeline: CrashPipeline,
  baseline: Baseline,
  nth: number,
): Promise<void> {
  await inProject(pipeline, async (project) => {
    await walk(project, runArgs(pipeline), String(nth));
    await damageSecondCopy(project);
    const resumed = async (kth?: number): Promise<QuickScan> =>
      walk(project, await resumeArgs(project, pipeline), kth?.toString());
    for (let kth = 1, isWhole = false; !isWhole; kth++) {
      const walked = await resumed(kth);
      expect(isKilled(walked), `resume ${kth} is killed`).toBe(true);
      isWhole = walked.failpoints.includes("events-file.replace.after");
    }
    const { result } = await resumed();
    const where = `${pipeline.name}: resumes killed that repair the second copy`;
    await expectSame(project, pipeline, baseline, result, where);
  });
}

async function damageSecondCopy(project: Project): Promise<void> {
  const [run] = await storedRuns(project);
  const path = project.path(".perdure", "runs", run?.runId ?? "", "events.jsonl");
  const text = fs.readFileSync(path, "utf8");
  fs.writeFileSync(path, text.replace("run.created", "run.creatde"));
}

async function inProject<T>(
  pipeline: CrashPipeline,
  body: (project: Project) => Promise<T>,
): Promise<T> {
  const project = new Project();
  project.write(FILE, `name: ${pipeline.name}\n${pipeline.text}`);
  try {
    return await body(project);
  } finally {
    await project.remove();
  }
}

function runArgs({ args = [], always = [] }: CrashPipeline): readonly string[] {
  return ["run", FILE, ...args, ...always];
}

/** By its id: a run that had just completed is no unfinished one, but its files may be. */
async function resumeArgs(
  project: Project,
  { always = [] }: CrashPipeline,
): Promise<readonly string[]> {
  return ["resume", (await storedRuns(project))[0]?.runId ?? "none", ...always];
}

/** Runs the program until it ends, or until this failpoint ends it. */
async function walk(
  project: Project,
  args: readonly string[],
  place: string | undefined,
): Promise<QuickScan> {
  const folder = fs.mkdtempSync(`${project.dir}-log-`);
  const log = join(folder, "failpoints");
  const env: Record<string, string> = { PERDURE_FAILPOINT_LOG: log };
  if (place !== undefined) env.PERDURE_FAILPOINT = place;
  const result = await project.run(args, { env });
  const text = fs.existsSync(log) ? fs.readFileSync(log, "utf8") : "";
  fs.rmSync(folder, { recursive: true });
  const walked = { result, failpoints: text.split("\n").slice(0, -1) };
  if (isKilled(walked)) killedAt.add(walked.failpoints.at(-1) ?? "");
  return walked;
}

function isKilled({ result }: QuickScan): boolean {
  return result.signal === "SIGKILL";
}

/** A run is in the journal or it is not; which of the two, the failpoint tells. */
async function runExists(
  project: Project,
  { failpoints }: QuickScan,
  where: string,
): Promise<boolean> {
  const runs = await storedRuns(project);
  const created = failpoints.includes(LAST_BEFORE_RUN) && failpoints.at(-1) !== LAST_BEFORE_RUN;
  expect(runs.length, `${where}: runs in the journal`).toBe(created ? 1 : 0);
  return created;
}

/** Half a creation is no creation: nothing is listed, and nothing calls for a repair. */
async function expectNoRun(
  project: Project,
  { failpoints }: QuickScan,
  where: string,
): Promise<void> {
  expect(await project.runIds(), `${where}: runs that are listed`).toEqual([]);
  const dir = usedStateDir(project.dir);
  if (dir !== undefined) {
    expect(journalProblems(dir), `${where}: doctor`).toEqual([]);
    expect(await leftoversIn(dir.root), `${where}: doctor`).toEqual([]);
    expect(await unfinishedRuns(dir), `${where}: doctor`).toEqual([]);
  }
  // The program looks at the machine, too, so it is started for one of these kills.
  if (failpoints.at(-1) !== LAST_BEFORE_RUN) return;
  const { exit, stderr } = await project.run(["doctor"]);
  expect({ exit, stderr }, `${where}: doctor`).toEqual({ exit: 0, stderr: "" });
}

async function expectSame(
  project: Project,
  pipeline: CrashPipeline,
  baseline: Baseline,
  { exit, stdout, stderr }: Result,
  where: string,
): Promise<void> {
  expect({ exit, said: exit === baseline.exit ? "" : stdout + stderr }, where).toEqual({
    exit: baseline.exit,
    said: "",
  });
  expect(await settledRemains(project, pipeline, where), where).toEqual(baseline.remains);
}

/** The remains once no process of the run is left, with everything that must hold of any run. */
async function settledRemains(
  project: Project,
  pipeline: CrashPipeline,
  where: string,
): Promise<Remains> {
  await eventually(`${where}: no process of the run is left`, () => {
    return project.stepProcesses().length === 0;
  });
  // What `perdure doctor` looks at; a program start less for each of hundreds of kills.
  expect(checkJournal(project.path(".perdure", "state.db")), `${where}: doctor`).toEqual([]);
  const runs = await storedRuns(project);
  expect(runs.length, `${where}: one run`).toBe(1);
  const run = runs[0] as StoredRun;
  const path = project.path(".perdure", "runs", run.runId, "events.jsonl");
  const copy = readEventsFile(path);
  expect(copy, `${where}: events.jsonl holds the journal's events`).toEqual({
    runId: run.runId,
    events: run.events,
    problems: [],
  });
  expectReceipts(project, run, where);
  return remainsOf(project, run, pipeline);
}

const RECEIPT_STATUS: Readonly<Record<string, string>> = {
  "step.completed": "succeeded",
  "step.failed": "failed",
  "step.lost": "lost",
};

/** Every attempt that ended has a receipt of its own that says how, lost ones included. */
function expectReceipts(project: Project, run: StoredRun, where: string): void {
  const expected: Record<string, string> = {};
  const found: Record<string, string> = {};
  for (const { event } of run.events) {
    const status = RECEIPT_STATUS[event.type];
    if (status === undefined || !("attempt" in event)) continue;
    const key = attemptKey(event);
    expected[key] = status;
    const receipt = project.receipt(run.runId, key.replaceAll("~", "/"));
    found[key] = String(receipt?.status ?? "no receipt");
  }
  expect(found, `${where}: receipts of the attempts`).toEqual(expected);
}
