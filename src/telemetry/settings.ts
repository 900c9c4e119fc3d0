/**
 * What a run knows of OpenTelemetry without any of its packages: what the `OTEL_*` variables ask for, and
 * the ids of traces and spans. The ids follow from the id of the run and the key of the span, so every
 * process that drives a run gives the same span the same id. The official exporters read the variables
 * that only they need (endpoints, headers, certificates, timeouts) themselves.
 *
 * Owns: whether traces and metrics are exported at all, the protocol, which traces are sampled, the ids, and
 * the text of TRACEPARENT.
 * Does not: load a package of OpenTelemetry: without these variables nothing of it is loaded.
 */
import { sha256 } from "../util/json.ts";

type Variables = Readonly<Record<string, string | undefined>>;

/** How a signal is sent. */
export type TelemetryProtocol = "http/protobuf" | "http/json";

/** What is exported, and how. */
export interface TelemetrySettings {
  /** Absent: no traces. */
  readonly traces?: TelemetryProtocol;
  /** Absent: no metrics. */
  readonly metrics?: TelemetryProtocol;
  /** Whether spans hold prompts, answers, and the inputs and results of tools. */
  readonly content: boolean;
  /** What cannot be done as asked. */
  readonly problem?: string;
}

type Signal = "TRACES" | "METRICS";

/** What the variables ask for; undefined when they ask for nothing. */
export function telemetrySettings(env: Variables): TelemetrySettings | undefined {
  if (env.OTEL_SDK_DISABLED?.trim().toLowerCase() === "true") return undefined;
  const wanted = (["TRACES", "METRICS"] as const).filter((signal) => isWanted(env, signal));
  if (wanted.length === 0) return undefined;
  const sent = (signal: Signal): TelemetryProtocol | undefined =>
    wanted.includes(signal) ? protocolOf(env, signal) : undefined;
  const traces = sent("TRACES");
  const metrics = sent("METRICS");
  const unknown = wanted.find((signal) => protocolOf(env, signal) === undefined);
  return {
    ...(traces === undefined ? {} : { traces }),
    ...(metrics === undefined ? {} : { metrics }),
    content: CONTENT_ON.has(
      (env.OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT ?? "").trim().toLowerCase(),
    ),
    ...(unknown === undefined ? {} : { problem: protocolProblem(env, unknown) }),
  };
}

const CONTENT_ON = new Set(["true", "span_only", "span_and_event"]);

/** Only an address, or the word `otlp`, turns a signal on: a run never looks for a collector. */
function isWanted(env: Variables, signal: Signal): boolean {
  const exporter = env[`OTEL_${signal}_EXPORTER`]?.trim() ?? "";
  if (exporter !== "") return exporter.split(",").some((name) => name.trim() === "otlp");
  const endpoints = [env.OTEL_EXPORTER_OTLP_ENDPOINT, env[`OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`]];
  return endpoints.some((endpoint) => (endpoint ?? "").trim() !== "");
}

function protocolName(env: Variables, signal: Signal): string {
  const own = env[`OTEL_EXPORTER_OTLP_${signal}_PROTOCOL`]?.trim();
  const common = env.OTEL_EXPORTER_OTLP_PROTOCOL?.trim();
  return own || common || "http/protobuf";
}

function protocolOf(env: Variables, signal: Signal): TelemetryProtocol | undefined {
  const name = protocolName(env, signal);
  return name === "http/protobuf" || name === "http/json" ? name : undefined;
}

function protocolProblem(env: Variables, signal: Signal): string {
  const help = "set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf, and its port (usually 4318)";
  return `Perdure does not speak the protocol ${protocolName(env, signal)}; ${help}`;
}

/** The digits of a trace id that decide; they are random in every id. */
const RANDOM_DIGITS = 13;

/**
 * Whether a trace is exported, as OTEL_TRACES_SAMPLER says. The trace id decides, so every process
 * that drives a run decides the same. `isParentSampled` is what the trace around it says.
 */
export function isSampled(
  env: Variables,
  traceId: string,
  isParentSampled: boolean | undefined,
): boolean {
  const name = env.OTEL_TRACES_SAMPLER?.trim() || "parentbased_always_on";
  const [, based, own] = /^(parentbased_)?(.*)$/.exec(name) ?? [];
  if (based !== undefined && isParentSampled !== undefined) return isParentSampled;
  if (own === "always_off") return false;
  if (own !== "traceidratio") return true;
  const ratio = Number(env.OTEL_TRACES_SAMPLER_ARG ?? "1");
  const part = Number.parseInt(traceId.slice(-RANDOM_DIGITS), 16) / 16 ** RANDOM_DIGITS;
  return Number.isNaN(ratio) || part >= 1 - ratio;
}

const TRACE_DIGITS = 32;
const SPAN_DIGITS = 16;

/** The place of a run in a trace: one of its own, or that of the program which started it. */
export interface TraceRef {
  readonly traceId: string;
  /** The span of the program that started the run. */
  readonly parentId?: string;
  readonly isParentSampled?: boolean;
}

/** The trace of a run; `traceparent` is what it was started with. */
export function traceOf(runId: string, traceparent?: string): TraceRef {
  const given = traceparent === undefined ? undefined : parseTraceparent(traceparent);
  return given ?? { traceId: sha256(`perdure run ${runId}`).slice(0, TRACE_DIGITS) };
}

/** The id of a span of a run. */
export function spanIdOf(runId: string, key: string): string {
  return sha256(`perdure span ${runId} ${key}`).slice(0, SPAN_DIGITS);
}

/** The value of TRACEPARENT for what works inside a span. */
export function traceparentOf(traceId: string, spanId: string, isSampled: boolean): string {
  return `00-${traceId}-${spanId}-${isSampled ? "01" : "00"}`;
}

/** Reads a TRACEPARENT; undefined where it is not one. */
export function parseTraceparent(text: string): TraceRef | undefined {
  const [, version, traceId, parentId, flags] =
    /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:$|-)/.exec(text.trim()) ?? [];
  if (version === undefined || version === "ff") return undefined;
  if (traceId === undefined || /^0+$/.test(traceId)) return undefined;
  if (parentId === undefined || /^0+$/.test(parentId)) return undefined;
  return { traceId, parentId, isParentSampled: (Number.parseInt(flags ?? "0", 16) & 1) === 1 };
}
