/**
 * The spans that wait for their export: a bounded queue that is sent in batches, one at a time. A
 * batch that does not reach the collector stays in the queue and is sent again.
 *
 * Owns: the batches, what is lost, and how far each source of spans was received.
 * Does not: know the collector; a function sends a batch.
 * Invariants:
 * - telemetry/Q1 A source counts as received up to a position only if the collector has accepted
 *   every span of it up to there.
 * - telemetry/Q2 The queue never holds more than its limit; what does not fit is lost and counted.
 */

/** Something in the queue, with its place in the source that it came from. */
interface Queued<T> {
  readonly value: T;
  /** The run, or one attempt of it. */
  readonly source: string;
  /** When this is received, everything of the source up to this position is. */
  readonly position: number;
}

/** What became of a batch: the collector has it, does not want it, or was not reached. */
export type SpanDelivery =
  | { readonly type: "received" }
  | { readonly type: "refused" | "unreachable"; readonly why: string };

interface QueueOptions<T> {
  readonly send: (batch: readonly T[]) => Promise<SpanDelivery>;
  /** The collector has accepted a batch. */
  readonly onReceived: () => void;
  readonly spansMax: number;
  readonly batchMax: number;
  readonly delayMs: number;
}

/** How far the collector has received a source. */
interface Progress {
  received: number | undefined;
  /** Something of the source was lost: later spans do not count (telemetry/Q1). */
  isBroken: boolean;
}

/** A queue of spans. */
export class SpanQueue<T> {
  readonly #options: QueueOptions<T>;
  readonly #waiting: Queued<T>[] = [];
  readonly #progress = new Map<string, Progress>();
  #timer: NodeJS.Timeout | undefined;
  #sending: Promise<void> | undefined;
  #isUnreachable = false;
  #lost = 0;
  #why: string | undefined;

  constructor(options: QueueOptions<T>) {
    this.#options = options;
  }

  /** How many spans the collector does not have: those that were lost, and those that wait. */
  get missing(): number {
    return this.#lost + this.#waiting.length;
  }

  /** Why spans are missing, as far as it is known. */
  get why(): string | undefined {
    return this.#why;
  }

  /** The position up to which a source was received; undefined when nothing of it was. */
  received(source: string): number | undefined {
    return this.#progress.get(source)?.received;
  }

  add(queued: Queued<T>): void {
    const { spansMax, batchMax, delayMs } = this.#options;
    if (this.#waiting.length >= spansMax) {
      this.#lose([queued], this.#why ?? `more than ${spansMax} spans wait for the collector`);
      return;
    }
    this.#waiting.push(queued);
    if (this.#waiting.length >= batchMax && !this.#isUnreachable) this.#send();
    else this.#timer ??= setTimeout(() => this.#send(), delayMs);
  }

  /** Resolves when another batch fits, or when the collector cannot be reached. */
  async room(): Promise<void> {
    const { spansMax, batchMax } = this.#options;
    while (this.#waiting.length > spansMax - batchMax && !this.#isUnreachable) {
      this.#send();
      await this.#sending;
    }
  }

  /** Sends everything that waits; gives up when the collector cannot be reached. */
  async flush(): Promise<void> {
    await this.#sending;
    this.#isUnreachable = false;
    while (this.#waiting.length > 0 && !this.#isUnreachable) {
      this.#send();
      await this.#sending;
    }
    clearTimeout(this.#timer);
  }

  #send(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#sending !== undefined || this.#waiting.length === 0) return;
    // The batch stays in the queue until its fate is known.
    const batch = this.#waiting.slice(0, this.#options.batchMax);
    this.#sending = this.#options
      .send(batch.map(({ value }) => value))
      .then((delivery) => this.#delivered(batch, delivery));
  }

  #delivered(batch: readonly Queued<T>[], delivery: SpanDelivery): void {
    this.#sending = undefined;
    this.#isUnreachable = delivery.type === "unreachable";
    if (delivery.type !== "received") this.#why = delivery.why;
    if (delivery.type !== "unreachable") this.#waiting.splice(0, batch.length);
    if (delivery.type === "refused") this.#lose(batch, delivery.why);
    if (delivery.type === "received") this.#receive(batch);
    const { batchMax, delayMs } = this.#options;
    if (this.#waiting.length >= batchMax && !this.#isUnreachable) this.#send();
    else if (this.#waiting.length > 0) this.#timer ??= setTimeout(() => this.#send(), delayMs);
  }

  #receive(batch: readonly Queued<T>[]): void {
    for (const { source, position } of batch) {
      const progress = this.#of(source);
      if (!progress.isBroken) progress.received = position;
    }
    this.#options.onReceived();
  }

  #lose(lost: readonly Queued<T>[], why: string): void {
    this.#lost += lost.length;
    this.#why = why;
    for (const { source } of lost) this.#of(source).isBroken = true;
  }

  #of(source: string): Progress {
    const known = this.#progress.get(source);
    if (known !== undefined) return known;
    const fresh = { received: undefined, isBroken: false };
    this.#progress.set(source, fresh);
    return fresh;
  }
}
