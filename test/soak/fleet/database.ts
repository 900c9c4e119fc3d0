/**
 * A PostgreSQL with one address on two hosts: a primary, and a standby that confirms every commit. The
 * primary can be restarted, crash, and fail over to the standby.
 *
 * Owns: the two servers, and the address.
 * Does not: choose when something happens to them.
 */
import { spawnSync } from "node:child_process";
import * as fs from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type PostgresServer, runSql, startPostgres } from "../../rig/postgres.ts";
import { addressOf, forgetNeighbours, Host } from "./network.ts";

/** The number of the address that the workers know; it is the primary's. */
const SHARED = 100;
const NODES = [101, 102] as const;
const NAME = "soak";
const LOOK_MS = 100;
const STANDBY_MS_MAX = 60_000;

const SETTINGS = ["wal_keep_size=1GB", "max_connections=200", "hot_standby=on", "autovacuum=on"];
const RULES = ["all", "replication"].map((what) => `host ${what} all 0.0.0.0/0 password\n`);
const FILES = { "pg_hba.conf": RULES.join("") };

/** One of the two hosts, and its server. */
interface Node {
  readonly host: Host;
  readonly server: PostgresServer;
}

export class Database {
  readonly #directory: string;
  #primary: Node;
  #standby: Node | undefined;
  /** The hosts that know the address. */
  readonly #clients: () => readonly Host[];

  private constructor(directory: string, primary: Node, clients: () => readonly Host[]) {
    this.#directory = directory;
    this.#primary = primary;
    this.#clients = clients;
  }

  static async start(directory: string, clients: () => readonly Host[]): Promise<Database> {
    const host = await Host.start("database-101", NODES[0], directory);
    const network = { namespace: host.namespace, address: addressOf(NODES[0]) };
    const server = await startPostgres({ settings: SETTINGS, files: FILES, network });
    await runSql(server.url("postgres"), `CREATE DATABASE ${NAME} TEMPLATE template0`);
    host.addAddress(addressOf(SHARED));
    const database = new Database(directory, { host, server }, clients);
    await database.addStandby();
    return database;
  }

  /** The address of the store, whichever server has it. */
  get url(): string {
    const url = new URL(this.#primary.server.url(NAME));
    url.hostname = addressOf(SHARED);
    return url.href;
  }

  get #freeNode(): number {
    const used = this.#primary.server.url(NAME);
    return NODES.find((number) => !used.includes(`${addressOf(number)}:`)) ?? NODES[0];
  }

  /** Stops the primary, in an orderly way or by killing it, and starts it again after a time. */
  async restart(how: "fast" | "kill", awayMs: number): Promise<void> {
    await this.#primary.server.stop(how);
    await sleep(awayMs);
    await this.#primary.server.start();
  }

  /** The primary and its host disappear; after a time the standby takes its place and its address. */
  async failOver(awayMs: number): Promise<void> {
    const old = this.#primary;
    const next = this.#standby;
    if (next === undefined) throw new Error("there is no standby");
    this.#standby = undefined;
    // Nobody hears that the connections have ended.
    old.host.disconnect("both");
    await old.server.stop("kill");
    await sleep(awayMs);
    await runSql(next.server.url("postgres"), "SELECT pg_promote(true, 60)");
    next.host.addAddress(addressOf(SHARED));
    forgetNeighbours();
    for (const host of this.#clients()) host.forgetNeighbours();
    this.#primary = next;
    await old.server.close();
    await old.host.end();
  }

  /** Makes a standby from the primary; commits wait for it from then on. */
  async addStandby(): Promise<void> {
    const number = this.#freeNode;
    const primary = this.#primary.server;
    const admin = primary.url("postgres");
    const host = await Host.start(`database-${number}`, number, this.#directory);
    const network = { namespace: host.namespace, address: addressOf(number) };
    const from = new URL(admin);
    const source = `host=${from.hostname} port=${from.port} user=${from.username} password=${from.password}`;
    const server = await startPostgres({
      settings: [...SETTINGS, `primary_conninfo=${source}`],
      files: { ...FILES, "standby.signal": "" },
      network,
      fill: (data) => copyOf(primary, data),
    });
    await streaming(admin);
    await runSql(admin, "ALTER SYSTEM SET synchronous_standby_names = '*'");
    await runSql(admin, "SELECT pg_reload_conf()");
    this.#standby = { host, server };
  }

  async close(): Promise<void> {
    for (const node of [this.#standby, this.#primary]) {
      await node?.server.close();
      await node?.host.end();
    }
  }
}

/** Copies the data of a running server, as its manual says. */
async function copyOf(primary: PostgresServer, data: string): Promise<void> {
  const { Client } = await import("pg");
  const client = new Client({ connectionString: primary.url("postgres") });
  await client.connect();
  try {
    await client.query("SELECT pg_backup_start('standby', true)");
    const copied = spawnSync("cp", ["-a", primary.data, data], { encoding: "utf8" });
    const failures = copied.stderr.split("\n").filter((line) => line !== "");
    // A file that disappears while it is copied is none that the copy needs.
    const isFine = failures.every((line) => line.endsWith("No such file or directory"));
    if (!isFine) throw new Error(`the data cannot be copied: ${copied.stderr}`);
    const { rows } = await client.query("SELECT labelfile FROM pg_backup_stop(false)");
    const label = join(data, "backup_label");
    fs.writeFileSync(label, String((rows as { labelfile: string }[])[0]?.labelfile));
    const { uid, gid } = fs.statSync(primary.data);
    fs.chownSync(label, uid, gid);
  } finally {
    await client.end();
  }
  fs.rmSync(join(data, "postmaster.pid"), { force: true });
  fs.rmSync(join(data, "postmaster.opts"), { force: true });
}

/** Resolves when a standby receives what the server writes. */
async function streaming(url: string): Promise<void> {
  const end = performance.now() + STANDBY_MS_MAX;
  while (performance.now() < end) {
    const rows = await runSql(url, "SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'");
    if (rows.length > 0) return;
    await sleep(LOOK_MS);
  }
  throw new Error("the standby does not follow the primary");
}
