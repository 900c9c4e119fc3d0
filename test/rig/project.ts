/**
 * A project directory for tests, and the real program run in it.
 *
 * Steps are held and counted without sleeping: `hold` gives a command that waits on a FIFO until the
 * test releases it, `effect` one that adds a line to a file that the test counts.
 */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { identityOf, isAlive, statOf } from "../../src/runner/process/identity.ts";
import { PATIENCE_MS } from "./patience.ts";
import { replayJournals } from "./replayed.ts";

/** How long a reader of the journal waits for a writer. */
const BUSY_MS = 10_000;
/** The program under test. */
export const PROGRAM = resolve(import.meta.dirname, "../../bin/perdure.js");
/** All tests of this checkout share the compiled code, whatever their home directories are. */
const CODE_CACHE = resolve(import.meta.dirname, "../../node_modules/.cache/test-code");
fs.mkdirSync(CODE_CACHE, { recursive: true });
/** The settings of a user, in the file `perdure/config.yaml` below. */
const SETTINGS = resolve(import.meta.dirname, "no-snapshots");
const LOOK_MS = 5;

export interface Result {
  /** null when a signal ended it. */
  readonly exit: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface StartOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** A program and its arguments; the program under test and its arguments follow them. */
  readonly through?: readonly string[];
  /** The user and group to run as; only root can. */
  readonly uid?: number;
}

/** The program while it runs. */
export class Program {
  readonly child: ChildProcess;
  readonly ended: Promise<Result>;
  stdout = "";
  stderr = "";
  #result: Result | undefined;

