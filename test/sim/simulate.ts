/**
 * One simulated run: the real core, loop, gates and codec on a journal in memory, with executors whose
 * processes and files are simulated: crashes, failing appends, late and repeated reports, operations on
 * files that take time, owners that were replaced and wake up, stops, retries and rewinds, all drawn
 * from one seed.
 */

import type { Operation } from "../../src/core/action.ts";
import { judgeOf } from "../../src/core/attempt/check.ts";
import { uncertainVisit } from "../../src/core/attempt/uncertain.ts";
import { messagesIn } from "../../src/core/conversation/message.ts";
import type { AttemptRef, Owner, Recorded, RunEvent, WorkspaceUsed } from "../../src/core/event.ts";
import { replay } from "../../src/core/evolve.ts";
import type { ConversationOffer, Fact, FactOf, ItemsFound } from "../../src/core/fact.ts";
import { lastAttemptText } from "../../src/core/graph/retry.ts";
import { Refusal } from "../../src/core/graph/rewind.ts";
import { planUpdate, touchesProcess } from "../../src/core/graph/update.ts";
import {
  attemptOf,
  currentVisit,
  findStep,
  findVisit,
  isUncertain,
  type Run,
  stepOf,
  type Visit,
} from "../../src/core/run.ts";
import { attemptText, parseVisit, stepPath } from "../../src/core/step-path.ts";
import { initialSummary } from "../../src/core/summary.ts";
import type { Executors } from "../../src/engine/executors/executor.ts";
import { GateExecutor } from "../../src/engine/executors/gates.ts";
import { type FactQueue, Loop } from "../../src/engine/loop.ts";
import { recordRequest, recordUpdate } from "../../src/engine/record.ts";
import { keyOf, type LastingRequest, pendingAmong } from "../../src/journal/inbox.ts";
import { JournalError } from "../../src/journal/journal-error.ts";
import { takeLease } from "../../src/journal/leases.ts";
import { type MemoryJournal, memoryJournal } from "../../src/journal/memory.ts";
import { planFingerprints } from "../../src/journal/run-log.ts";
import { freeze, type Plan } from "../../src/plan/plan.ts";
import { type Random, seededRandom } from "../../src/util/random.ts";
import { Checkers, plansIn } from "./checkers.ts";
import { Violation } from "./conversation-checkers.ts";
import { editedPlan } from "./edited-plan.ts";
import { FakeFiles } from "./fake-files.ts";
import { Moves } from "./moves.ts";
import { CHOOSES, randomPlan } from "./random-plan.ts";
import { snapshot } from "./snapshot.ts";
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
  | "forget-after-failure"
  | "forget-messages"
  | "probe-lies"
  | "uncertainty-forgotten"
  | "second-answer-counts"
  | "answers-itself"
  | "merge-whole-tree"
  | "restore-reports-early"
  | "snapshot-reports-early"
  | "executor-outlives-close";

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
/** A run that always restarts is stopped after a hundred times, each of hundreds of turns. */
const TURNS_MAX = 60_000;
const OWNERS_MAX = 60;
/** How a run is left that waits for people. */
const LEFT = "left to people";

class Crash extends Error {}

/** Runs one seed to its end; throws Violation when a checker finds something. */
export function simulate(seed: number, bug?: Bug, log: string[] = []): Promise<Outcome> {
  return new Simulation(seed, bug, log).run();
}

class Simulation {
  readonly #seed: number;
  readonly #bug: Bug | undefined;
  readonly #random: Random;
  readonly #world: World;
  #plan: Plan;
  readonly #journal: MemoryJournal;
  readonly #planOf: (fingerprint: string) => Plan;
  readonly #checkers: Checkers;
  readonly #log: string[];
  /** Facts under way; late ones reach whoever owns the run then. */
  readonly #late: Fact[] = [];
  readonly #reported = new Set<string>();
  /** Attempts whose process this owner has started or adopted. */
  readonly #held = new Set<string>();
  readonly #files: FakeFiles;
  readonly #moves: Moves;
  /** Dice of their own, so that runs that stay on one machine stay what they were. */
  readonly #moveRandom: Random;
  /** The epoch of the current owner. */
  #epoch = 0;
  /** Owners that were replaced while they slept. */
  readonly #sleepers: Loop[] = [];
  #bystanders = 0;
  #sent = 0;
  /** Attempts whose effect somebody saw as uncertain; who saw it may ask much later. */
  readonly #uncertain = new Map<string, AttemptRef>();
  /** The last request that the current owner has read. */
  #read = 0;
  #crashes = 0;
  #waits = 0;
  /** Executors of the current owner that are not closed. */
  #open = 0;
  #calm = false;

