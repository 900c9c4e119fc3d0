/**
 * The thread that exports a run (telemetry.ts starts it): folds the events into spans and
 * measurements, follows the streams of agents, masks secrets, and sends.
 *
 * What the collector has received is noted (`writeNote`). The next process that drives the run
 * sends everything after that, so a kill loses no span; what was received just before the note is
 * sent twice, as the same span.
 *
 * The stream of an agent has no times. The first process that reads a line notes its time in a file
 * beside the stream, and every later reader takes the time from there: after a kill the same lines make
 * the same spans.
 *
 * Owns: the order: the turns and tools of an attempt come before its own span; the file with the times.
 * Does not: change the run, or read the journal.
 */

import { appendFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { parentPort, workerData } from "node:worker_threads";
import type { ReadableSpan, SpanExporter } from "@opentelemetry/sdk-trace";
import type { AttemptRef, EventOf, Recorded, RunEvent, UsageBefore } from "../../core/event.ts";
import { attemptText } from "../../core/step-path.ts";
import { attemptDirOf, PROMPT_FILE } from "../../engine/state-dir.ts";
import type { AgentAdapter } from "../../runner/agents/adapter.ts";
import { agentAdapter } from "../../runner/agents/registry.ts";
import { textOf } from "../../runner/file-text.ts";
import { ATTEMPT_FILE } from "../../runner/process/attempt-folder.ts";
import { followLines } from "../../runner/process/output.ts";
import {
  Meters,
  readableSpan,
  resourceOf,
  sendSpans,
  spanExporter,
} from "../../telemetry/exporters.ts";
import { SpanQueue } from "../../telemetry/span-queue.ts";
import { assert } from "../../util/assert.ts";
import { defined } from "../../util/defined.ts";
import { redactJson } from "../../util/secrets.ts";
import { attemptEnd } from "../../view/attempt-history.ts";
import { ConversationTrace } from "../../view/trace/conversation-trace.ts";
import { eventMeasurements, spanMeasurements } from "../../view/trace/measurement.ts";
import { RunTrace } from "../../view/trace/run-trace.ts";
import type { Span, TracedAgent } from "../../view/trace/span.ts";
import { hideMarked, hideSecrets, maskedJson } from "../output/secret-mask.ts";
import {
  type TelemetryNote,
  type TelemetryOrder,
  type TelemetryReport,
  type TelemetryStart,
  writeNote,
} from "./telemetry.ts";

/** The source of the spans of a run, beside those of its attempts. */
const RUN_SOURCE = "run";
/** How long the last export may take. */
const FLUSH_MAX_MS = 2_500;
const TEXT_CHARACTERS_MAX = 32_768;
const PROMPT_CHARACTERS_MAX = 16_000;

/** An agent's attempt that has not ended. */
interface OpenAttempt {
  readonly at: AttemptRef;
  readonly startedAt: number;
  readonly agent: TracedAgent;
  readonly used: UsageBefore | undefined;
  conversation?: TracedConversation;
}

class Exporter {
  readonly #start: TelemetryStart;
  readonly #trace: RunTrace;
  readonly #queue: SpanQueue<ReadableSpan>;
  readonly #meters: Meters | undefined;
  readonly #before: TelemetryNote;
  readonly #run: Parameters<typeof readableSpan>[0];
  readonly #open = new Map<string, OpenAttempt>();
  /** The event that ended an attempt, until the collector has received its spans. */
  readonly #endSeqs = new Map<string, number>();
  #isLive = false;
  #seq = 0;
  #metricsSeq: number;
  #metricsWhy: string | undefined;
  #questions = 0;

  constructor(start: TelemetryStart) {
    const { runId, trace, origin, version, settings } = start;
    this.#start = start;
    this.#before = start.received;
    this.#metricsSeq = this.#before.metrics;
    this.#run = {
      ...{ runId, trace, version, resource: resourceOf(version) },
      ...(origin === undefined ? {} : { origin }),
    };
    this.#trace = new RunTrace(runId, (fingerprint) => start.plans.get(fingerprint));
    const exporter = settings.traces === undefined ? undefined : spanExporter(settings.traces);
    this.#queue = queueOf(exporter, () => this.#note());
    if (settings.metrics === undefined) return;
    this.#meters = new Meters(settings.metrics, version);
    setInterval(() => void this.#sendMetrics(), numberIn("OTEL_METRIC_EXPORT_INTERVAL", 60_000));
  }

  /** Takes events that the run recorded. */
  async take(events: readonly Recorded[], isPast: boolean): Promise<void> {
    if (!isPast) this.#goLive();
    for (const recorded of events) {
      await this.#event(recorded);
      if (isPast) await this.#queue.room();
    }
  }

  /** Sends what is left, within the limit. */
  async close(): Promise<TelemetryReport> {
    this.#goLive();
    for (const { conversation } of this.#open.values()) await conversation?.stop();
    const limit = new Promise<"late">((done) => setTimeout(() => done("late"), FLUSH_MAX_MS));
    const flushed = Promise.all([this.#queue.flush(), this.#sendMetrics()]);
    const late = (await Promise.race([flushed, limit])) === "late";
    this.#note();
    const { missing, why = this.#metricsWhy } = this.#queue;
    const slow = late ? `the collector did not answer within ${FLUSH_MAX_MS} ms` : undefined;
    const problem = why ?? slow;
    return { type: "closed", missing, ...defined({ why: problem }) };
  }

  async #event(recorded: Recorded): Promise<void> {
    const { event, seq, time } = recorded;
    const end = attemptEnd(event);
    if (end !== undefined) await this.#endConversation(attemptText(end), seq, time);
    const spans = this.#trace.add(recorded);
    this.#seq = seq;
    if (seq > this.#before.metrics) {
      for (const one of eventMeasurements(recorded)) this.#meters?.add(maskedJson(one));
      for (const span of spans) this.#measure(span);
      this.#measureQuestions();
    }
    if (seq > this.#before.spans) {
      spans.forEach((span, index) => {
        // Only the last span of an event says that all of them have arrived.
        const position = index === spans.length - 1 ? seq : seq - 1;
        this.#send(this.#withPrompt(span, event), RUN_SOURCE, position);
      });
    }
    if (event.type === "step.started") this.#startConversation(event, time);
  }

  #startConversation(event: EventOf<"step.started">, startedAt: number): void {
    if (this.#trace.attemptKey(event) === undefined) return;
    const { scope, step, visit, attempt, judge } = event;
    const agent = this.#trace.agentOf(event, judge);
    if (agent === undefined || agentAdapter(agent.adapter ?? "") === undefined) return;
    const at = { scope, step, visit, attempt };
    const open = { at, startedAt, agent, used: event.conversation?.used };
    this.#open.set(attemptText(at), open);
    if (this.#isLive) this.#follow(open);
  }

  /** From now on the events are new, so agents are followed while they work. */
  #goLive(): void {
    if (this.#isLive) return;
    this.#isLive = true;
    for (const open of this.#open.values()) this.#follow(open);
  }

  #follow(open: OpenAttempt): void {
    const { at, agent, startedAt, used } = open;
    const key = this.#trace.attemptKey(at);
    const adapter = agentAdapter(agent.adapter ?? "");
    if (key === undefined || adapter === undefined) return;
    const source = attemptText(at);
    const received = this.#before.attempts[source] ?? 0;
    let position = 0;
    open.conversation = new TracedConversation({
      folder: attemptDirOf(this.#start.dir, at),
      adapter,
      trace: {
        ...{ key, startedAt, agent, runId: this.#start.runId },
        content: this.#start.settings.content,
        ...(used === undefined ? {} : { used }),
      },
      onSpans: (spans) => {
        for (const span of spans) {
          position += 1;
          if (position <= received) continue;
          this.#measure(span);
          this.#send(span, source, position);
        }
      },
    });
  }

  async #endConversation(source: string, seq: number, time: number): Promise<void> {
    const open = this.#open.get(source);
    if (open === undefined) return;
    this.#open.delete(source);
    if (seq <= this.#before.spans) return;
    if (open.conversation === undefined) this.#follow(open);
    await open.conversation?.close(time);
    this.#endSeqs.set(source, seq);
  }

  /** Adds the prompt to the span of an attempt, if the person asked for content. */
  #withPrompt(span: Span, event: RunEvent): Span {
    const wanted = span.of === "attempt" && this.#start.settings.content && "attempt" in event;
    if (!wanted || span.attributes["gen_ai.agent.name"] === undefined) return span;
    const text = textOf(join(attemptDirOf(this.#start.dir, event), PROMPT_FILE));
    if (text === undefined) return span;
    const content = maskedJson(text).slice(0, PROMPT_CHARACTERS_MAX);
    const messages = JSON.stringify([{ role: "user", parts: [{ type: "text", content }] }]);
    return { ...span, attributes: { ...span.attributes, "gen_ai.input.messages": messages } };
  }

  #send(span: Span, source: string, position: number): void {
    if (!this.#start.isSampled || this.#start.settings.traces === undefined) return;
    const value = readableSpan(this.#run, shownSpan(span));
    this.#queue.add({ value, source, position });
  }

  #measure(span: Span): void {
    for (const one of spanMeasurements(span)) this.#meters?.add(maskedJson(one));
  }

  #measureQuestions(): void {
    const { questions: value } = this.#trace;
    if (value === this.#questions) return;
    this.#questions = value;
    this.#meters?.add({ metric: "perdure.questions.waiting", value, attributes: {} });
  }

  async #sendMetrics(): Promise<void> {
    if (this.#meters === undefined) return;
    const upTo = this.#seq;
    const sent = await this.#meters.send();
    if (sent.type === "received") {
      this.#metricsSeq = Math.max(this.#metricsSeq, upTo);
      this.#note();
    } else {
      this.#metricsWhy = sent.why;
    }
  }

  /** Notes what was received. */
  #note(): void {
    const spans = this.#queue.received(RUN_SOURCE) ?? this.#before.spans;
    const attempts: Record<string, number> = {};
    for (const source of [...this.#open.keys(), ...this.#endSeqs.keys()]) {
      if ((this.#endSeqs.get(source) ?? spans + 1) <= spans) {
        this.#endSeqs.delete(source);
        continue;
      }
      const count = this.#queue.received(source) ?? this.#before.attempts[source] ?? 0;
      if (count > 0) attempts[source] = count;
    }
    const metrics = this.#metricsSeq;
    writeNote(this.#start.dir.root, { run: this.#start.runId, spans, metrics, attempts });
  }
}

function queueOf(
  exporter: SpanExporter | undefined,
  onReceived: () => void,
): SpanQueue<ReadableSpan> {
  return new SpanQueue<ReadableSpan>({
    send: async (spans) =>
      exporter === undefined ? { type: "received" } : sendSpans(exporter, spans),
    onReceived,
    spansMax: numberIn("OTEL_BSP_MAX_QUEUE_SIZE", 2_048),
    batchMax: numberIn("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512),
    delayMs: numberIn("OTEL_BSP_SCHEDULE_DELAY", 5_000),
  });
}

/** The number in a variable. */
function numberIn(name: string, otherwise: number): number {
  const value = Number(process.env[name] ?? "");
  return value > 0 ? value : otherwise;
}

/** A span without secrets, whose texts have a limit. Its key stays: the ids follow from it. */
function shownSpan(span: Span): Span {
  const { name, error, attributes, events } = span;
  const shown = maskedJson({ name, ...defined({ error }), attributes, events });
  return { ...span, ...redactJson((text) => text.slice(0, TEXT_CHARACTERS_MAX), shown) };
}

const port = parentPort;
assert(port !== null, "the export runs in a thread of its own");
const exporter = new Exporter(workerData as TelemetryStart);

/** Orders are carried out one after the other. */
let last: Promise<void> = Promise.resolve();

async function carryOut(order: TelemetryOrder): Promise<void> {
  if (order.type === "close") {
    port?.postMessage(await exporter.close());
    return;
  }
  hideSecrets(order.secrets?.values ?? []);
  hideMarked(order.secrets?.marks ?? []);
  await exporter.take(order.events, order.isPast);
  port?.postMessage({ type: "taken" } satisfies TelemetryReport);
}

port.on("message", (order: TelemetryOrder) => {
  // A rejection ends the thread, and the run says so.
  last = last.then(() => carryOut(order));
});

/** The file with the time of each line that has events: `<end of the line> <time>`. */
const TIMES_FILE = "stream-times";

interface ConversationOptions {
  /** The folder of the attempt. */
  readonly folder: string;
  readonly adapter: AgentAdapter;
  readonly trace: ConstructorParameters<typeof ConversationTrace>[0];
  readonly onSpans: (spans: readonly Span[]) => void;
}

/** The stream of an attempt, which is being followed. */
class TracedConversation {
  readonly #options: ConversationOptions;
  readonly #trace: ConversationTrace;
  readonly #times: Map<number, number>;
  readonly #file: ReturnType<typeof followLines>;
  #lastAt: number;

  constructor(options: ConversationOptions) {
    this.#options = options;
    this.#trace = new ConversationTrace(options.trace);
    this.#lastAt = options.trace.startedAt;
    this.#times = readTimes(join(options.folder, TIMES_FILE));
    const reader = options.adapter.reader();
    this.#file = followLines(
      join(options.folder, ATTEMPT_FILE.output),
      (line, end) => {
        const events = line.startsWith("{") ? reader.line(line) : [];
        if (events.length === 0) return;
        const time = this.#timeOf(end);
        options.onSpans(events.flatMap((event) => this.#trace.add(maskedJson(event), time)));
      },
      { onError: () => undefined },
    );
  }

  /** Reads the rest of the stream of an attempt that ended at this time. */
  async close(endedAt: number): Promise<void> {
    // A stream that cannot be read any more has no further spans.
    await this.#file.close().catch(() => undefined);
    this.#options.onSpans(this.#trace.end(Math.max(endedAt, this.#lastAt)));
  }

  /** Stops following; what is open stays open for the next process. */
  async stop(): Promise<void> {
    await this.#file.close().catch(() => undefined);
  }

  /** The time of the line that ends here; of a line that no process read in time, that of the file. */
  #timeOf(end: number): number {
    const known = this.#times.get(end);
    const time = Math.max(this.#lastAt, known ?? Math.min(Date.now(), this.#writtenAt()));
    this.#lastAt = time;
    if (known === undefined) {
      appendFileSync(join(this.#options.folder, TIMES_FILE), `${end} ${time}\n`, { mode: 0o600 });
    }
    return time;
  }

  #writtenAt(): number {
    const path = join(this.#options.folder, ATTEMPT_FILE.output);
    return Math.round(statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Date.now());
  }
}

/** The noted times, by the end of their line; an incomplete last line does not count. */
function readTimes(path: string): Map<number, number> {
  const lines = (textOf(path) ?? "").split("\n").slice(0, -1);
  return new Map(
    lines.map((line) => {
      const [end = "", time = ""] = line.split(" ");
      return [Number(end), Number(time)];
    }),
  );
}
