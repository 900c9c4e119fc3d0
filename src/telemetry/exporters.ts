/**
 * Gives the spans and the measurements of a run to OpenTelemetry: spans to its own exporters, and
 * measurements to its own instruments, whose sums are exported at an interval and at the end.
 *
 * Owns: the translation of our values to theirs, the resource (who sends them), the instruments, and up to
 * which event the exported sums go.
 * Does not: measure, or decide what is exported, or when. The exporters read their own variables.
 */

import { randomUUID } from "node:crypto";
import {
  type Attributes,
  type HrTime,
  type Meter,
  SpanKind,
  SpanStatusCode,
} from "@opentelemetry/api";
import { OTLPMetricExporter as JsonMetricExporter } from "@opentelemetry/exporter-metrics-otlp-http";
import { OTLPMetricExporter as ProtoMetricExporter } from "@opentelemetry/exporter-metrics-otlp-proto";
import { OTLPTraceExporter as JsonTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { OTLPTraceExporter as ProtoTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import {
  defaultResource,
  detectResources,
  envDetector,
  type Resource,
  resourceFromAttributes,
} from "@opentelemetry/resources";
import { MeterProvider, MetricReader, type PushMetricExporter } from "@opentelemetry/sdk-metrics";
import type { ReadableSpan, SpanExporter } from "@opentelemetry/sdk-trace";
import { METRICS, type Measurement, type MetricName } from "../view/trace/measurement.ts";
import type { Span, SpanAttributes } from "../view/trace/span.ts";
import { spanIdOf, type TelemetryProtocol, type TraceRef, traceOf } from "./settings.ts";
import type { SpanDelivery } from "./span-queue.ts";

/** The name under which the spans and metrics of Perdure appear. */
const SCOPE_NAME = "perdure";

/** Who sends: the same for every process that drives a run, unless the variables differ. */
export function resourceOf(version: string, more: SpanAttributes = {}): Resource {
  const own = resourceFromAttributes({
    "service.name": "perdure",
    "service.version": version,
    ...attributesOf(more),
  });
  return defaultResource()
    .merge(own)
    .merge(detectResources({ detectors: [envDetector] }));
}

/** The run whose spans are exported. */
interface ExportedRun {
  readonly runId: string;
  readonly trace: TraceRef;
  /** For a fork: the trace of the run that it was forked from. */
  readonly origin?: TraceRef;
  readonly resource: Resource;
  readonly version: string;
}

const SAMPLED = 1;
const MS_PER_SECOND = 1_000;
const NS_PER_MS = 1_000_000;

/** The exporter of a protocol. */
export function spanExporter(protocol: TelemetryProtocol): SpanExporter {
  return protocol === "http/json" ? new JsonTraceExporter() : new ProtoTraceExporter();
}

/** Sends spans; the result never rejects. */
export async function sendSpans(
  exporter: SpanExporter,
  spans: readonly ReadableSpan[],
): Promise<SpanDelivery> {
  return new Promise((done) => {
    exporter.export([...spans], ({ code, error }) =>
      done(code === 0 ? { type: "received" } : failedDelivery(error)),
    );
  });
}

const REQUEST_TIMEOUT = 408;
const TOO_MANY_REQUESTS = 429;

/** A collector that answers with 4xx will not take the same batch later. */
function failedDelivery(error: Error | undefined): SpanDelivery {
  const status = error !== undefined && "code" in error ? Number(error.code) : Number.NaN;
  const isRefusal = status >= 400 && status < 500;
  const isTemporary = status === REQUEST_TIMEOUT || status === TOO_MANY_REQUESTS;
  const said = error?.message ?? "";
  // The error of several addresses has no message of its own.
  const parts = error instanceof AggregateError ? (error.errors as readonly Error[]) : [];
  const why = said === "" ? (parts[0]?.message ?? "the collector cannot be reached") : said;
  return { type: isRefusal && !isTemporary ? "refused" : "unreachable", why };
}

/** A span as the exporters take it. */
export function readableSpan(run: ExportedRun, span: Span): ReadableSpan {
  const { runId, trace } = run;
  const parentId = span.parent === undefined ? trace.parentId : spanIdOf(runId, span.parent);
  const context = (spanId: string): ReturnType<ReadableSpan["spanContext"]> => ({
    traceId: trace.traceId,
    spanId,
    traceFlags: SAMPLED,
  });
  const own = context(spanIdOf(runId, span.key));
  const { error } = span;
  return {
    name: span.name,
    kind: span.of === "turn" ? SpanKind.CLIENT : SpanKind.INTERNAL,
    spanContext: () => own,
    ...(parentId === undefined ? {} : { parentSpanContext: context(parentId) }),
    startTime: hrTime(span.startedAt),
    endTime: hrTime(span.endedAt),
    duration: hrTime(span.endedAt - span.startedAt),
    ended: true,
    status:
      error === undefined
        ? { code: SpanStatusCode.UNSET }
        : { code: SpanStatusCode.ERROR, message: error.message },
    attributes: {
      ...attributesOf(span.attributes),
      ...(error === undefined ? {} : { "error.type": error.type }),
    },
    events: span.events.map(({ time, name, attributes }) => ({
      time: hrTime(time),
      name,
      attributes: attributesOf(attributes),
    })),
    links: span.links.map(({ run: of = runId, key, why }) => ({
      context: {
        traceId: (of === runId ? trace : (run.origin ?? traceOf(of))).traceId,
        spanId: spanIdOf(of, key),
        traceFlags: SAMPLED,
      },
      attributes: { "perdure.link": why },
    })),
    resource: run.resource,
    instrumentationScope: { name: SCOPE_NAME, version: run.version },
    droppedAttributesCount: 0,
    droppedEventsCount: span.eventsDropped,
    droppedLinksCount: 0,
  };
}

function hrTime(ms: number): HrTime {
  const whole = Math.floor(ms / MS_PER_SECOND);
  return [whole, Math.round((ms - whole * MS_PER_SECOND) * NS_PER_MS)];
}

/** Attributes as OpenTelemetry takes them. */
function attributesOf(attributes: SpanAttributes): Attributes {
  return Object.fromEntries(
    Object.entries(attributes).map(([name, value]) => [
      name,
      typeof value === "object" ? [...value] : value,
    ]),
  );
}

/** Buckets for durations: from a command that ends at once to an agent that works for a day. */
const SECONDS_BUCKETS = [
  ...[0.1, 0.5, 1, 5, 10, 30, 60, 120, 300, 600],
  ...[1_800, 3_600, 7_200, 21_600, 86_400],
];
/** The buckets that the conventions for generative AI recommend for tokens. */
const TOKEN_BUCKETS = Array.from({ length: 14 }, (_, index) => 4 ** index);

/** Reads the sums when it is asked; it has no timer. */
class AskedReader extends MetricReader {
  protected override async onForceFlush(): Promise<void> {
    // Nothing is kept back.
  }

  protected override async onShutdown(): Promise<void> {
    // Nothing is held.
  }
}

/** The metrics of one process. */
export class Meters {
  readonly #exporter: PushMetricExporter;
  readonly #reader: AskedReader;
  readonly #record: ReadonlyMap<MetricName, (measurement: Measurement) => void>;
  #isEmpty = true;

  constructor(protocol: TelemetryProtocol, version: string) {
    this.#exporter =
      protocol === "http/json" ? new JsonMetricExporter() : new ProtoMetricExporter();
    const exporter = this.#exporter;
    this.#reader = new AskedReader({
      ...(exporter.selectAggregationTemporality === undefined
        ? {}
        : {
            aggregationTemporalitySelector: (type) =>
              exporter.selectAggregationTemporality?.(type) ?? 0,
          }),
    });
    // Two processes that drive a run one after the other have sums of their own.
    const resource = resourceOf(version, { "service.instance.id": randomUUID() });
    const provider = new MeterProvider({ resource, readers: [this.#reader] });
    const meter = provider.getMeter(SCOPE_NAME, version);
    const names = Object.keys(METRICS) as readonly MetricName[];
    this.#record = new Map(names.map((name) => [name, recorderOf(meter, name)]));
  }

  add(measurement: Measurement): void {
    this.#isEmpty = false;
    this.#record.get(measurement.metric)?.(measurement);
  }

  /** Sends the sums so far; the result never rejects. */
  async send(): Promise<SpanDelivery> {
    if (this.#isEmpty) return { type: "received" };
    const { resourceMetrics } = await this.#reader.collect();
    return new Promise((done) => {
      this.#exporter.export(resourceMetrics, ({ code, error }) =>
        done(code === 0 ? { type: "received" } : failedDelivery(error)),
      );
    });
  }
}

function recorderOf(meter: Meter, name: MetricName): (measurement: Measurement) => void {
  const { kind, unit, about: description } = METRICS[name];
  if (kind === "counter") {
    const counter = meter.createCounter(name, { unit, description });
    return ({ value, attributes }) => counter.add(value, attributesOf(attributes));
  }
  if (kind === "gauge") {
    const gauge = meter.createGauge(name, { unit, description });
    return ({ value, attributes }) => gauge.record(value, attributesOf(attributes));
  }
  const explicitBucketBoundaries = unit === "s" ? SECONDS_BUCKETS : TOKEN_BUCKETS;
  const advice = { explicitBucketBoundaries };
  const histogram = meter.createHistogram(name, { unit, description, advice });
  return ({ value, attributes }) => histogram.record(value, attributesOf(attributes));
}