  constructor(seed: number, bug: Bug | undefined, log: string[]) {
    this.#seed = seed;
    this.#log = log;
    this.#bug = bug;
    this.#random = seededRandom(seed);
    this.#world = new World(seededRandom(seed ^ 0x5eed));
    this.#world.undying = bug === "undying-agents";
    this.#plan = randomPlan(this.#random);
    this.#files = new FakeFiles(this.#world, seededRandom(seed ^ 0xf11e5));
    this.#files.wholeMerges = bug === "merge-whole-tree";
    this.#journal = memoryJournal({
      beforeAppend: (write) => {
        if (this.#chance(0.03)) throw this.#crash("append fails");
        if (write.epoch === this.#epoch && this.#keepsFiles()) this.#moves.beforeAppend(write);
      },
    });
    this.#planOf = plansIn(this.#journal);
    this.#moveRandom = seededRandom(seed ^ 0x30fe5);
    this.#moves = new Moves({
      ...{ runId: RUN_ID, journal: this.#journal, planOf: this.#planOf, random: this.#moveRandom },
      ...{ files: this.#files, world: this.#world },
    });
    this.#checkers = new Checkers(this.#plan, RUN_ID, this.#journal, this.#world, this.#files);
  }

  async run(): Promise<Outcome> {
    await this.#create();
    let status = "";
    for (let owner = 1; owner <= OWNERS_MAX; owner++) {
      // The last owners are spared, so that every run comes to an end.
      this.#calm = owner > OWNERS_MAX / 2;
      try {
        status = await this.#own(owner);
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
    const recorded = this.#journal.contents.load(RUN_ID).events;
    const events = recorded.map(({ event }) => event);
    const [seed, plan, log, crashes] = [this.#seed, this.#plan, this.#log, this.#crashes];
    const plans = new Map(planFingerprints(recorded).map((one) => [one, this.#planOf(one)]));
    return { seed, plan, plans, log, events, recorded, crashes, status };
  }

  async #create(): Promise<void> {
    const { text, fingerprint } = freeze(this.#plan);
    await this.#journal.log.create({
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
  async #own(number: number): Promise<string> {
    const owner: Owner = { pid: number, started: "0", boot: "b", host: "h", user: "u" };
    const { log, leases } = this.#journal;
    const acquired = await takeLease(leases, RUN_ID, { owner, isAlive: () => false });
    if (!acquired.ok) throw new Violation("a dead owner was not replaced");
    this.#epoch = acquired.epoch;
    this.#checkers.requests.beforeOwner();
    await this.#move(number);
    await this.#settle(acquired.epoch);
    if (this.#chance(0.12)) await this.#update(owner, acquired.epoch);
    const loaded = this.#journal.contents.load(RUN_ID);
    const forgets = this.#bug === "forget-last-event" && loaded.events.length > 4;
    const plan = this.#bug === "ignore-room" ? { ...this.#plan, maxParallel: 50 } : this.#plan;
    const events = forgets ? loaded.events.slice(0, -1) : loaded.events.map(this.#remembered);
    const gates = this.#gates(() => loop.run);
    const clock = { now: () => this.#world.clock };
    const queue = this.#queue(() => loop, gates);
    const loop: Loop = new Loop({
      ...{ log, runId: RUN_ID, plan, owner, clock, env: {}, queue },
      run: replay(this.#planOf, RUN_ID, events),
      epoch: acquired.epoch,
      keepsFiles: plan.workspace?.snapshots === true,
      ...this.#place(plan),
      executors: this.#executors(() => loop, gates),
      ...(this.#chance(0.1) ? { recover: this.#random.pick(["continue", "restart"]) } : {}),
      watch: (recorded, run) => this.#checkers.afterAppend(recorded, run),
      stay: () => !this.#chance(0.5),
    });
    this.#reported.clear();
    this.#held.clear();
    await this.#people(loop.run);
    try {
      const pending = await this.#pending(0, loop.run);
      const { status } = await loop.drive([...pending, ...this.#requests(loop.run)]);
      const left = status === "running" ? LEFT : status;
      this.#checkers.afterOwner(loop.run, left);
      return left;
    } catch (error) {
      if (error instanceof Refusal) {
        this.#note(`refused: ${error.message}`);
        throw this.#crash("a refusal ends this owner");
      }
      if (error instanceof Crash && this.#random.chance(0.2)) this.#sleepers.push(loop);
      throw error;
    } finally {
      this.#endOwner(loop.run);
    }
  }

  /** Where the run works; a worktree gets a commit for each step, one at the end, or none. */
  #place({ workspace }: Plan): { readonly placed?: WorkspaceUsed } {
    const kind = workspace?.kind ?? "here";
    const commits = this.#random.pick(["step", "end", undefined] as const);
    const isKept = kind === "worktree" && workspace?.snapshots === true;
    if (kind === "here") return {};
    const how = isKept && commits !== undefined ? { commits } : {};
    return { placed: { kind, path: "/project", ...how } };
  }

  #endOwner(run: Run): void {
    if (this.#open > 0) throw new Violation("an executor was not closed");
    this.#files.crash(run);
    // What executors had still to say is said to nobody; processes are found by the next owner.
    this.#late.splice(0, Number.POSITIVE_INFINITY, ...this.#late.filter(isAboutProcess));
  }

  /** The machine of the last owner may be gone; what it had still to say is said to nobody. */
  async #move(owner: number): Promise<void> {
    const isLost = owner > 1 && !this.#calm && this.#moveRandom.chance(0.15);
    if (isLost && this.#keepsFiles()) this.#moves.destroy();
    const moved = await this.#moves.move(this.#epoch, this.#world.clock);
    if (moved === undefined) return;
    this.#note(JSON.stringify(moved));
    this.#late.length = 0;
    const { events } = this.#journal.contents.load(RUN_ID);
    this.#checkers.afterMove(events.slice(-1), replay(this.#planOf, RUN_ID, events));
  }

  #keepsFiles(): boolean {
    return this.#plan.workspace?.snapshots === true;
  }

  /** Somebody has edited the pipeline; what still runs of the steps that this touches is let be. */
  async #update(owner: Owner, epoch: number): Promise<void> {
    const run = replay(this.#planOf, RUN_ID, this.#journal.contents.load(RUN_ID).events);
    if (run.finishing !== undefined) return;
    const plan = editedPlan(this.#plan, this.#random);
    const input = run.created?.input ?? null;
    const changes = planUpdate(this.#plan, plan, { before: input, after: input }, run);
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
    await recordUpdate(
      { log: this.#journal.log, run, plan: this.#plan, owner, epoch, now },
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
    if (this.#bug === "forget-after-failure" && event.type === "step.failed") {
      const { conversation: _, ...forgotten } = event;
      return { ...recorded, event: forgotten };
    }
    if (this.#bug === "forget-messages" && event.type === "run.messaged") {
      return { ...recorded, event: { ...event, step: "nobody" } };
    }
    if (this.#bug === "forget-what-was-spent" && event.type === "step.lost") {
      const { spent: _, ...forgotten } = event;
      return { ...recorded, event: forgotten };
    }
    return recorded;
  };

  /** What a step with an agent can continue of its conversations. */
  #offer(visit: Visit | undefined, session: string | undefined): ConversationOffer | undefined {
    const work = visit && stepOf(visit).work;
    if (work?.kind !== "agent") return undefined;
    const found = session !== undefined && this.#world.finds(session);
    if (this.#bug === "one-id-for-all") return { fresh: "session-0", found };
    const heard = session === undefined ? [] : this.#world.heard(session);
    const offer = { found, heard };
    return work.agent === CHOOSES ? { fresh: this.#world.newSession(), ...offer } : offer;
  }

  /** What a person asks for besides continuing. */
  #requests(run: Run): readonly Fact[] {
    const found = [...run.running].map(attemptOf);
    const requests: Fact[] = [];
    const { steps } = this.#plan.graph;
    if (found.length === 0 && run.seq > 3 && this.#chance(0.15)) {
      const type = this.#random.chance(0.5) ? "retry-requested" : "rewind-requested";
      const items = type === "retry-requested" ? this.#itemsSeen(run) : undefined;
      const step = this.#random.pick(steps).id;
      requests.push(items === undefined ? { type, step } : { ...items, type: "retry-requested" });
    }
    if (this.#chance(0.1)) requests.push({ type: "funds-added", added: { turns: 2 } });
    const kept = this.#plan.workspace?.snapshots === true;
    if (kept && this.#chance(0.05)) {
      const commit = this.#files.anyCommit();
      requests.push({ type: "restore-requested", commit, of: "s0@1.1" });
    }
    if (this.#bug === "adopt-alive-as-lost") {
      for (const at of found) {
        const ending = { how: "lost", started: true, message: "planted" } as const;
        this.#late.push({ type: "attempt-ended", at, ending });
      }
    }
    return requests;
  }

  /** Executors whose processes, files and probes are those of the simulated world. */
  #executors(loop: () => Loop, gates: GateExecutor): Executors {
    const run = (): Run => loop().run;
    let closed = false;
    this.#open = 1;
    const close = async (): Promise<void> => {
      closed = true;
      this.#open = 0;
    };
    const early = this.#bug === "restore-reports-early" ? "restore" : "snapshot";
    return {
      gates,
      probes: { begin: ({ at }) => this.#probe(at), close },
      results: { begin: (operation) => this.#recall(operation), close },
      processes: {
        begin: (operation) => {
          if (closed) throw new Violation("an executor was used after it was closed");
          if (operation.type === "look-up") return this.#lookUp(operation, run());
          if (operation.type === "cancel") return this.#cancel(operation.at, operation.when);
          if (operation.type === "adopt") {
            this.#held.add(attemptText(operation.at));
            return this.#adopt(operation.at);
          }
          // The checkers see what is durable before the process begins.
          loop().show();
          if (this.#chance(0.02)) throw this.#crash("between two spawns");
          this.#spawn(operation.at, run());
          if (this.#bug === "spawn-twice") this.#spawn(operation.at, run());
          if (this.#bug !== "spawn-before-append" || !this.#random.chance(0.05)) return;
          this.#spawn({ scope: "", step: "s0", visit: 1, attempt: 99 }, run());
        },
        close,
      },
      files: {
        begin: (operation, writer) => {
          this.#note(`begin ${JSON.stringify(operation)}`);
          this.#files.begin(operation, run());
          if (this.#bug?.endsWith("reports-early") !== true || operation.type !== early) return;
          // Planted: the report comes before the work is done.
          if (operation.type === "restore") {
            const { at, workspace } = operation;
            writer.post({ type: "files-ready", at, workspace, how: "restored" });
          } else if (operation.type === "snapshot") {
            const snapshot = { commit: this.#files.anyCommit() };
            const { workspace, serves } = operation;
            writer.post({ type: "snapshotted", workspace, serves, snapshot, changed: true });
          }
        },
        close: async () => {
          if (this.#bug === "executor-outlives-close") this.#spawn(NOBODY, run());
        },
      },
    };
  }

  #lookUp(operation: Extract<Operation, { type: "look-up" }>, run: Run): void {
    const { place, session, what } = operation;
    const items = what === "items" ? this.#items() : undefined;
    const offer = this.#offer(findVisit(run, place), session);
    const material = what === "material" ? [{ name: "diff", text: "changes" }] : undefined;
    const found = { ...(items && { items }), ...(offer && { offer }) };
    this.#late.push({ type: "looked-up", place, ...found, ...(material && { material }) });
  }

  /** Earlier runs did the same work, or did not; what they left may be damaged. */
  #recall({ at, base, take }: Extract<Operation, { type: "recall" }>): void {
    const recalled = { type: "recalled", at, key: "k" } as const;
    if (this.#random.chance(0.05)) return void this.#late.push({ type: "recalled", at });
    if (!take || this.#random.chance(0.4)) {
      this.#late.push({ ...recalled, why: take ? "none" : "off" });
      return;
    }
    const from = { run: "11111111", attempt: attemptText(at), time: 1 };
    const context = this.#random.chance(0.3) ? { dice: "1" } : {};
    const held = { exit: 0, outputs: {}, context };
    const found = { from, held, ...this.#files.earlier(at, base) };
    this.#late.push({ ...recalled, found });
  }

  /** Reports what an earlier owner had started, unless nothing is left of it. */
  #adopt(at: AttemptRef): void {
    const ending = this.#world.evidence(at);
    if (ending?.how === "lost") return;
    this.#late.push({ type: "adopted", at, found: ending === undefined ? "alive" : "ended" });
  }

  /** Only agents have turns; other steps run to completion. */
  #cancel(at: AttemptRef, when: "now" | "after-turn"): void {
    const process = this.#world.processes.get(attemptText(at));
    if (process === undefined || (when === "after-turn" && process.session === undefined)) return;
    this.#stop(process);
  }

  #spawn(at: AttemptRef, run: Run): void {
    const visit = findVisit(run, at);
    const conversation = visit?.conversation?.conversation;
    const submitted = visit && judgeOf(visit) && visit.submitted;
    this.#held.add(attemptText(at));
    this.#note(`spawn ${attemptText(at)} ${conversation?.says ?? ""}`);
    if (this.#plan.workspace?.snapshots === true) this.#files.enter(at, run);
    const messages = visit === undefined ? [] : messagesIn(run, visit).map(({ id }) => id);
    if (submitted === undefined) this.#world.spawn(at, conversation, messages);
    else this.#world.spawnJudge(at, submitted.held);
    this.#checkers.afterSpawn(at, submitted !== undefined);
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
  async #settle(epoch: number): Promise<void> {
    const now = (): Run => replay(this.#planOf, RUN_ID, this.#journal.contents.load(RUN_ID).events);
    if (now().finishing !== undefined) return;
    for (const step of [...now().failed].filter(isUncertain).map(pathOf)) {
      if (!this.#random.chance(0.6)) continue;
      const run = now();
      // The verdict before may have led back to where this step has not started.
      if (![...run.failed].some((visit) => isUncertain(visit) && pathOf(visit) === step)) continue;
      const at = attemptOf(uncertainVisit(run, step));
      const truth = this.#world.happenedIn(at) ? "done" : "redo";
      const as = this.#random.chance(0.2) ? "abort" : truth;
      this.#note(`settle ${attemptText(at)} as ${as}`);
      const result = this.#world.resultOf(at);
      const { seq } = run;
      const site = { log: this.#journal.log, plan: this.#plan, run, epoch, now: this.#world.clock };
      await recordRequest(site, { type: "settled", step, as, by: "p@h", result });
      this.#checkers.afterAppend(await this.#journal.log.eventsAfter(RUN_ID, seq), now());
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
    this.#late.push({ type: "process-ended", at: process.at, ending: paid });
  }

  /** Where the loop gets its facts, and time passes. */
  #queue(loop: () => Loop, gates: GateExecutor): FactQueue {
    const late = this.#late;
    const queue: FactQueue = {
      get isEmpty() {
        return late.length === 0;
      },
      post: (fact) => this.#late.push(this.#answered(fact)),
      fail: (error) => {
        throw error;
      },
      take: async (waitMs) => {
        if (this.#chance(0.03)) throw this.#crash("between two turns");
        await this.#wakeSleeper();
        const facts = await this.#facts(loop().run, gates, queue, waitMs);
        for (const fact of facts) this.#note(factText(fact));
        return facts;
      },
    };
    return queue;
  }

  /** An owner that was replaced while it slept may not write a word. */
  async #wakeSleeper(): Promise<void> {
    const sleeper = this.#sleepers.pop();
    if (sleeper === undefined) return;
    this.#note("a replaced owner wakes up");
    try {
      const { events } = await sleeper.turn([
        { type: "stop-requested", mode: "now", by: "sleeper" },
      ]);
      if (events.length > 0) throw new Violation("an owner that was replaced wrote events");
    } catch (error) {
      if (error instanceof JournalError || error instanceof Crash) return;
      // A turn that failed before makes its loop useless, which is as good.
      if (error instanceof Error && error.name === "AssertionError") return;
      throw error;
    }
  }

  /**
   * What the outside says next: something under way, an ended process, a request, or time passing.
   */
  async #facts(
    run: Run,
    gates: GateExecutor,
    queue: FactQueue,
    waitMs: number | undefined,
  ): Promise<readonly Fact[]> {
    const facts: Fact[] = [];
    if (this.#random.chance(0.2)) await this.#people(run);
    if (this.#random.chance(0.5)) await gates.look(queue);
    if (this.#random.chance(0.1)) this.#files.bystander(`bystander-${++this.#bystanders}`);
    if (this.#chance(0.01)) {
      const mode = this.#random.pick(["now", "after-turn", "after-step"] as const);
      facts.push({ type: "stop-requested", mode, by: "simulator" });
    }
    if (this.#chance(0.06)) await this.#send(this.#request(run));
    // What is under way when the owner dies is read again by the next one.
    if (this.#random.chance(0.7)) this.#late.push(...(await this.#pending(this.#read, run)));
    if (this.#chance(0.02)) for (const process of this.#world.alive()) this.#world.kill(process);
    this.#collect(run);
    if (this.#keepsFiles()) this.#moves.sometimesSave(run);
    this.#late.push(...this.#files.ended(run));
    while (this.#late.length > 0 && (facts.length === 0 || this.#random.chance(0.5))) {
      const fact = this.#late.splice(this.#random.below(this.#late.length), 1)[0];
      if (fact === undefined) break;
      facts.push(fact);
      // Facts may come twice, and long after they were true.
      if (this.#random.chance(0.05)) facts.push(fact);
      if (this.#random.chance(0.03) && isAboutProcess(fact)) this.#late.push(fact);
    }
    if (facts.length === 0) await this.#passTime(waitMs, run);
    return facts;
  }

  /** Somebody asks something of the run, in whatever state it is. */
  #request(run: Run): LastingRequest {
    const key = `request-${++this.#sent}`;
    const signed = { key, by: "p@h" };
    const { id: step } = this.#random.pick(this.#plan.graph.steps);
    for (const visit of [...run.failed, ...run.waiting.probe].filter(isUncertain)) {
      this.#uncertain.set(attemptText(attemptOf(visit)), attemptOf(visit));
    }
    switch (this.#random.below(this.#uncertain.size === 0 ? 5 : 12)) {
      case 4: {
        const waiting = Object.values(run.waiting).flatMap((visits) => [...visits]);
        const some = [...run.failed, ...waiting];
        const path = some.length === 0 ? step : pathOf(this.#random.pick(some));
        const attempt = lastAttemptText(run, { step: path });
        return { type: "skip", ...signed, step: path, ...(attempt && { attempt }) };
      }
      case 0: {
        const message = { id: key, text: "look here", by: "p@h", given: this.#world.clock };
        return { type: "message", scope: "", step, message };
      }
      case 1:
        return { type: "add-budget", ...signed, added: { turns: 2 } };
      case 2: {
        const items = this.#random.chance(0.3) ? this.#itemsSeen(run) : undefined;
        if (items !== undefined) return { type: "retry", ...signed, ...items };
        const failed = this.#random.chance(0.7) ? [...run.failed] : [];
        const visit = failed[0] ?? currentVisit(findStep(run, step));
        const attempt = visit && attemptText(attemptOf(visit));
        const path = visit === undefined ? step : pathOf(visit);
        return { type: "retry", ...signed, step: path, ...(attempt && { attempt }) };
      }
      case 3: {
        const files = this.#random.pick(["keep", "restore"] as const);
        return { type: "rewind", verb: "rewind", ...signed, step, files };
      }
      default: {
        const at = this.#random.pick([...this.#uncertain.values()]);
        const truth = this.#world.happenedIn(at) ? "done" : "redo";
        const as = this.#random.chance(0.2) ? "abort" : truth;
        return { type: "settle", ...signed, step: stepPath(at), attempt: attemptText(at), as };
      }
    }
  }

  /** Items of a fan-out that the run has reached, and what somebody sees of them. */
  #itemsSeen(run: Run): { step: string; items: readonly number[]; attempt?: string } | undefined {
    const ended = [...run.scopes.values()].flatMap(({ parent, index, active }) =>
      parent !== undefined && stepOf(parent).work.kind === "each" && active === 0
        ? [{ fanOut: parent, index }]
        : [],
    );
    if (ended.length === 0) return undefined;
    const { fanOut, index } = this.#random.pick(ended);
    const others = ended.filter((one) => one.fanOut === fanOut && this.#random.chance(0.3));
    const items = [index, ...others.map((one) => one.index)];
    if (this.#random.chance(0.1)) items.push(this.#random.below(4));
    const step = pathOf(fanOut);
    const attempt = lastAttemptText(run, { step, items });
    return { step, items, ...(attempt && { attempt }) };
  }

  async #send(request: LastingRequest): Promise<void> {
    this.#note(`send ${JSON.stringify(request)}`);
    await this.#journal.inbox.send(RUN_ID, request);
    this.#checkers.requests.sent(keyOf(request) ?? "", request);
  }

  /** The facts of the requests after an id that the run has not handled; it reads them once. */
  async #pending(after: number, run: Run): Promise<readonly Fact[]> {
    const requests = await this.#journal.inbox.after(RUN_ID, after);
    this.#read = requests.at(-1)?.id ?? after;
    return pendingAmong(requests, run).map((request) => this.#factOf(request));
  }

  #factOf(request: LastingRequest): Fact {
    if (request.type === "message") {
      const { scope, step, message } = request;
      return { type: "message-left", scope, step, message };
    }
    const { type: asks, key = "", by = "" } = request;
    const asked = { type: "requested", request: key, by, asks } as const;
    switch (request.type) {
      case "add-budget":
        return { ...asked, fact: { type: "funds-added", added: request.added } };
      case "retry": {
        const { step, attempt, items } = request;
        const fact = { type: "retry-requested", step, ...(items && { items }) } as const;
        return { ...asked, step, ...(attempt && { attempt }), fact };
      }
      case "rewind": {
        const { step, files } = request;
        const kept = this.#plan.workspace?.snapshots === true && files === "restore";
        const restore = kept ? { restore: this.#files.anyCommit() } : {};
        return { ...asked, step, fact: { type: "rewind-requested", step, ...restore } };
      }
      case "skip": {
        const { step, attempt } = request;
        const about = { step, ...(attempt && { attempt }) };
        return { ...asked, ...about, fact: { type: "skip-requested", step, by } };
      }
      case "settle": {
        const { step, as, attempt = "" } = request;
        const { scope, step: id, visit = 1, attempt: number = 1 } = parseVisit(attempt);
        const result = this.#world.resultOf({ scope, step: id, visit, attempt: number });
        const fact = { type: "settled", step, as, by, result } as const;
        return { ...asked, step, attempt, fact };
      }
    }
  }

  /** The real way from an answer to a fact, on the journal in memory. */
  #gates(run: () => Run): GateExecutor {
    return new GateExecutor({
      inbox: this.#journal.inbox,
      run,
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
  async #people(run: Run): Promise<void> {
    for (const visit of run.waiting.person) {
      while (this.#random.chance(0.4)) await this.#answer(visit);
      if (this.#bug !== "answers-itself") continue;
      const planted = { choice: "A", by: "x@h", from: "terminal", given: 0 } as const;
      this.#late.push({ type: "answered", at: attemptOf(visit), answer: planted });
    }
  }

  async #answer(visit: Visit): Promise<void> {
    const attempt = attemptText(attemptOf(visit));
    const permission = stepOf(visit).work.kind === "agent";
    const choice = this.#random.pick(permission ? ["A", "D"] : ["A", "R", "N"]);
    const answer = { choice, by: "p@h", from: "command", given: this.#world.clock } as const;
    const { first } = await this.#journal.inbox.answer(RUN_ID, { attempt, answer });
    this.#note(`${choice} is ${first ? "the answer" : "too late"} to ${attempt}`);
  }

  /** Looks at every attempt that the run calls running, as the real executor does. */
  #collect(run: Run): void {
    for (const visit of run.running) {
      const at = attemptOf(visit);
      const process = this.#world.processes.get(attemptText(at));
      const session = process?.session;
      if (
        session !== undefined &&
        visit.conversation?.session !== session &&
        this.#random.chance(0.5)
      ) {
        this.#late.push({ type: "session-known", at, session });
      }
      if (process?.ending.spent !== undefined && this.#random.chance(0.1)) {
        this.#late.push({ type: "spending", at, spent: process.ending.spent });
      }
      const ending = this.#world.evidence(at);
      if (ending === undefined || this.#reported.has(attemptText(at))) continue;
      // What has no process yet has not been started, and is not looked for.
      if (!this.#held.has(attemptText(at))) continue;
      this.#reported.add(attemptText(at));
      this.#leave(at, ending);
      this.#late.push({ type: "process-ended", at, ending: this.#planted(ending) });
    }
  }

  #leave(at: AttemptRef, ending: { readonly how: string }): void {
    const process = this.#world.processes.get(attemptText(at));
    // One that was killed wrote nothing more, whatever its last word was.
    const isDone = process?.killed === false && ending.how === "exited";
    if (isDone && this.#keepsFiles()) this.#files.leave(at);
  }

  #planted(ending: FactOf<"process-ended">["ending"]): typeof ending {
    if (this.#bug === "uncertainty-forgotten" && ending.how === "lost")
      return { ...ending, started: false };
    if (ending.how !== "exited" || ending.exit !== 0) return ending;
    if (this.#bug === "rerun-completed") return { how: "lost", started: true, message: "planted" };
    if (this.#bug === "lose-context") return { ...ending, context: {} };
    if (this.#bug === "exit-code-ignored") return { ...ending, exit: 1 };
    return ending;
  }

  async #passTime(waitMs: number | undefined, run: Run): Promise<void> {
    const others = [this.#world.nextEnd(), this.#files.nextEnd()];
    const due = others.filter((time) => time !== undefined);
    // A run that asks looks for answers now and then, whatever else it waits for.
    const asks = run.waiting.person.size > 0;
    const times = waitMs === undefined ? due : [...due, this.#world.now + Math.max(0, waitMs)];
    if (asks && (due.length === 0 || this.#random.chance(0.2))) {
      // Sooner or later somebody does.
      for (const visit of run.waiting.person) await this.#answer(visit);
      if (times.length === 0) return;
    }
    if (times.length === 0) throw new Violation("the run is stuck: nothing will ever happen");
    this.#turnsLeft();
    this.#world.now = Math.max(this.#world.now, Math.min(...times));
  }

  #turnsLeft(): void {
    if (++this.#waits > TURNS_MAX) throw new Violation("the run does not come to an end");
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

/** Whom an executor that outlives its loop would start. */
const NOBODY: AttemptRef = { scope: "", step: "s0", visit: 1, attempt: 98 };

/** True for a fact about a process that holds for every owner of the run. */
function isAboutProcess({ type }: Fact): boolean {
  return ["process-ended", "adopted", "session-known", "answered", "probed"].includes(type);
}

function pathOf(visit: Visit): string {
  return stepPath(attemptOf(visit));
}

function factText(fact: Fact): string {
  return JSON.stringify(fact);
}
