/**
 * The server: passes each request that the rules allow to its route, and makes the response.
 *
 * Owns: the order of the checks, the headers of every response, errors as documents, streams, masking,
 * and the files of the page, which the build has made.
 * Does not: decide who may ask (access.ts), answer (`routes/`), or listen (main.ts). It never makes a
 * path of the disk from the path of a request: all files are read when the server starts.
 * Invariants:
 * - web/B1 Every response carries the headers of HEADERS, errors included.
 * - web/B2 What a run printed is sent as JSON or as text, never as markup; secrets are masked.
 */

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { extname, join } from "node:path";
import { type Context, Hono } from "hono";
import { bodyLimit } from "hono/body-limit";
import { masked, maskedJson } from "../app/output/secret-mask.ts";
import { asRefusal, type Refusal, refusalJson } from "../app/refusal.ts";

import { type Fields, record } from "../core/shape.ts";
import type { DocumentJson } from "../view/json/documents.ts";
import { SCHEMA_VERSION } from "../view/json/part-json.ts";
import {
  type Access,
  COOKIE,
  checkChange,
  checkOrigin,
  checkSite,
  checkToken,
  isToken,
} from "./access.ts";
import type { Dashboard } from "./dashboard.ts";
import {
  type Endpoint,
  RequestError,
  type Route,
  type SentBytes,
  type StreamEvent,
} from "./endpoint.ts";
import { ENDPOINTS, type Routes } from "./endpoints.ts";
import { actionRoutes } from "./routes/actions.ts";
import { attractorRoutes } from "./routes/attractor.ts";
import { liveRoutes } from "./routes/live.ts";
import { machineRoutes } from "./routes/machine.ts";
import { runRoutes } from "./routes/run.ts";
import { stepRoutes } from "./routes/step.ts";

/** The route of every address; each file of `routes/` has one subject. */
const ROUTES: Routes = {
  ...machineRoutes,
  ...liveRoutes,
  ...runRoutes,
  ...stepRoutes,
  ...actionRoutes,
  ...attractorRoutes,
};

/** The largest body of a request: an input, or the text of a pipeline. */
const BODY_BYTES_MAX = 1024 * 1024;

const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "font-src 'self'",
  "manifest-src 'self'",
  "frame-ancestors 'none'",
  "base-uri 'none'",
  "form-action 'none'",
].join("; ");

const HEADERS: Readonly<Record<string, string>> = {
  "Content-Security-Policy": POLICY,
  "X-Content-Type-Options": "nosniff",
  "X-Frame-Options": "DENY",
  "Referrer-Policy": "no-referrer",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Cache-Control": "no-store",
};

/** The routes of a server, behind all checks. */
export function buildServer(dashboard: Dashboard, access: Access, files: PageFiles): Hono {
  const app = new Hono();
  app.use(async (context, next) => {
    for (const [name, value] of Object.entries(HEADERS)) context.header(name, value);
    checkOrigin(access, context.req.raw);
    const entered = enter(access, context);
    if (entered !== undefined) return entered;
    checkSite(context.req.raw);
    checkToken(access, context.req.raw);
    checkChange(access, context.req.raw);
    return next();
  });
  const tooLarge = (): never => {
    throw new RequestError(413, "too-large", `a request has at most ${BODY_BYTES_MAX} bytes`);
  };
  app.use(bodyLimit({ maxSize: BODY_BYTES_MAX, onError: tooLarge }));
  addEndpoints(app, dashboard);
  app.get("*", (context) => {
    const file = /^\/(api|pipelines)(\/|$)/.test(context.req.path)
      ? undefined
      : pageFile(files, context.req.path);
    if (file !== undefined) return bytes(context, file);
    throw new RequestError(404, "not-found", "there is nothing at this address");
  });
  app.all("*", () => {
    throw new RequestError(405, "wrong-method", "this address does not take that method");
  });
  app.onError((error, context) => failure(context, error));
  return app;
}

