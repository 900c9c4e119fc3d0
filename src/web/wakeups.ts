/**
 * Wakes a stream when a journal of any project may have changed.
 *
 * Owns: one subscription for each project, also for projects that show up later.
 * Does not: say what changed.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { OpenProjects } from "../app/project/open-projects.ts";
import type { Project } from "../app/project/project.ts";

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
