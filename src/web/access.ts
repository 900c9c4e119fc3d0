/**
 * Who may send requests to the server. A page of another site can make a browser send requests to
 * 127.0.0.1, even under a host name of that site (DNS rebinding); other users of this machine can
 * connect.
 *
 * Owns: the rules, and the token and the cookie that they check.
 * Does not: know the addresses; of a request it knows only whether it may change something.
 * Invariants:
 * - web/A1 No request is answered from a project before all rules have passed.
 * - web/A2 The cookie does not contain the token, and secrets are compared in constant time.
 */
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { hostname, networkInterfaces } from "node:os";
import { RequestError } from "./endpoint.ts";

export const COOKIE = "perdure";
const TOKEN_BYTES = 24;

/** The secrets of a server, and the names under which it may be addressed. */
export interface Access {
  readonly token: string;
  readonly cookie: string;
  /** Values of the Host header: `127.0.0.1:4790`. */
  readonly hosts: ReadonlySet<string>;
  readonly readOnly: boolean;
}

interface AccessOptions {
  /** The secret from the user's state directory; with it, cookies stay valid after a restart. */
  readonly secret: string;
  /** The token that the user chose; without it, a new one for each start. */
  readonly token: string | undefined;
  readonly address: string;
  readonly port: number;
  readonly readOnly: boolean;
}

/** The access to a server that listens on this address. */
export function accessOf({ secret, token, address, port, readOnly }: AccessOptions): Access {
  const cookie = createHmac("sha256", secret)
    .update(`cookie ${token ?? ""}`)
    .digest("base64url");
  const names = [address, ...(isLoopback(address) ? LOOPBACK : ownNames())];
  const hosts = names.flatMap((name) => {
    const host = name.includes(":") ? `[${name}]` : name;
    return port === 80 ? [host, `${host}:80`] : [`${host}:${port}`];
  });
  return {
    token: token ?? randomBytes(TOKEN_BYTES).toString("base64url"),
    cookie,
    hosts: new Set(hosts.map((host) => host.toLowerCase())),
    readOnly,
  };
}

const LOOPBACK = ["localhost", "127.0.0.1", "::1"];

/** True for an address that only this machine reaches. */
export function isLoopback(address: string): boolean {
  return address === "::1" || address === "localhost" || /^127(\.\d{1,3}){3}$/.test(address);
}

function ownNames(): readonly string[] {
  const addresses = Object.values(networkInterfaces()).flatMap((all = []) =>
    all.map(({ address }) => address),
  );
  return [...LOOPBACK, hostname(), ...addresses];
}

/** Refuses a request under a foreign name or from a foreign page. */
export function checkOrigin({ hosts }: Access, { headers }: Request): void {
  const host = headers.get("host")?.toLowerCase() ?? "";
  if (!hosts.has(host)) {
    throw new RequestError(421, "wrong-host", "this server does not answer under that host name");
  }
  const origin = headers.get("origin");
  if (origin !== null && origin.toLowerCase() !== `http://${host}`) {
    throw new RequestError(403, "foreign-origin", "a page of another origin may not ask this");
  }
}

/** Refuses what a page of another site makes the browser send. */
export function checkSite({ headers }: Request): void {
  const site = headers.get("sec-fetch-site");
  if (site !== null && site !== "same-origin" && site !== "none") {
    throw new RequestError(403, "cross-site", "a page of another site may not ask this");
  }
}

/** Refuses a request without the cookie and without the token. */
export function checkToken(access: Access, { headers }: Request): void {
  const bearer = /^Bearer (.+)$/i.exec(headers.get("authorization") ?? "")?.[1];
  if (bearer !== undefined && isSame(bearer, access.token)) return;
  if (cookiesIn(headers).some((value) => isSame(value, access.cookie))) return;
  throw new RequestError(
    401,
    "no-token",
    "open the address that `perdure ui` printed when it started; it contains the token",
  );
}

/** Refuses a change on a read-only server, and a form of another page. */
export function checkChange({ readOnly }: Access, { method, headers }: Request): void {
  if (method !== "POST") return;
  if (readOnly) {
    throw new RequestError(403, "read-only", "this server was started with --read-only");
  }
  const type = headers.get("content-type") ?? "";
  if (!/^application\/json\s*(;|$)/i.test(type)) {
    throw new RequestError(415, "not-json", "send the request as application/json");
  }
}

/** True for the token in the address that `perdure ui` printed. */
export function isToken({ token }: Access, given: string): boolean {
  return isSame(given, token);
}

function cookiesIn(headers: Headers): readonly string[] {
  const pairs = (headers.get("cookie") ?? "").split(/;\s*/);
  return pairs.flatMap((pair) =>
    pair.startsWith(`${COOKIE}=`) ? [pair.slice(COOKIE.length + 1)] : [],
  );
}

/** Compares digests in constant time: they have equal lengths, and the time reveals nothing. */
function isSame(one: string, other: string): boolean {
  const digest = (text: string): Buffer => createHmac("sha256", "compared").update(text).digest();
  return timingSafeEqual(digest(one), digest(other));
}
