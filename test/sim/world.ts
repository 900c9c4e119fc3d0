/** The simulated outside: processes that live on when their runner dies, and time. */
import type { AttemptRef } from "../../src/core/event.ts";
import type { Ending } from "../../src/core/fact.ts";
import { attemptText } from "../../src/core/place.ts";
import type { Random } from "../../src/util/random.ts";

const SPENT = { inputTokens: 10, cachedTokens: 0, outputTokens: 1, turns: 1, costUsd: 0.5 };

export interface SimProcess {
  readonly at: AttemptRef;
  readonly endsAt: number;
  readonly ending: Ending;
  /** When it was killed; it then leaves no exit status. */
  killed: boolean;
}

export class World {
  /** Time as processes live it. */
  now = 1_000_000;
  /** How far the wall clock is off; it may be set back at any time. */
  skew = 0;
  /** Every spawn that ever happened, in order: the counted effects. */
  readonly spawns: AttemptRef[] = [];
  readonly processes = new Map<string, SimProcess>();
  readonly #random: Random;

  constructor(random: Random) {
    this.#random = random;
  }

  /** What the engine's clock says. */
  get clock(): number {
    return this.now + this.skew;
  }

  spawn(at: AttemptRef): void {
    const random = this.#random;
    this.spawns.push(at);
    const exit = random.chance(0.75) ? 0 : 1;
    const context = random.chance(0.3) ? { dice: String(random.below(3)) } : {};
    const ending: Ending = random.chance(0.05)
      ? { how: "timed-out", limit: "timeout", message: "it took too long" }
      : random.chance(0.05)
        ? { how: "paused", reason: "rate-limit", message: "busy", spent: SPENT }
        : { how: "exited", exit, outputs: {}, context: exit === 0 ? context : {} };
    const endsAt = this.now + 1 + random.below(500);
    this.processes.set(attemptText(at), { at, endsAt, ending, killed: false });
  }

  isAlive(process: SimProcess): boolean {
    return !process.killed && process.endsAt > this.now;
  }

  alive(): SimProcess[] {
    return [...this.processes.values()].filter((process) => this.isAlive(process));
  }

  /** What a resumed runner finds out about an attempt; undefined while it is alive. */
  evidence(at: AttemptRef): Ending | undefined {
    const process = this.processes.get(attemptText(at));
    if (process === undefined) {
      return { how: "lost", started: false, message: "it had not started" };
    }
    if (process.killed) return { how: "lost", started: true, message: "its process is gone" };
    return this.isAlive(process) ? undefined : process.ending;
  }

  kill(process: SimProcess): void {
    if (this.isAlive(process)) process.killed = true;
  }

  /** The next time at which a process ends by itself. */
  nextEnd(): number | undefined {
    const times = this.alive().map(({ endsAt }) => endsAt);
    return times.length === 0 ? undefined : Math.min(...times);
  }
}
