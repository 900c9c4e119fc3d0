/**
 * Exports what happens in a run as OpenTelemetry's traces and metrics, for the process that drives it. A
 * thread of its own makes the spans and sends them to the collector (telemetry-worker.ts), so a slow
 * collector, a full queue or an error in there neither slows nor ends the run.
 *
 * Owns: the thread, what it gets, and how long its end may take; `telemetry.json` in the folder of a
 * run, which says what the collector has received. The next process that drives the run continues
 * there; without the file all spans are sent again, and they are the same.
 * Does not: know spans. The settings are read before this file is loaded (telemetry/settings.ts).
 * Invariants:
 * - telemetry/W1 Nothing that goes wrong here reaches the run: it becomes one line for a person.
 */

import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import type { AttemptRef, EventOf, Recorded } from "../../core/event.ts";
import { attemptText } from "../../core/step-path.ts";
import type { RunDir } from "../../engine/state-dir.ts";
import type { Plan } from "../../plan/plan.ts";
import { textOf } from "../../runner/file-text.ts";
import {
  isSampled,
  spanIdOf,
  type TelemetrySettings,
  type TraceRef,
  traceOf,
  traceparentOf,
} from "../../telemetry/settings.ts";
import { defined } from "../../util/defined.ts";
import { isObject, parseJson } from "../../util/json.ts";
import type { SecretMarks } from "../../util/secrets.ts";
import { countText } from "../../view/text.ts";
import type { LoadedRun } from "../loaded-run.ts";
import { hiddenSecrets } from "../output/secret-mask.ts";
import { packageVersion } from "../this-process.ts";

/** What the thread knows from the start. */
export interface TelemetryStart {
  readonly runId: string;
  readonly dir: RunDir;
  readonly settings: TelemetrySettings;
  readonly version: string;
  readonly trace: TraceRef;
  /** For a fork: the trace of the run that it was forked from. */
  readonly origin?: TraceRef;
  readonly isSampled: boolean;
  /** The plans of the run, by fingerprint. */
  readonly plans: ReadonlyMap<string, Plan>;
  /** What the collector has received from earlier processes. */
  readonly received: TelemetryNote;
}

/** A message to the thread. */
export type TelemetryOrder =
  | {
      readonly type: "events";
      readonly events: readonly Recorded[];
      /** True for events from before this process drove the run. */
      readonly isPast: boolean;
      readonly secrets?: HiddenSecrets;
    }
  | { readonly type: "close" };

/** What the thread reports. */
export type TelemetryReport =
  | { readonly type: "taken" }
  | { readonly type: "closed"; readonly missing: number; readonly why?: string };

/** The secrets that spans must not show. */
interface HiddenSecrets {
  readonly values: readonly string[];
  readonly marks: readonly SecretMarks[];
}

/** The export of one run by one process. */
interface Telemetry {
  /** The variables with which the processes of an attempt join its trace. */
  variables(at: AttemptRef): Readonly<Record<string, string>>;
  record(events: readonly Recorded[]): void;
  /** Exports the rest within a limit; returns a line for a person if not everything arrived. */
  close(): Promise<string | undefined>;
}

/** How many events one message to the thread holds. */
const EVENTS_PER_MESSAGE_MAX = 500;
/** How many new events may wait for the thread. */
const EVENTS_WAITING_MAX = 50_000;
/** How much memory the thread may use. */
const THREAD_MEMORY_MB = 256;
/** How long the thread may take to say what it could not export, after its own limit. */
const CLOSE_MAX_MS = 4_000;
const OWN_ENDING = import.meta.url.endsWith(".ts") ? ".ts" : ".js";

/** Starts the export of a run. */
export function openTelemetry(known: LoadedRun, settings: TelemetrySettings): Telemetry {
  if (settings.traces === undefined && settings.metrics === undefined)
    return withoutExport(settings);
  const { id: runId, dir, run, events, plans } = known;
  const { trace, origin } = tracesOf(runId, run.created);
  const sampled = isSampled(process.env, trace.traceId, trace.isParentSampled);
  const start: TelemetryStart = {
    ...{ runId, dir, settings, trace, isSampled: sampled },
    version: packageVersion(),
    plans,
    received: receivedBefore(known),
    ...defined({ origin }),
  };
  const thread = new TelemetryThread(start, events);
  return {
    variables: (at) => {
      if (settings.traces === undefined) return {};
      const spanId = spanIdOf(runId, attemptText(at));
      return { TRACEPARENT: traceparentOf(trace.traceId, spanId, sampled) };
    },
    record: (news) => thread.record(news),
    close: () => thread.close(),
  };
}

/**
 * What the collector has received from earlier processes. Metrics are not about the past: those of
 * processes that exported nothing are not counted afterwards. The note is written before this
 * process records anything, so that the next one knows where its metrics begin.
 */
function receivedBefore({ id, dir, run, events }: LoadedRun): TelemetryNote {
  const known = readNote(dir.root, id);
  if (known !== undefined) return known;
  const isNew = events.every(({ event }) => event.type !== "run.opened");
  const note = { run: id, spans: 0, metrics: isNew ? 0 : run.seq, attempts: {} };
  try {
    writeNote(dir.root, note);
  } catch (error) {
    // A full disk is the run's problem, not ours (telemetry/W1).
    if ((error as NodeJS.ErrnoException).code === undefined) throw error;
  }
  return note;
}

/** Exports nothing, because the variables ask for what cannot be done; `close` reports that. */
function withoutExport({ problem }: TelemetrySettings): Telemetry {
  return {
    variables: () => ({}),
    record: () => undefined,
    close: async () => problem && `OpenTelemetry: nothing was exported: ${problem}`,
  };
}

