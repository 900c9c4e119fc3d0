/**
 * Kills a program at each of many failpoints. A run is killed several times before it may come to its
 * end: a run for each kill would cost several times as much, and whoever continues after a kill must
 * survive the next one, too. PERDURE_CRASH_ALL=1 gives each kill a run of its own.
 */
import { CRASH_ALL } from "./crash-all.ts";

const KILLS_MAX = CRASH_ALL ? 1 : 12;

/** A failpoint to strike. */
export interface KillPlace {
  readonly name: string;
  /** Its number among the failpoints that an uninterrupted run passes. */
  readonly nth: number;
}

/** One run from its beginning to its end. */
export interface KilledRun {
  /**
   * Starts or continues the run until it ends as it should, or is killed at this failpoint (as in
   * PERDURE_FAILPOINT); gives the name of the failpoint at which it was killed.
   */
  drive(place: string | undefined, where: string): Promise<string | undefined>;
  /** Compares what is left of the run with an uninterrupted one. */
  check(where: string): Promise<void>;
}

/**
 * Kills at all of these failpoints: the first kill of a run is at the number of a failpoint, the next
 * ones are where those who continue first pass another. `withRun` makes a run, and removes it.
 */
export async function killAtEach(
  places: readonly KillPlace[],
  withRun: (body: (run: KilledRun) => Promise<void>) => Promise<void>,
): Promise<void> {
  let left = places;
  for (let runs = 0; left.length > 0; runs++) {
    if (runs > places.length) throw new Error(`never killed at ${JSON.stringify(left)}`);
    await withRun(async (run) => {
      const struck: string[] = [];
      const where = (): string => `killed at ${struck.join(", then at ")}`;
      let isOver = false;
      for (let [next] = left; next && !isOver && struck.length < KILLS_MAX; [next] = left) {
        const place = struck.length === 0 ? String(next.nth) : `${next.name}:1`;
        const name = await run.drive(place, where());
        isOver = name === undefined;
        if (name === undefined) continue;
        struck.push(name);
        left = CRASH_ALL ? left.slice(1) : left.filter((one) => one.name !== name);
      }
      if (!isOver) await run.drive(undefined, where());
      await run.check(where());
    });
  }
}
