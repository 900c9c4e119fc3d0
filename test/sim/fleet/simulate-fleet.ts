/**
 * One simulated fleet: several workers on machines of their own, whose clocks run fast or slow, drive a
 * few runs against one store, while processes die and are paused, machines vanish and come back, and the
 * network drops, delays and partitions. All of it is drawn from one seed.
 *
 * Owns: the faults, and what must hold at the end: once they stop, every run comes to its end.
 * Does not: check single writes (store.ts) or what happens inside a run (../checkers.ts).
 */
import type { Recorded } from "../../../src/core/event.ts";
import { attemptOf, currentVisit, findStep } from "../../../src/core/run.ts";
import { attemptText, stepPath } from "../../../src/core/step-path.ts";
import { initialSummary } from "../../../src/core/summary.ts";
import { keyOf, type LastingRequest } from "../../../src/journal/inbox.ts";
import { freeze, type Plan } from "../../../src/plan/plan.ts";
import { type Random, seededRandom } from "../../../src/util/random.ts";
import { Violation } from "../conversation-checkers.ts";
import { randomPlan } from "../random-plan.ts";
import { SimulatedWorker } from "./fleet-worker.ts";
import { Machine, type SimulatedProcess } from "./machine.ts";
import { Schedule } from "./schedule.ts";
import type { FleetBug } from "./session.ts";
import { FleetRun, Link, SimulatedStore } from "./store.ts";

/** How long faults happen. */
const FAULTS_MS = 60_000;
/** After the faults, a run that nobody writes for so long is stuck. */
const STUCK_MS = 240_000;
/** A fleet that does so much does not come to an end. */
const ACTS_MAX = 200_000;

export interface FleetOutcome {
  /** Everything that happened, in order. */
  readonly log: readonly string[];
  readonly runs: readonly FleetRunOutcome[];
  readonly faults: number;
  readonly takeovers: number;
}

interface FleetRunOutcome {
  readonly runId: string;
  readonly planOf: (fingerprint: string) => Plan;
  readonly recorded: readonly Recorded[];
  readonly status: string;
}

/** Runs one seed to its end; throws Violation when a checker finds something. */
export function simulateFleet(
  seed: number,
  bug?: FleetBug,
  log: string[] = [],
): Promise<FleetOutcome> {
  return new FleetSimulation(seed, bug, log).run();
}

class FleetSimulation {
  readonly #schedule = new Schedule();
  readonly #random: Random;
  readonly #store = new SimulatedStore(this.#schedule);
  readonly #workers: SimulatedWorker[] = [];
  readonly #machines: Machine[] = [];
  readonly #log: string[];
  readonly #bug: FleetBug | undefined;
  #failure: Error | undefined;
  #isCalm = false;
  #calmAt = 0;
  #faults = 0;
  #pids = 0;
  #snapshots = 0;
  #sent = 0;

  constructor(seed: number, bug: FleetBug | undefined, log: string[]) {
    this.#random = seededRandom(seed ^ 0xf1ee7);
    this.#bug = bug;
    this.#log = log;
    this.#store.forgetsRequests = bug === "requests-without-an-owner-not-found";
    this.#makeMachines();
  }

