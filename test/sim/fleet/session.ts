/**
 * One run that a simulated worker owns: the real loop and gates, with executors whose processes and files
 * are those of the simulated machine. Its order (what is stored before what, what ends before what) is
 * that of the worker.
 */
import {
  LEASH_WATCH_MS,
  type LeaseKeeper,
  wantsDriver,
} from "../../../src/app/fleet/lease-policy.ts";
import type { Operation } from "../../../src/core/action.ts";
import { judgeOf } from "../../../src/core/attempt/check.ts";
import { messagesIn } from "../../../src/core/conversation/message.ts";
import type { AttemptRef, Owner } from "../../../src/core/event.ts";
import { replay } from "../../../src/core/evolve.ts";
import type { ConversationOffer, Ending, Fact } from "../../../src/core/fact.ts";
import { attemptOf, findVisit, type Run, stepOf } from "../../../src/core/run.ts";
import { attemptText } from "../../../src/core/step-path.ts";
import type { Executors } from "../../../src/engine/executors/executor.ts";
import { GateExecutor } from "../../../src/engine/executors/gates.ts";
import { type FactQueue, Loop } from "../../../src/engine/loop.ts";
import { type LastingRequest, pendingAmong } from "../../../src/journal/inbox.ts";
import type { StoredFile } from "../../../src/journal/journal.ts";
import { JournalError } from "../../../src/journal/journal-error.ts";
import type { RunLog, Write } from "../../../src/journal/run-log.ts";
import type { Random } from "../../../src/util/random.ts";
import { Violation } from "../conversation-checkers.ts";
import { CHOOSES } from "../random-plan.ts";
import type { SimProcess } from "../world.ts";
import { finishFiles } from "./fleet-files.ts";
import type { Directory, SimulatedProcess } from "./machine.ts";
import type { Cancel } from "./schedule.ts";
import { type FleetRun, folderOf, type SimulatedStore } from "./store.ts";

/** How often a worker stores what running steps have written. */
const SHIP_EVERY_MS = 2_000;
/** How often it looks for requests; the real one is woken. */
const LOOK_EVERY_MS = 2_000;

/** Defects of the parts that are simulated; those of the real code are in mutations.ts. */
export const FLEET_BUGS = [
  "leash-missing",
  "ship-after-append",
  "snapshots-not-shipped",
  "job-lost-after-release",
  "release-before-steps-end",
  "elsewhere-never-started",
  "old-image-used",
  "wall-clock-of-the-machine",
  "two-owners-with-one-epoch",
  "requests-not-read-on-takeover",
  "requests-without-an-owner-not-found",
] as const;
export type FleetBug = (typeof FLEET_BUGS)[number];

/** The session ends without a further word to the store: its lease does not count any more. */
export class LeaseLost extends Error {}
/** The worker is to end: its runs are handed over. */
export class Drained extends Error {}

/** What a session has of its worker. */
export interface SessionParts {
  readonly process: SimulatedProcess;
  readonly keeper: LeaseKeeper;
  readonly random: Random;
  readonly run: FleetRun;
  readonly owner: Owner;
  readonly epoch: number;
  readonly bug: FleetBug | undefined;
  readonly wallClock: () => number;
  readonly newSnapshot: () => string;
  call<T>(request: (store: SimulatedStore) => Promise<T>, risk?: number): Promise<T>;
  note(line: string): void;
  fatal(error: unknown): void;
}

export class Session {
  readonly #parts: SessionParts;
  #dir: Directory | undefined;
  #loop: Loop | undefined;
  #facts: Fact[] = [];
  #wake: (() => void) | undefined;
  #error: Error | undefined;
  #isClosed = false;
  readonly #reported = new Set<string>();
  readonly #held = new Set<string>();
  #lastRequest = 0;
  #latest = 0;
  readonly #timers = new Set<Cancel>();
  /** Path -> how much of the file the store has. */
  readonly #shipped = new Map<string, number>();

  constructor(parts: SessionParts) {
    this.#parts = parts;
  }

