/**
 * Gives spans to OpenTelemetry's own exporters, and metrics to its own sums.
 *
 * Owns: the translation of our values to theirs, and the resource: who sends them.
 * Does not: decide what is exported, or when. The exporters read their own variables.
 */
import { type Attributes, type HrTime, SpanKind, SpanStatusCode } from "@opentelemetry/api";
import { OTLPTraceExporter as JsonTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { OTLPTraceExporter as ProtoTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import {
  defaultResource,
  detectResources,
  envDetector,
  type Resource,
  resourceFromAttributes,
} from "@opentelemetry/resources";
import type { ReadableSpan, SpanExporter } from "@opentelemetry/sdk-trace";
import type { Span, SpanAttributes } from "../view/trace/span.ts";
import type { TelemetryProtocol } from "./settings.ts";
import { spanIdOf, type TraceRef, traceOf } from "./span-id.ts";
import type { SpanDelivery } from "./span-queue.ts";

/** The name under which the spans and metrics of Perdure appear. */
export const SCOPE_NAME = "perdure";

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
export function failedDelivery(error: Error | undefined): SpanDelivery {
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
export function attributesOf(attributes: SpanAttributes): Attributes {
  return Object.fromEntries(
    Object.entries(attributes).map(([name, value]) => [
      name,
      typeof value === "object" ? [...value] : value,
    ]),
  );
}