function addEndpoints(app: Hono, dashboard: Dashboard): void {
  const names = Object.keys(ENDPOINTS) as (keyof typeof ENDPOINTS)[];
  // `/api/runs/changes` must come before `/api/runs/:run`.
  const choices = (name: keyof typeof ENDPOINTS): number => ENDPOINTS[name].path.split(":").length;
  for (const name of names.sort((one, other) => choices(one) - choices(other))) {
    const endpoint: Endpoint = ENDPOINTS[name];
    const route = ROUTES[name] as unknown as Route<Endpoint>;
    app.on(endpoint.method, endpoint.path, (context) =>
      answer(context, endpoint, (asked) => route(dashboard, asked)),
    );
  }
}

/** Exchanges the token of the first address for the cookie. */
function enter(access: Access, context: Context): Response | undefined {
  const given = context.req.query("token");
  if (context.req.method !== "GET" || given === undefined) return undefined;
  if (!isToken(access, given)) return undefined;
  const cookie = `${COOKIE}=${access.cookie}; HttpOnly; SameSite=Strict; Path=/`;
  context.header("Set-Cookie", cookie);
  const { pathname } = new URL(context.req.url);
  const to = pathname.startsWith("//") ? "/" : pathname;
  if (context.req.header("sec-fetch-site") !== "cross-site") return context.redirect(to, 303);
  // After a click on another site, a browser sends a strict cookie only if our own page redirects.
  return context.html(`<!doctype html><meta http-equiv="refresh" content="0; url=/">`);
}

async function answer(
  context: Context,
  endpoint: Endpoint,
  route: (asked: Parameters<Route<Endpoint>>[1]) => ReturnType<Route<Endpoint>>,
): Promise<Response> {
  const gone = new AbortController();
  const query = Object.fromEntries(
    Object.keys(endpoint.query).map((name) => [name, context.req.query(name) || undefined]),
  );
  const answered = await route({
    path: context.req.param(),
    query,
    body: endpoint.method === "POST" ? await bodyOf(context, endpoint.body) : {},
    lastId: context.req.header("last-event-id") || undefined,
    signal: gone.signal,
  });
  const { sent } = endpoint;
  switch (sent.kind) {
    case "document":
      return context.body(documentText(answered), 200, { "Content-Type": JSON_TYPE });
    case "bytes":
      return bytes(context, answered as SentBytes);
    case "stream": {
      const events = answered as AsyncIterable<StreamEvent<unknown>>;
      const body = eventStream(sent.event, events, () => gone.abort());
      return context.body(body, 200, { "Content-Type": "text/event-stream" });
    }
  }
}

/** How often a stream without events sends a comment, so that a lost connection is noticed. */
const KEEP_ALIVE_MS = 15_000;
/** How long a client waits before it connects again. */
const RECONNECT_MS = 1_000;

/**
 * The body of a response with server-sent events. The next event is made after the last one was sent, so
 * a slow client costs no memory: it gets fewer and newer events. `abort` runs when the client has gone.
 */
