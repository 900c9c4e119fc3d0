/**
 * Adds up the measurements of a run with OpenTelemetry's own instruments, and exports the sums at
 * an interval and at the end.
 *
 * Owns: the instruments, and up to which event the exported sums go.
 * Does not: measure.
 */
import { randomUUID } from "node:crypto";
import type { Meter } from "@opentelemetry/api";
import { OTLPMetricExporter as JsonMetricExporter } from "@opentelemetry/exporter-metrics-otlp-http";
import { OTLPMetricExporter as ProtoMetricExporter } from "@opentelemetry/exporter-metrics-otlp-proto";
import { MeterProvider, MetricReader, type PushMetricExporter } from "@opentelemetry/sdk-metrics";
import { METRICS, type Measurement, type MetricName } from "../view/trace/measurement.ts";
import type { TelemetryProtocol } from "./settings.ts";
import { attributesOf, failedDelivery, resourceOf, SCOPE_NAME } from "./span-exporter.ts";
import type { SpanDelivery } from "./span-queue.ts";

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
