/**
 * A fleet of machines on which runs are driven while its machines, their workers, its network and its
 * database fail at random. Everything is real: processes, namespaces, packets, PostgreSQL.
 *
 * Owns: the faults and their moments, and the runs that are given to the fleet.
 * Does not: judge the runs (fleet-checkers.ts), or measure takeovers (observer.ts).
 */
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { openPostgresJournal } from "../../../src/journal/postgres/postgres.ts";
import { type Random, seededRandom, seedOf } from "../../../src/util/random.ts";
import { PlainProject } from "../../rig/project.ts";
import type { Violation } from "../soak-checkers.ts";
import type { SoakStep } from "../soak-pipeline.ts";
import { Database } from "./database.ts";
import { fleetViolations, shortestGap } from "./fleet-checkers.ts";
import { fleetPipeline, parseFleetLog } from "./fleet-pipeline.ts";
import { Machine } from "./machine.ts";
import { type Direction, makeBridge } from "./network.ts";
import { Observer } from "./observer.ts";

const MACHINES = 4;
/** The most runs that wait or work at the same time. */
const OPEN_MAX = 32;
/** How many runs a machine drives at once: all, so that no takeover waits for a free place. */
const CONCURRENCY = OPEN_MAX;
/** A pause between two faults of one machine. */
const PAUSE_MS_MAX = 6_000;
/** How long a machine that was killed is off. */
const OFF_MS_MAX = 8_000;
/** Faults that the leases must survive, and faults after which others take the runs over. */
const SHORT_MS = { min: 500, max: 3_000 };
const LONG_MS_MIN = 15_000;
const PAUSED_MS_MAX = 20_000;
const DATABASE_PAUSE_MS = { min: 20_000, max: 60_000 };
const DATABASE_AWAY_MS_MAX = 12_000;
/** When nothing disturbs it and no run changes for this long, a fleet is stuck. */
const STUCK_MS = 150_000;
/** A run that does not change for this long is stuck, and so is a soak in which nobody is killed. */
const STALLED_MS = 300_000;
const LOOK_MS = 100;
const NEWS_MS = 30_000;
/** A fleet that is stuck may not end, either. */
const END_MS_MAX = 60_000;
/** The database is away for less than this. */
const SUBMISSION_MS_MAX = 180_000;
/** How many runs are submitted at the same time. */
const LANES = 4;
/** How many runs that have not completed are explained. */
const EXPLAINED_MAX = 5;

/** What may happen to a machine; kills are counted. */
const KILLS = [
  ...["worker", "worker", "worker", "worker and supervisor", "supervisor"],
  ...["machine", "machine", "machine and its disk"],
] as const;
type Kill = (typeof KILLS)[number];
const DISTURBANCES = [
  ...["short partition", "long partition", "long partition", "pause", "drain"],
] as const;
const DISTURBANCE_SHARE = 0.14;
const DATABASE_FAULTS = ["restart", "crash", "failover"] as const;
type DatabaseFault = (typeof DATABASE_FAULTS)[number];

/** The names of the faults, in the order of the table. */
const KILL_NAMES: Readonly<Record<Kill, string>> = {
  worker: "worker",
  "worker and supervisor": "worker and supervisor",
  supervisor: "supervisor (the worker drains)",
  machine: "machine",
  "machine and its disk": "machine and its disk",
};
const DRAIN = "worker drained (SIGTERM)";
const PARTITION_NAMES: Readonly<Record<Direction, string>> = {
  both: "partition, both directions",
  in: "partition, packets to the machine",
  out: "partition, packets from the machine",
};
const PAUSE = "worker process stopped, 15 to 20 s";
const SHORT_PARTITION = "partition of up to 3 s";
const DATABASE_NAMES: Readonly<Record<DatabaseFault, string>> = {
  restart: "database restarted, away up to 12 s",
  crash: "database killed, away up to 12 s",
  failover: "database failed over, away up to 12 s",
};
const FAULT_NAMES: readonly string[] = [
  ...[...Object.values(KILL_NAMES), DRAIN, ...Object.values(PARTITION_NAMES), PAUSE],
  ...[SHORT_PARTITION, ...Object.values(DATABASE_NAMES)],
];

export interface FleetSoakOptions {
  readonly kills: number;
  readonly runs: number;
  readonly seed: string;
  /** The longest partition. */
  readonly partitionSeconds: number;
  /** The longest step. */
  readonly stepSeconds: number;
  /** What a long soak says meanwhile. */
  readonly news: (line: string) => void;
}