export function eventStream(
  event: string,
  events: AsyncIterable<StreamEvent<unknown>>,
  abort: () => void,
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  const iterator = events[Symbol.asyncIterator]();
  let next: Promise<IteratorResult<StreamEvent<unknown>>> | undefined;
  return new ReadableStream(
    {
      start: (controller) => controller.enqueue(encoder.encode(`retry: ${RECONNECT_MS}\n\n`)),
      pull: async (controller) => {
        next ??= iterator.next();
        const found = await firstOf(next, KEEP_ALIVE_MS);
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
        const text = `event: ${name}\nid: ${id}\ndata: ${documentText(value)}\n\n`;
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

const JSON_TYPE = "application/json";

function documentText(value: unknown): string {
  return JSON.stringify(maskedJson({ schema_version: SCHEMA_VERSION, ...(value as object) }));
}

async function bodyOf(context: Context, fields: Fields): Promise<Record<string, unknown>> {
  const text = await context.req.text();
  const wrong = (at: string): RequestError =>
    new RequestError(400, "bad-request", `the request is wrong at ${at || "its top"}`);
  let value: unknown;
  try {
    value = JSON.parse(text === "" ? "{}" : text);
  } catch {
    throw new RequestError(400, "bad-request", "the request is not JSON");
  }
  const fault = record(fields)(value);
  if (fault !== undefined) throw wrong(fault);
  const extra = Object.keys(value as object).find((key) => !Object.hasOwn(fields, key));
  if (extra !== undefined) throw wrong(`.${extra}`);
  return value as Record<string, unknown>;
}

function bytes(context: Context, { type, body, headers = {} }: SentBytes): Response {
  return context.body(body, 200, { "Content-Type": type, ...headers });
}

function failure(context: Context, error: Error): Response {
  // Hono calls the error handler with a new response.
  for (const [name, value] of Object.entries(HEADERS)) context.header(name, value);
  if (error instanceof RequestError) {
    const { status, code, message } = error;
    const next = code === "no-token" ? [{ text: "start it again", command: "perdure ui" }] : [];
    return refused(context, status, { error: { code, message, next } });
  }
  const refusal = asRefusal(error);
  if (refusal !== undefined) return refused(context, statusOf(refusal), refusalJson(refusal));
  console.error(masked(error.stack ?? error.message));
  const message = "this is a bug in perdure; the terminal of `perdure ui` shows it";
  return refused(context, 500, { error: { code: "internal", message, next: [] } });
}

/** Sends an error: as a document to programs, as a sentence to a person who opened the address. */
function refused(context: Context, status: number, document: DocumentJson<"error">): Response {
  const isPage = context.req.header("sec-fetch-dest") === "document";
  const [text, type] = isPage
    ? [`${document.error.message}\n`, "text/plain; charset=utf-8"]
    : [documentText(document), JSON_TYPE];
  return context.body(text, status as 400, { "Content-Type": type });
}

/** The status for a refusal; 409 for every code that is not here. */
const STATUSES: Readonly<Partial<Record<Refusal["code"], number>>> = {
  "unknown-run": 404,
  "unknown-step": 404,
  "journal-unknown-run": 404,
  "no-runs": 404,
  "missing-file": 404,
  "output-missing": 404,
  "ambiguous-run": 400,
  "ambiguous-step": 400,
  "bad-option": 400,
  "bad-input": 400,
  "bad-answer": 400,
  "invalid-pipeline": 400,
};

function statusOf({ code }: Refusal): number {
  return STATUSES[code] ?? (code.startsWith("journal-") ? 503 : 409);
}

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
  ".png": "image/png",
  ".ico": "image/x-icon",
  ".woff2": "font/woff2",
  ".json": "application/json",
};
/** The names of the files in this folder contain a hash of their content. */
const HASHED = "/assets/";
const CACHED_FOR_EVER = "public, max-age=31536000, immutable";

/** Files by address. */
type PageFiles = ReadonlyMap<string, SentBytes>;

/** Reads the files of the page; there are none if it was not built. */
export function readPageFiles(directory: string): PageFiles {
  const files = new Map<string, SentBytes>();
  if (!existsSync(directory)) return files;
  const entries = readdirSync(directory, { recursive: true, withFileTypes: true });
  for (const entry of entries.filter((one) => one.isFile())) {
    const path = join(entry.parentPath, entry.name);
    const address = path.slice(directory.length).replaceAll("\\", "/");
    files.set(address, {
      type: TYPES[extname(path)] ?? "application/octet-stream",
      body: new Uint8Array(readFileSync(path)),
      headers: { "Cache-Control": address.startsWith(HASHED) ? CACHED_FOR_EVER : "no-cache" },
    });
  }
  return files;
}

/** The file at an address; the page itself answers every address that is not a file. */
function pageFile(files: PageFiles, address: string): SentBytes | undefined {
  const file = files.get(address);
  // The name of a pipeline or a step may contain a dot, but never stands in the first folder.
  const isFile = address.startsWith(HASHED) || /^\/[^/]*\.\w+$/.test(address);
  if (file !== undefined || isFile) return file;
  return files.get("/index.html");
}