/** A fork has a trace of its own: what its first event says belongs to the run before. */
function tracesOf(
  runId: string,
  created: EventOf<"run.created"> | undefined,
): { readonly trace: TraceRef; readonly origin?: TraceRef } {
  const { from, traceparent } = created ?? {};
  if (from === undefined) return { trace: traceOf(runId, traceparent) };
  return { trace: traceOf(runId), origin: traceOf(from.run, traceparent) };
}

/** Gives the thread its events, in order and never more than it has room for. */
class TelemetryThread {
  readonly #worker: Worker;
  readonly #settings: TelemetrySettings;
  readonly #ended: Promise<void>;
  readonly #past: readonly Recorded[];
  #pastSent = 0;
  #waiting: Recorded[] = [];
  #isBusy = false;
  #isClosing = false;
  #secretsSent = -1;
  #problem: string | undefined;
  #missing: number | undefined;

  constructor(start: TelemetryStart, past: readonly Recorded[]) {
    this.#past = past;
    this.#settings = start.settings;
    this.#problem = start.settings.problem;
    this.#worker = new Worker(new URL(`./telemetry-worker${OWN_ENDING}`, import.meta.url), {
      workerData: start,
      stdout: true,
      stderr: true,
      resourceLimits: { maxOldGenerationSizeMb: THREAD_MEMORY_MB },
    });
    this.#worker.unref();
    this.#worker.on("message", (report: TelemetryReport) => this.#reported(report));
    this.#ended = new Promise((done) => {
      this.#worker.on("exit", () => done());
      this.#worker.on("error", (error: Error) => {
        this.#problem ??= `its thread ended: ${error.message}`;
      });
    });
    this.#next();
  }

  record(events: readonly Recorded[]): void {
    if (this.#waiting.length + events.length > EVENTS_WAITING_MAX) {
      // Without these events the later ones make no sense.
      this.#problem ??= `its thread is ${EVENTS_WAITING_MAX} events behind`;
      this.#waiting = [];
      void this.#worker.terminate();
      return;
    }
    for (const one of events) this.#waiting.push(one);
    this.#next();
  }

  async close(): Promise<string | undefined> {
    this.#isClosing = true;
    this.#worker.ref();
    const timer = setTimeout(() => {
      this.#problem ??= "the collector does not answer";
      void this.#worker.terminate();
    }, CLOSE_MAX_MS);
    this.#next();
    await this.#ended;
    clearTimeout(timer);
    return this.#line();
  }

  #line(): string | undefined {
    if (this.#problem === undefined && (this.#missing ?? 0) === 0) return undefined;
    const what = this.#settings.traces === undefined ? "metrics" : "spans and metrics";
    const many = this.#missing ? countText(this.#missing, "span") : what;
    const be = this.#missing === 1 ? "was" : "were";
    return `OpenTelemetry: ${many} ${be} not exported: ${this.#problem ?? "the collector failed"}`;
  }

  #reported(report: TelemetryReport): void {
    if (report.type === "taken") {
      this.#isBusy = false;
      this.#next();
      return;
    }
    this.#missing = report.missing;
    this.#problem ??= report.why;
    void this.#worker.terminate();
  }

  /** Sends the next message when the thread has taken the one before. */
  #next(): void {
    if (this.#isBusy) return;
    const isPast = this.#pastSent < this.#past.length;
    const from = this.#pastSent;
    const batch = isPast
      ? this.#past.slice(from, from + EVENTS_PER_MESSAGE_MAX)
      : this.#waiting.splice(0, EVENTS_PER_MESSAGE_MAX);
    if (isPast) this.#pastSent += batch.length;
    if (batch.length === 0) {
      if (this.#isClosing) this.#send({ type: "close" });
      return;
    }
    const events = batch.map(withoutFacts);
    const secrets = this.#newSecrets();
    this.#send({ type: "events", events, isPast, ...defined({ secrets }) });
  }

  #send(order: TelemetryOrder): void {
    this.#isBusy = true;
    this.#worker.postMessage(order);
  }

  #newSecrets(): HiddenSecrets | undefined {
    const hidden = hiddenSecrets();
    const count = hidden.values.length + hidden.marks.length;
    if (count === this.#secretsSent) return undefined;
    this.#secretsSent = count;
    return hidden;
  }
}

function withoutFacts({ seq, time, version, event }: Recorded): Recorded {
  return { seq, time, version, event };
}

const NOTE_FILE = "telemetry.json";

/** What the collector has received: up to which event, and up to which span of open attempts. */
export interface TelemetryNote {
  /** The run; a copy of a run has the files of the other one. */
  readonly run: string;
  readonly spans: number;
  readonly metrics: number;
  readonly attempts: Readonly<Record<string, number>>;
}

/** The note of a run; undefined when there is none that can be read. */
function readNote(folder: string, run: string): TelemetryNote | undefined {
  const noted = parseJson(textOf(join(folder, NOTE_FILE)) ?? "");
  if (!noted.ok || !isObject(noted.json) || noted.json.run !== run) return undefined;
  const { spans = 0, metrics = 0, attempts = {} } = noted.json as Partial<TelemetryNote>;
  return { run, spans, metrics, attempts };
}

/** Replaces the note of a run. */
export function writeNote(folder: string, note: TelemetryNote): void {
  const path = join(folder, NOTE_FILE);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  writeFileSync(`${path}.new`, JSON.stringify(note), { mode: 0o600 });
  renameSync(`${path}.new`, path);
}
