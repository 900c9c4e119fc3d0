/**
 * A simulated machine: its boot clock, which runs fast or slow, the processes of its workers, which die
 * and are paused, and the directories of runs on its disk, which outlive them.
 */
import type { Random } from "../../../src/util/random.ts";
import type { Cancel, Schedule } from "./schedule.ts";

/** The directory that a worker has of a run. */
export interface Directory {
  /** Distinguishes it from every other directory, also of the same run on the same machine. */
  readonly id: string;
  /** The owner that used it last, and the boot in which it did. */
  used: { readonly epoch: number; readonly boot: string } | undefined;
  /** The deadline of its steps, by the boot clock; absent when the file was removed. */
  leash: number | undefined;
  readonly snapshots: Set<string>;
  /** Session -> the messages in its transcript. */
  readonly transcripts: Map<string, readonly string[]>;
  /** Attempts that ran before this directory was made from the store. */
  readonly elsewhere: Set<string>;
}

function newDirectory(id: number): Directory {
  return {
    id: `d${id}`,
    used: undefined,
    leash: undefined,
    snapshots: new Set(),
    transcripts: new Map(),
    elsewhere: new Set(),
  };
}

/** A copy of a disk as it is now, for a machine that comes back with an old image. */
function copyOf(disk: ReadonlyMap<string, Directory>, newId: () => number): Map<string, Directory> {
  const copies = [...disk].map(([path, dir]): [string, Directory] => {
    const { used, snapshots, transcripts, elsewhere } = dir;
    const copied = { snapshots: new Set(snapshots), transcripts: new Map(transcripts) };
    return [path, { ...newDirectory(newId()), used, ...copied, elsewhere: new Set(elsewhere) }];
  });
  return new Map(copies);
}

/** The process of a worker: it may die at any time, and it may be paused. */
export class SimulatedProcess {
  readonly pid: number;
  readonly machine: Machine;
  isAlive = true;
  #isPaused = false;
  #waiting: (() => void)[] = [];

  constructor(machine: Machine, pid: number) {
    this.machine = machine;
    this.pid = pid;
  }

  get isPaused(): boolean {
    return this.#isPaused;
  }

  /** Does something in this process: now, when it continues, or never. */
  run(act: () => void): void {
    if (!this.isAlive) return;
    if (this.#isPaused) this.#waiting.push(act);
    else act();
  }

  /** Does something after a time by the clock of the machine. */
  after(ms: number, act: () => void): Cancel {
    return this.machine.after(ms, () => this.run(act));
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => void this.after(ms, resolve));
  }

  pause(): void {
    this.#isPaused = true;
  }

  continue(): void {
    this.#isPaused = false;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const act of waiting) this.run(act);
  }

  kill(): void {
    this.isAlive = false;
    this.#waiting = [];
  }
}

export class Machine {
  readonly name: string;
  /** How many of its seconds pass in one. */
  readonly rate: number;
  isUp = true;
  boot = "";
  readonly processes = new Map<number, SimulatedProcess>();
  readonly #schedule: Schedule;
  #bootedAt = 0;
  #boots = 0;
  #disk = new Map<string, Directory>();
  #image: Map<string, Directory> | undefined;

  constructor(name: string, schedule: Schedule, random: Random, mayBeOff: boolean) {
    this.name = name;
    this.#schedule = schedule;
    // Most clocks are good; some run up to twice as slow or fast.
    const off = mayBeOff && random.chance(0.35);
    const rate = random.chance(0.6) ? 0.5 + random.next() * 0.4 : 1 + random.next();
    this.rate = off ? rate : 1 + (random.next() - 0.5) / 1_000;
    this.start();
  }

  /** The boot clock. */
  now(): number {
    return (this.#schedule.now - this.#bootedAt) * this.rate;
  }

  /** After a time by the boot clock; not if the machine went down in between. */
  after(ms: number, act: () => void): Cancel {
    const { boot } = this;
    return this.#schedule.after(ms / this.rate, () => {
      if (this.isUp && this.boot === boot) act();
    });
  }

  directory(path: string): Directory | undefined {
    return this.#disk.get(path);
  }

  /** A new directory; what was there before is moved away. */
  makeDirectory(path: string): Directory {
    const dir = newDirectory(this.#schedule.newId());
    this.#disk.set(path, dir);
    return dir;
  }

  /** Remembers the disk as it is now. */
  takeImage(): void {
    this.#image = copyOf(this.#disk, () => this.#schedule.newId());
  }

  /** The machine comes up, with its disk or with an old image of it. */
  start(from: "disk" | "image" = "disk"): void {
    this.isUp = true;
    this.boot = `${this.name}-boot-${++this.#boots}`;
    this.#bootedAt = this.#schedule.now - 1_000;
    if (from === "image" && this.#image !== undefined) {
      this.#disk = copyOf(this.#image, () => this.#schedule.newId());
    }
  }

  /** The machine goes down: every process on it is gone. */
  vanish(): void {
    this.isUp = false;
    for (const process of this.processes.values()) process.kill();
  }
}
