/**
 * A collector for tests: an HTTP server that takes OTLP, as protobuf or as JSON, and remembers what
 * it got. Protobuf is decoded with the definitions of OpenTelemetry, from an official package of
 * another generation than the one that encodes it.
 */
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import definitions from "otlp-definitions/build/src/generated/root.js";

/** A value of OTLP. */
type Value = string | number | boolean | readonly string[];

/** A span as it arrived. */
export interface ReceivedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentId: string;
  readonly name: string;
  readonly start: bigint;
  readonly end: bigint;
  /** 0: none, 2: error. */
  readonly status: number;
  readonly message: string;
  readonly attributes: Readonly<Record<string, Value>>;
  readonly events: readonly { readonly name: string; readonly attributes: unknown }[];
  readonly links: readonly { readonly traceId: string; readonly spanId: string }[];
  readonly resource: Readonly<Record<string, Value>>;
}

/** A data point of a metric as it arrived. */
export interface ReceivedPoint {
  readonly metric: string;
  readonly attributes: Readonly<Record<string, Value>>;
  /** The sum, or for a histogram its count. */
  readonly value: number;
  readonly instance: Value | undefined;
}

interface Json {
  readonly [name: string]: Json | undefined;
}

interface Message {
  decode(bytes: Uint8Array): unknown;
}

/** The part of the definitions that a collector needs; the package declares none of it. */
interface Definitions {
  readonly opentelemetry: {
    readonly proto: {
      readonly collector: {
        readonly trace: { readonly v1: { readonly ExportTraceServiceRequest: Message } };
        readonly metrics: { readonly v1: { readonly ExportMetricsServiceRequest: Message } };
      };
    };
  };
}

const { trace, metrics } = (definitions as unknown as Definitions).opentelemetry.proto.collector;
const REQUESTS: Readonly<Record<string, Message>> = {
  "/v1/traces": trace.v1.ExportTraceServiceRequest,
  "/v1/metrics": metrics.v1.ExportMetricsServiceRequest,
};

/** How a collector behaves: it takes everything, is broken, or never answers. */
type Behaviour = "takes" | "fails" | "hangs";

export class Collector {
  readonly spans: ReceivedSpan[] = [];
  readonly points: ReceivedPoint[] = [];
  /** The content type of each request, and the header `x-test`. */
  readonly requests: { readonly type: string; readonly header: string }[] = [];
  behaviour: Behaviour = "takes";
  readonly #server: Server;
  readonly #hanging: ServerResponse[] = [];

  constructor() {
    this.#server = createServer((request, response) => {
      buffer(request)
        .then((body) => {
          const { "content-type": type = "", "x-test": header = "" } = request.headers;
          this.requests.push({ type, header: String(header) });
          if (this.behaviour === "hangs") {
            this.#hanging.push(response);
            return;
          }
          if (this.behaviour === "takes") this.#take(request.url ?? "", type, body);
          response.writeHead(this.behaviour === "takes" ? 200 : 503, { "content-type": type });
          response.end(type.includes("json") ? "{}" : "");
        })
        .catch((error: unknown) => {
          response.writeHead(400);
          response.end(String(error));
        });
    });
  }

  /** Starts it; gives its address. */
  async listen(): Promise<string> {
    await new Promise<void>((done) => this.#server.listen(0, "127.0.0.1", () => done()));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    for (const response of this.#hanging) response.destroy();
    this.#server.closeAllConnections();
    await new Promise((done) => this.#server.close(done));
  }

  /** The spans, each once; throws when a span arrived with two contents. */
  distinct(): readonly ReceivedSpan[] {
    const byId = new Map<string, ReceivedSpan>();
    for (const span of this.spans) {
      const before = byId.get(span.spanId);
      if (before !== undefined && textOf(before) !== textOf(span)) {
        throw new Error(`a span arrived with two contents:\n${textOf(before)}\n${textOf(span)}`);
      }
      byId.set(span.spanId, span);
    }
    return [...byId.values()];
  }

  #take(url: string, type: string, body: Buffer): void {
    const request = type.includes("json")
      ? (JSON.parse(body.toString("utf8")) as Json)
      : (REQUESTS[url]?.decode(body) as Json | undefined);
    for (const group of list(request?.resourceSpans)) {
      const resource = attributesIn(group.resource?.attributes);
      for (const scope of list(group.scopeSpans)) {
        for (const span of list(scope.spans)) this.spans.push(spanIn(span, resource));
      }
    }
    for (const group of list(request?.resourceMetrics)) {
      const instance = attributesIn(group.resource?.attributes)["service.instance.id"];
      for (const scope of list(group.scopeMetrics)) {
        for (const metric of list(scope.metrics)) this.points.push(...pointsIn(metric, instance));
      }
    }
  }
}

function textOf(span: ReceivedSpan): string {
  return JSON.stringify(span, (_, value: unknown) =>
    typeof value === "bigint" ? value.toString() : value,
  );
}

function list(value: Json | undefined): readonly Json[] {
  return Array.isArray(value) ? (value as readonly Json[]) : [];
}

/** Bytes in protobuf, hexadecimal digits in JSON. */
function idIn(value: unknown): string {
  return typeof value === "string"
    ? value
    : Buffer.from((value ?? []) as Uint8Array).toString("hex");
}

function attributesIn(value: Json | undefined): Record<string, Value> {
  return Object.fromEntries(list(value).map(({ key, value: one }) => [String(key), valueIn(one)]));
}

function valueIn(value: Json | undefined): Value {
  const { stringValue, intValue, doubleValue, boolValue, arrayValue } = value ?? {};
  if (typeof stringValue === "string") return stringValue;
  if (arrayValue) return list(arrayValue.values).map((one) => String(valueIn(one)));
  if (typeof boolValue === "boolean") return boolValue;
  return Number(intValue ?? doubleValue ?? 0);
}

function spanIn(span: Json, resource: Record<string, Value>): ReceivedSpan {
  const { status } = span;
  return {
    traceId: idIn(span.traceId),
    spanId: idIn(span.spanId),
    parentId: idIn(span.parentSpanId),
    name: String(span.name),
    start: BigInt(String(span.startTimeUnixNano)),
    end: BigInt(String(span.endTimeUnixNano)),
    status: Number(status?.code ?? 0),
    message: String(status?.message ?? ""),
    attributes: attributesIn(span.attributes),
    events: list(span.events).map(({ name, attributes }) => ({
      name: String(name),
      attributes: attributesIn(attributes),
    })),
    links: list(span.links).map(({ traceId, spanId }) => ({
      traceId: idIn(traceId),
      spanId: idIn(spanId),
    })),
    resource,
  };
}

function pointsIn(metric: Json, instance: Value | undefined): readonly ReceivedPoint[] {
  const { sum, gauge, histogram } = metric;
  return list((sum ?? gauge ?? histogram)?.dataPoints).map((point) => ({
    metric: String(metric.name),
    attributes: attributesIn(point.attributes),
    value: Number(histogram ? point.count : (point.asInt ?? point.asDouble ?? 0)),
    instance,
  }));
}
