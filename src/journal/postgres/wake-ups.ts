/**
 * Wakes the watchers of a journal in PostgreSQL, on every machine: one connection of the process
 * listens to the notifications of the server.
 *
 * Owns: that no change is missed. After each new connection every watcher is woken. Every few seconds
 *   one statement compares the runs that are watched with what they were: a process may die after its
 *   commit and before its notification, and a connection may be dead without anybody knowing.
 * Does not: say what is new.
 *
 * The notification of an append follows its commit, in a transaction that does not wait for the disk:
 * PostgreSQL commits transactions that notify one after the other, and appends shall not wait for each
 * other's disks. Requests and leases are rare, and notify inside their own transactions.
 */
import type { Client } from "pg";
import { type Row, textIn } from "../rows.ts";
import { ChangeSignal, type Subscription } from "../subscription.ts";
import type { PostgresPool } from "./connection.ts";
import { INBOX_CHANNEL, LOG_CHANNEL, NOTICE } from "./sql.ts";

/** How often the runs that are watched are compared. */
const LOOK_MS = 2_000;
/** A connection that does not answer in this time is dead. */
const ANSWER_MS = 5_000;
const PAUSE_MS_MIN = 50;
const PAUSE_MS_MAX = 2_000;
/** The shortest time between two statements that notify; what happens meanwhile is one statement. */
const NOTIFY_PAUSE_MS = 10;

