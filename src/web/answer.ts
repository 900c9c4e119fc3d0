/**
 * How a route looks: what it is given, and what it returns; and server-sent events. The next event is
 * asked for when the last one has left for the client, so a slow client costs no memory: it gets fewer
 * and newer events.
 *
 * Owns: these types, the errors that only the server has, the form of a stream and the sign of life in it.
 * Does not: know HTTP beyond a status; server.ts makes responses.
 */
import type { FieldsOf } from "../core/shape.ts";
import type { DocumentOf, DocumentShape } from "../view/json/document-parts.ts";
import type { Dashboard } from "./dashboard.ts";
import type { Endpoint, Sent } from "./endpoint.ts";
import type { ENDPOINTS, EndpointName } from "./endpoints.ts";

/** The parts of a path that the caller chooses: "run" of `/api/runs/:run/show`. */
type PartsOf<P> = P extends `${string}:${infer Part}/${infer Rest}`
  ? Part | PartsOf<Rest>
  : P extends `${string}:${infer Part}`
    ? Part
    : never;

/** What a caller asked for. */
export interface Asked<E extends Endpoint = Endpoint> {
  /** The parts of the path, decoded. */
  readonly path: Readonly<Record<PartsOf<E["path"]>, string>>;
  readonly query: Readonly<Partial<Record<keyof E["query"], string>>>;
  /** The JSON object of a POST, checked against its fields. */
  readonly body: FieldsOf<E["body"]>;
  /** The last event of a stream that the caller has seen, by its id. */
  readonly lastId: string | undefined;
  /** Aborted when nobody waits for the answer any more. */
  readonly signal: AbortSignal;
}

/** One event of a stream; its id says where a caller that lost the connection continues. */
export interface StreamEvent<T> {
  readonly id: number;
  /** Its own name, in place of that of the stream. */
  readonly name?: string;
  readonly value: T;
}

/** Bytes that are sent as they are. */
export interface SentBytes {
  readonly type: string;
  readonly body: string | Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array>;
  readonly headers?: Readonly<Record<string, string>>;
}

type AnswerOf<S extends Sent> = S extends { kind: "document"; document: infer D }
  ? DocumentOf<D>
  : S extends { kind: "stream"; document: infer D extends DocumentShape }
    ? AsyncIterable<StreamEvent<DocumentOf<D>>>
    : SentBytes;

/** Answers one address. A stream asks for the next event when the last one was sent. */
export type Route<E extends Endpoint> = (
  dashboard: Dashboard,
  asked: Asked<E>,
) => Promise<AnswerOf<E["sent"]>>;

/** Routes for all addresses of the table. */
export type Routes = { readonly [N in EndpointName]: Route<(typeof ENDPOINTS)[N]> };

/** An error of the request itself: the status of the response, a code and a message. */
export class RequestError extends Error {
  override readonly name = "RequestError";
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** How often a stream without news sends a comment, so that a lost connection is noticed. */
const SIGN_OF_LIFE_MS = 15_000;
/** How long a client waits before it connects again. */
const RECONNECT_MS = 1_000;

interface StreamOptions<T> {
  readonly event: string;
  readonly events: AsyncIterable<StreamEvent<T>>;
  /** The JSON of a value. */
  readonly textOf: (value: T) => string;
  /** Ends the events when the client is gone. */
  readonly abort: () => void;
}

/** The body of a response with these events. */
export function eventStream<T>(options: StreamOptions<T>): ReadableStream<Uint8Array> {
  const { event, events, textOf, abort } = options;
  const encoder = new TextEncoder();
  const iterator = events[Symbol.asyncIterator]();
  let next: Promise<IteratorResult<StreamEvent<T>>> | undefined;
  return new ReadableStream(
    {
      start: (controller) => controller.enqueue(encoder.encode(`retry: ${RECONNECT_MS}\n\n`)),
      pull: async (controller) => {
        next ??= iterator.next();
        const found = await firstOf(next, SIGN_OF_LIFE_MS);
        if (found === "late") {
          controller.enqueue(encoder.encode(": \n\n"));
          return;
        }
        next = undefined;
        if (found.done === true) {
          controller.close();
          return;
        }
        const { id, name = event, value } = found.value;
        const text = `event: ${name}\nid: ${id}\ndata: ${textOf(value)}\n\n`;
        controller.enqueue(encoder.encode(text));
      },
      cancel: async () => {
        abort();
        await iterator.return?.();
      },
    },
    { highWaterMark: 0 },
  );
}

async function firstOf<T>(promise: Promise<T>, ms: number): Promise<T | "late"> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<"late">((done) => {
    timer = setTimeout(() => done("late"), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
