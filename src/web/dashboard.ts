/**
 * The state that all routes share: the projects of this machine, the loaded runs, and the options of the
 * server; and the generators that wake a stream when one run, or any journal, may have changed.
 *
 * Owns: the subscriptions of streams, also for projects that appear later.
 * Does not: say what changed.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { type LoadedRun, loadRun } from "../app/loaded-run.ts";
import { type FollowedRun, FollowedRuns } from "../app/look/followed-run.ts";
import { MachineRuns } from "../app/look/machine-runs.ts";
import { MachineQuestions, Spendings } from "../app/look/overview.ts";
import { Conversations } from "../app/output/conversation.ts";
import { OpenProjects, type ReadableProject } from "../app/project/open-projects.ts";
import { type Project, withProject } from "../app/project/project.ts";
import { Refusal } from "../app/refusal.ts";
import type { FleetOverview } from "../view/fleet-overview.ts";

/** Reads the state of a fleet with another program, which has its own copy of the class Refusal. */
type ReadFleet = () => Promise<
  | { readonly ok: true; readonly value: FleetOverview }
  | { readonly ok: false; readonly refusal: Pick<Refusal, "code" | "message" | "next"> }
>;

export interface DashboardOptions {
  /** The directory in which the server was started. */
  readonly from: string;
  readonly readOnly: boolean;
  /** Absent when no store is named. */
  readonly readFleet?: ReadFleet | undefined;
}

/** The state of a server. */
export class Dashboard {
  readonly from: string;
  readonly readOnly: boolean;
  readonly projects: OpenProjects;
  readonly runs: MachineRuns;
  readonly followed = new FollowedRuns();
  readonly questions: MachineQuestions;
  readonly conversations = new Conversations();
  readonly spendings = new Spendings();
  readonly readFleet: ReadFleet | undefined;
  #reading: Promise<FleetOverview> | undefined;

  constructor({ from, readOnly, readFleet }: DashboardOptions) {
    this.from = from;
    this.readOnly = readOnly;
    this.readFleet = readFleet;
    this.projects = new OpenProjects(from);
    this.runs = new MachineRuns(this.projects);
    this.questions = new MachineQuestions(this.projects, this.followed);
  }

  /** The state of the fleet; simultaneous requests share one reading. */
  async fleet(): Promise<FleetOverview> {
    this.#reading ??= this.#readFleet().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #readFleet(): Promise<FleetOverview> {
    if (this.readFleet === undefined) {
      throw new Refusal("no-store", "this server was started without the store of a fleet");
    }
    const read = await this.readFleet();
    if (read.ok) return read.value;
    const { code, message, next } = read.refusal;
    throw new Refusal(code, message, next);
  }

  async close(): Promise<void> {
    this.conversations.close();
    await this.followed.close();
    await this.projects.close();
  }
}

/** A run and its project, for one request. */
export interface AskedRun {
  readonly in: ReadableProject;
  /** Open for reading. */
  readonly project: Project;
  /** Without secrets. It may change while the route awaits something. */
  readonly known: LoadedRun;
  readonly followed: FollowedRun;
}

/** The run with this full or short id, up to date. */
export async function askedRun(dashboard: Dashboard, id: string): Promise<AskedRun> {
  const found = await dashboard.projects.find(id);
  const { project } = found.in;
  const followed = await dashboard.followed.get(project, found.runId);
  return { in: found.in, project, known: followed.known, followed };
}

/** Opens a run for a change, and closes its journal afterwards. */
export async function changing<T>(
  dashboard: Dashboard,
  id: string,
  change: (project: Project, known: LoadedRun) => Promise<T>,
): Promise<T> {
  const { in: from, runId } = await dashboard.projects.find(id);
  return withProject([from.directory, "read-write", runId], async (project) =>
    change(project, await loadRun(project, runId)),
  );
}

/** The directory of the project with a key; without a key, that of the server. */
export async function directoryOf(dashboard: Dashboard, key: string | undefined): Promise<string> {
  const { from, projects } = dashboard;
  if (key === undefined || key === projects.fresh()?.key) return from;
  return (await projects.named(key)).directory;
}

/** The pause between two messages of a stream. */
const PAUSE_MS = 100;

/** Yields a run at once, and again after each change, until the client has left. */
export async function* changesOf(
  dashboard: Dashboard,
  { project, known }: AskedRun,
  signal: AbortSignal,
): AsyncGenerator<FollowedRun> {
  const { run, leave } = await dashboard.followed.watch(project, known.id);
  const subscription = project.journal.log.subscribe(known.id);
  signal.addEventListener("abort", () => subscription.close());
  try {
    do {
      await run.refresh();
      yield run;
      await pause(signal);
    } while (!signal.aborted && (await subscription.changed()));
  } finally {
    subscription.close();
    leave();
  }
}

/** Yields at once, and again whenever any journal may have changed, until the client has left. */
export async function* wakeups(projects: OpenProjects, signal: AbortSignal): AsyncGenerator<void> {
  const watched = new Map<Project, { close(): void }>();
  let wake = Promise.withResolvers<void>();
  const onAbort = (): void => wake.resolve();
  signal.addEventListener("abort", onAbort);
  try {
    while (!signal.aborted) {
      for (const { project } of await projects.readable()) {
        if (watched.has(project)) continue;
        // Only a journal in memory looks at the id.
        const subscription = project.journal.log.subscribe("");
        watched.set(project, subscription);
        void (async () => {
          while (await subscription.changed()) wake.resolve();
          watched.delete(project);
        })();
      }
      wake = Promise.withResolvers();
      yield;
      await pause(signal);
      await wake.promise;
    }
  } finally {
    signal.removeEventListener("abort", onAbort);
    for (const subscription of watched.values()) subscription.close();
  }
}

/** Waits before the next message, or until the client has left. */
async function pause(signal: AbortSignal): Promise<void> {
  await sleep(PAUSE_MS, undefined, { signal }).catch(() => undefined);
}
