/**
 * One simulated run: the real core, engine and codec on a journal in memory, with crashes, failing
 * appends, late and repeated facts, stops, retries and rewinds, all drawn from one seed.
 */
import type { Turn } from "../../src/core/advance.ts";
import type { AttemptRef, Owner, RunEvent } from "../../src/core/event.ts";
import { replay } from "../../src/core/evolve.ts";
import type { ConversationOffer, Fact, ItemsFound } from "../../src/core/fact.ts";
import { attemptOf } from "../../src/core/next-actions.ts";
import { attemptText } from "../../src/core/place.ts";
import { Refusal } from "../../src/core/rewind.ts";
import { initialSummary } from "../../src/core/summary.ts";
import { Engine } from "../../src/engine/engine.ts";
import type { Journal } from "../../src/journal/journal.ts";
import { memoryJournal } from "../../src/journal/memory.ts";
import { freeze, type Plan } from "../../src/plan/plan.ts";
import { type Random, seededRandom } from "../../src/util/random.ts";
import { Checkers, Violation } from "./checkers.ts";
import { randomPlan } from "./random-plan.ts";
import { type SimProcess, World } from "./world.ts";

/** Bugs that can be planted, to see that the checkers find them. */
export type Bug =
  | "spawn-before-append"
  | "spawn-twice"
  | "adopt-alive-as-lost"
  | "forget-last-event"
  | "finish-with-living-process"
  | "ignore-room"
  | "rerun-completed"
  | "exit-code-ignored"
  | "lose-context";

export interface Outcome {
  readonly seed: number;
  readonly log: readonly string[];
  readonly events: readonly RunEvent[];
  readonly crashes: number;
  readonly status: string;
}

const RUN_ID = "00000000-0000-4000-8000-000000000000";
const TURNS_MAX = 5_000;
const OWNERS_MAX = 60;

class Crash extends Error {}

/** Runs one seed to its end; throws Violation when a checker finds something. */
export function simulate(seed: number, bug?: Bug, log: string[] = []): Outcome {
  return new Simulation(seed, bug, log).run();
}

class Simulation {
  readonly #seed: number;
  readonly #bug: Bug | undefined;
  readonly #random: Random;
  readonly #world: World;
  readonly #plan: Plan;
  readonly #journal: Journal;
  readonly #checkers: Checkers;
  readonly #log: string[];
  /** Facts under way; late ones reach whoever owns the run then. */
  readonly #late: Fact[] = [];
  readonly #reported = new Set<string>();
  #crashes = 0;
  #calm = false;

