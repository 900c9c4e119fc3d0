/**
 * A machine of a fleet: a host on which something like an init system keeps `perdure worker` alive.
 *
 * Owns: the host, the directory that is its disk, and the kills of what runs there.
 * Does not: choose when something happens to it.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import * as fs from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { cleanEnvironment, PROGRAM } from "../../rig/project.ts";
import { kill } from "../victim.ts";
import { childrenOf, type Direction, Host } from "./network.ts";

/** How long the init system waits before it starts the worker again. */
const RESTART_MS = 500;
const LOOK_MS = 20;
const SHORT_ID_LENGTH = 8;
const LINES_MAX = 10;
/** A machine whose worker does not take runs for this long, although nobody disturbs it, is stuck. */
const READY_MS_MAX = 180_000;

export class Machine {
  readonly name: string;
  readonly #number: number;
  readonly #directory: string;
  readonly #environment: Readonly<Record<string, string>>;
  readonly #concurrency: number;
  #host: Host | undefined;
  #program: ChildProcess | undefined;
  /** How often a worker of this machine has said that it takes runs. */
  #readies = 0;

  constructor(number: number, directory: string, store: string, concurrency: number) {
    this.name = `machine-${number}`;
    this.#number = 10 + number;
    this.#directory = directory;
    this.#concurrency = concurrency;
    this.#environment = {
      ...cleanEnvironment(),
      ...{ PERDURE_STORE: store, HOME: join(directory, "home") },
      XDG_STATE_HOME: join(directory, "home", "state"),
    };
  }

  /** The host, while the machine is up. */
  get host(): Host | undefined {
    return this.#host;
  }

  /** What its workers have printed. */
  get log(): string {
    return `${this.#directory}.log`;
  }

  /** The last lines of its workers that name a run. */
  linesAbout(runId: string): readonly string[] {
    const lines = fs.readFileSync(this.log, "utf8").split("\n");
    return lines.filter((line) => line.includes(runId.slice(0, SHORT_ID_LENGTH))).slice(-LINES_MAX);
  }

  /** The id of its worker; undefined before its first one. */
  get workerId(): string | undefined {
    const file = join(this.#directory, "worker", "worker-id");
    return fs.existsSync(file) ? fs.readFileSync(file, "utf8").trim() : undefined;
  }

  /** Switches the machine on; with an empty disk, it is another one. */
  async start(): Promise<void> {
    fs.mkdirSync(join(this.#directory, "home"), { recursive: true });
    this.#host = await Host.start(this.name, this.#number, this.#directory);
    this.#keepAlive(this.#host);
  }

  /** Kills everything on the machine at once. */
  async end(): Promise<void> {
    const host = this.#host;
    this.#host = undefined;
    await host?.end();
  }

  /** Removes the disk of a machine that is off. */
  destroy(): void {
    fs.rmSync(this.#directory, { recursive: true, force: true, maxRetries: 5 });
  }

  /** Kills the worker process, its supervisor or both, and nothing else; false without one. */
  killWorker(which: "worker" | "supervisor" | "both"): boolean {
    const { supervisor, worker } = this.#processes();
    const targets = { worker: [worker], supervisor: [supervisor], both: [supervisor, worker] };
    return targets[which].every((pid) => pid !== undefined && kill(pid));
  }

  /** Asks the worker to hand its runs over and to end; false without one. */
  drainWorker(): boolean {
    const { supervisor } = this.#processes();
    return supervisor !== undefined && kill(supervisor, "SIGTERM");
  }

  /** Stops the worker process for a time. */
  async pauseWorker(ms: number): Promise<void> {
    const { worker } = this.#processes();
    if (worker === undefined || !kill(worker, "SIGSTOP")) return;
    await sleep(ms);
    kill(worker, "SIGCONT");
  }

  /** Cuts the machine off for a time. */
  async partition(direction: Direction, ms: number): Promise<void> {
    this.#host?.disconnect(direction);
    await sleep(ms);
    this.#host?.connect(direction);
  }

  /** A mark for `ready`. */
  get readies(): number {
    return this.#readies;
  }

  /** Resolves when a worker takes runs that started after the mark; false when none does. */
  async ready(mark: number): Promise<boolean> {
    const end = performance.now() + READY_MS_MAX;
    while (this.#readies <= mark) {
      if (performance.now() > end) return false;
      await sleep(LOOK_MS);
    }
    return true;
  }

  #processes(): { readonly supervisor?: number; readonly worker?: number } {
    const [supervisor] = childrenOf(this.#program?.pid ?? 0);
    if (supervisor === undefined) return {};
    const [worker] = childrenOf(supervisor);
    return worker === undefined ? { supervisor } : { supervisor, worker };
  }

  /** Starts the worker with its supervisor, and again after its end, while the machine is up. */
  #keepAlive(host: Host): void {
    const worker = ["worker", "--directory", join(this.#directory, "worker")];
    const settings = ["--concurrency", String(this.#concurrency)];
    const [program, ...args] = [...host.enter, process.execPath, PROGRAM];
    const child = spawn(program, [...args, ...worker, ...settings], {
      cwd: join(this.#directory, "home"),
      env: this.#environment,
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#program = child;
    for (const stream of [child.stdout, child.stderr]) {
      createInterface({ input: stream }).on("line", (line) => {
        fs.appendFileSync(this.log, `${line}\n`);
        if (line.endsWith("takes runs")) this.#readies += 1;
      });
    }
    void once(child, "exit").then(async () => {
      await sleep(RESTART_MS);
      if (this.#host === host) this.#keepAlive(host);
    });
  }
}