export interface FleetSoakResult {
  /** How often each kind of fault happened, in the order of the table. */
  readonly faults: ReadonlyMap<string, number>;
  readonly kills: number;
  readonly runs: number;
  readonly attempts: number;
  readonly violations: readonly Violation[];
  /** Seconds without an owner, by kind of fault. */
  readonly times: ReadonlyMap<string, readonly number[]>;
  readonly gapSeconds: number | undefined;
  /** Where the logs are, when they are kept because something is wrong. */
  readonly kept?: string;
}

/** Soaks one fleet. This process must be in a network namespace of its own. */
export async function soakFleet(options: FleetSoakOptions): Promise<FleetSoakResult> {
  makeBridge();
  const root = fs.mkdtempSync(join(tmpdir(), "perdure-fleet-"));
  fs.chmodSync(root, 0o755);
  const soak = await FleetSoak.start(root, options);
  const result = await soak.toItsEnd();
  if (result.violations.length > 0) return { ...result, kept: root };
  fs.rmSync(root, { recursive: true, maxRetries: 5 });
  return result;
}

class FleetSoak {
  readonly #root: string;
  readonly #options: FleetSoakOptions;
  readonly #database: Database;
  readonly #machines: readonly Machine[];
  readonly #project: FleetProject;
  readonly #observer: Observer;
  readonly #submitted = new Map<string, readonly SoakStep[]>();
  readonly #faults = new Map<string, number>();
  readonly #violations: Violation[] = [];
  #kills = 0;
  #killedAt = performance.now();

  private constructor(
    root: string,
    options: FleetSoakOptions,
    database: Database,
    machines: readonly Machine[],
  ) {
    this.#root = root;
    this.#options = options;
    this.#database = database;
    this.#machines = machines;
    this.#project = new FleetProject(join(root, "project"), database.url);
    this.#observer = new Observer(database.url);
  }

  static async start(root: string, options: FleetSoakOptions): Promise<FleetSoak> {
    const machines: Machine[] = [];
    const database = await Database.start(root, () => machines.flatMap(({ host }) => host ?? []));
    fs.writeFileSync(join(root, "log"), "");
    await (await openPostgresJournal(database.url, { mode: "create" })).close();
    for (let number = 1; number <= MACHINES; number++) {
      const directory = join(root, `machine-${number}`);
      machines.push(new Machine(number, directory, database.url, CONCURRENCY));
    }
    await Promise.all(machines.map((machine) => machine.start()));
    return new FleetSoak(root, options, database, machines);
  }

