/**
 * The address of a store, `postgres://user:password@host:port/database?sslmode=...`, as settings of
 * the driver.
 *
 * Owns: how a connection is encrypted and whom it trusts. Without `sslmode`, the certificate of the
 *   server is verified with its name; only on this machine there is no network to protect.
 * Does not: connect.
 */

import { readFileSync } from "node:fs";
import type { ClientConfig } from "pg";
import { defined } from "../../util/defined.ts";
import { guarded, JournalError } from "../journal-error.ts";

/** The settings of `sslmode`; those of libpq that may fall back to no encryption are refused. */
const SSL_MODES = ["disable", "require", "verify-ca", "verify-full"] as const;
type SslMode = (typeof SSL_MODES)[number];

/** The server and the database of an address, for messages: never its user or password. */
export function addressName(address: string): string {
  const { host, port, database } = addressSettings(address);
  return `postgres://${host}:${port}/${database}`;
}

/** The settings of the driver for an address. Throws JournalError. */
export function addressSettings(address: string): ClientConfig & { readonly host: string } {
  const url = parse(address);
  const { searchParams } = url;
  const host = searchParams.get("host") ?? decodeURIComponent(url.hostname.replace(/^\[|\]$/g, ""));
  const port = Number(searchParams.get("port") ?? (url.port === "" ? 5432 : url.port));
  const user = decodeURIComponent(url.username);
  const password = decodeURIComponent(url.password);
  const server = { host: host === "" ? "localhost" : host, port };
  return {
    ...server,
    database: decodeURIComponent(url.pathname.slice(1)) || user,
    ...(user === "" ? {} : { user }),
    ...(password === "" ? {} : { password }),
    ssl: sslOf(server.host, searchParams),
  };
}

function parse(address: string): URL {
  try {
    return new URL(address);
  } catch {
    // The error of the parser would show the password.
    throw new JournalError("io", "The address of the store is not one: postgres://HOST/DATABASE.");
  }
}

function sslOf(host: string, params: URLSearchParams): ClientConfig["ssl"] {
  const mode = sslModeOf(host, params.get("sslmode"));
  if (mode === "disable") return false;
  const file = (name: string): string | undefined => {
    const path = params.get(name) ?? process.env[`PG${name.toUpperCase()}`];
    return path === undefined ? undefined : guarded(path, () => readFileSync(path, "utf8"));
  };
  const [ca, cert, key] = [file("sslrootcert"), file("sslcert"), file("sslkey")];
  return {
    // The driver gives tls only a socket; without this, the name of an IP address is not checked.
    ...{ host },
    rejectUnauthorized: mode !== "require",
    ...defined({ ca, cert, key }),
    ...(mode === "verify-ca" ? { checkServerIdentity: () => undefined } : {}),
  };
}

function sslModeOf(host: string, given: string | null): SslMode {
  if (given === null) return isLocal(host) ? "disable" : "verify-full";
  const mode = SSL_MODES.find((known) => known === given);
  if (mode !== undefined) return mode;
  throw new JournalError(
    "io",
    `The address of the store has sslmode=${given}; use ${SSL_MODES.join(", ")}.`,
  );
}

/** The loopback interface of this machine, or a socket in its file system. */
function isLocal(host: string): boolean {
  return host === "localhost" || host === "::1" || /^127\./.test(host) || host.startsWith("/");
}