  constructor(child: ChildProcess) {
    this.child = child;
    child.stdout?.on("data", (chunk) => {
      this.stdout += String(chunk);
    });
    child.stderr?.on("data", (chunk) => {
      this.stderr += String(chunk);
    });
    this.ended = new Promise((done) => {
      child.on("close", (exit, signal) => {
        this.#result = { exit, signal, stdout: this.stdout, stderr: this.stderr };
        done(this.#result);
      });
    });
  }

  get pid(): number {
    return this.child.pid as number;
  }

  /** Sends a signal and waits for the end. */
  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<Result> {
    this.child.kill(signal);
    return this.ended;
  }

  /** Waits until the program has printed this. Throws when it ends without. */
  async printed(text: string | RegExp): Promise<void> {
    await eventually(`the program prints ${text}`, () => {
      const said = typeof text === "string" ? this.stdout.includes(text) : text.test(this.stdout);
      if (said || this.#result === undefined) return said;
      throw new Error(`the program did not print ${text}: ${JSON.stringify(this.#result)}`);
    });
  }
}

/**
 * A step that waits until the test releases it. The step acknowledges the release: a step that was
 * killed keeps its end of the FIFO open until the system has removed it, and what is written
 * meanwhile reaches nobody.
 */
export class Hold {
  readonly path: string;
  /** Shell text for the step. */
  readonly command: string;
  readonly #acknowledgement: string;
  #held: number | undefined;

  constructor(path: string) {
    this.path = path;
    this.#acknowledgement = `${path}.gone`;
    // Whoever runs the step, and whoever owns the files.
    execFileSync("mkfifo", ["-m", "666", path, this.#acknowledgement]);
    const [from, to] = [path, this.#acknowledgement].map(escaped);
    // One simple command, so that it may stand after `||` and after `if`.
    this.command = `eval 'read _ < ${from} && echo > ${to}'`;
  }

  /** Resolves when a step waits here. The open end is kept: closing it would let the step go. */
  async arrived(): Promise<void> {
    await eventually(`a step waits at ${this.path}`, () => {
      this.#held ??= this.#open();
      return this.#held !== undefined;
    });
  }

  /** Lets the step that waits continue. A step that waited here before may be dead by now. */
  async release(): Promise<void> {
    const { O_RDONLY, O_NONBLOCK } = fs.constants;
    const acknowledged = fs.openSync(this.#acknowledgement, O_RDONLY | O_NONBLOCK);
    let written = false;
    try {
      await eventually(`a living step waits at ${this.path}`, () => {
        if (hasByte(acknowledged)) return true;
        const opened = this.#open();
        if (opened === undefined) {
          // Whoever waited is dead, or is about to acknowledge.
          this.#close();
          written = false;
          return false;
        }
        // There is always an open end: without one the step would read the end of the file.
        if (this.#held === undefined) this.#held = opened;
        else fs.closeSync(opened);
        if (!written) written = this.#write();
        return false;
      });
    } finally {
      fs.closeSync(acknowledged);
      this.#close();
    }
  }

  #close(): void {
    if (this.#held !== undefined) fs.closeSync(this.#held);
    this.#held = undefined;
  }

  #write(): boolean {
    if (this.#held === undefined) return false;
    try {
      fs.writeSync(this.#held, "\n");
      return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "EPIPE") return false;
      throw error;
    }
  }

  /** A FIFO can be opened for writing without waiting only while somebody reads. */
  #open(): number | undefined {
    try {
      return fs.openSync(this.path, fs.constants.O_WRONLY | fs.constants.O_NONBLOCK);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENXIO") return undefined;
      throw error;
    }
  }
}

function escaped(path: string): string {
  return path.replaceAll(/[^\w/.@-]/g, "\\$&");
}

/** Takes a byte from a FIFO if there is one. */
function hasByte(descriptor: number): boolean {
  try {
    return fs.readSync(descriptor, Buffer.alloc(1)) > 0;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EAGAIN") return false;
    throw error;
  }
}

export class Project {
  readonly dir: string;
  readonly #programs: Program[] = [];

  constructor(dir = fs.mkdtempSync(join(tmpdir(), "perdure-test-"))) {
    this.dir = dir;
  }

  /** What the user keeps for all projects lies beside this one, so that no test sees another's. */
  get stateHome(): string {
    return `${this.dir}.state`;
  }

  /** The variables that every program of this project gets. */
  get own(): Readonly<Record<string, string>> {
    return { XDG_STATE_HOME: this.stateHome, XDG_CACHE_HOME: CODE_CACHE };
  }

  path(...parts: readonly string[]): string {
    return join(this.dir, ...parts);
  }

  write(name: string, text: string): string {
    fs.writeFileSync(this.path(name), text);
    return name;
  }

  read(...parts: readonly string[]): string {
    return fs.readFileSync(this.path(...parts), "utf8");
  }

  exists(...parts: readonly string[]): boolean {
    return fs.existsSync(this.path(...parts));
  }

  /** Starts the program without waiting for it. */
  start(args: readonly string[], options: StartOptions = {}): Program {
    return this.script(PROGRAM, args, options);
  }

  /** Starts another script in this project. */
  script(file: string, args: readonly string[] = [], options: StartOptions = {}): Program {
    const { through = [] } = options;
    return this.command([...through, process.execPath, file, ...args], options);
  }

  /** Starts any program in this project. */
  command([command = "", ...words]: readonly string[], options: StartOptions = {}): Program {
    const { uid } = options;
    const child = spawn(command, words, {
      cwd: options.cwd ?? this.dir,
      env: { ...cleanEnvironment(), ...this.own, ...options.env },
      stdio: ["ignore", "pipe", "pipe"],
      ...(uid === undefined ? {} : { uid, gid: uid }),
    });
    const program = new Program(child);
    this.#programs.push(program);
    return program;
  }

  /** Runs the program to its end. */
  async run(args: readonly string[], options: StartOptions = {}): Promise<Result> {
    return this.start(args, options).ended;
  }

  /** Runs the program and expects success; gives what it printed. */
  async must(args: readonly string[], options: StartOptions = {}): Promise<string> {
    const result = await this.run(args, options);
    if (result.exit === 0) return result.stdout;
    throw new Error(
      `perdure ${args.join(" ")}: exit ${result.exit}\n${result.stdout}${result.stderr}`,
    );
  }

  hold(name: string): Hold {
    return new Hold(this.path(`hold-${name}`));
  }

  /** Shell text that counts: one line per time that it ran. */
  effect(name: string): string {
    return `echo ${name} >> '${this.path("effects")}'`;
  }

  /** How often each effect happened. */
  effects(): Readonly<Record<string, number>> {
    const counts: Record<string, number> = {};
    const text = this.exists("effects") ? this.read("effects") : "";
    for (const name of text.split("\n")) if (name !== "") counts[name] = (counts[name] ?? 0) + 1;
    return counts;
  }

  /** The ids of the runs of this project, newest first. */
  async runIds(options?: StartOptions): Promise<readonly string[]> {
    const database = this.path(".perdure", "state.db");
    if (options === undefined && fs.existsSync(database)) return runIdsIn(database);
    const runs = JSON.parse(await this.must(["list", "runs", "--output", "json"], options)) as {
      pipeline_id: string;
    }[];
    return runs.map((run) => run.pipeline_id);
  }

  /** The receipt of an attempt (`fix@2.3`): its step's, or in its own folder after a later one. */
  receipt(runId: string, attempt: string): Record<string, unknown> | undefined {
    const root = this.path(".perdure", "runs", runId);
    const own = join(root, "attempts", attempt.replaceAll("/", "~"), "receipt.json");
    const all = fs.readdirSync(join(root, "receipts")).map((name) => join(root, "receipts", name));
    for (const path of [own, ...all]) {
      if (!fs.existsSync(path) || path.endsWith(".new")) continue;
      const receipt = JSON.parse(fs.readFileSync(path, "utf8")) as Record<string, unknown>;
      const [scope, step, visit, number] = ["scope", "step", "visit", "attempt"].map((name) =>
        String(receipt[name]),
      );
      if (`${scope}${step}@${visit}.${number}` === attempt) return receipt;
    }
    return undefined;
  }

  /** The id of the newest run of this project. */
  async newestId(): Promise<string> {
    const [id] = await this.runIds();
    if (id === undefined) throw new Error("there is no run");
    return id;
  }

  /** The processes of steps that live: pids of those that work for this project. */
  stepProcesses(): readonly number[] {
    return stepProcessesOf(this.dir);
  }

  /** Kills the processes of the running steps, agents and tools alike; resolves when they are dead. */
  async killSteps(): Promise<void> {
    await killGroups(this.stepProcesses());
  }

  /** Ends what is left of the programs, decides their runs again and removes the directory. */
  async remove(): Promise<void> {
    await this.#endAll();
    try {
      await replayJournals(this.dir);
    } finally {
      this.#removeFiles();
    }
  }

  /** The same for a project whose journal the test itself has falsified: nothing is decided again. */
  async discard(): Promise<void> {
    await this.#endAll();
    this.#removeFiles();
  }

  async #endAll(): Promise<void> {
    for (const program of this.#programs) {
      program.child.kill("SIGKILL");
      await program.ended;
    }
    // Runners in the background first: they would start the steps again.
    const background = this.#backgroundProcesses();
    await killAll(background, background);
    await this.killSteps();
  }

  /** The processes that programs of this project have started for themselves, such as `--detach`. */
  #backgroundProcesses(): readonly number[] {
    const steps = new Set(this.stepProcesses());
    return processesWith(`XDG_STATE_HOME=${this.stateHome}\0`).filter((pid) => !steps.has(pid));
  }

  #removeFiles(): void {
    for (const path of [this.dir, this.stateHome]) {
      fs.rmSync(path, { recursive: true, force: true, maxRetries: 5 });
    }
  }
}

/**
 * A project of a user whose runs take no snapshots, for tests that are not about files: the git
 * processes of a snapshot cost as much as the rest of a small run. A pipeline that sets `workspace`
 * has snapshots here, too.
 */
export class PlainProject extends Project {
  override get own(): Readonly<Record<string, string>> {
    return { ...super.own, XDG_CONFIG_HOME: SETTINGS };
  }
}

/** What changes from run to run, made the same: ids, times, durations, processes, the directory. */
export function normalised(text: string, project: Project): string {
  return (
    text
      .replaceAll(project.dir, "DIR")
      .replaceAll(/\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g, "1a2b3c4d-(uuid)")
      .replaceAll(/\b[0-9a-f]{8}\b/g, "1a2b3c4d")
      .replaceAll(/\b\d{4}-\d\d-\d\d([ T])\d\d:\d\d:\d\d(\.\d+)?/g, "2026-01-02$103:04:05")
      .replaceAll(/\b\d+(\.\d)? (KB|MB)\b/g, "5 KB")
      .replaceAll(/\bsha256 [0-9a-f]{12}\b/g, "sha256 0123456789ab")
      .replaceAll(/\b(process|pid) \d+( of \S+)? on [\w.-]+/g, "$1 4711$2 on HOST")
      // Only a slow snapshot is mentioned.
      .replaceAll(/ \(snapshot [^)]*\)/g, "")
      .replaceAll(/ *\b(\d+ms|\d+\.\ds|\d+[mh] \d\d[sm])(?=[\s.,:;)]) */g, " 5ms ")
      .replaceAll(/5ms (?=[\n.,:;)])/g, "5ms")
  );
}

