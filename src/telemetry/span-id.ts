/**
 * The ids of traces and spans. They follow from the id of the run and the key of the span, so every
 * process that drives a run gives the same span the same id.
 *
 * Owns: these ids, and the text of TRACEPARENT.
 * Does not: load a package of OpenTelemetry.
 */
import { sha256 } from "../util/json.ts";

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
