/**
 * The service: it continues the runs of a user when no terminal is open.
 *
 * It looks at all known projects, again and again. It continues runs whose owner has died, whose gate was
 * answered or whose time has come, starts schedules, delivers notices that are due, and cleans stale runs,
 * as `perdure clean` does. Everything that it starts is a process of its own, and everything that it knows
 * of runs comes from their journals, so the service can die at any time.
 *
 * Owns: one pass over all projects, and what is remembered between two passes; which runs are stale, and
 *   that people are told a day before the first clean.
 * Does not: drive runs, which `perdure resume` does, or the workers of a fleet for runs in PostgreSQL;
 *   remove files or judge whether a branch is merged (clean.ts keeps what would lose work).
 * Invariants:
 * - service/S3 The service removes nothing that exists nowhere else, and no run that is not completed.
 */
import { pendingAmong } from "../../journal/inbox.ts";
import type { RunSummary } from "../../journal/run-log.ts";
import { readConfiguration } from "../../pipeline/configuration.ts";
import { ownIdentity, processLiveness } from "../../runner/process/identity.ts";
import { defined } from "../../util/defined.ts";
import { parseAge } from "../../util/duration.ts";
import type { ServiceProblem, ServiceReport } from "../../view/service-text.ts";
import { cleanRuns } from "../clean.ts";
import { type LoadedRun, loadRun } from "../loaded-run.ts";
import { continueNotices } from "../notify.ts";
import { configurationTexts } from "../pipeline/configuration-file.ts";
import { OpenProjects, type ReadableProject } from "../project/open-projects.ts";
import { livenessOf, openLocalProject, type Project } from "../project/project.ts";
import { asRefusal, command, Refusal } from "../refusal.ts";
import { resumeRun } from "../request/steer.ts";
import { type Continuation, continuationOf } from "./continuation.ts";
import { Schedules, startDue } from "./schedule.ts";
import { CLEAN_NOTE, type EarlierBoot, SERVICE_NOTE } from "./service-note.ts";

/** How often the service looks for stale runs. */
const CLEAN_EVERY_MS = 3_600_000;
/** After a run could not be continued: how long until the next attempt. */
const RESUME_PAUSE_MS = 5 * 60_000;
/** A run that has not changed for this long has no notice left to deliver. */
const NOTICES_MS_MAX = 2 * 24 * 3_600_000;
/** In how many runs of a project the service looks for notices: the ones that changed last. */
const NOTICED_RUNS_MAX = 500;
/** How many runs are remembered between two passes; the oldest are forgotten. */
const REMEMBERED_MAX = 10_000;

/** A run that needed nothing when the service looked. */
interface Looked {
  /** Changes whenever the run has new events, another owner or a new request. */
  readonly mark: string;
  /** The time until which the run needs nothing, unless the mark changes. */
  readonly until: number;
  /** Why the run needs a person until then. */
  readonly problem?: ServiceProblem;
}

const UNFINISHED = ["queued", "running", "waiting", "interrupted"] as const;

/** The service of one user. */
export class ServiceLoop {
  readonly #projects: OpenProjects;
  readonly #report: (report: ServiceReport) => void;
  readonly #schedules = new Schedules();
  readonly #looked = new Map<string, Looked>();
  readonly #earlier: EarlierBoot | undefined;
  readonly #noticed = new Map<string, Looked>();
  #cleanedAt = 0;
  #problems: ServiceProblem[] = [];

  /** Throws when another service of this user runs. */
  constructor(from: string, report: (report: ServiceReport) => void) {
    const before = SERVICE_NOTE.read();
    const own = ownIdentity();
    if (before !== undefined && processLiveness(before.identity) !== "dead") {
      const message = `the service runs already, as process ${before.identity.pid}`;
      throw new Refusal("service-running", message, command("service", "status"));
    }
    this.#projects = new OpenProjects(from, "local");
    this.#report = report;
    const isSame = before === undefined || before.identity.boot === own.boot;
    this.#earlier = isSame
      ? before?.earlier
      : { boot: before.identity.boot, seenAt: before.seenAt };
  }

