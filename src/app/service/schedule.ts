/**
 * Schedules: the pipelines in `pipelines/` that say when a run of them starts (`on: {schedule: ...}`).
 *
 * The run of a time has an id that follows from the file and the time, and the journal creates a run only
 * once. So the journal itself says which times were handled: a kill at any point neither loses a time
 * nor runs it twice.
 *
 * Owns: finding schedules, the time that is due, and the start of its run.
 * Does not: drive the run.
 * Invariants:
 * - schedule/S2 A time has at most one run. Of several times that were missed, only the last runs.
 */
import { readFileSync, statSync } from "node:fs";
import { basename, extname } from "node:path";
import {
  type Cron,
  lastTime,
  MISSED_GRACE_MS,
  nextTime,
  parseCron,
  scheduledRunId,
} from "../../util/cron.ts";
import { failpoint } from "../../util/failpoint.ts";
import type { ScheduleStanding } from "../../view/service-text.ts";
import { readPipeline } from "../pipeline/pipeline-file.ts";
import { pipelineFiles } from "../pipeline/pipeline-name.ts";
import { livenessOf, type Project } from "../project/project.ts";
import { asRefusal } from "../refusal.ts";
import { startRun } from "../request/steer.ts";
import { scheduleNote } from "./service-note.ts";

/** How often the start of one run is tried, and how long the service waits in between. */
const START_ATTEMPTS_MAX = 3;
const START_PAUSE_MS = 5 * 60_000;
/** A file with a schedule has this key at the beginning of a line; other files are not parsed. */
const MARK = /^on[ \t]*:/m;
const YAML: ReadonlySet<string> = new Set([".yaml", ".yml"]);

/** A pipeline with a schedule. */
interface Schedule {
  readonly file: string;
  readonly name: string;
  /** The directory of its project. */
  readonly directory: string;
  readonly text: string;
  readonly cron: Cron;
}

/** The schedules of projects; a file is read again when it has changed. */
export class Schedules {
  readonly #read = new Map<string, { readonly stamp: string; readonly found?: Schedule }>();

  /** The schedules of the project in a directory. */
  async of(directory: string): Promise<readonly Schedule[]> {
    const found: Schedule[] = [];
    for (const file of pipelineFiles(directory)) {
      if (!YAML.has(extname(file))) continue;
      const { mtimeMs, size } = statSync(file);
      const stamp = `${mtimeMs} ${size} ${directory}`;
      let known = this.#read.get(file);
      if (known?.stamp !== stamp) {
        const schedule = await scheduleIn(file, directory);
        known = schedule === undefined ? { stamp } : { stamp, found: schedule };
        this.#read.set(file, known);
      }
      if (known.found !== undefined) found.push(known.found);
    }
    return found;
  }
}

/** The schedule in a file; a file with a mistake has none, because nobody can run it. */
async function scheduleIn(file: string, directory: string): Promise<Schedule | undefined> {
  if (!MARK.test(readFileSync(file, "utf8"))) return undefined;
  const { plan } = await readPipeline(file, {}, directory);
  const text = plan?.schedule ?? "";
  const cron = parseCron(text);
  if (cron === undefined) return undefined;
  return { file, name: plan?.name ?? basename(file), directory, text, cron };
}

/** The state of a schedule: its next time, and why the last start failed. */
export function scheduleStanding(schedule: Schedule, now: number): ScheduleStanding {
  const { file, name, text, directory, cron } = schedule;
  const problem = scheduleNote(file, text).read()?.failed?.message;
  return { file, name, text, directory, next: nextTime(cron, now), problem };
}

/** The start of a run for a time that was due, or why it failed. */
interface StartedTime {
  readonly time: number;
  readonly runId?: string;
  readonly problem?: string;
}

/** Starts the run of the last time of a schedule, unless it exists; undefined when none is due. */
export async function startDue(
  schedule: Schedule,
  project: Project,
  now: number,
): Promise<StartedTime | undefined> {
  const { file, text, directory } = schedule;
  const noteFile = scheduleNote(file, text);
  const known = noteFile.read();
  const note = known ?? { since: now };
  if (known === undefined) noteFile.write(note);
  const time = lastTime(schedule.cron, Math.max(note.since, now - MISSED_GRACE_MS), now);
  if (time === undefined) return undefined;
  const { attempts, at } = note.failed?.time === time ? note.failed : { attempts: 0, at: 0 };
  if (attempts >= START_ATTEMPTS_MAX || now < at + START_PAUSE_MS) return undefined;
  const runId = scheduledRunId(file, time);
  const { log } = project.journal;
  if ((await log.resolve(runId)).length > 0) return undefined;
  // Two runs of a schedule never run side by side; the time is made up for when the other has ended.
  const runs = await log.list({ file, status: ["queued", "running", "waiting"] });
  if (runs.some(({ lease }) => livenessOf(lease) === "owned")) return undefined;
  failpoint("service.schedule-due");
  try {
    await startRun(directory, { pipeline: file, runId });
    failpoint("service.schedule-started");
    if (note.failed !== undefined) noteFile.write({ since: note.since });
    return { time, runId };
  } catch (error) {
    const refusal = asRefusal(error);
    if (refusal === undefined) throw error;
    const failed = { time, attempts: attempts + 1, at: now, message: refusal.message };
    noteFile.write({ since: note.since, failed });
    return { time, problem: refusal.message };
  }
}