/** All subscriptions of one process. */
export class WakeUps {
  readonly #pool: PostgresPool;
  readonly #signals = new Map<string, Set<ChangeSignal>>();
  readonly #channels = new Set([LOG_CHANNEL, INBOX_CHANNEL]);
  /** The state of each watched run when it was last looked at. */
  #positions = new Map<string, Row>();
  #unsent = new Set<string>();
  #sending: Promise<void> = Promise.resolve();
  #isSending = false;
  #listening: Promise<void> | undefined;
  #client: Client | undefined;
  #stopPause: (() => void) | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(pool: PostgresPool) {
    this.#pool = pool;
  }

  toLog(runId: string): Subscription {
    return this.#subscribe(keyOf(LOG_CHANNEL, runId));
  }

  toInbox(runId: string): Subscription {
    return this.#subscribe(keyOf(INBOX_CHANNEL, runId));
  }

  /** All notifications of a channel that is not one of the journal's own. */
  toChannel(channel: string): Subscription {
    const subscription = this.#subscribe(keyOf(channel, ""));
    if (this.#channels.has(channel)) return subscription;
    this.#channels.add(channel);
    const client = this.#client;
    if (client !== undefined) void this.#listenTo(client, [channel]).catch(() => client.end());
    return subscription;
  }

  /** Says that a run has new events: here at once, elsewhere soon. */
  publish(runId: string): void {
    this.#wake(keyOf(LOG_CHANNEL, runId));
    this.#unsent.add(runId);
    if (this.#isSending) return;
    this.#isSending = true;
    this.#sending = this.#send();
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#stopPause?.();
    for (const signals of this.#signals.values()) for (const signal of signals) signal.close();
    this.#holdProcess();
    await this.#sending;
    await this.#client?.end().catch(() => undefined);
    await this.#listening;
  }

  #subscribe(key: string): Subscription {
    const signals = this.#signals.get(key) ?? new Set();
    this.#signals.set(key, signals);
    const signal = new ChangeSignal(() => {
      signals.delete(signal);
      if (signals.size === 0) this.#signals.delete(key);
      this.#holdProcess();
    });
    signals.add(signal);
    this.#holdProcess();
    if (this.#isClosed) signal.close();
    else this.#listening ??= this.#keepListening();
    return signal;
  }

  /** The process may end while nobody watches, although this journal is open; but it waits for close. */
  #holdProcess(): void {
    // The types of the driver lack these two.
    const client = this.#client as unknown as Pick<NodeJS.Timeout, "ref" | "unref"> | undefined;
    for (const held of [client, this.#timer]) {
      if (this.#signals.size > 0 || this.#isClosed) held?.ref();
      else held?.unref();
    }
  }

  #wake(key: string): void {
    for (const signal of this.#signals.get(key) ?? []) signal.notify();
  }

  async #send(): Promise<void> {
    while (this.#unsent.size > 0) {
      const payloads = [...this.#unsent];
      this.#unsent = new Set();
      // Watchers look by themselves when this fails.
      await this.#pool
        .once({ text: NOTICE.send, values: [LOG_CHANNEL, payloads], timeoutMs: ANSWER_MS })
        .catch(() => undefined);
      if (!this.#isClosed) await new Promise((resolve) => setTimeout(resolve, NOTIFY_PAUSE_MS));
    }
    this.#isSending = false;
  }

  async #keepListening(): Promise<void> {
    let pauseMs = PAUSE_MS_MIN;
    while (!this.#isClosed) {
      const isConnected = await this.#listenOnce().catch(() => false);
      pauseMs = isConnected ? PAUSE_MS_MIN : Math.min(2 * pauseMs, PAUSE_MS_MAX);
      await this.#pause(pauseMs);
    }
  }

  /** Listens until the connection is lost. Throws when there is none. */
  async #listenOnce(): Promise<true> {
    const client = await this.#pool.connect();
    const ended = new Promise((resolve) => client.once("end", resolve));
    this.#client = client;
    try {
      client.on("notification", ({ channel, payload = "" }) => {
        const isOwn = channel === LOG_CHANNEL || channel === INBOX_CHANNEL;
        if (isOwn) this.#wake(keyOf(channel, payload));
        // Who watches a channel, or all runs.
        this.#wake(keyOf(channel, ""));
      });
      await this.#listenTo(client, [...this.#channels]);
      this.#holdProcess();
      while (!this.#isClosed && this.#client === client) {
        await Promise.race([ended.then(() => this.#lost(client)), this.#pause(LOOK_MS)]);
        if (this.#client === client && !this.#isClosed) await this.#look(client);
      }
    } finally {
      this.#lost(client);
      await client.end().catch(() => undefined);
    }
    return true;
  }

  #lost(client: Client): void {
    if (this.#client === client) this.#client = undefined;
  }

  /** Whatever happened before the server listens for us is news. */
  async #listenTo(client: Client, channels: readonly string[]): Promise<void> {
    const text = channels.map((channel) => `LISTEN ${client.escapeIdentifier(channel)}`).join(";");
    await client.query(text);
    for (const key of this.#signals.keys()) {
      if (channels.some((channel) => key.startsWith(keyOf(channel, "")))) this.#wake(key);
    }
  }

  async #look(client: Client): Promise<void> {
    const runIds = new Set<string>();
    for (const key of this.#signals.keys()) {
      const [channel, runId = ""] = key.split("\n");
      if (channel === LOG_CHANNEL || channel === INBOX_CHANNEL) runIds.add(runId);
    }
    // Who watches all runs looks at what has changed.
    this.#wake(keyOf(LOG_CHANNEL, ""));
    const query = { text: NOTICE.positions, values: [[...runIds]], query_timeout: ANSWER_MS };
    const { rows } = await client.query<Row>(query);
    const before = this.#positions;
    this.#positions = new Map(rows.map((row) => [textIn(row, "pipeline_id"), row]));
    for (const [runId, row] of this.#positions) {
      const known = before.get(runId);
      if (known?.log !== row.log) this.#wake(keyOf(LOG_CHANNEL, runId));
      if (known?.inbox !== row.inbox) this.#wake(keyOf(INBOX_CHANNEL, runId));
    }
  }

  async #pause(ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#timer = setTimeout(resolve, ms);
    this.#stopPause = resolve;
    this.#holdProcess();
    if (this.#isClosed) resolve();
    await promise;
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}

function keyOf(channel: string, runId: string): string {
  return `${channel}\n${runId}`;
}