/** Waits until something holds; there is a deadline, so that a broken test ends. */
export async function eventually(what: string, holds: () => boolean): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  while (!holds()) {
    if (performance.now() > deadline) throw new Error(`waited in vain: ${what}`);
    await sleep(LOOK_MS);
  }
}

/**
 * The environment of a test's program: ours, without what a runner of ours would add. Programs in
 * TypeScript need their compiled code: without it, each start of them takes three times as long.
 */
export function cleanEnvironment(): Record<string, string> {
  const others =
    /^(PERDURE|OTEL_|TRACEPARENT$|FORCE_COLOR|NO_COLOR|CI$|VITEST|NODE_(?!COMPILE_CACHE$))/;
  const entries = Object.entries(process.env).filter(
    ([name, value]) => value !== undefined && !others.test(name),
  );
  return Object.fromEntries(entries) as Record<string, string>;
}

/** The ids of the runs in a journal, newest first, as `perdure list runs` has them. */
export function runIdsIn(file: string): readonly string[] {
  const database = new DatabaseSync(file, { readOnly: true, timeout: BUSY_MS });
  try {
    const sql = "SELECT pipeline_id AS id FROM pipeline_state ORDER BY created_at DESC, rowid DESC";
    return database
      .prepare(sql)
      .all()
      .map(({ id }) => String(id));
  } finally {
    database.close();
  }
}