  /** Looks at every project once. */
  async pass(now: number): Promise<void> {
    // First of all, so that another service sees this process.
    this.#note(now);
    const reported = new Set(this.#problems.map(({ message }) => message));
    this.#problems = [];
    const cleans = now - this.#cleanedAt >= CLEAN_EVERY_MS;
    for (const one of await this.#projects.all()) {
      const { directory } = one;
      if ("problem" in one) this.#problems.push({ directory, message: one.problem });
      else await this.#guarded({ directory }, () => this.#serve(one, now, cleans));
    }
    if (cleans) this.#cleanedAt = now;
    for (const problem of this.#problems) {
      if (!reported.has(problem.message)) this.#report({ kind: "problem", problem });
    }
    this.#note(now);
  }

  async close(): Promise<void> {
    await this.#projects.close();
  }

  #note(now: number): void {
    const note = { identity: ownIdentity(), seenAt: now, problems: this.#problems };
    SERVICE_NOTE.write({ ...note, ...defined({ earlier: this.#earlier }) });
  }

  /** Reports the problem of one project or run, so that it does not stop the service. */
  async #guarded(about: Omit<ServiceProblem, "message">, body: () => Promise<void>): Promise<void> {
    try {
      await body();
    } catch (error) {
      const known = asRefusal(error)?.message;
      const message = known ?? (error instanceof Error ? (error.stack ?? "") : String(error));
      this.#problems.push({ ...about, message });
    }
  }

  async #serve(one: ReadableProject, now: number, cleans: boolean): Promise<void> {
    const { project, directory } = one;
    for (const summary of await project.journal.log.list({ status: UNFINISHED })) {
      const about = { directory, runId: summary.runId };
      await this.#guarded(about, () => this.#look(one, summary, now));
    }
    for (const schedule of await this.#schedules.of(directory)) {
      const { file } = schedule;
      await this.#guarded({ directory }, async () => {
        const due = await startDue(schedule, project, now);
        if (due?.runId !== undefined) {
          this.#report({ kind: "started", file, runId: due.runId, time: due.time });
        }
        if (due?.problem !== undefined) {
          const message = `${file} could not be started: ${due.problem}`;
          this.#report({ kind: "problem", problem: { directory, message } });
        }
      });
    }
    await this.#deliver(one, now);
    if (!cleans) return;
    const runs = await cleanStale(project, directory, now);
    if (runs > 0) this.#report({ kind: "cleaned", directory, runs });
  }

  /** Looks at a run; loads it only if it has changed since the last look. */
  async #look(
    { project, directory }: ReadableProject,
    run: RunSummary,
    now: number,
  ): Promise<void> {
    const { runId, cleanedAt, lease } = run;
    const liveness = livenessOf(lease);
    if (cleanedAt !== undefined || liveness === "owned") return;
    const requests = await project.journal.inbox.after(runId, 0);
    const mark = [run.lastSeq, lease?.epoch, liveness, requests.length].join(" ");
    const looked = this.#looked.get(runId);
    if (looked?.mark === mark && now < looked.until) {
      if (looked.problem !== undefined) this.#problems.push(looked.problem);
      return;
    }
    const known = await loadRun(project, runId);
    const hasPending = pendingAmong(requests, known.run).some(({ type }) => type !== "message");
    const next = continuationOf(known, { now, hasPending, earlier: this.#earlier });
    const found = await this.#act({ project, directory, known }, next, now);
    if (found.problem !== undefined) this.#problems.push(found.problem);
    remember(this.#looked, runId, { mark, ...found });
  }

  /** Does what was decided about a run. */
  async #act(
    { project, directory, known }: { project: Project; directory: string; known: LoadedRun },
    next: Continuation,
    now: number,
  ): Promise<Omit<Looked, "mark">> {
    const { id, shortId, plan } = known;
    const about = `run ${shortId} (${plan.name})`;
    const problem = (message: string): ServiceProblem => ({ directory, runId: id, message });
    if (next.kind === "leave") return { until: next.until ?? Number.POSITIVE_INFINITY };
    if (next.kind === "hold") {
      const message = `${about} died several times without getting further`;
      return { until: Number.POSITIVE_INFINITY, problem: problem(message) };
    }
    try {
      await resumeRun(project, known);
      this.#report({ kind: "resumed", about, directory, because: next.because });
      return { until: 0 };
    } catch (error) {
      const refusal = asRefusal(error);
      if (refusal === undefined) throw error;
      // Another process has got the run.
      if (refusal.code === "run-owned") return { until: 0 };
      const message = `${about} could not be continued: ${refusal.message}`;
      return { until: now + RESUME_PAUSE_MS, problem: problem(message) };
    }
  }

  /** Continues the delivery of notices whose notifier has died, or whose next attempt has come. */
  async #deliver({ project, directory }: ReadableProject, now: number): Promise<void> {
    const changedAfter = now - NOTICES_MS_MAX;
    const search = { owned: [], changedAfter, limit: NOTICED_RUNS_MAX };
    for (const { runId, lastSeq, cleanedAt } of (await project.journal.log.search(search)).runs) {
      const looked = this.#noticed.get(runId);
      const mark = String(lastSeq);
      if (cleanedAt !== undefined || (looked?.mark === mark && now < looked.until)) continue;
      await this.#guarded({ directory, runId }, async () => {
        const next = continueNotices(await loadRun(project, runId));
        remember(this.#noticed, runId, { mark, until: next ?? Number.POSITIVE_INFINITY });
      });
    }
  }
}

