/**
 * TLS to PostgreSQL. The certificates in `tls` are for tests only and valid for a hundred years: `ca`
 * signed the one of the server, for 127.0.0.1 and not for localhost; `other` signed nothing.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { addressSettings } from "../../src/journal/postgres/address.ts";
import { openPostgresJournal } from "../../src/journal/postgres/postgres.ts";
import { type PostgresServer, runSql, startPostgres } from "../rig/postgres.ts";

const FILES = join(import.meta.dirname, "tls");
let server: PostgresServer;
let url: string;
beforeAll(async () => {
  const file = (name: string): string => readFileSync(join(FILES, name), "utf8");
  server = await startPostgres({
    files: { "server.crt": file("server.crt"), "server.key": file("server.key") },
    settings: ["ssl=on"],
  });
  url = await server.newDatabase();
});
afterAll(async () => {
  await server.close();
});

/** Whether a connection with these settings is encrypted, or the error that refused it. */
async function connected(settings: string, host = "127.0.0.1"): Promise<string> {
  const address = `${url.replace("127.0.0.1", host)}?${settings}`;
  try {
    const journal = await openPostgresJournal(address, { mode: "create" });
    const text = "SELECT ssl::text FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    const { rows } = await journal.executeSql(text);
    await journal.close();
    return rows[0]?.ssl === "true" ? "encrypted" : "plain";
  } catch (error) {
    return String(error);
  }
}

test("a certificate of an unknown authority is refused, and one of the given authority is accepted", async () => {
  const ca = `sslrootcert=${join(FILES, "ca.crt")}`;
  const other = `sslrootcert=${join(FILES, "other.crt")}`;
  expect(await connected("sslmode=verify-full")).toMatch(/certificate/);
  expect(await connected(`sslmode=verify-full&${other}`)).toMatch(/certificate/);
  expect(await connected(`sslmode=verify-full&${ca}`)).toBe("encrypted");
  expect(await connected(`sslmode=verify-full&${ca}`, "localhost")).toMatch(/altnames/);
  expect(await connected(`sslmode=verify-ca&${ca}`, "localhost")).toBe("encrypted");
  expect(await connected(`sslmode=verify-ca&${other}`)).toMatch(/certificate/);
  expect(await connected("sslmode=require")).toBe("encrypted");
  expect(await connected("sslmode=disable")).toBe("plain");
  expect(await connected("")).toBe("plain");
  expect(await connected("sslmode=prefer")).toMatch(/sslmode=prefer/);
  expect(await runSql(url, "SELECT 1 AS one")).toEqual([{ one: 1 }]);
});

test("without sslmode, every connection to another machine is verified", () => {
  const ssl = (host: string): unknown => addressSettings(`postgres://me@${host}/db`).ssl;
  for (const host of ["localhost", "127.0.0.1", "127.9.9.9", "[::1]", "%2Frun%2Fpostgresql"]) {
    expect(ssl(host)).toBe(false);
  }
  for (const host of ["db.example.com", "10.0.0.7", "localhost.example.com", "[fd00::1]"]) {
    expect(ssl(host)).toMatchObject({ rejectUnauthorized: true });
  }
  expect(addressSettings("postgres://me@host/db?host=/run/postgresql").ssl).toBe(false);
});
