/**
 * The runs that are loaded because somebody looks at them: a limited number, shared by all who look.
 *
 * Owns: which runs stay loaded.
 * Does not: watch a run (followed-run.ts is asked to read what is new).
 */

import type { Project } from "../project/project.ts";
import { FollowedRun } from "./followed-run.ts";

/** How many runs stay loaded, and how many events they may have together. */
const RUNS_MAX = 24;
const EVENTS_MAX = 500_000;

interface LoadedEntry {
  readonly project: Project;
  readonly run: Promise<FollowedRun>;
  watchers: number;
  events: number;
}

/** The loaded runs of a server. */
export class FollowedRuns {
  /** By id; the one that was used last is the last. */
  readonly #runs = new Map<string, LoadedEntry>();

  /** A run with everything that its journal has now. */
  async get(project: Project, runId: string): Promise<FollowedRun> {
    const { run } = this.#entry(project, runId);
    const followed = await run;
    await followed.refresh();
    return followed;
  }

  /** The same, and the run stays loaded until `leave` is called. */
  async watch(
    project: Project,
    runId: string,
  ): Promise<{ readonly run: FollowedRun; readonly leave: () => void }> {
    const entry = this.#entry(project, runId);
    entry.watchers++;
    const leave = (): void => {
      entry.watchers--;
      this.#unload();
    };
    try {
      return { run: await entry.run, leave };
    } catch (error) {
      leave();
      throw error;
    }
  }

  async close(): Promise<void> {
    const all = [...this.#runs.values()];
    this.#runs.clear();
    for (const { run } of all) (await run.catch(() => undefined))?.close();
  }

  #entry(project: Project, runId: string): LoadedEntry {
    const known = this.#runs.get(runId);
    this.#runs.delete(runId);
    // A journal that was repaired is another one.
    const entry = known?.project === project ? known : this.#load(project, runId);
    this.#runs.set(runId, entry);
    this.#unload();
    return entry;
  }

  #load(project: Project, runId: string): LoadedEntry {
    const run = FollowedRun.open(project, runId);
    const entry = { project, run, watchers: 0, events: 0 };
    run.then(
      ({ size }) => {
        entry.events = size;
      },
      () => {
        if (this.#runs.get(runId) === entry) this.#runs.delete(runId);
      },
    );
    return entry;
  }

  /** Unloads the runs that were not used for the longest time, except the newest. */
  #unload(): void {
    let events = [...this.#runs.values()].reduce((sum, entry) => sum + entry.events, 0);
    for (const [runId, entry] of [...this.#runs].slice(0, -1)) {
      if (this.#runs.size <= RUNS_MAX && events <= EVENTS_MAX) return;
      if (entry.watchers > 0) continue;
      this.#runs.delete(runId);
      events -= entry.events;
      void entry.run.then((run) => run.close()).catch(() => undefined);
    }
  }
}
