/**
 * One simulated run: the real core, engine and codec on a journal in memory, with crashes, failing
 * appends, late and repeated facts, stops, retries and rewinds, all drawn from one seed.
 */
import type { Turn } from "../../src/core/advance.ts";
import { visitInDoubt } from "../../src/core/doubt.ts";
import type { AttemptRef, Owner, Place, Recorded, RunEvent } from "../../src/core/event.ts";
import { replay } from "../../src/core/evolve.ts";
import type { ConversationOffer, Fact, ItemsFound } from "../../src/core/fact.ts";
import { attemptOf, waitsForPerson } from "../../src/core/next-actions.ts";
import { attemptText, stepPath } from "../../src/core/place.ts";
import { Refusal } from "../../src/core/rewind.ts";
import { findVisit, isInDoubt, type Run, stepOf, type Visit } from "../../src/core/run.ts";
import { initialSummary } from "../../src/core/summary.ts";
import { planUpdate, touchesProcess } from "../../src/core/update.ts";
import { Engine } from "../../src/engine/engine.ts";
import { Gates } from "../../src/engine/gates.ts";
import { settle } from "../../src/engine/settle.ts";
import { recordUpdate } from "../../src/engine/update.ts";
import type { Journal } from "../../src/journal/journal.ts";
import { planFingerprints } from "../../src/journal/journal.ts";
import { memoryJournal } from "../../src/journal/memory.ts";
import { freeze, type Plan } from "../../src/plan/plan.ts";
import { type Random, seededRandom } from "../../src/util/random.ts";
import { Checkers, plansIn } from "./checkers.ts";
import { editedPlan } from "./edited-plan.ts";
import { CHOOSES, randomPlan } from "./random-plan.ts";
import { snapshot } from "./snapshot.ts";
import { Violation } from "./talk-checkers.ts";
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
  | "lose-context"
  | "undying-agents"
  | "one-id-for-all"
  | "forget-what-was-asked"
  | "forget-what-was-spent"
  | "probe-lies"
  | "doubt-forgotten"
  | "second-answer-counts"
  | "answers-itself";

export interface Outcome {
  readonly seed: number;
  readonly log: readonly string[];
  /** The plan that it goes by at the end. */
  readonly plan: Plan;
  /** All that it went by, by fingerprint. */
  readonly plans: ReadonlyMap<string, Plan>;
  readonly events: readonly RunEvent[];
  /** The same, as the journal has them. */
  readonly recorded: readonly Recorded[];
  readonly crashes: number;
  readonly status: string;
}

/** The plans of an outcome, for whoever replays it. */
export function plansOf({ plans }: Outcome): (fingerprint: string) => Plan {
  return (fingerprint) => {
    const plan = plans.get(fingerprint);
    if (plan === undefined) throw new Error(`no plan ${fingerprint}`);
    return plan;
  };
}