  constructor(seed: number, bug: Bug | undefined, log: string[]) {
    this.#seed = seed;
    this.#log = log;
    this.#bug = bug;
    this.#random = seededRandom(seed);
    this.#world = new World(seededRandom(seed ^ 0x5eed));
    this.#plan = randomPlan(this.#random);
    this.#journal = memoryJournal({
      beforeAppend: () => {
        if (this.#chance(0.03)) throw this.#crash("append fails");
      },
    });
    this.#checkers = new Checkers(this.#plan, RUN_ID, this.#journal, this.#world);
  }

  run(): Outcome {
    this.#create();
    let status = "";
    for (let owner = 1; owner <= OWNERS_MAX; owner++) {
      // The last owners are spared, so that every run comes to an end.
      this.#calm = owner > OWNERS_MAX / 2;
      try {
        status = this.#own(owner);
        this.#note(`owner ${owner} ends: ${status}`);
        if (status === "completed" || !this.#random.chance(0.5) || this.#calm) break;
      } catch (error) {
        if (!(error instanceof Crash)) throw error;
        this.#note(`crash: ${error.message}`);
        this.#crashes++;
        this.#killSome();
      }
    }
    this.#checkers.atTheEnd(status);
    const events = this.#journal.load(RUN_ID).events.map(({ event }) => event);
    return { seed: this.#seed, log: this.#log, events, crashes: this.#crashes, status };
  }

  #create(): void {
    const { text, fingerprint } = freeze(this.#plan);
    this.#journal.create({
      runId: RUN_ID,
      planText: text,
      created: {
        type: "run.created",
        pipeline: "simulated",
        file: "/simulated.yaml",
        fingerprint,
        input: { n: this.#random.below(4), items: ["a", "b"] },
        args: [],
        cwd: "/",
        envNames: [],
      },
      time: this.#world.clock,
      summary: initialSummary(this.#plan),
    });
  }

  /** Files come and go: each look may find others, or none. */
  #items(): ItemsFound {
    if (this.#random.chance(0.1)) return { ok: false, message: "there is no such file" };
    return { ok: true, items: ["x", "y", "z"].slice(0, this.#random.below(4)) };
  }

  /** One owner, from taking the lease to the end or a crash. */
  #own(number: number): string {
    const owner: Owner = { pid: number, started: "0", boot: "b", host: "h", user: "u" };
    const acquired = this.#journal.acquire(RUN_ID, owner, () => false);
    if (!acquired.ok) throw new Violation("a dead owner was not replaced");
    const loaded = this.#journal.load(RUN_ID);
    const forgets = this.#bug === "forget-last-event" && loaded.events.length > 4;
    const plan = this.#bug === "ignore-room" ? { ...this.#plan, maxParallel: 50 } : this.#plan;
    const events = forgets ? loaded.events.slice(0, -1) : loaded.events;
    const engine = new Engine({
      journal: this.#journal,
      runId: RUN_ID,
      plan,
      run: replay(plan, RUN_ID, events),
      owner,
      epoch: acquired.epoch,
      clock: { now: () => this.#world.clock },
      around: { env: {}, offer: () => this.#offer(), items: () => this.#items() },
      watch: (recorded, run) => this.#checkers.afterAppend(recorded, run),
    });
    this.#reported.clear();
    let turn = this.#open(engine);
    for (let count = 0; count < TURNS_MAX; count++) {
      this.#perform(turn);
      if (this.#chance(0.02)) throw this.#crash("after effects");
      const { status } = engine.run.state;
      if (status !== "running" && status !== "stopping") {
        this.#checkers.afterOwner(engine.run, status);
        return status;
      }
      const facts = turn.more ? [] : this.#facts(engine, turn);
      for (const fact of facts) this.#note(factText(fact));
      turn = engine.turn(facts);
      engine.show();
      if (this.#chance(0.04)) throw this.#crash("after append, before effects");
    }
    throw new Violation("the run does not come to an end");
  }

  /** Some steps talk to an agent, whose conversation may be there or not. */
  #offer(): ConversationOffer | undefined {
    if (!this.#random.chance(0.3)) return undefined;
    return { fresh: `session-${this.#random.below(1_000)}`, found: this.#random.chance(0.5) };
  }

  /** Opens, sometimes with a person's wish; whatever the journal calls running is looked at. */
  #open(engine: Engine): Turn {
    const found = [...engine.run.running].map(attemptOf);
    const wishes: Fact[] = [];
    const { steps } = this.#plan.graph;
    if (found.length === 0 && engine.run.seq > 3 && this.#chance(0.15)) {
      const type = this.#random.chance(0.5) ? "retry-requested" : "rewind-requested";
      wishes.push({ type, step: this.#random.pick(steps).id });
    }
    if (this.#chance(0.1)) wishes.push({ type: "funds-added", added: { turns: 2 } });
    const living = this.#bug === "adopt-alive-as-lost" ? found : [];
    let turn: Turn;
    try {
      turn = engine.open(wishes);
      engine.show();
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      this.#note(`refused: ${error.message}`);
      throw this.#crash("a refusal ends this owner");
    }
    for (const at of living) {
      this.#late.push({
        type: "attempt-ended",
        at,
        ending: { how: "lost", started: true, message: "planted" },
      });
    }
    return turn;
  }

  #perform(turn: Turn): void {
    for (const at of turn.launches) {
      if (this.#chance(0.02)) throw this.#crash("between two spawns");
      this.#spawn(at);
      if (this.#bug === "spawn-twice") this.#spawn(at);
    }
    if (this.#bug === "spawn-before-append" && this.#random.chance(0.05)) {
      this.#spawn({ scope: "", step: "s0", visit: 1, attempt: 99 });
    }
    for (const { at } of turn.cancels) {
      const process = this.#world.processes.get(attemptText(at));
      if (process !== undefined) this.#stop(process);
    }
  }

  #spawn(at: AttemptRef): void {
    this.#note(`spawn ${attemptText(at)}`);
    this.#world.spawn(at);
    this.#checkers.afterSpawn(at);
  }

  #stop(process: SimProcess): void {
    const key = attemptText(process.at);
    if (!this.#world.isAlive(process)) return;
    if (this.#bug !== "finish-with-living-process") this.#world.kill(process);
    if (this.#reported.has(key)) return;
    this.#reported.add(key);
    const ending = { how: "stopped", message: "stopped" } as const;
    this.#late.push({ type: "attempt-ended", at: process.at, ending });
  }

  /** What the outside says next: something under way, an ended process, a wish, or time passing. */
  #facts(engine: Engine, turn: Turn): readonly Fact[] {
    const facts: Fact[] = [];
    if (this.#chance(0.01)) {
      const mode = this.#random.chance(0.5) ? "now" : "after-step";
      facts.push({ type: "stop-requested", mode, by: "simulator" });
    }
    if (this.#chance(0.02)) for (const process of this.#world.alive()) this.#world.kill(process);
    this.#collect(engine);
    while (this.#late.length > 0 && (facts.length === 0 || this.#random.chance(0.5))) {
      const fact = this.#late.splice(this.#random.below(this.#late.length), 1)[0];
      if (fact === undefined) break;
      facts.push(fact);
      // Facts may come twice, and long after they were true.
      if (this.#random.chance(0.05)) facts.push(fact);
      if (this.#random.chance(0.03)) this.#late.push(fact);
    }
    if (facts.length === 0) this.#passTime(turn);
    return facts;
  }

  /** Looks at every attempt that the run calls running, as the real hands do. */
  #collect(engine: Engine): void {
    for (const visit of engine.run.running) {
      const at = attemptOf(visit);
      if (this.#random.chance(0.02)) {
        this.#late.push({ type: "session-known", at, session: `known-${at.attempt}` });
      }
      const ending = this.#world.evidence(at);
      if (ending === undefined || this.#reported.has(attemptText(at))) continue;
      this.#reported.add(attemptText(at));
      const planted = this.#planted(ending);
      this.#late.push({ type: "attempt-ended", at, ending: planted });
    }
  }

  #planted(ending: Extract<Fact, { type: "attempt-ended" }>["ending"]): typeof ending {
    if (ending.how !== "exited" || ending.exit !== 0) return ending;
    if (this.#bug === "rerun-completed") return { how: "lost", started: true, message: "planted" };
    if (this.#bug === "lose-context") return { ...ending, context: {} };
    if (this.#bug === "exit-code-ignored") return { ...ending, exit: 1 };
    return ending;
  }

  #passTime(turn: Turn): void {
    const wakeAt = turn.wakeAt === undefined ? undefined : turn.wakeAt - this.#world.skew;
    const times = [wakeAt, this.#world.nextEnd()].filter((time) => time !== undefined);
    if (times.length === 0) throw new Violation("the run is stuck: nothing will ever happen");
    this.#world.now = Math.max(this.#world.now, Math.min(...times));
  }

  /** A crash of the machine takes processes along; one of the runner alone does not. */
  #killSome(): void {
    const all = this.#random.chance(0.3);
    for (const process of this.#world.alive()) {
      if (all || this.#random.chance(0.2)) this.#world.kill(process);
    }
    if (this.#random.chance(0.5)) this.#world.now += this.#random.below(600);
    // A clock that was set back must not hold anything up.
    if (this.#random.chance(0.1)) this.#world.skew -= this.#random.below(5_000);
  }

  #chance(probability: number): boolean {
    return !this.#calm && this.#random.chance(probability);
  }

  #crash(why: string): Crash {
    return new Crash(why);
  }

  #note(line: string): void {
    this.#log.push(`${this.#world.now} ${line}`);
  }
}

function factText(fact: Fact): string {
  return JSON.stringify(fact);
}