  /** Moves the deadline of the steps, after a renewal. */
  extendLeash(): void {
    const { keeper, run } = this.#parts;
    if (this.#dir !== undefined) this.#dir.leash = keeper.deadlineOf(run.runId);
  }

  /** The worker gives the run up, or hands it over. The steps of a lost lease end before all else. */
  abort(error: Error): void {
    if (error instanceof LeaseLost && this.#dir !== undefined) {
      this.#parts.run.end(this.#dir);
      this.#dir.leash = undefined;
    }
    this.#error ??= error;
    this.#wake?.();
  }

  /** Drives the run in a directory until it ends, waits for people, or must be given up. */
  async drive(dir: Directory): Promise<void> {
    const { run, keeper } = this.#parts;
    this.#dir = dir;
    this.extendLeash();
    const unfollow = this.#follow();
    try {
      const status = await this.#turns(dir);
      if (status === undefined) return await this.#handOver(false);
      await this.#ship([...dir.snapshots].map(bundleOf));
      await this.#handOver(false);
    } catch (error) {
      await this.#afterFailure(dir, error);
    } finally {
      this.#isClosed = true;
      unfollow();
      for (const cancel of this.#timers) cancel();
      keeper.dropped(run.runId);
      dir.leash = undefined;
    }
  }

  #follow(): () => void {
    const { run, process } = this.#parts;
    const tell = (): void => void process.after(5, () => this.#wake?.());
    run.followers.add(tell);
    return () => run.followers.delete(tell);
  }

  async #turns(dir: Directory): Promise<string | undefined> {
    const { run, process, call } = this.#parts;
    const { runId, planOf } = run;
    const loaded = await call((store) => store.journal.log.load(runId));
    const requests = await call((store) => store.journal.inbox.after(runId, 0));
    const loadedRun = replay(planOf, runId, loaded.events);
    for (const visit of loadedRun.running) {
      const attempt = attemptText(attemptOf(visit));
      if (dir.used === undefined && !run.isIn(attempt, dir)) dir.elsewhere.add(attempt);
    }
    const { owner, epoch } = this.#parts;
    dir.used = { epoch, boot: owner.boot };
    const pending = pendingAmong(requests, loadedRun);
    if (!wantsDriver(loadedRun.state, pending.length)) return undefined;
    this.#lastRequest = requests.at(-1)?.id ?? 0;
    this.#loop = this.#newLoop(loadedRun);
    this.#every(LOOK_EVERY_MS, () => this.#look());
    this.#every(SHIP_EVERY_MS, () => this.#shipTranscripts());
    process.after(0, () => this.#wake?.());
    const forgets = this.#parts.bug === "requests-not-read-on-takeover";
    const { status } = await this.#loop.drive(forgets ? [] : pending.map(factOf));
    // A worker that was paused after its last append may have lost the run meanwhile.
    this.#mustHold();
    run.checkers.afterOwner(this.#loop.run, status === "running" ? "left to people" : status);
    return status;
  }

  #newLoop(loadedRun: Run): Loop {
    const { run, owner, epoch, call } = this.#parts;
    const { runId, plan } = run;
    const inbox = (store: SimulatedStore) => store.journal.inbox;
    const gates = new GateExecutor({
      run: () => this.#run(),
      now: () => this.#now(),
      by: "o@h",
      autoApprove: false,
      inbox: {
        send: (id, request) => call((store) => inbox(store).send(id, request)),
        answer: (id, given) => call((store) => inbox(store).answer(id, given)),
        after: (id, after) => call((store) => inbox(store).after(id, after)),
        answers: (id) => call((store) => inbox(store).answers(id)),
        subscribe: () => {
          throw new Violation("a gate does not subscribe");
        },
      },
    });
    const log = { append: (id: string, write: Write) => this.#append(id, write) } as RunLog;
    return new Loop({
      ...{ log, runId, plan, owner, epoch, env: {}, run: loadedRun },
      clock: { now: () => this.#now() },
      queue: this.#queue(),
      keepsFiles: run.keepsFiles,
      placed: { kind: plan.workspace?.kind ?? "here", path: "/project" },
      executors: this.#executors(gates),
      watch: () => undefined,
      stay: () => false,
    });
  }

  #run(): Run {
    if (this.#loop === undefined) throw new Violation("there is no loop");
    return this.#loop.run;
  }

  /** The clock of the run: the store's, and never back. */
  #now(): number {
    const { keeper, process, bug, wallClock } = this.#parts;
    if (bug === "wall-clock-of-the-machine") return wallClock();
    const time = keeper.storeTime(process.machine.now()) ?? 0;
    this.#latest = Math.max(this.#latest, Math.round(time));
    return this.#latest;
  }

  /** Stores what the events name, then appends them; only while the lease counts (fleet/S1). */
  async #append(runId: string, write: Write): Promise<void> {
    const { call, process, bug, owner } = this.#parts;
    this.#mustHold();
    const late = bug === "ship-after-append";
    if (!late) await this.#ship(this.#filesOf(write));
    this.#mustHold();
    const pid = bug === "two-owners-with-one-epoch" ? process.pid + 1 : owner.pid;
    await call((store) => store.append(pid, runId, write), 4);
    if (late) await this.#ship(this.#filesOf(write));
  }

  #mustHold(): void {
    const { keeper, run, epoch, process } = this.#parts;
    if (this.#error !== undefined) throw this.#error;
    if (!keeper.holds(run.runId, epoch, process.machine.now())) throw new LeaseLost();
  }

  #filesOf({ events }: Write): readonly StoredFile[] {
    const { run, bug } = this.#parts;
    const dir = this.#dir;
    const attempts = events.flatMap((event) => ("attempt" in event ? [attemptText(event)] : []));
    const folders = attempts.filter((attempt) => dir !== undefined && run.isIn(attempt, dir));
    const named = bug === "snapshots-not-shipped" ? [] : [...(dir?.snapshots ?? [])];
    return [...folders.map(folderFile), ...named.map(bundleOf), ...this.#transcripts()];
  }

  #transcripts(): readonly StoredFile[] {
    const { run } = this.#parts;
    for (const process of run.world.processes.values()) {
      const { session, at } = process;
      if (session === undefined || this.#dir === undefined) continue;
      const heard = run.world.transcript(session);
      if (!run.isIn(attemptText(at), this.#dir) || heard === undefined) continue;
      this.#dir.transcripts.set(session, heard);
    }
    return [...(this.#dir?.transcripts ?? [])].map(([session, heard]) => ({
      ...{ path: `transcripts/${session}`, mode: 0o600, bytes: heard.length },
      blobs: heard,
    }));
  }

  /** Puts files that the store has not got from this session in the same state. */
  async #ship(files: readonly StoredFile[]): Promise<void> {
    const { call, run, epoch } = this.#parts;
    const fresh = files.filter(({ path, bytes }) => this.#shipped.get(path) !== bytes);
    if (fresh.length === 0) return;
    await call((store) => store.put(run.runId, epoch, fresh));
    for (const { path, bytes } of fresh) this.#shipped.set(path, bytes);
  }

  #shipTranscripts(): Promise<void> {
    return this.#ship(this.#transcripts());
  }

  async #look(): Promise<void> {
    const { call, run } = this.#parts;
    const { runId } = run;
    const requests = await call((store) => store.journal.inbox.after(runId, this.#lastRequest));
    this.#lastRequest = requests.at(-1)?.id ?? this.#lastRequest;
    for (const request of pendingAmong(requests, this.#run())) this.#post(factOf(request));
    if (this.#run().waiting.person.size > 0) this.#wake?.();
  }

  /** Does something again and again; the store may be out of reach in between. */
  #every(ms: number, act: () => Promise<void>): void {
    const again = (): void => {
      const cancel = this.#parts.process.after(ms, () => {
        this.#timers.delete(cancel);
        if (this.#isClosed || this.#error !== undefined) return;
        act().then(again, (error: unknown) => {
          if (error instanceof JournalError) again();
          else this.#parts.fatal(error);
        });
      });
      this.#timers.add(cancel);
    };
    again();
  }

  async #handOver(again: boolean): Promise<void> {
    const { call, run, epoch, bug } = this.#parts;
    const { runId } = run;
    if (bug !== "job-lost-after-release" || !again) {
      return call((store) => store.handOver(runId, epoch, again));
    }
    await call((store) => store.handOver(runId, epoch, false));
    await call(async (store) => store.enqueue(runId));
  }

  /** Something went wrong, or the worker drains: the steps end before the lease does. */
  async #afterFailure(dir: Directory, error: unknown): Promise<void> {
    const { run, keeper, epoch, process, note, fatal, bug } = this.#parts;
    note(`${run.runId} epoch ${epoch} of ${process.pid} ends: ${String(error)}`);
    const expected =
      error instanceof JournalError || error instanceof LeaseLost || error instanceof Drained;
    if (!expected) return fatal(error);
    const early = bug === "release-before-steps-end";
    if (!early) run.end(dir);
    const isOver = error instanceof LeaseLost || this.#error instanceof LeaseLost;
    const stale = error instanceof JournalError && error.code === "stale-writer";
    if (isOver || stale || !keeper.holds(run.runId, epoch, process.machine.now())) {
      run.end(dir);
      return;
    }
    try {
      await this.#shipTranscripts();
      await this.#handOver(true);
    } catch (failure) {
      // Out of reach: the lease runs out, and the run is found then.
      if (!(failure instanceof JournalError)) fatal(failure);
    }
    run.end(dir);
  }

  #post(fact: Fact): void {
    this.#facts.push(fact);
    this.#wake?.();
  }

  #postLater(fact: Fact): void {
    const { process, random } = this.#parts;
    process.after(1 + random.below(60), () => this.#post(fact));
  }

  #queue(): FactQueue {
    const isEmpty = (): boolean => this.#facts.length === 0;
    return {
      get isEmpty() {
        return isEmpty();
      },
      post: (fact) => this.#post(fact),
      fail: (error) => {
        this.#error ??= error instanceof Error ? error : new Error(String(error));
        this.#wake?.();
      },
      take: async (waitMs) => {
        this.#collect();
        if (isEmpty() && this.#error === undefined) await this.#wait(waitMs);
        if (this.#error !== undefined) throw this.#error;
        this.#collect();
        const facts = this.#facts;
        this.#facts = [];
        return facts;
      },
    };
  }

  #wait(waitMs: number | undefined): Promise<void> {
    const { process } = this.#parts;
    return new Promise((resolve) => {
      const cancel =
        waitMs === undefined ? undefined : process.after(Math.max(1, waitMs), () => this.#wake?.());
      this.#wake = () => {
        cancel?.();
        this.#wake = undefined;
        resolve();
      };
    });
  }

  #executors(gates: GateExecutor): Executors {
    const { process, random, newSnapshot } = this.#parts;
    const close = async (): Promise<void> => {
      this.#isClosed = true;
    };
    return {
      gates,
      probes: { begin: ({ at }) => this.#postLater(this.#parts.run.world.probe(at)), close },
      results: { begin: ({ at }) => this.#postLater({ type: "recalled", at }), close },
      processes: {
        begin: (operation) => {
          if (operation.type === "look-up") this.#lookUp(operation);
          else if (operation.type === "adopt") this.#adopt(operation.at);
          else if (operation.type === "cancel") this.#stop(operation.at, operation.when);
          else this.#launch(operation.at);
        },
        close,
      },
      files: {
        begin: (operation) => {
          process.after(1 + random.below(60), () => {
            const dir = this.#dir;
            if (this.#isClosed || dir === undefined) return;
            try {
              this.#post(finishFiles(operation, dir, newSnapshot));
            } catch (error) {
              this.#parts.fatal(error);
            }
          });
        },
        close,
      },
    };
  }

  #lookUp(operation: Extract<Operation, { type: "look-up" }>): void {
    const { place, session, what } = operation;
    const items = what === "items" ? { ok: true as const, items: ["x", "y"] } : undefined;
    const offer = this.#offer(place, session);
    const material = what === "material" ? [{ name: "diff", text: "changes" }] : undefined;
    const found = { ...(items && { items }), ...(offer && { offer }) };
    this.#postLater({ type: "looked-up", place, ...found, ...(material && { material }) });
  }

  /** A conversation continues when its transcript is here: written here, or fetched from the store. */
  #offer(
    place: Extract<Operation, { type: "look-up" }>["place"],
    session: string | undefined,
  ): ConversationOffer | undefined {
    const { world } = this.#parts.run;
    const visit = findVisit(this.#run(), place);
    const work = visit && stepOf(visit).work;
    if (work?.kind !== "agent") return undefined;
    this.#transcripts();
    const heard = session === undefined ? undefined : this.#dir?.transcripts.get(session);
    const offer = { found: heard !== undefined, heard: heard ?? [] };
    return work.agent === CHOOSES ? { fresh: world.newSession(), ...offer } : offer;
  }

  #launch(at: AttemptRef): void {
    const { keeper, run, epoch, process, bug, note } = this.#parts;
    const dir = this.#dir;
    if (this.#isClosed || dir === undefined) throw new Violation("a closed session starts a step");
    const { machine } = process;
    this.#held.add(attemptText(at));
    // The worker may have been paused since the append: it looks before it starts anything.
    if (!keeper.holds(run.runId, epoch, machine.now())) return;
    if (dir.leash === undefined || machine.now() >= dir.leash) return;
    const visit = findVisit(this.#run(), at);
    const submitted = visit && judgeOf(visit) && visit.submitted;
    const messages = visit === undefined ? [] : messagesIn(this.#run(), visit).map(({ id }) => id);
    if (submitted !== undefined) run.world.spawnJudge(at, submitted.held);
    else run.world.spawn(at, visit?.conversation?.conversation, messages);
    note(`${run.runId} starts ${attemptText(at)} on ${machine.name} ${dir.id}`);
    try {
      const started = run.started(at, dir, machine, submitted !== undefined);
      if (bug !== "leash-missing") this.#watchLeash(started, dir);
      machine.after((started.endsAt - run.world.now) * machine.rate, () => {
        for (const tell of run.followers) tell();
      });
    } catch (error) {
      this.#parts.fatal(error);
    }
  }

  /** The watcher of a step belongs to the machine: it does not need the worker. */
  #watchLeash(step: SimProcess, dir: Directory): void {
    const { run, process, note } = this.#parts;
    const { machine } = process;
    const look = (): void => {
      if (!run.world.isAlive(step)) return;
      if (dir.leash === undefined || machine.now() >= dir.leash) {
        note(`the leash of ${attemptText(step.at)} ends it`);
        run.kill(step);
      } else {
        machine.after(LEASH_WATCH_MS, look);
      }
    };
    machine.after(LEASH_WATCH_MS, look);
  }

  #adopt(at: AttemptRef): void {
    this.#held.add(attemptText(at));
    const ending = this.#evidence(at);
    if (ending?.how === "lost") return;
    this.#postLater({ type: "adopted", at, found: ending === undefined ? "alive" : "ended" });
  }

  #stop(at: AttemptRef, when: "now" | "after-turn"): void {
    const { run } = this.#parts;
    const process = run.world.processes.get(attemptText(at));
    if (process === undefined || (when === "after-turn" && process.session === undefined)) return;
    if (!run.world.isAlive(process) || this.#reported.has(attemptText(at))) return;
    run.kill(process);
    this.#reported.add(attemptText(at));
    const { spent } = process.ending;
    const ending = { how: "stopped", message: "stopped", ...(spent && { spent }) } as const;
    this.#postLater({ type: "process-ended", at, ending });
  }

  /** What this directory says of an attempt. */
  #evidence(at: AttemptRef): Ending | undefined {
    const { run, bug } = this.#parts;
    const attempt = attemptText(at);
    const dir = this.#dir;
    if (dir !== undefined && run.isIn(attempt, dir)) return run.world.evidence(at);
    const was = dir?.elsewhere.has(attempt) === true && bug !== "elsewhere-never-started";
    const message = was ? "it ran on another machine" : "it had not started";
    return { how: "lost", started: was, message };
  }

  #collect(): void {
    const { run } = this.#parts;
    if (this.#loop === undefined) return;
    for (const visit of this.#run().running) {
      const at = attemptOf(visit);
      const attempt = attemptText(at);
      if (!this.#held.has(attempt) || this.#reported.has(attempt)) continue;
      const session = run.world.processes.get(attempt)?.session;
      if (session !== undefined && visit.conversation?.session !== session) {
        this.#facts.push({ type: "session-known", at, session });
      }
      const ending = this.#evidence(at);
      if (ending === undefined) continue;
      this.#reported.add(attempt);
      this.#facts.push({ type: "process-ended", at, ending });
    }
  }
}

function folderFile(attempt: string): StoredFile {
  return { path: folderOf(attempt), mode: 0o700, bytes: 1, blobs: [attempt] };
}

function bundleOf(snapshot: string): StoredFile {
  return { path: `bundles/${snapshot}`, mode: 0o600, bytes: 1, blobs: [snapshot] };
}

/** The fact of a request; people of a simulated fleet ask for these only. */
function factOf(request: LastingRequest): Fact {
  if (request.type === "message") {
    const { scope, step, message } = request;
    return { type: "message-left", scope, step, message };
  }
  const { type: asks, key = "", by = "" } = request;
  const asked = { type: "requested", request: key, by, asks } as const;
  if (request.type === "add-budget") {
    return { ...asked, fact: { type: "funds-added", added: request.added } };
  }
  if (request.type === "retry") {
    const { step, attempt } = request;
    const about = { step, ...(attempt && { attempt }) };
    return { ...asked, ...about, fact: { type: "retry-requested", step } };
  }
  throw new Violation(`nobody asks for ${asks}`);
}