export const RUN_ID = "00000000-0000-4000-8000-000000000000";
/** A walk that always begins anew is stopped after a hundred times, each of hundreds of turns. */
const TURNS_MAX = 60_000;
const OWNERS_MAX = 60;
/** How a run is left that waits for people. */
const LEFT = "left to people";

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
  #plan: Plan;
  readonly #journal: Journal;
  readonly #planOf: (fingerprint: string) => Plan;
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
    this.#world.undying = bug === "undying-agents";
    this.#plan = randomPlan(this.#random);
    this.#journal = memoryJournal({
      beforeAppend: () => {
        if (this.#chance(0.03)) throw this.#crash("append fails");
      },
    });
    this.#planOf = plansIn(this.#journal);
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
        if (status === LEFT) continue;
        if (status === "completed" || !this.#random.chance(0.5) || this.#calm) break;
      } catch (error) {
        if (!(error instanceof Crash)) throw error;
        this.#note(`crash: ${error.message}`);
        this.#crashes++;
        this.#killSome();
      }
    }
    this.#checkers.atTheEnd(status);
    const recorded = this.#journal.load(RUN_ID).events;
    const events = recorded.map(({ event }) => event);
    const [seed, plan, log, crashes] = [this.#seed, this.#plan, this.#log, this.#crashes];
    const plans = new Map(planFingerprints(recorded).map((one) => [one, this.#planOf(one)]));
    return { seed, plan, plans, log, events, recorded, crashes, status };
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
    this.#settle(acquired.epoch);
    if (this.#chance(0.12)) this.#update(owner, acquired.epoch);
    const loaded = this.#journal.load(RUN_ID);
    const forgets = this.#bug === "forget-last-event" && loaded.events.length > 4;
    const plan = this.#bug === "ignore-room" ? { ...this.#plan, maxParallel: 50 } : this.#plan;
    const events = forgets ? loaded.events.slice(0, -1) : loaded.events.map(this.#remembered);
    const engine: Engine = new Engine({
      journal: this.#journal,
      runId: RUN_ID,
      plan,
      run: replay(this.#planOf, RUN_ID, events),
      owner,
      epoch: acquired.epoch,
      clock: { now: () => this.#world.clock },
      ...(this.#chance(0.1) ? { recover: this.#random.pick(["continue", "restart"]) } : {}),
      around: {
        env: {},
        offer: (place, session) => this.#offer(engine.run, place, session),
        items: () => this.#items(),
      },
      watch: (recorded, run) => this.#checkers.afterAppend(recorded, run),
    });
    this.#reported.clear();
    this.#people(engine.run);
    const gates = this.#gates(engine);
    let turn = this.#open(engine);
    gates.look();
    for (let count = 0; count < TURNS_MAX; count++) {
      this.#perform(turn);
      if (this.#chance(0.02)) throw this.#crash("after effects");
      const { status } = engine.run.state;
      if (status !== "running" && status !== "stopping") {
        this.#checkers.afterOwner(engine.run, status);
        return status;
      }
      for (const at of turn.expired) gates.expire(at);
      if (!turn.more && this.#isLeft(engine.run, gates)) {
        this.#checkers.afterOwner(engine.run, LEFT);
        return LEFT;
      }
      const facts = turn.more ? [] : this.#facts(engine, turn, gates);
      for (const fact of facts) this.#note(factText(fact));
      turn = engine.turn(facts);
      engine.show();
      if (this.#chance(0.04)) throw this.#crash("after append, before effects");
    }
    throw new Violation("the run does not come to an end");
  }

  /** Somebody has edited the pipeline; what still runs of the steps that this touches is let be. */
  #update(owner: Owner, epoch: number): void {
    const run = replay(this.#planOf, RUN_ID, this.#journal.load(RUN_ID).events);
    const plan = editedPlan(this.#plan, this.#random);
    const input = run.created?.input ?? null;
    const changes = planUpdate(this.#plan, plan, { before: input, after: input });
    const { fingerprint } = freeze(plan);
    if (touchesProcess(run, changes) || fingerprint === freeze(this.#plan).fingerprint) return;
    const update = {
      type: "update-requested",
      plan,
      fingerprint,
      fileSha256: "",
      envNames: [],
    } as const;
    const now = this.#world.clock;
    this.#note(`update: ${JSON.stringify(changes)}`);
    const before = snapshot(run);
    recordUpdate(
      { journal: this.#journal, run, plan: this.#plan, owner, epoch, now },
      { ...update, input },
    );
    this.#plan = plan;
    this.#checkers.afterUpdate(plan, before, changes);
    if (this.#chance(0.1)) throw this.#crash("after an update");
  }

  /** An event as the next owner takes it from the journal: as it is, but for planted bugs. */
  #remembered = (recorded: Recorded): Recorded => {
    const { event } = recorded;
    if (this.#bug === "forget-what-was-asked" && event.type === "step.continued") {
      const kind = event.ask.kind === "relay" ? "correct" : "relay";
      return { ...recorded, event: { ...event, ask: { ...event.ask, kind } } };
    }
    if (this.#bug === "forget-what-was-spent" && event.type === "step.lost") {
      const { spent: _, ...forgotten } = event;
      return { ...recorded, event: forgotten };
    }
    return recorded;
  };

  /** What a step that talks to an agent can have of its conversations. */
  #offer(run: Run, place: Place, session: string | undefined): ConversationOffer | undefined {
    const visit = findVisit(run, place);
    const work = visit && stepOf(visit).work;
    if (work?.kind !== "agent") return undefined;
    const found = session !== undefined && this.#world.finds(session);
    if (this.#bug === "one-id-for-all") return { fresh: "session-0", found };
    return work.agent === CHOOSES ? { fresh: this.#world.newSession(), found } : { found };
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
    if (found.length === 0 && this.#chance(0.05)) {
      wishes.push({ type: "restore-requested", commit: "c0ffee", of: "s0@1.1" });
    }
    const living = this.#bug === "adopt-alive-as-lost" ? found : [];
    let turn: Turn;
    try {
      turn = engine.open(wishes);
      engine.show();
      for (const at of found) this.#adopt(at);
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

  /** What an earlier owner had started is told, unless nothing is left of it. */
  #adopt(at: AttemptRef): void {
    const ending = this.#world.evidence(at);
    if (ending?.how === "lost") return;
    this.#late.push({ type: "adopted", at, found: ending === undefined ? "alive" : "ended" });
  }

  #perform(turn: Turn): void {
    if (turn.restore !== undefined) this.#late.push({ type: "restored", commit: turn.restore });
    for (const at of turn.launches) {
      if (this.#chance(0.02)) throw this.#crash("between two spawns");
      this.#spawn(at, turn.run);
      if (this.#bug === "spawn-twice") this.#spawn(at, turn.run);
    }
    if (this.#bug === "spawn-before-append" && this.#random.chance(0.05)) {
      this.#spawn({ scope: "", step: "s0", visit: 1, attempt: 99 }, turn.run);
    }
    for (const at of turn.probes) this.#probe(at);
    for (const { at, when } of turn.cancels) {
      const process = this.#world.processes.get(attemptText(at));
      // What is no agent has no turns: it is left to its end.
      if (process === undefined || (when === "after-turn" && process.session === undefined))
        continue;
      this.#stop(process);
    }
  }

  #spawn(at: AttemptRef, run: Run): void {
    const conversation = findVisit(run, at)?.talk?.conversation;
    this.#note(`spawn ${attemptText(at)} ${conversation?.says ?? ""}`);
    this.#world.spawn(at, conversation);
    this.#checkers.afterSpawn(at);
  }

  /** Each owner asks a probe once; the answer may come late, or not before the owner is gone. */
  #probe(at: AttemptRef): void {
    const key = `probe ${attemptText(at)}`;
    if (this.#reported.has(key)) return;
    this.#reported.add(key);
    this.#note(key);
    const answer = this.#world.probe(at);
    const lie = this.#bug === "probe-lies" && answer.answer === "done";
    this.#late.push(lie ? { type: "probed", at, answer: "not-done" } : answer);
  }

  /** Between two owners a person may say what became of steps, as it is. */
  #settle(epoch: number): void {
    const now = (): Run => replay(this.#planOf, RUN_ID, this.#journal.load(RUN_ID).events);
    for (const step of [...now().failed].filter(isInDoubt).map(pathOf)) {
      if (!this.#random.chance(0.6)) continue;
      const run = now();
      const at = attemptOf(visitInDoubt(run, step));
      const truth = this.#world.happened(at) ? "done" : "redo";
      const as = this.#random.chance(0.2) ? "abort" : truth;
      this.#note(`settle ${attemptText(at)} as ${as}`);
      const result = this.#world.resultOf(at);
      const { seq } = run;
      const site = { journal: this.#journal, plan: this.#plan, run, epoch, now: this.#world.clock };
      settle(site, { type: "settled", step, as, by: "p@h", result });
      this.#checkers.afterAppend(this.#journal.eventsAfter(RUN_ID, seq), now());
    }
  }

  #stop(process: SimProcess): void {
    const key = attemptText(process.at);
    if (!this.#world.isAlive(process)) return;
    if (this.#bug !== "finish-with-living-process") this.#world.kill(process);
    if (this.#reported.has(key)) return;
    this.#reported.add(key);
    const { spent } = process.ending;
    const ending = { how: "stopped", message: "stopped" } as const;
    const paid = spent === undefined ? ending : { ...ending, spent };
    this.#late.push({ type: "attempt-ended", at: process.at, ending: paid });
  }

  /** What the outside says next: something under way, an ended process, a wish, or time passing. */
  #facts(engine: Engine, turn: Turn, gates: Gates): readonly Fact[] {
    const facts: Fact[] = [];
    if (this.#random.chance(0.2)) this.#people(engine.run);
    if (this.#random.chance(0.5)) gates.look();
    if (this.#chance(0.01)) {
      const mode = this.#random.pick(["now", "after-turn", "after-step"] as const);
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
    if (facts.length === 0) this.#passTime(turn, engine.run);
    return facts;
  }

  /** The real way from an answer to a fact, on the journal in memory. */
  #gates(engine: Engine): Gates {
    return new Gates({
      journal: this.#journal,
      run: () => engine.run,
      post: (fact) => this.#late.push(this.#answered(fact)),
      now: () => this.#world.clock,
      by: "o@h",
      autoApprove: this.#random.chance(0.1),
    });
  }

  #answered(fact: Fact): Fact {
    if (this.#bug !== "second-answer-counts" || fact.type !== "answered") return fact;
    const choice = fact.answer.choice === "A" ? "R" : "A";
    return { ...fact, answer: { ...fact.answer, choice } };
  }

  /** People answer whenever they like, more than one of them, and whether an owner lives or not. */
  #people(run: Run): void {
    for (const visit of run.asked) {
      while (this.#random.chance(0.4)) this.#answer(visit);
      if (this.#bug !== "answers-itself") continue;
      const planted = { choice: "A", by: "x@h", from: "terminal", given: 0 } as const;
      this.#late.push({ type: "answered", at: attemptOf(visit), answer: planted });
    }
  }

  #answer(visit: Visit): void {
    const attempt = attemptText(attemptOf(visit));
    const choice = this.#random.pick(["A", "R", "N"]);
    const answer = { choice, by: "p@h", from: "command", given: this.#world.clock } as const;
    const { first } = this.#journal.answer(RUN_ID, attempt, answer);
    this.#note(`${choice} is ${first ? "the answer" : "too late"} to ${attempt}`);
  }

  /** True when an owner may go because only people can move the run; the last ones stay. */
  #isLeft(run: Run, gates: Gates): boolean {
    if (!waitsForPerson(run)) return false;
    gates.look();
    return this.#late.length === 0 && this.#chance(0.5);
  }

  /** Looks at every attempt that the run calls running, as the real hands do. */
  #collect(engine: Engine): void {
    for (const visit of engine.run.running) {
      const at = attemptOf(visit);
      const session = this.#world.processes.get(attemptText(at))?.session;
      if (session !== undefined && visit.talk?.session !== session && this.#random.chance(0.5)) {
        this.#late.push({ type: "session-known", at, session });
      }
      const ending = this.#world.evidence(at);
      if (ending === undefined || this.#reported.has(attemptText(at))) continue;
      this.#reported.add(attemptText(at));
      const planted = this.#planted(ending);
      this.#late.push({ type: "attempt-ended", at, ending: planted });
    }
  }

  #planted(ending: Extract<Fact, { type: "attempt-ended" }>["ending"]): typeof ending {
    if (this.#bug === "doubt-forgotten" && ending.how === "lost")
      return { ...ending, started: false };
    if (ending.how !== "exited" || ending.exit !== 0) return ending;
    if (this.#bug === "rerun-completed") return { how: "lost", started: true, message: "planted" };
    if (this.#bug === "lose-context") return { ...ending, context: {} };
    if (this.#bug === "exit-code-ignored") return { ...ending, exit: 1 };
    return ending;
  }

  #passTime(turn: Turn, run: Run): void {
    const wakeAt = turn.wakeAt === undefined ? undefined : turn.wakeAt - this.#world.skew;
    const times = [wakeAt, this.#world.nextEnd()].filter((time) => time !== undefined);
    if (times.length === 0 && run.asked.size > 0) {
      // Sooner or later somebody does.
      for (const visit of run.asked) this.#answer(visit);
      return;
    }
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

function pathOf(visit: Visit): string {
  return stepPath(attemptOf(visit));
}

function factText(fact: Fact): string {
  return JSON.stringify(fact);
}
