/**
 * Looks at the journal of a fleet several times a second and notes which worker owns each run, and how
 * long the runs of a machine were without a worker after something happened to it.
 *
 * Owns: the times of takeovers.
 * Does not: change anything in the store.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "pg";

const LOOK_MS = 100;
/** The server may be away, or may have lost the connection without a word. */
const ANSWER_MS = 1_500;
const ENDED = ["completed", "failed", "stopped"];

/** Follows the name of a fault when the database was away before the run had its next owner. */
export const DATABASE_AWAY = ", and the database away";

/** A run as the journal has it. */
interface SeenRun {
  readonly runId: string;
  readonly epoch: number;
  readonly worker: string | null;
  readonly status: string;
  readonly seq: number;
}

/** A run whose worker was hurt. */
interface Waiting {
  readonly fault: string;
  readonly at: number;
  readonly runId: string;
  readonly epoch: number;
}

/** A fault of the database, until any run makes progress again. */
interface Silence {
  readonly fault: string;
  readonly at: number;
  isBack: boolean;
  /** The last events of all runs together, when the database answered again. */
  events?: number;
  endedAt?: number;
}

export class Observer {
  readonly #url: string;
  #runs: ReadonlyMap<string, SeenRun> = new Map();
  #waiting: Waiting[] = [];
  readonly #silences: Silence[] = [];
  readonly #times = new Map<string, number[]>();
  readonly #changedAt = new Map<string, number>();
  #isOver = false;
  readonly #looking: Promise<void>;

  constructor(url: string) {
    this.#url = url;
    this.#looking = this.#look();
  }

  /** The runs that have not ended. */
  get open(): readonly SeenRun[] {
    return [...this.#runs.values()].filter(({ status }) => !ENDED.includes(status));
  }

  /** How many runs have completed. */
  get completed(): number {
    return [...this.#runs.values()].filter(({ status }) => status === "completed").length;
  }

  get ids(): readonly string[] {
    return [...this.#runs.keys()];
  }

  statusOf(runId: string): string {
    return this.#runs.get(runId)?.status ?? "unknown";
  }

  /** Milliseconds since any run has changed. */
  get quietMs(): number {
    return performance.now() - Math.max(0, ...this.#changedAt.values());
  }

  /** The runs that have not ended, and have not changed for this long. */
  stuckFor(ms: number): readonly string[] {
    const before = performance.now() - ms;
    const stuck = this.open.filter(({ runId }) => (this.#changedAt.get(runId) ?? 0) < before);
    return stuck.map(({ runId }) => runId);
  }

  /** Seconds from each kind of fault to the next owner of a run, or to the next event after it. */
  get times(): ReadonlyMap<string, readonly number[]> {
    return this.#times;
  }

  /** Something happens to a worker now: whoever owns its runs next is their takeover. */
  hurt(fault: string, worker: string | undefined): void {
    const at = performance.now();
    const owned = this.open.filter((run) => run.worker !== null && run.worker === worker);
    for (const { runId, epoch } of owned) this.#waiting.push({ fault, at, runId, epoch });
  }

  /** The database stops now; the function that is returned says that it is there again. */
  silenced(fault: string): () => void {
    const silence: Silence = { fault, at: performance.now(), isBack: false };
    this.#silences.push(silence);
    return () => {
      silence.isBack = true;
    };
  }

  async close(): Promise<void> {
    this.#isOver = true;
    await this.#looking;
  }

  async #look(): Promise<void> {
    while (!this.#isOver) {
      const client = new Client({
        connectionString: this.#url,
        ...{ connectionTimeoutMillis: ANSWER_MS, query_timeout: ANSWER_MS },
      });
      client.on("error", () => undefined);
      try {
        await client.connect();
        while (!this.#isOver) {
          const { rows } = await client.query<SeenRun>(
            `select pipeline_id as "runId", epoch, owner::json ->> 'worker' as worker, status,
               last_seq as seq from perdure.pipeline_state`,
          );
          this.#saw(rows);
          await sleep(LOOK_MS);
        }
      } catch {
        // The server is away: that is what this soak does to it.
        await sleep(LOOK_MS);
      } finally {
        // A connection that was lost does not end by itself.
        await Promise.race([client.end().catch(() => undefined), sleep(ANSWER_MS)]);
      }
    }
  }

  #saw(rows: readonly SeenRun[]): void {
    const now = performance.now();
    const before = this.#runs;
    this.#runs = new Map(rows.map((row) => [row.runId, row]));
    for (const { runId, epoch, seq } of rows) {
      const old = before.get(runId);
      if (old?.seq !== seq || old.epoch !== epoch) this.#changedAt.set(runId, now);
    }
    this.#waiting = this.#waiting.filter(({ fault, at, runId, epoch }) => {
      const run = this.#runs.get(runId);
      if (run === undefined || (run.epoch === epoch && !ENDED.includes(run.status))) return true;
      if (run.epoch > epoch && run.worker === null && !ENDED.includes(run.status)) return true;
      const also = this.#wasAwayAfter(at) ? DATABASE_AWAY : "";
      if (run.epoch > epoch) this.#note(`${fault}${also}`, now - at);
      return false;
    });
    const events = rows.reduce((sum, { seq }) => sum + seq, 0);
    for (const silence of this.#silences) {
      if (!silence.isBack || silence.endedAt !== undefined) continue;
      silence.events ??= events;
      if (events === silence.events) continue;
      silence.endedAt = now;
      this.#note(silence.fault, now - silence.at);
    }
  }

  #wasAwayAfter(time: number): boolean {
    return this.#silences.some(({ endedAt }) => endedAt === undefined || endedAt >= time);
  }

  #note(fault: string, ms: number): void {
    const times = this.#times.get(fault) ?? [];
    times.push(ms / 1_000);
    this.#times.set(fault, times);
  }
}
