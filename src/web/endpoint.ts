/**
 * What a row of the table of addresses holds, and functions that write rows.
 *
 * Does not: list the addresses (endpoints.ts).
 */
import type { Fields } from "../core/shape.ts";
import type { DocumentShape } from "../view/json/document-parts.ts";

/** What an address sends: a document, a stream of documents, or something that is no JSON. */
export type Sent =
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

/** Sends a document each time that there is news. */
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