  async run(): Promise<FleetOutcome> {
    for (let number = 0; number < 1 + this.#random.below(2); number++) await this.#submit(number);
    for (const worker of this.#workers) worker.start();
    this.#schedule.after(FAULTS_MS, () => this.#calm());
    this.#everyNow(() => this.#fault(), 4_000);
    this.#everyNow(() => this.#people(), 4_000);
    this.#everyNow(() => this.#random.pick(this.#machines).takeImage(), 3_000);
    const { runs } = this.#store;
    await this.#schedule.run(
      () => this.#goesOn(),
      () => {
        for (const { world } of runs.values()) world.now = this.#schedule.now;
      },
    );
    if (this.#failure !== undefined) throw this.#failure;
    return this.#outcome();
  }

  #makeMachines(): void {
    const fatal = (error: unknown): void => {
      this.#fail(error);
    };
    const fleet = {
      ...{ random: this.#random, store: this.#store, bug: this.#bug, fatal },
      newPid: () => ++this.#pids,
      newSnapshot: () => `snapshot-${++this.#snapshots}`,
      note: (line: string) => this.#note(line),
    };
    const count = 2 + this.#random.below(3);
    for (let number = 0; number < count; number++) {
      const machine = new Machine(`m${number}`, this.#schedule, this.#random, number > 0);
      this.#machines.push(machine);
      this.#note(`${machine.name} runs at ${machine.rate.toFixed(3)}`);
      const workers = this.#random.chance(0.5) ? 2 : 1;
      for (let one = 0; one < workers; one++) {
        const link = new Link(this.#schedule, this.#random, this.#store, fatal);
        const worker = new SimulatedWorker(`w${number}.${one}`, machine, link, fleet);
        link.onAnswer = (process, risk) => this.#atWorst(worker, process, risk);
        this.#workers.push(worker);
      }
    }
  }

  /** A run and its job, in one transaction. */
  async #submit(number: number): Promise<void> {
    const plan = randomPlan(this.#random);
    const { text, fingerprint } = freeze(plan);
    const runId = `00000000-0000-4000-8000-00000000000${number}`;
    const { journal } = this.#store;
    await journal.log.create({
      ...{ runId, planText: text, time: this.#schedule.now, summary: initialSummary(plan) },
      created: {
        ...{ type: "run.created", pipeline: "simulated", file: "/simulated.yaml", fingerprint },
        ...{ args: [], cwd: "/", envNames: [] },
        input: { n: this.#random.below(4), items: ["a", "b"] },
      },
    });
    const worldRandom = seededRandom(this.#random.below(2 ** 31));
    const run = new FleetRun(runId, plan, journal, worldRandom);
    run.recorded(await journal.log.eventsAfter(runId, 0));
    this.#store.runs.set(runId, run);
    this.#store.enqueue(runId);
  }

  #goesOn(): boolean {
    if (this.#failure !== undefined) return false;
    if (this.#schedule.acts > ACTS_MAX) throw new Violation("the fleet does not come to an end");
    const runs = [...this.#store.runs.values()];
    if (this.#isCalm) {
      if (runs.every((run) => this.#store.isSettled(run))) return false;
      const stuck = runs.find((run) => !this.#store.isSettled(run) && this.#isStuck(run));
      if (stuck !== undefined) throw new Violation(`${stuck.runId} is stuck`);
    }
    return true;
  }

  #isStuck({ writtenAt }: FleetRun): boolean {
    return this.#schedule.now - Math.max(writtenAt, this.#calmAt) > STUCK_MS;
  }

  #everyNow(act: () => void, ms: number): void {
    this.#schedule.after(this.#random.below(ms), () => {
      try {
        act();
      } catch (error) {
        this.#fail(error);
      }
      this.#everyNow(act, ms);
    });
  }

  /** The faults are over: machines and workers come back, and the network carries everything. */
  #calm(): void {
    this.#note("calm");
    this.#isCalm = true;
    this.#calmAt = this.#schedule.now;
    this.#store.isDown = false;
    for (const { world } of this.#store.runs.values()) world.longest = 0;
    for (const machine of this.#machines) if (!machine.isUp) machine.start();
    for (const worker of this.#workers) {
      this.#heal(worker);
      worker.process?.continue();
      worker.start();
    }
  }

  #fault(): void {
    if (this.#isCalm) return;
    this.#faults++;
    const random = this.#random;
    const worker = random.pick(this.#workers);
    const { process, machine, id } = worker;
    const later = (ms: number, act: () => void): void =>
      void this.#schedule.after(random.below(ms), act);
    switch (random.below(11)) {
      case 0:
        this.#note(`kill ${id}`);
        process?.kill();
        return later(1_000, () => worker.start());
      case 1:
        this.#note(`kill ${id} and its supervisor`);
        process?.kill();
        return later(60_000, () => worker.start());
      case 2:
        if (process === undefined || process.isPaused) return undefined;
        this.#note(`pause ${id}`);
        process.pause();
        return later(40_000, () => process.continue());
      case 3:
        return this.#vanish(machine);
      case 4:
      case 5:
        return this.#partition(worker);
      case 6:
        this.#note(`the network of ${id} is slow`);
        worker.link.slowestMs = 200 + random.below(4_000);
        return later(30_000, () => this.#heal(worker));
      case 7:
        return this.#failOver();
      case 8:
        worker.drain();
        return later(20_000, () => worker.start());
      case 9: {
        const run = random.pick([...this.#store.runs.values()]);
        const [step] = run.world.alive();
        if (step !== undefined) run.kill(step);
        return undefined;
      }
      default:
        return this.#cutOff(worker);
    }
  }

  /** A process dies or is paused between the answer of the store and what it does next. */
  #atWorst(worker: SimulatedWorker, process: SimulatedProcess, risk: number): void {
    if (this.#isCalm || process.isPaused || !this.#random.chance(0.006 * risk)) return;
    const kind = this.#random.pick(["dies", "pauses", "hesitates"] as const);
    this.#note(`${worker.id} ${kind} at an answer`);
    if (kind === "dies") {
      process.kill();
      this.#schedule.after(this.#random.below(2_000), () => worker.start());
      return;
    }
    // A machine that hesitates loses its network as well.
    if (kind === "hesitates") this.#cutOff(worker);
    process.pause();
    const [least, more] = kind === "hesitates" ? [1_000, 5_000] : [5_000, 15_000];
    this.#schedule.after(least + this.#random.below(more), () => process.continue());
  }

  #vanish(machine: Machine): void {
    if (!machine.isUp) return;
    this.#note(`${machine.name} vanishes`);
    machine.vanish();
    for (const run of this.#store.runs.values()) run.end(machine);
    this.#schedule.after(this.#random.below(50_000), () => {
      if (machine.isUp) return;
      machine.start(this.#random.chance(0.5) ? "image" : "disk");
      this.#note(`${machine.name} is back`);
      for (const worker of this.#workers) if (worker.machine === machine) worker.start();
    });
  }

  /** Both directions, or one: requests arrive and their answers do not. */
  #partition(worker: SimulatedWorker): void {
    const kind = this.#random.below(3);
    worker.link.carriesRequests = kind === 1;
    worker.link.carriesAnswers = kind === 2;
    this.#note(`partition of ${worker.id}, kind ${kind}`);
    this.#schedule.after(this.#random.below(60_000), () => this.#heal(worker));
  }

  /** The worker does not reach the store, for longer than a lease lasts. */
  #cutOff(worker: SimulatedWorker): void {
    this.#note(`${worker.id} is cut off`);
    worker.link.carriesRequests = false;
    this.#schedule.after(15_000 + this.#random.below(30_000), () => this.#heal(worker));
  }

  #heal(worker: SimulatedWorker): void {
    worker.link.carriesRequests = true;
    worker.link.carriesAnswers = true;
    worker.link.slowestMs = 20;
  }

  /** The server is away for a while; the one that takes its place has a clock of its own. */
  #failOver(): void {
    this.#note("the store fails over");
    this.#store.isDown = true;
    this.#schedule.after(this.#random.below(15_000), () => {
      this.#store.isDown = false;
      this.#store.skew = this.#random.below(800);
    });
  }

  /** People answer, and ask, from anywhere; less and less, so that runs come to their end. */
  #people(): void {
    const { inbox } = this.#store.journal;
    for (const { runId, known } of this.#store.runs.values()) {
      for (const visit of known.waiting.person) {
        const choice = this.#random.pick(["A", "R", "D", "N"]);
        const answer = { choice, by: "p@h", from: "command", given: this.#schedule.now } as const;
        const attempt = attemptText(attemptOf(visit));
        inbox.answer(runId, { attempt, answer }).catch((error: unknown) => {
          this.#fail(error);
        });
      }
    }
    if (this.#isCalm || !this.#random.chance(0.3)) return;
    const run = this.#random.pick([...this.#store.runs.values()]);
    this.#send(run, this.#request(run));
  }

  #request({ plan, known }: FleetRun): LastingRequest {
    const key = `request-${++this.#sent}`;
    const { id: step } = this.#random.pick(plan.graph.steps);
    if (this.#random.chance(0.3)) {
      const message = { id: key, text: "look here", by: "p@h", given: this.#schedule.now };
      return { type: "message", scope: "", step, message };
    }
    if (this.#random.chance(0.4))
      return { type: "add-budget", key, by: "p@h", added: { turns: 40 } };
    const visit = [...known.failed][0] ?? currentVisit(findStep(known, step));
    const attempt = visit && attemptText(attemptOf(visit));
    const path = visit === undefined ? step : stepPath(attemptOf(visit));
    return { type: "retry", key, by: "p@h", step: path, ...(attempt && { attempt }) };
  }

  #send({ runId, checkers }: FleetRun, request: LastingRequest): void {
    this.#note(`send ${JSON.stringify(request)} to ${runId}`);
    checkers.requests.sent(keyOf(request) ?? "", request);
    this.#store.journal.inbox.send(runId, request).catch((error: unknown) => {
      this.#fail(error);
    });
  }

  #outcome(): FleetOutcome {
    const runs = [...this.#store.runs.values()].map((run) => {
      const { runId, planOf, known } = run;
      const { status } = known.state;
      run.checkers.atTheEnd(status);
      const recorded = this.#store.journal.contents.load(runId).events;
      return { runId, planOf, recorded, status };
    });
    const opened = runs.flatMap(({ recorded }) =>
      recorded.filter(({ event }) => event.type === "run.opened"),
    );
    const takeovers = opened.length - runs.length;
    return { log: this.#log, runs, faults: this.#faults, takeovers };
  }

  #fail(error: unknown): void {
    this.#failure ??= error instanceof Error ? error : new Error(String(error));
  }

  #note(line: string): void {
    this.#log.push(`${this.#schedule.now} ${line}`);
  }
}
