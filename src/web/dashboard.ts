/**
 * What every route has at hand: the projects of this machine, the runs that are loaded, and how the
 * server was started; and what wakes a stream when a journal of any project may have changed.
 *
 * Owns: one subscription of a stream for each project, including projects that show up later.
 * Does not: say what changed.
 */

import { setTimeout as sleep } from "node:timers/promises";
import { type LoadedRun, loadRun } from "../app/loaded-run.ts";
import { type FollowedRun, FollowedRuns } from "../app/look/followed-run.ts";
import { MachineRuns } from "../app/look/machine-runs.ts";
import { MachineQuestions, Spendings } from "../app/look/overview.ts";

import { Conversations } from "../app/output/conversation.ts";
import { OpenProjects, type ReadableProject } from "../app/project/open-projects.ts";
import { openProject, type Project } from "../app/project/project.ts";
import { Refusal } from "../app/refusal.ts";
import type { FleetOverview } from "../view/fleet-overview.ts";

/** Reads the state of a fleet with another program, which has its own copy of the class Refusal. */
type ReadFleet = () => Promise<
  | { readonly ok: true; readonly value: FleetOverview }
  | { readonly ok: false; readonly refusal: Pick<Refusal, "code" | "message" | "next"> }
>;

/** How a server is started. */
export interface DashboardOptions {
  /** The directory in which the server was started. */
  readonly from: string;
  readonly readOnly: boolean;
  readonly readFleet?: ReadFleet | undefined;
}

/** The state of a server. */
export class Dashboard {
  /** The directory in which the server was started. */
  readonly from: string;
  readonly readOnly: boolean;
  readonly projects: OpenProjects;
  readonly runs: MachineRuns;
  readonly followed = new FollowedRuns();
  readonly questions: MachineQuestions;
  readonly conversations = new Conversations();
  readonly spendings = new Spendings();

  /** Reads the state of the fleet; absent when no store is named. */
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

  /** The state of the fleet; those who ask at the same time get the same answer. */
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
  /** As a person may see it. It may change while the route waits for something. */
  readonly known: LoadedRun;
  readonly followed: FollowedRun;
}

/** Opens the run that a path names, by its full or short id, with everything that is new. */
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
  const found = await dashboard.projects.find(id);
  const project = await openProject(found.in.directory, "read-write", found.runId);
  try {
    return await change(project, await loadRun(project, found.runId));
  } finally {
    await project.journal.close();
  }
}

/** The directory of the project with a key; without a key, that of the server. */
export async function directoryOf(dashboard: Dashboard, key: string | undefined): Promise<string> {
  const { from, projects } = dashboard;
  if (key === undefined || key === projects.fresh()?.key) return from;
  return (await projects.named(key)).directory;
}

/** A stream sends at most about this often. */
const PAUSE_MS = 100;

/** Yields at once, and then whenever something may have changed; ends with the signal. */
export async function* wakeups(projects: OpenProjects, signal: AbortSignal): AsyncGenerator<void> {
  const watched = new Map<Project, { close(): void }>();
  let wake = Promise.withResolvers<void>();
  const onAbort = (): void => wake.resolve();
  signal.addEventListener("abort", onAbort);
  try {
    while (!signal.aborted) {
      for (const { project } of await projects.readable()) {
        if (watched.has(project)) continue;
        // The id only matters for journals in memory.
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

/** Waits before the next message, or until the client is gone. */
export async function pause(signal: AbortSignal): Promise<void> {
  await sleep(PAUSE_MS, undefined, { signal }).catch(() => undefined);
}
