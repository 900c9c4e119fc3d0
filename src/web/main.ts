/**
 * Starts the server of the dashboard; only `perdure ui` loads this file.
 *
 * Owns: its options, its port, and closing it.
 * Does not: drive or own a run, so killing the server changes no run.
 */
import { randomBytes } from "node:crypto";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { createAdaptorServer } from "@hono/node-server";
import { actThrough } from "../app/drive/owner.ts";
import { readUserState, writeUserState } from "../app/project/user-state.ts";
import { advice, asRefusal, command, Refusal } from "../app/refusal.ts";
import { accessOf, isLoopback } from "./access.ts";
import { Dashboard, type DashboardOptions } from "./dashboard.ts";
import { buildServer, readPageFiles } from "./server.ts";

const DEFAULT_PORT = 4790;
/** How many ports are tried when the user has not chosen one. */
const PORTS_TRIED = 50;
const PORT_MAX = 65_535;
/** The shortest token that a user may choose. */
const TOKEN_LENGTH_MIN = 16;
const SECRET_BYTES = 32;
/** Connections beyond this number are refused. */
const CONNECTIONS_MAX = 500;
const HEADERS_TIMEOUT_MS = 10_000;
const REQUEST_TIMEOUT_MS = 30_000;

interface ServeOptions extends DashboardOptions {
  readonly listen?: string | undefined;
  readonly port?: string | undefined;
  readonly token?: string | undefined;
}

/** A server that listens, or why it does not. The caller has its own copy of the class Refusal. */
type Served =
  | {
      readonly ok: true;
      /** The first address, with the token. */
      readonly url: string;
      readonly close: () => Promise<void>;
    }
  | { readonly ok: false; readonly refusal: Refusal };

/** Starts the server. */
export async function serve(options: ServeOptions): Promise<Served> {
  try {
    return await listen(options);
  } catch (error) {
    const refusal = asRefusal(error);
    if (refusal === undefined) throw error;
    return { ok: false, refusal };
  }
}

async function listen(options: ServeOptions): Promise<Served> {
  const { listen: address = "127.0.0.1", token, readOnly } = options;
  checkOptions(options);
  actThrough("dashboard");
  const dashboard = new Dashboard(options);
  const files = readPageFiles(join(import.meta.dirname, "page"));
  const secret = userSecret();
  let fetch: (request: Request) => Response | Promise<Response> = () => new Response();
  const server = createAdaptorServer({ fetch: (request) => fetch(request) }) as Server;
  server.headersTimeout = HEADERS_TIMEOUT_MS;
  server.requestTimeout = REQUEST_TIMEOUT_MS;
  server.maxConnections = CONNECTIONS_MAX;
  const port = await bind(server, address, options.port);
  const access = accessOf({ secret, token, address, port, readOnly });
  fetch = buildServer(dashboard, access, files).fetch;
  const host = address.includes(":") ? `[${address}]` : address;
  return {
    ok: true,
    url: `http://${host}:${port}/?token=${encodeURIComponent(access.token)}`,
    close: async () => {
      server.closeAllConnections();
      await new Promise<void>((done) => server.close(() => done()));
      await dashboard.close();
    },
  };
}

function checkOptions({ listen: address = "127.0.0.1", port, token }: ServeOptions): void {
  if (port !== undefined && !(/^\d{1,5}$/.test(port) && Number(port) <= PORT_MAX)) {
    throw new Refusal("bad-option", `--port takes a number from 0 to ${PORT_MAX}, not "${port}"`);
  }
  if (token !== undefined && !/^[\w.~-]+$/.test(token)) {
    const message = "--token takes letters, digits, and the characters . _ ~ -";
    throw new Refusal("bad-option", message);
  }
  if (token !== undefined && token.length < TOKEN_LENGTH_MIN) {
    const message = `--token takes at least ${TOKEN_LENGTH_MIN} characters`;
    throw new Refusal("bad-option", message);
  }
  if (!isLoopback(address) && token === undefined) {
    const message = `--listen ${address} lets other machines connect, so it needs --token`;
    throw new Refusal("bad-option", message, advice("add --token TOKEN, a long random text"));
  }
}

/** Listens on the port of the user's choice, or on the first one that is free. */
async function bind(server: Server, address: string, chosen: string | undefined): Promise<number> {
  const first = chosen === undefined ? DEFAULT_PORT : Number(chosen);
  for (let port = first; ; port++) {
    const error = await tryPort(server, address, port);
    if (error === undefined) return (server.address() as AddressInfo).port;
    const isLast = chosen !== undefined || port === first + PORTS_TRIED;
    if (error.code === "EADDRINUSE" && !isLast) continue;
    const used = error.code === "EADDRINUSE" ? "another program uses it" : error.message;
    const message = `the server cannot listen on port ${port} of ${address}: ${used}`;
    throw new Refusal("bad-option", message, command("ui", "--port", "0"));
  }
}

function tryPort(
  server: Server,
  address: string,
  port: number,
): Promise<NodeJS.ErrnoException | undefined> {
  return new Promise((done) => {
    server.once("error", done);
    server.listen(port, address, () => {
      server.off("error", done);
      done(undefined);
    });
  });
}

const SECRET_FILE = "ui-secret";

/** The secret behind the cookies of this user; the first server creates it. */
function userSecret(): string {
  const known = readUserState(SECRET_FILE) ?? "";
  if (known !== "") return known;
  const secret = randomBytes(SECRET_BYTES).toString("base64url");
  try {
    writeUserState([SECRET_FILE], secret);
  } catch {
    // Without the file, the cookies are valid only until this server ends.
  }
  return readUserState(SECRET_FILE) ?? secret;
}
