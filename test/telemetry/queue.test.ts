/** What waits for a collector, and what the variables ask for. */
import { describe, expect, it } from "vitest";
import {
  isSampled,
  parseTraceparent,
  spanIdOf,
  telemetrySettings,
  traceOf,
} from "../../src/telemetry/settings.ts";
import { type SpanDelivery, SpanQueue } from "../../src/telemetry/span-queue.ts";

describe("the queue of spans", () => {
  /** A queue whose batches are delivered as the test says, one answer after the other. */
  function queueWith(answers: readonly SpanDelivery["type"][]): {
    readonly queue: SpanQueue<number>;
    readonly sent: (readonly number[])[];
  } {
    const sent: (readonly number[])[] = [];
    const left = [...answers];
    const queue = new SpanQueue<number>({
      send: async (batch) => {
        sent.push(batch);
        const type = left.shift() ?? "received";
        return type === "received" ? { type } : { type, why: `it is ${type}` };
      },
      onReceived: () => undefined,
      spansMax: 4,
      batchMax: 2,
      delayMs: 100_000,
    });
    return { queue, sent };
  }

  const at = (position: number, source = "run") => ({ value: position, source, position });

  it("sends a batch again that did not arrive, and counts received spans in order", async () => {
    const { queue, sent } = queueWith(["unreachable", "received"]);
    for (const position of [1, 2, 3]) queue.add(at(position));
    await queue.room();
    expect(queue).toMatchObject({ missing: 3, why: "it is unreachable" });
    expect(queue.received("run")).toBeUndefined();
    await queue.flush();
    expect(sent).toEqual([[1, 2], [1, 2], [3]]);
    expect(queue.missing).toBe(0);
    expect(queue.received("run")).toBe(3);
  });

  it("never holds more than its limit, and counts nothing as received after a loss (telemetry/Q1, Q2)", async () => {
    const { queue, sent } = queueWith(["unreachable"]);
    for (const position of [1, 2, 3, 4, 5]) queue.add(at(position));
    queue.add(at(1, "fix@1.1"));
    await queue.flush();
    expect(sent.flat()).not.toContain(5);
    expect(queue.missing).toBeGreaterThanOrEqual(2);
    const [other] = [queue.received("fix@1.1")];
    expect(other).toBeUndefined();
    queue.add(at(6));
    await queue.flush();
    expect(sent.flat()).toContain(6);
    expect(queue.received("run")).not.toBe(6);
  });

  it("gives up a batch that the collector refuses", async () => {
    const { queue } = queueWith(["refused"]);
    for (const position of [1, 2]) queue.add(at(position));
    queue.add(at(1, "fix@1.1"));
    await queue.flush();
    expect(queue).toMatchObject({ missing: 2, why: "it is refused" });
    expect(queue.received("fix@1.1")).toBe(1);
  });
});

describe("the OTEL variables", () => {
  const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://localhost:4318" };
  const proto = "http/protobuf";

  it("turn a signal on only if they name an address or an exporter", () => {
    expect(telemetrySettings({ OTEL_SERVICE_NAME: "x" })).toBeUndefined();
    expect(telemetrySettings({ ...endpoint, OTEL_SDK_DISABLED: "TRUE" })).toBeUndefined();
    expect(telemetrySettings(endpoint)).toEqual({ traces: proto, metrics: proto, content: false });
    expect(telemetrySettings({ ...endpoint, OTEL_TRACES_EXPORTER: "none" })).toEqual({
      metrics: proto,
      content: false,
    });
    const traces = { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://localhost:4318/v1/traces" };
    expect(telemetrySettings(traces)).toEqual({ traces: proto, content: false });
    const own = { OTEL_METRICS_EXPORTER: "otlp", OTEL_EXPORTER_OTLP_METRICS_PROTOCOL: "http/json" };
    expect(telemetrySettings(own)).toEqual({ metrics: "http/json", content: false });
  });

  it("sample a trace by its id, or as its parent was sampled", () => {
    const half = {
      OTEL_TRACES_SAMPLER: "parentbased_traceidratio",
      OTEL_TRACES_SAMPLER_ARG: "0.5",
    };
    const ids = Array.from({ length: 400 }, (_, index) => traceOf(`run ${index}`).traceId);
    const sampled = ids.filter((id) => isSampled(half, id, undefined));
    expect(sampled.length).toBeGreaterThan(120);
    expect(sampled.length).toBeLessThan(280);
    expect(ids.every((id) => isSampled(half, id, true))).toBe(true);
    expect(isSampled({}, ids[0] ?? "", false)).toBe(false);
    expect(isSampled({ OTEL_TRACES_SAMPLER: "always_on" }, ids[0] ?? "", false)).toBe(true);
  });

  it("name the trace around a run, unless TRACEPARENT is invalid", () => {
    const id = "4bf92f3577b34da6a3ce929d0e0e4736";
    const given = `00-${id}-00f067aa0ba902b7-01`;
    expect(traceOf("a", given)).toEqual({
      traceId: id,
      parentId: "00f067aa0ba902b7",
      isParentSampled: true,
    });
    for (const wrong of [
      "",
      "mine",
      `00-${"0".repeat(32)}-00f067aa0ba902b7-01`,
      `ff${given.slice(2)}`,
    ]) {
      expect(parseTraceparent(wrong)).toBeUndefined();
    }
    expect(traceOf("a")).toEqual(traceOf("a"));
    expect(spanIdOf("a", "run")).toMatch(/^[0-9a-f]{16}$/);
    expect(spanIdOf("a", "run")).not.toBe(spanIdOf("b", "run"));
  });
});
