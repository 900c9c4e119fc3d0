/** What the ports on one server share in one process. */
import type { ChainHead } from "../event-codec.ts";
import type { Sql } from "./connection.ts";
import type { WakeUps } from "./wake-ups.ts";

/** How many runs' last checksums a process remembers. */
const HEADS_MAX = 10_000;

/** The heads of runs that this process has read or written, so that an append is one round trip. */
export class Heads {
  readonly #heads = new Map<string, ChainHead>();

  get(runId: string): ChainHead | undefined {
    return this.#heads.get(runId);
  }

  set(runId: string, head: ChainHead): void {
    this.#heads.delete(runId);
    this.#heads.set(runId, head);
    const [oldest] = this.#heads.keys();
    if (this.#heads.size > HEADS_MAX && oldest !== undefined) this.#heads.delete(oldest);
  }

  forget(runId: string): void {
    this.#heads.delete(runId);
  }
}

/** What the ports of one process share. */
export interface PostgresParts {
  readonly sql: Sql;
  readonly heads: Heads;
  readonly wakeUps: WakeUps;
}
