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
/** How many runs a machine drives at once. */
const CONCURRENCY = 8;
/** Runs that wait or work at the same time. */
const OPEN_MAX = 24;
/** A pause between two faults of one machine. */
const PAUSE_MS_MAX = 8_000;
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
const LOOK_MS = 100;
const NEWS_MS = 30_000;
const SUBMISSIONS_MAX = 10;
/** How many runs are submitted at the same time. */
const LANES = 4;

/** What may happen to a machine; kills are counted. */
const KILLS = [
  ...["worker", "worker", "worker", "worker and supervisor", "supervisor"],
  ...["machine", "machine", "machine and its disk"],
] as const;
type Kill = (typeof KILLS)[number];
const DISTURBANCES = ["short partition", "long partition", "long partition", "pause"] as const;
const DISTURBANCE_SHARE = 0.12;
const DATABASE_FAULTS = ["restart", "crash", "failover"] as const;
type DatabaseFault = (typeof DATABASE_FAULTS)[number];

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
  /** How often each kind of fault happened. */
  readonly faults: Readonly<Record<string, number>>;
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
  readonly #faults: Record<string, number> = {};
  readonly #violations: Violation[] = [];
  #kills = 0;

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
    await Promise.all(this.#machines.map((machine) => this.#awaitReady(machine, 0)));
    const news = setInterval(() => this.#say(), NEWS_MS);
    const submitting = this.#submitAll();
    await Promise.race([submitting, this.#busy()]);
    const machines = this.#machines.map((machine) => this.#strikeMachine(machine));
    await Promise.all([submitting, this.#strikeDatabase(), ...machines]);
    this.#options.news("no more faults; the fleet completes its runs");
    await this.#calm();
    clearInterval(news);
    await this.#judge();
    const { lines } = parseFleetLog(fs.readFileSync(join(this.#root, "log"), "utf8"));
    await this.#observer.close();
    for (const machine of this.#machines) await machine.end();
    await this.#database.close();
    return {
      faults: this.#faults,
      ...{ kills: this.#kills, runs: this.#submitted.size, violations: this.#violations },
      attempts: new Set(lines.map(({ runId, step, attempt }) => `${runId} ${step} ${attempt}`))
        .size,
      times: this.#observer.times,
      gapSeconds: shortestGap(lines),
    };
  }

  get #isOver(): boolean {
    return this.#kills >= this.#options.kills;
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
      begun >= OPEN_MAX + (runs * this.#kills) / kills ||
      begun - this.#submitted.size + this.#observer.open.length >= OPEN_MAX;
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
    const enough = Math.min(this.#options.runs, OPEN_MAX);
    while (this.#submitted.size < enough) await sleep(LOOK_MS);
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
    const worker = machine.workerId;
    if (what === "machine" || what === "machine and its disk") {
      this.#observer.hurt(what, worker);
      await machine.end();
      if (what !== "machine") machine.destroy();
      this.#countKill(what);
      await sleep(random.below(OFF_MS_MAX));
      await machine.start();
    } else {
      const which = what === "worker and supervisor" ? "both" : what;
      this.#observer.hurt(what, worker);
      if (!machine.killWorker(which)) return;
      this.#countKill(what);
    }
    await this.#awaitReady(machine, mark);
  }

  async #disturb(machine: Machine, random: Random): Promise<void> {
    const what = random.pick(DISTURBANCES);
    const direction = random.pick<Direction>(["out", "in", "both"]);
    if (what === "short partition") {
      this.#count(what);
      return machine.partition(direction, between(random, SHORT_MS));
    }
    const max = what === "pause" ? PAUSED_MS_MAX : this.#options.partitionSeconds * 1_000;
    const ms = between(random, { min: LONG_MS_MIN, max: Math.max(LONG_MS_MIN, max) });
    const name = what === "pause" ? "worker paused" : `partition (${direction})`;
    this.#count(name);
    this.#observer.hurt(name, machine.workerId);
    if (what === "pause") await machine.pauseWorker(ms);
    else await machine.partition(direction, ms);
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
    const at = performance.now();
    this.#count(`database ${what}`);
    if (what === "failover") await this.#database.failOver(awayMs);
    else await this.#database.restart(what === "crash" ? "kill" : "fast", awayMs);
    this.#observer.silenced(`database ${what}`, at);
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
    fs.writeFileSync(join(this.#root, "journal.json"), JSON.stringify(ends, undefined, 1));
    fs.writeFileSync(join(this.#root, "workers.txt"), await this.#project.must(["workers"]));
  }

  async #awaitReady(machine: Machine, mark: number): Promise<void> {
    if (await machine.ready(mark)) return;
    const message = `${machine.name} does not take runs any more`;
    this.#violations.push({ kind: "stuck", message });
  }

  #countKill(what: Kill): void {
    this.#kills += 1;
    this.#count(what);
  }

  #count(what: string): void {
    this.#faults[what] = (this.#faults[what] ?? 0) + 1;
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
    for (let attempt = 1; ; attempt++) {
      const { exit, stdout, stderr } = await this.run(["submit", file, "--json"]);
      if (exit === 0) return (JSON.parse(stdout) as { run_id: string }).run_id;
      if (attempt === SUBMISSIONS_MAX) throw new Error(`perdure submit: ${stdout}${stderr}`);
    }
  }
}
