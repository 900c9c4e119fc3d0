/**
 * The port for pipelines that a fleet starts at certain times.
 *
 * Owns: what a new run of each is made from, which keeps its blobs in the store.
 * Does not: know which times are due, or what a run is made from (app/fleet).
 */

/** A pipeline that a fleet starts at certain times. */
export interface StoredSchedule {
  readonly name: string;
  readonly cron: string;
  /** Times up to this one are not made up for. */
  readonly since: number;
  /** The run of the last time that was started. */
  readonly lastRun?: string;
}

/** What a new run is made from, as text, and the blobs that this names. */
export interface ScheduleSource {
  readonly text: string;
  readonly blobs: readonly string[];
}

export interface StoredSchedules {
  list(): Promise<readonly StoredSchedule[]>;
  /** The text of what a run of the schedule is made from; undefined when there is no such schedule. */
  runOf(name: string): Promise<string | undefined>;
  /** Adds a schedule, or replaces the one with this name. */
  put(name: string, cron: string, run: ScheduleSource): Promise<void>;
  /** Notes which run was started last. */
  ran(name: string, runId: string): Promise<void>;
  /** Removes a schedule; false when there is none with this name. */
  remove(name: string): Promise<boolean>;
}