function remember(among: Map<string, Looked>, runId: string, looked: Looked): void {
  among.delete(runId);
  among.set(runId, looked);
  const [oldest] = among.keys();
  if (among.size > REMEMBERED_MAX && oldest !== undefined) among.delete(oldest);
}

const STALE_AFTER = "7d";
/** How long people can object before the first clean. */
const NOTICE_MS = 24 * 3_600_000;
/** How many runs of a project one pass cleans; the next one continues. */
const CLEANED_MAX = 100;

/** Cleans the stale runs of a project; returns how many it cleaned. */
async function cleanStale(project: Project, directory: string, now: number): Promise<number> {
  const age = staleAfter(directory);
  if (age === undefined) return 0;
  const stale = await staleRuns(project, now - age);
  if (stale.length === 0) return 0;
  const note = CLEAN_NOTE.read();
  if (note === undefined) CLEAN_NOTE.write({ from: now + NOTICE_MS, runs: stale.length });
  if (note === undefined || now < note.from) return 0;
  let cleaned = 0;
  const writable = await openLocalProject(directory, "read-write");
  try {
    await cleanRuns(writable, stale, {}, ({ kept }) => {
      if (kept === undefined) cleaned++;
    });
  } finally {
    await writable.journal.close();
  }
  return cleaned;
}

/** The age from which runs of a project are cleaned; undefined for never. */
function staleAfter(directory: string): number | undefined {
  const { shape, diagnostics } = readConfiguration(configurationTexts(directory));
  // A file with a mistake may say `never`.
  if (diagnostics.some(({ severity }) => severity === "error")) return undefined;
  return parseAge(shape.service?.clean ?? STALE_AFTER);
}

async function staleRuns({ journal, dir }: Project, before: number): Promise<readonly string[]> {
  const completed = await journal.log.list({ status: ["completed"] });
  const old = completed.filter((run) => run.cleanedAt === undefined && run.updatedAt <= before);
  const stale: string[] = [];
  for (const { runId } of old.slice(-CLEANED_MAX)) {
    if (!holdsWork(await loadRun({ journal, dir }, runId))) stale.push(runId);
  }
  return stale;
}

/**
 * True when the run's folder may hold files of the user or of steps that exist nowhere else: a workspace
 * that is a directory or a copy, and files that a restore set aside. The removal of a worktree checks it.
 */
function holdsWork({ plan, events }: LoadedRun): boolean {
  const { kind } = plan.workspace ?? {};
  if (kind === "directory" || kind === "copy") return true;
  return events.some(({ event }) => "aside" in event && event.aside !== undefined);
}