  async toItsEnd(): Promise<FleetSoakResult> {
    const stalled = Promise.withResolvers<void>();
    const news = setInterval(() => {
      this.#say();
      if (this.#isStalled()) stalled.resolve();
    }, NEWS_MS);
    await Promise.race([this.#disturbAll(), stalled.promise]);
    clearInterval(news);
    await this.#judge();
    const { lines } = parseFleetLog(fs.readFileSync(join(this.#root, "log"), "utf8"));
    await Promise.race([this.#end(), sleep(END_MS_MAX, undefined, { ref: false })]);
    const names = FAULT_NAMES.filter((name) => this.#faults.has(name));
    return {
      faults: new Map(names.map((name) => [name, this.#faults.get(name) ?? 0])),
      ...{ kills: this.#kills, runs: this.#submitted.size, violations: this.#violations },
      attempts: new Set(lines.map(({ runId, step, attempt }) => `${runId} ${step} ${attempt}`))
        .size,
      times: this.#observer.times,
      gapSeconds: shortestGap(lines),
    };
  }

  /** All faults, and then the time until every run has ended. */
  async #disturbAll(): Promise<void> {
    await Promise.all(this.#machines.map((machine) => this.#awaitReady(machine, 0)));
    const submitting = this.#submitAll();
    await Promise.race([submitting, this.#busy()]);
    const machines = this.#machines.map((machine) => this.#strikeMachine(machine));
    await Promise.all([submitting, this.#strikeDatabase(), ...machines]);
    this.#options.news("no more faults; the fleet completes its runs");
    await this.#calm();
  }

  /** Whether a run, or the soak itself, makes no progress any more. */
  #isStalled(): boolean {
    const stuck = this.#observer.stuckFor(STALLED_MS);
    const isIdle = !this.#isOver && performance.now() - this.#killedAt > STALLED_MS;
    if (stuck.length === 0 && !isIdle) return false;
    const what = isIdle ? "nobody was killed" : `run ${stuck[0]} has not changed`;
    const message = `${what} for ${STALLED_MS / 60_000} minutes`;
    this.#violations.push({ kind: "stuck", message });
    return true;
  }

  async #end(): Promise<void> {
    await this.#observer.close();
    for (const machine of this.#machines) await machine.end();
    await this.#database.close();
  }

  get #isOver(): boolean {
    return this.#kills >= this.#options.kills;
  }

  /** How many runs wait or work at once: at most half of them, so that the others meet faults, too. */
  get #openMax(): number {
    return Math.min(OPEN_MAX, Math.ceil(this.#options.runs / 2));
  }

  #random(of: string): Random {
    return seededRandom(seedOf(`${this.#options.seed}/${of}`));
  }

  #say(): void {
    const { completed, open } = this.#observer;
    const runs = `${completed} of ${this.#options.runs} runs completed, ${open.length} open`;
    this.#options.news(`${this.#kills} kills; ${runs}`);
  }

  /** Gives runs to the fleet as the kills proceed, so that there is always something to kill. */
  async #submitAll(): Promise<void> {
    const { runs, kills, stepSeconds } = this.#options;
    const random = this.#random("pipelines");
    let begun = 0;
    const mustWait = (): boolean =>
      begun >= this.#openMax + (runs * this.#kills) / kills ||
      begun - this.#submitted.size + this.#observer.open.length >= this.#openMax;
    const lane = async (): Promise<void> => {
      while (begun < runs) {
        if (!this.#isOver && mustWait()) {
          await sleep(LOOK_MS);
          continue;
        }
        begun += 1;
        const file = `flow-${begun}.yaml`;
        const { steps, text } = fleetPipeline(random, join(this.#root, "log"), stepSeconds);
        this.#submitted.set(await this.#project.submitted(file, text), steps);
      }
    };
    await Promise.all(Array.from({ length: LANES }, lane));
  }

  /** Resolves when the fleet has as many runs as it shall have at once. */
  async #busy(): Promise<void> {
    while (this.#submitted.size < this.#openMax) await sleep(LOOK_MS);
  }

  async #strikeMachine(machine: Machine): Promise<void> {
    const random = this.#random(machine.name);
    while (!this.#isOver) {
      await sleep(random.below(PAUSE_MS_MAX));
      if (this.#isOver) return;
      if (random.chance(DISTURBANCE_SHARE)) await this.#disturb(machine, random);
      else await this.#kill(machine, random.pick(KILLS), random);
    }
  }

  async #kill(machine: Machine, what: Kill, random: Random): Promise<void> {
    const mark = machine.readies;
    this.#observer.hurt(KILL_NAMES[what], machine.workerId);
    if (what === "machine" || what === "machine and its disk") {
      await machine.end();
      if (what !== "machine") machine.destroy();
      this.#countKill(what);
      await sleep(random.below(OFF_MS_MAX));
      await machine.start();
    } else {
      const which = what === "worker and supervisor" ? "both" : what;
      if (!machine.killWorker(which)) return;
      this.#countKill(what);
    }
    await this.#awaitReady(machine, mark);
  }

  async #disturb(machine: Machine, random: Random): Promise<void> {
    const what = random.pick(DISTURBANCES);
    const direction = random.pick<Direction>(["out", "in", "both"]);
    if (what === "short partition") {
      this.#count(SHORT_PARTITION);
      return machine.partition(direction, between(random, SHORT_MS));
    }
    if (what === "drain") return this.#drain(machine);
    const max = what === "pause" ? PAUSED_MS_MAX : this.#options.partitionSeconds * 1_000;
    const ms = between(random, { min: LONG_MS_MIN, max: Math.max(LONG_MS_MIN, max) });
    const name = what === "pause" ? PAUSE : PARTITION_NAMES[direction];
    this.#count(name);
    this.#observer.hurt(name, machine.workerId);
    if (what === "pause") await machine.pauseWorker(ms);
    else await machine.partition(direction, ms);
  }

  async #drain(machine: Machine): Promise<void> {
    const mark = machine.readies;
    this.#observer.hurt(DRAIN, machine.workerId);
    if (!machine.drainWorker()) return;
    this.#count(DRAIN);
    await this.#awaitReady(machine, mark);
  }

  async #strikeDatabase(): Promise<void> {
    const random = this.#random("database");
    while (!this.#isOver) {
      const until = performance.now() + between(random, DATABASE_PAUSE_MS);
      while (!this.#isOver && performance.now() < until) await sleep(LOOK_MS);
      if (this.#isOver) return;
      await this.#strikeDatabaseOnce(random.pick(DATABASE_FAULTS), random);
    }
  }

  async #strikeDatabaseOnce(what: DatabaseFault, random: Random): Promise<void> {
    const awayMs = random.below(DATABASE_AWAY_MS_MAX);
    const name = DATABASE_NAMES[what];
    this.#count(name);
    const isBack = this.#observer.silenced(name);
    if (what === "failover") await this.#database.failOver(awayMs);
    else await this.#database.restart(what === "crash" ? "kill" : "fast", awayMs);
    isBack();
    if (what === "failover") await this.#database.addStandby();
  }

  /** Waits until every run has ended, or nothing changes any more. */
  async #calm(): Promise<void> {
    const isOpen = (): boolean =>
      this.#observer.open.length > 0 || this.#observer.ids.length < this.#submitted.size;
    while (isOpen() && this.#observer.quietMs < STUCK_MS) await sleep(LOOK_MS);
  }

  async #judge(): Promise<void> {
    const journal = await openPostgresJournal(this.#database.url);
    const ends = [];
    for (const [runId, steps] of this.#submitted) {
      const { events } = await journal.log.load(runId);
      ends.push({ runId, steps, events, status: this.#observer.statusOf(runId) });
    }
    await journal.close();
    const log = parseFleetLog(fs.readFileSync(join(this.#root, "log"), "utf8"));
    this.#violations.push(...fleetViolations(ends, log));
    if (this.#violations.length === 0) return;
    const left = ends.filter(({ status }) => status !== "completed");
    for (const { runId } of left.slice(0, EXPLAINED_MAX)) await this.#explain(runId);
    fs.writeFileSync(join(this.#root, "journal.json"), JSON.stringify(ends, undefined, 1));
    fs.writeFileSync(join(this.#root, "workers.txt"), await this.#project.must(["workers"]));
  }

  /** Says why a run has not completed, and what the workers have printed about it. */
  async #explain(runId: string): Promise<void> {
    const { stdout, stderr } = await this.#project.run(["why", runId]);
    const printed = this.#machines.flatMap((machine) =>
      machine.linesAbout(runId).map((line) => `${machine.name}: ${line}`),
    );
    this.#options.news([`run ${runId}: ${stdout}${stderr}`.trim(), ...printed].join("\n"));
  }

  async #awaitReady(machine: Machine, mark: number): Promise<void> {
    if (await machine.ready(mark)) return;
    const message = `${machine.name} does not take runs any more`;
    this.#violations.push({ kind: "stuck", message });
  }

  #countKill(what: Kill): void {
    this.#kills += 1;
    this.#killedAt = performance.now();
    this.#count(KILL_NAMES[what]);
  }

  #count(what: string): void {
    this.#faults.set(what, (this.#faults.get(what) ?? 0) + 1);
  }
}

function between(random: Random, { min, max }: { min: number; max: number }): number {
  return min + random.below(max - min + 1);
}

/** The project of the person who gives runs to the fleet. */
class FleetProject extends PlainProject {
  readonly #store: string;

  constructor(dir: string, store: string) {
    fs.mkdirSync(dir);
    super(dir);
    this.#store = store;
    this.write("readme.txt", "A project.\n");
    const git = ["-c", "user.name=soak", "-c", "user.email=soak@example.invalid"];
    for (const words of [
      ["init", "-q"],
      ["add", "."],
      [...git, "commit", "-qm", "first"],
    ]) {
      execFileSync("git", words, { cwd: dir });
    }
  }

  override get own(): Readonly<Record<string, string>> {
    return { ...super.own, PERDURE_STORE: this.#store };
  }

  /** Gives a run to the fleet, also while its database is away; returns its id. */
  async submitted(file: string, text: string): Promise<string> {
    this.write(file, text);
    const begun = performance.now();
    for (;;) {
      const { exit, stdout, stderr } = await this.run(["submit", file, "--json"]);
      if (exit === 0) return (JSON.parse(stdout) as { run_id: string }).run_id;
      if (performance.now() - begun < SUBMISSION_MS_MAX) continue;
      throw new Error(`perdure submit: ${stdout}${stderr}`);
    }
  }
}
