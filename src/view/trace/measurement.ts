/**
 * The metrics of runs, and the measurements that an event or an ended span adds to them.
 *
 * Owns: the names, kinds and units of the metrics. docs/OPENTELEMETRY.md lists them.
 * Does not: add anything up (room `telemetry`). No metric has an attribute with the id of a run,
 *   because every run would then make new series.
 */
import type { Recorded } from "../../core/event.ts";
import type { Span, SpanAttributes } from "./span.ts";

/** A metric; a gauge holds the newest value, a counter the sum, a histogram the distribution. */
interface Metric {
  readonly kind: "counter" | "histogram" | "gauge";
  readonly unit: string;
  readonly about: string;
}

const COUNTS = { kind: "counter" } as const;
const SECONDS = { kind: "histogram", unit: "s" } as const;

/** All metrics, by their names. */
export const METRICS = {
  "perdure.runs.started": { ...COUNTS, unit: "{run}", about: "Runs that started" },
  "perdure.runs.ended": { ...COUNTS, unit: "{run}", about: "Runs that ended, by outcome" },
  "perdure.run.duration": { ...SECONDS, about: "Time from the start of a run to its end" },
  "perdure.steps.ended": { ...COUNTS, unit: "{step}", about: "Visits of steps that ended" },
  "perdure.step.duration": { ...SECONDS, about: "Time of a visit, with all its attempts" },
  "perdure.attempts.ended": { ...COUNTS, unit: "{attempt}", about: "Attempts that ended" },
  "perdure.attempt.duration": { ...SECONDS, about: "Time of an attempt" },
  "perdure.retries": { ...COUNTS, unit: "{retry}", about: "Attempts after which another follows" },
  "perdure.cost": { ...COUNTS, unit: "{USD}", about: "Cost of models, in US dollars" },
  "perdure.questions.waiting": {
    kind: "gauge",
    unit: "{question}",
    about: "Questions that wait for a person",
  },
  "gen_ai.client.token.usage": {
    kind: "histogram",
    unit: "{token}",
    about: "Tokens that an attempt of an agent used",
  },
  "gen_ai.client.operation.duration": { ...SECONDS, about: "Time of an answer of a model" },
  "gen_ai.execute_tool.duration": { ...SECONDS, about: "Time of a call of a tool" },
} as const satisfies Readonly<Record<string, Metric>>;

/** The name of a metric. */
export type MetricName = keyof typeof METRICS;

/** A value for a metric. */
export interface Measurement {
  readonly metric: MetricName;
  readonly value: number;
  readonly attributes: SpanAttributes;
}

/** What an event measures by itself. */
export function eventMeasurements({ event }: Recorded): readonly Measurement[] {
  if (event.type === "run.created" && event.from === undefined) {
    const attributes = { "perdure.pipeline": event.pipeline };
    return [{ metric: "perdure.runs.started", value: 1, attributes }];
  }
  if ("retry" in event && event.retry !== undefined) {
    const reason = "reason" in event ? event.reason : "lost";
    const attributes = { "perdure.step.id": event.step, "error.type": reason };
    return [{ metric: "perdure.retries", value: 1, attributes }];
  }
  return [];
}

const MS_PER_SECOND = 1_000;

/** The attributes of a span that its measurements have, too. */
const SHARED = [
  ...["perdure.pipeline", "perdure.step.id", "perdure.step.kind", "perdure.outcome"],
  ...["gen_ai.operation.name", "gen_ai.agent.name", "gen_ai.provider.name"],
  ...["gen_ai.request.model", "gen_ai.response.model", "gen_ai.tool.name"],
];

/** What an ended span measures. */
export function spanMeasurements(span: Span): readonly Measurement[] {
  const shared = Object.entries(span.attributes).filter(([name]) => SHARED.includes(name));
  const attributes: SpanAttributes = {
    ...Object.fromEntries(shared),
    ...(span.error === undefined ? {} : { "error.type": span.error.type }),
  };
  const seconds = (span.endedAt - span.startedAt) / MS_PER_SECOND;
  const took = (metric: MetricName): Measurement => ({ metric, value: seconds, attributes });
  const one = (metric: MetricName): Measurement => ({ metric, value: 1, attributes });
  switch (span.of) {
    case "run":
      return [one("perdure.runs.ended"), took("perdure.run.duration")];
    case "step":
      return [one("perdure.steps.ended"), took("perdure.step.duration")];
    case "attempt":
      return [
        one("perdure.attempts.ended"),
        took("perdure.attempt.duration"),
        ...usageOf(span, attributes),
      ];
    case "turn":
      return [took("gen_ai.client.operation.duration")];
    case "tool":
      return [took("gen_ai.execute_tool.duration")];
  }
}

function usageOf({ attributes: all }: Span, attributes: SpanAttributes): readonly Measurement[] {
  const tokens = (["input", "output"] as const).flatMap((type): readonly Measurement[] => {
    const value = all[`gen_ai.usage.${type}_tokens`];
    if (typeof value !== "number") return [];
    const typed = { ...attributes, "gen_ai.token.type": type };
    return [{ metric: "gen_ai.client.token.usage", value, attributes: typed }];
  });
  const cost = all["perdure.cost_usd"];
  if (typeof cost !== "number") return tokens;
  return [...tokens, { metric: "perdure.cost", value: cost, attributes }];
}
