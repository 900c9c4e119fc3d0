/**
 * A span: a part of a run with its start, its end and its result, as OpenTelemetry draws it.
 *
 * Owns: the value of a span, and the limits of what it holds.
 * Does not: know ids or exporters (room `telemetry`); a key identifies a span within its run.
 */

/** The value of an attribute. */
type SpanValue = string | number | boolean | readonly string[];

/** Named values of a span, an event or a measurement. */
export type SpanAttributes = Readonly<Record<string, SpanValue>>;

/** Something that happened at one moment of a span. */
interface SpanEvent {
  readonly time: number;
  readonly name: string;
  readonly attributes: SpanAttributes;
}

/** A reference to another span: of this run, or of the run that this one was forked from. */
export interface SpanLink {
  readonly run?: string;
  readonly key: string;
  readonly why: "continues" | "forked";
}

/** A span that has ended; its content never changes again. */
export interface Span {
  readonly of: "run" | "step" | "attempt" | "turn" | "tool";
  /** Identifies it in its run: `run`, `fix@2`, `fix@2.3`, `fix@2.3/turn 1`. */
  readonly key: string;
  /** The key of the span around it; absent for the first span of a run. */
  readonly parent?: string;
  readonly name: string;
  readonly startedAt: number;
  readonly endedAt: number;
  /** Why it failed; absent for a success, and for what neither failed nor succeeded. */
  readonly error?: { readonly type: string; readonly message: string };
  readonly attributes: SpanAttributes;
  readonly events: readonly SpanEvent[];
  /** How many events are left out. */
  readonly eventsDropped: number;
  readonly links: readonly SpanLink[];
}

/** How many events a span holds. */
const EVENTS_MAX = 128;

/** The key of the first span of a run. */
export const RUN_KEY = "run";

/** A span that has not ended. */
export class OpenSpan {
  readonly key: string;
  readonly startedAt: number;
  /** The path of the span around it. */
  readonly around: string | undefined;
  /** The paths of the open spans inside it. */
  readonly children = new Set<string>();
  readonly #span: Pick<Span, "of" | "name" | "links"> & { readonly parent?: string };
  readonly #attributes: Record<string, SpanValue>;
  readonly #events: SpanEvent[] = [];
  #eventsDropped = 0;

  constructor(
    key: string,
    startedAt: number,
    around: string | undefined,
    span: Pick<Span, "of" | "name" | "links" | "attributes"> & { readonly parent?: string },
  ) {
    const { attributes, ...rest } = span;
    this.key = key;
    this.startedAt = startedAt;
    this.around = around;
    this.#span = rest;
    this.#attributes = { ...attributes };
  }

  set(attributes: SpanAttributes): void {
    Object.assign(this.#attributes, attributes);
  }

  /** Adds to an attribute that is a number. */
  count(name: string, value: number): void {
    const before = this.#attributes[name];
    this.#attributes[name] = (typeof before === "number" ? before : 0) + value;
  }

  event(time: number, name: string, attributes: SpanAttributes = {}): void {
    if (this.#events.length < EVENTS_MAX) this.#events.push({ time, name, attributes });
    else this.#eventsDropped += 1;
  }

  /** The span, ended. A clock that was set back does not make it end before its start. */
  end(time: number, error?: Span["error"]): Span {
    return {
      ...this.#span,
      key: this.key,
      startedAt: this.startedAt,
      endedAt: Math.max(time, this.startedAt),
      ...(error === undefined ? {} : { error }),
      attributes: this.#attributes,
      events: this.#events,
      eventsDropped: this.#eventsDropped,
    };
  }
}
