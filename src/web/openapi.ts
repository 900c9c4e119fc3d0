/**
 * The interface of the server as an OpenAPI 3.1 document, made from the table of addresses and the
 * shapes of the documents.
 *
 * Owns: the description of a row.
 * Does not: add anything that the table does not say.
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
  const names = documentNames(table);
  const paths: Record<string, Record<string, Json>> = {};
  for (const [name, endpoint] of Object.entries(table)) {
    const path = pathOf(endpoint);
    const method = endpoint.method.toLowerCase();
    // Two rows with the same address answer in two forms; the caller chooses with `Accept`.
    const others = Object.values(table).filter((one) => isSameAddress(one, endpoint));
    if (paths[path]?.[method] !== undefined) continue;
    paths[path] = { ...paths[path], [method]: operation(name, others, names, parts) };
  }
  const documents = [...names].map(([shape, name]) => [name, parts.document(shape)] as const);
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

type Names = ReadonlyMap<DocumentShape, string>;

/** The names of the documents of a table: that of the command, or that of the first address. */
function documentNames(table: Table): Names {
  const ofCommands = new Map<DocumentShape, string>(
    Object.entries(DOCUMENTS).map(([name, shape]) => [shape, name]),
  );
  const names = new Map<DocumentShape, string>([[DOCUMENTS.error, "error"]]);
  for (const [name, { sent }] of Object.entries(table)) {
    if (sent.kind === "bytes" || names.has(sent.document)) continue;
    const isTaken = Object.hasOwn(DOCUMENTS, name);
    const own = isTaken ? `${name}Page` : name;
    names.set(sent.document, ofCommands.get(sent.document) ?? own);
  }
  return names;
}

function isSameAddress(one: Endpoint, other: Endpoint): boolean {
  return one.method === other.method && one.path === other.path;
}

/** The description of rows with the same address; there is at least one. */
function operation(
  name: string,
  rows: readonly Endpoint[],
  names: Names,
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
        content: { "application/json": { schema: refTo(names, DOCUMENTS.error) } },
      },
    },
  };
}

function parameters({ path, query }: Endpoint): readonly JsonObject[] {
  const schema = { type: "string" };
  const inPath = [...path.matchAll(/:(\w+)/g)].map(([, name = ""]) => {
    return { name, in: "path", required: true, schema };
  });
  const inQuery = Object.entries(query).map(([name, description]) => {
    return { name, in: "query", required: false, description, schema };
  });
  return [...inPath, ...inQuery];
}

function sentContent({ sent }: Endpoint, names: Names): JsonObject {
  switch (sent.kind) {
    case "document":
      return { "application/json": { schema: refTo(names, sent.document) } };
    case "stream":
      return { "text/event-stream": { schema: refTo(names, sent.document) } };
    case "bytes":
      return { [sent.type]: { schema: { type: "string", contentMediaType: sent.type } } };
  }
}

function refTo(names: Names, shape: DocumentShape): JsonObject {
  return { $ref: `${SCHEMAS}${names.get(shape)}` };
}
