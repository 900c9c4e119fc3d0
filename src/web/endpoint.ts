/**
 * An address of the server: its row in the table of addresses, and the type of the route that answers
 * it.
 *
 * Owns: the functions that write rows and read parameters, and the errors that only the server has.
 * Does not: list the addresses (endpoints.ts), or know HTTP beyond a status (server.ts).
 */
import type { Fields, FieldsOf } from "../core/shape.ts";
import type { DocumentOf, DocumentShape } from "../view/json/document-parts.ts";
import type { Dashboard } from "./dashboard.ts";

/** What an address sends: a document, a stream of documents, or bytes that are not JSON. */
type Sent =
  | { readonly kind: "document"; readonly document: DocumentShape }
  | { readonly kind: "stream"; readonly event: string; readonly document: DocumentShape }
  | { readonly kind: "bytes"; readonly type: string };

/** One address. */
export interface Endpoint {
  /** A POST changes something; a GET does not. */
  readonly method: "GET" | "POST";
  /** `:run` stands for a part that the caller chooses. */
  readonly path: string;
  readonly about: string;
  /** The parameters after `?`, each with one sentence. */
  readonly query: Readonly<Record<string, string>>;
  /** The fields of the JSON object that a POST takes. */
  readonly body: Fields;
  readonly sent: Sent;
}

/** Sends a document. */
export const document = <D extends DocumentShape>(shape: D) =>
  ({ kind: "document", document: shape }) as const;

/** Sends a document after each change. */
export const stream = <D extends DocumentShape>(event: string, shape: D) =>
  ({ kind: "stream", event, document: shape }) as const;

/** Sends bytes of this media type. */
export const bytes = (type: string) => ({ kind: "bytes", type }) as const;

/** A row for an address that changes nothing. */
export function get<
  const P extends string,
  S extends Sent,
  const Q extends Endpoint["query"] = Record<never, string>,
>(path: P, about: string, sent: S, query: Q = {} as Q) {
  return { method: "GET", path, about, sent, query, body: {} } as const;
}

/** A row for an address that changes something. */
export function post<const P extends string, S extends Sent, F extends Fields>(
  path: P,
  about: string,
  sent: S,
  body: F,
) {
  return { method: "POST", path, about, sent, query: {}, body } as const;
}

/** The parts of a path that the caller chooses: "run" of `/api/runs/:run/show`. */
type PartsOf<P> = P extends `${string}:${infer Part}/${infer Rest}`
  ? Part | PartsOf<Rest>
  : P extends `${string}:${infer Part}`
    ? Part
    : never;

/** The parameters of a route. */
interface Asked<E extends Endpoint> {
  /** The parts of the path, decoded. */
  readonly path: Readonly<Record<PartsOf<E["path"]>, string>>;
  /** The parameters that are neither absent nor empty. */
  readonly query: Readonly<Partial<Record<keyof E["query"], string>>>;
  /** The JSON object of a POST, checked against its fields. */
  readonly body: FieldsOf<E["body"]>;
  /** The id of the last event of a stream that the caller has received. */
  readonly lastId: string | undefined;
  /** Aborted when nobody waits for the answer any more. */
  readonly signal: AbortSignal;
}

/** One event of a stream; after a lost connection, the caller continues from its id. */
export interface StreamEvent<T> {
  readonly id: number;
  /** Replaces the name of the stream's events. */
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

/** Answers one address. The server asks a stream for an event after it has sent the one before. */
export type Route<E extends Endpoint> = (
  dashboard: Dashboard,
  asked: Asked<E>,
) => Promise<AnswerOf<E["sent"]>>;

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

/** The value of a parameter that must be given. */
export function needed(name: string, text: string | undefined): string {
  if (text !== undefined) return text;
  throw new RequestError(400, "bad-request", `the parameter ${name} is missing`);
}

/** The value of a parameter that is a whole number; undefined when it is absent. */
export function wholeNumber(name: string, text: string | undefined, min = 0): number | undefined {
  if (text === undefined) return undefined;
  const number = /^-?\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  if (number >= min) return number;
  throw new RequestError(400, "bad-request", `${name} takes a whole number, not "${text}"`);
}