/** Kills a process, which may end by itself meanwhile; resolves when it is dead. */
export async function killProcess(pid: number): Promise<void> {
  await killAll([pid], [pid]);
}

/**
 * Kills processes with their groups, each group as one, so that no wrapper records the end of its
 * child; resolves when they are dead.
 */
export async function killGroups(pids: readonly number[]): Promise<void> {
  const groups = new Set(pids.flatMap((pid) => statOf(pid)?.group ?? []));
  await killAll(
    pids,
    [...groups].map((group) => -group),
  );
}

async function killAll(pids: readonly number[], targets: readonly number[]): Promise<void> {
  const doomed = pids.flatMap((pid) => identityOf(pid) ?? []);
  for (const target of targets) {
    try {
      process.kill(target, "SIGKILL");
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
    }
  }
  await eventually("the killed processes are dead", () => !doomed.some(isAlive));
}

/** The living processes whose environment says that they work for an attempt below a directory. */
function stepProcessesOf(dir: string): readonly number[] {
  return processesWith(`PERDURE_ATTEMPT_DIR=${dir}/`);
}

/** The living processes whose environment has this text. */
function processesWith(text: string): readonly number[] {
  const names = fs.existsSync("/proc") ? fs.readdirSync("/proc") : [];
  return names
    .filter((name) => /^\d+$/.test(name) && environmentOf(name).includes(text))
    .map(Number);
}

/** Empty for a process that is gone, is a zombie or is not ours. */
function environmentOf(pid: string): string {
  try {
    return fs.readFileSync(`/proc/${pid}/environ`, "utf8");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (["ENOENT", "EACCES", "ESRCH", "EPERM"].includes(code ?? "")) return "";
    throw error;
  }
}
