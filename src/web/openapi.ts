/**
 * The interface of the server as an OpenAPI 3.1 document, made from the table of addresses and the
 * shapes of the documents.
 *
 * Owns: how a row of the table is described.
 * Does not: list anything itself; what the table does not say is not in the document.
 */
import type { Json, JsonObject } from "../util/json.ts";
import type { DocumentShape } from "../view/json/document-parts.ts";
import { DOCUMENTS } from "../view/json/documents.ts";
import { SchemaParts } from "../view/json/json-schema.ts";
import { SCHEMA_VERSION } from "../view/json/part-json.ts";
import type { Endpoint } from "./endpoint.ts";

const SCHEMAS = "#/components/schemas/";
const PART = "part.";

type Table = Readonly<Record<string, Endpoint>>;

/** The OpenAPI document of a table of addresses. */
export function openApi(table: Table, version: string): JsonObject {
  const parts = new SchemaParts(`${SCHEMAS}${PART}`);
  const names = new DocumentNames(table);
  const paths: Record<string, Record<string, Json>> = {};
  for (const [name, endpoint] of Object.entries(table)) {
    const path = pathOf(endpoint);
    const method = endpoint.method.toLowerCase();
    // Two rows with one address answer in two forms: the caller chooses with `Accept`.
    const others = Object.values(table).filter((one) => isSameAddress(one, endpoint));
    if (paths[path]?.[method] !== undefined) continue;
    paths[path] = { ...paths[path], [method]: operation(name, others, names, parts) };
  }
  const documents = names.all().map(([name, shape]) => [name, parts.document(shape)] as const);
  const named = [...parts.written].map(([name, schema]) => [`${PART}${name}`, schema] as const);
  return {
    openapi: "3.1.0",
    info: {
      title: "Perdure",
      version,
      description: `The interface of \`perdure ui\`; its documents have version ${SCHEMA_VERSION}.`,
    },
    servers: [{ url: "/" }],
    security: [{ token: [] }, { cookie: [] }],
    paths,
    components: {
      securitySchemes: {
        token: { type: "http", scheme: "bearer" },
        cookie: { type: "apiKey", in: "cookie", name: "perdure" },
      },
      schemas: Object.fromEntries([...documents, ...named]),
    },
  };
}

/** `/api/runs/{run}/show`. */
function pathOf({ path }: Endpoint): string {
  return path.replaceAll(/:(\w+)/g, "{$1}");
}

/** The names of the documents of a table: that of the command line, or of the first address. */
class DocumentNames {
  readonly #names = new Map<DocumentShape, string>();

  constructor(table: Table) {
    for (const [name, shape] of Object.entries(DOCUMENTS)) this.#names.set(shape, name);
    const used = new Set<DocumentShape>([DOCUMENTS.error]);
    for (const [name, { sent }] of Object.entries(table)) {
      if (sent.kind === "bytes") continue;
      const { document } = sent;
      used.add(document);
      if (!this.#names.has(document)) this.#names.set(document, this.#free(name));
    }
    for (const shape of this.#names.keys()) if (!used.has(shape)) this.#names.delete(shape);
  }

  of(shape: DocumentShape): string {
    return this.#names.get(shape) ?? "";
  }

  all(): readonly (readonly [string, DocumentShape])[] {
    return [...this.#names].map(([shape, name]) => [name, shape]);
  }

  #free(name: string): string {
    const isTaken = [...this.#names.values()].includes(name);
    return isTaken ? `${name}Page` : name;
  }
}

function isSameAddress(one: Endpoint, other: Endpoint): boolean {
  return one.method === other.method && one.path === other.path;
}

/** What rows of the same address do; `rows` has at least one. */
function operation(
  name: string,
  rows: readonly Endpoint[],
  names: DocumentNames,
  parts: SchemaParts,
): JsonObject {
  const [endpoint] = rows;
  if (endpoint === undefined) return {};
  const { method, about, body } = endpoint;
  const content = { "application/json": { schema: parts.object(body) } };
  return {
    operationId: name,
    summary: about,
    parameters: parameters(endpoint),
    ...(method === "POST" ? { requestBody: { required: true, content } } : {}),
    responses: {
      "200": {
        description: about,
        content: Object.assign({}, ...rows.map((row) => sentContent(row, names))),
      },
      default: {
        description: "Why the request was refused.",
        content: { "application/json": { schema: refTo(names.of(DOCUMENTS.error)) } },
      },
    },
  };
}

function parameters({ path, query }: Endpoint): readonly JsonObject[] {
  const schema = { type: "string" };
  const inPath = [...path.matchAll(/:(\w+)/g)].map(([, name = ""]) => ({
    ...{ name, in: "path", required: true, schema },
  }));
  const after = Object.entries(query).map(([name, description]) => ({
    ...{ name, in: "query", required: false, description, schema },
  }));
  return [...inPath, ...after];
}

function sentContent({ sent }: Endpoint, names: DocumentNames): JsonObject {
  switch (sent.kind) {
    case "document":
      return { "application/json": { schema: refTo(names.of(sent.document)) } };
    case "stream":
      return { "text/event-stream": { schema: refTo(names.of(sent.document)) } };
    case "bytes":
      return { [sent.type]: { schema: { type: "string", contentMediaType: sent.type } } };
  }
}

function refTo(name: string): JsonObject {
  return { $ref: `${SCHEMAS}${name}` };
}
