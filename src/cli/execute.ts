/**
 * Runs a run in this process: takes the lease, wires engine, files and screen, and listens to
 * signals. New and resumed runs come here alike.
 *
 * Owns: the wiring, the signals, and the words at the end.
 * Does not: parse arguments (commands/) or decide anything about the run.
 * Invariants:
 * - P6 The lease is taken before anything is read that a decision depends on.
 * - G1 Signal handlers stand before the lease names this process, so that no wish can kill it.
 */
import { BUDGET_STOP, MERGE_STOP } from "../core/advance.ts";
import type { Owner, Recorded } from "../core/event.ts";
import type { Fact, UpdateRequested } from "../core/fact.ts";
import { waitsForPerson } from "../core/next-actions.ts";
import type { Run } from "../core/run.ts";
import { planUpdate, touchesProcess } from "../core/update.ts";
import { Driver, type People } from "../engine/drive.ts";
import { Engine } from "../engine/engine.ts";
import { findItems } from "../engine/item-source.ts";
import { runDirOf } from "../engine/state-dir.ts";
import { recordUpdate } from "../engine/update.ts";
import type { ForeignFiles } from "../engine/workspace-place.ts";
import { mayBeAhead } from "../journal/events-file.ts";
import type { Journal } from "../journal/journal.ts";
import type { Budget, Recover } from "../plan/plan.ts";
import { systemClock } from "../util/clock.ts";
import { failpoint } from "../util/failpoint.ts";
import { redactor } from "../util/redact.ts";
import { whyLines } from "../view/why.ts";
import { lineReaders } from "./agent-lines.ts";
import { CliError, RunError } from "./cli-error.ts";
import { EXIT, type ExitCode } from "./exit-code.ts";
import { openScreen } from "./open-screen.ts";
import { isOwnerAlive, ownerText, thisOwner, thisPerson } from "./owner.ts";
import { print, printError } from "./print.ts";
import {
  type KnownRun,
  loadRun,
  type Project,
  reloadRun,
  shortIdOf,
  whyInputOf,
} from "./project.ts";
import { RunFiles } from "./run-files.ts";
import { agentsOf, keeperOf, settleOutputs } from "./run-parts.ts";
import type { ScreenKind } from "./screen.ts";
import { type Desk, openDesk } from "./terminal-desk.ts";

export interface ExecuteOptions {
  readonly screen: ScreenKind;
  /** What the person asked for beside going on; asked when the run is ours and nothing of it runs. */
  readonly wishes?: (known: KnownRun) => Promise<readonly Fact[]>;
  /** Nothing is started; the run is stopped in this name once the wishes are granted. */
  readonly stopBy?: string;
  /** The edit that the person adopted, seeing the run as it was when it was loaded. */
  readonly update?: UpdateRequested;
  /** What the person added to the budget. */
  readonly added?: Budget;
  /** What the person wants done with conversations that were cut off. */
  readonly recover?: Recover;
  /** The same for single visits, by their place (`fix@2`). */
  readonly choices?: Readonly<Record<string, Recover>>;
  /** What the person wants done with changes by others in the run's own workspace. */
  readonly foreign?: ForeignFiles;
  /** The person vouches that an owner on another machine is dead. */
  readonly takeOver?: boolean;
  /** Waits for people's answers when nothing else can move, instead of ending. */
  readonly stay?: boolean;
  /** Every question is answered with the choice that approves. */
  readonly autoApprove?: boolean;
  /** Said once the lease is ours. */
  readonly greet?: (known: KnownRun) => readonly string[];
}

/** Drives the run until this process has nothing more to do for it; gives the exit status. */
export async function execute(
  project: Project,
  known: KnownRun,
  options: ExecuteOptions,
): Promise<ExitCode> {
  const { id: runId, shortId } = known;
  const seenSeq = known.run.seq;
  const signals = new Signals();
  // Before the lease names us: who finds our name in it may ask at once.
  signals.lastRequest = project.journal.requestsAfter(runId, 0).at(-1)?.id ?? 0;
  const epoch = acquire(project, runId, options.takeOver === true);
  signals.onRequest = () => readRequests(project, runId, signals);
  const loaded = reloadRun(project, known);
  if (options.update !== undefined && loaded.run.seq !== seenSeq) {
    project.journal.release(runId, epoch);
    const message = `run ${shortId} has gone on since its update was shown`;
    throw new CliError(EXIT.error, message, `perdure resume ${shortId} --update`);
  }
  const run = await driveAll(project, loaded, epoch, signals, options).catch((error: unknown) => {
    throw new RunError(shortIdOf(project.journal, runId), error);
  });
  // Not in a `finally`: after a failure the lease of a dead process is evidence enough, and a second
  // error of the same disk would hide the first.
  project.journal.release(runId, epoch);
  signals.close();
  if (signals.first === undefined && waitsForPerson(run)) {
    // Who answered while we let go of the run has been told that we go on.
    const now = loadRun(project, runId);
    const { screen, stay = false, autoApprove = false } = options;
    const rest = { screen, stay, autoApprove };
    if (now.answers.size > 0 && now.liveness !== "owned") return execute(project, now, rest);
  }
  const granted = options.stopBy !== undefined && signals.first === undefined;
  return granted ? EXIT.done : exitCodeOf(run, signals);
}

function acquire({ journal }: Project, runId: string, takeOver: boolean): number {
  const acquired = journal.acquire(runId, thisOwner(), (owner) => !takeOver && isOwnerAlive(owner));
  if (acquired.ok) return acquired.epoch;
  throw ownedError(shortIdOf(journal, runId), acquired.owner);
}

/** The refusal to drive a run that another process drives; elsewhere, only a person can tell. */
export function ownedError(shortId: string, owner: Owner): CliError {
  const message = `run ${shortId} is owned by ${ownerText(owner)}`;
  const next =
    owner.boot === thisOwner().boot
      ? `perdure attach ${shortId}`
      : `if you know that it is dead: perdure resume ${shortId} --take-over`;
  return new CliError(EXIT.owned, message, next);
}

/**
 * Takes the run over to the plan of an edit. An update meets no live process of a step that it
 * touches, so then everything is ended first, by an owner of its own.
 */
async function takeUpdate(
  project: Project,
  known: KnownRun,
  epoch: number,
  signals: Signals,
  options: ExecuteOptions,
  update: UpdateRequested,
): Promise<KnownRun> {
  let settled = known;
  const input = { before: known.run.created?.input ?? null, after: update.input };
  if (touchesProcess(known.run, planUpdate(known.plan, update.plan, input))) {
    const stop: Fact = { type: "stop-requested", mode: "now", by: "an update" };
    await drive(project, known, epoch, signals, { ...options, screen: "quiet" }, [stop]);
    settled = loadRun(project, known.id);
    // The person has changed their mind.
    if (signals.first !== undefined) return settled;
  }
  const { run, plan, dir, events } = settled;
  // Receipts that are still owed are about steps as they were.
  RunFiles.open(dir, run, settled, events).close(run);
  const { journal } = project;
  recordUpdate({ journal, run, plan, owner: thisOwner(), epoch, now: Date.now() }, update);
  failpoint("update.recorded");
  return loadRun(project, known.id);
}

/** A rewind meets no live process: what still runs is ended first, by an owner of its own. */
async function driveAll(
  project: Project,
  known: KnownRun,
  epoch: number,
  signals: Signals,
  options: ExecuteOptions,
): Promise<Run> {
  const { wishes, stopBy } = options;
  const funds: readonly Fact[] =
    options.added === undefined ? [] : [{ type: "funds-added", added: options.added }];
  const { update } = options;
  if (update !== undefined) {
    const updated = await takeUpdate(project, known, epoch, signals, options, update);
    const declined = signals.first !== undefined && updated.run.state.status === "stopped";
    return declined ? updated.run : drive(project, updated, epoch, signals, options, funds);
  }
  if (wishes === undefined) return drive(project, known, epoch, signals, options, funds);
  let still = known;
  if (known.run.running.size > 0) {
    const stop: Fact = { type: "stop-requested", mode: "now", by: "a rewind" };
    await drive(project, known, epoch, signals, { ...options, screen: "quiet" }, [stop]);
    still = loadRun(project, known.id);
  }
  const asked = [...funds, ...(await wishes(still))];
  if (stopBy === undefined) return drive(project, still, epoch, signals, options, asked);
  // Before anything can start; what is under way, the files included, comes to its end.
  const stop: Fact = { type: "stop-requested", mode: "after-step", by: stopBy };
  return drive(project, still, epoch, signals, options, [...asked, stop]);
}

async function drive(
  project: Project,
  known: KnownRun,
  epoch: number,
  signals: Signals,
  options: ExecuteOptions,
  wishes: readonly Fact[],
): Promise<Run> {
  const { journal } = project;
  const dir = runDirOf(project.dir, known.id);
  const clock = systemClock();
  // A copy: each look into process.env itself goes to the system.
  const env = { ...process.env };
  const redact = redactor(env);
  let opened: RunFiles | undefined;
  const files = (): RunFiles => {
    opened ??= RunFiles.open(dir, known.run, known, known.events);
    return opened;
  };
  // Otherwise the first step does not wait for them: it takes long to read what a long run left.
  if (mayBeAhead(dir.events, known.run.seq)) files();
  const now = (): number => clock.now();
  const untold = untoldUpdate(known);
  const desk = deskOf(options, () => driver);
  const screen = await openScreen({
    kind: options.screen,
    runId: known.id,
    shortId: known.shortId,
    past: untold.length === 0 ? known.events : known.events.slice(0, -untold.length),
    readers: await lineReaders(known.plan),
    ...{ dir, redact, now },
    footer: desk && ((width) => desk.footer(width)),
  });
  desk?.show(screen);
  const { plan } = known;
  const agents = await agentsOf(plan, () => ({ plan, run: engine.run, dir, env }));
  const keeper = await keeperOf(project, known, options.foreign, (line) => screen.say(line));
  for (const line of await settleOutputs(known, wishes)) screen.say(line);
  const engine: Engine = new Engine({
    ...{ journal, plan, epoch, clock, runId: known.id, run: known.run },
    owner: thisOwner(),
    ...recoveryIn(options),
    around: {
      env,
      offer: (place, session) => agents?.offer(place, session),
      base: () => keeper?.base(),
      items: (place) => findItems({ plan, run: engine.run, dir, env }, place),
    },
    watch: (events, run) => {
      files().record(events, run);
      desk?.update(run);
      screen.update(events, run);
    },
  });
  const people = peopleOf(journal, options, desk);
  const driver: Driver = new Driver({ engine, dir, env, redact, agents, keeper, now, people });
  signals.attend(driver);
  for (const line of options.greet?.(known) ?? []) screen.say(line);
  if (untold.length > 0) screen.update(untold, known.run);
  try {
    await driver.run(wishes);
    files().close(engine.run);
    return engine.run;
  } finally {
    signals.driver = undefined;
    desk?.close();
    await screen.close();
  }
}

/** Where a person at the terminal answers what the run asks, if there is one. */
function deskOf(options: ExecuteOptions, driver: () => Driver): Desk | undefined {
  if (options.autoApprove === true) return undefined;
  return openDesk({
    kind: options.screen,
    answer: (at, reply) => driver().answer(at, reply),
    onGone: () => driver().nudge(),
  });
}

function peopleOf(journal: Journal, options: ExecuteOptions, desk: Desk | undefined): People {
  return {
    journal,
    by: thisPerson(),
    autoApprove: options.autoApprove === true,
    stay: () => options.stay === true || desk?.isOpen === true,
  };
}

/** What the person wants done with work that was cut off. */
function recoveryIn({
  recover,
  choices,
}: ExecuteOptions): Pick<ExecuteOptions, "recover" | "choices"> {
  return {
    ...(recover === undefined ? {} : { recover }),
    ...(choices === undefined ? {} : { choices }),
  };
}

/** An update that was recorded last: there was no screen yet to tell it. */
function untoldUpdate({ events }: KnownRun): readonly Recorded[] {
  return events.slice(-1).filter(({ event }) => event.type === "run.updated");
}

/** Tells how the run stands after this owner, in the words of `why`. */
export function sayGoodbye(project: Project, runId: string, screen: ScreenKind): void {
  if (screen === "json") return;
  const known = loadRun(project, runId);
  const lines = whyLines(whyInputOf(known, Date.now()));
  if (screen === "quiet" && known.run.state.status === "completed") return;
  const say = screen === "quiet" ? printError : print;
  for (const line of lines) say(line);
}

function exitCodeOf(run: Run, signals: Signals): ExitCode {
  switch (run.state.status) {
    case "completed":
      return EXIT.done;
    case "stopped": {
      const { by } = run.state;
      if ([BUDGET_STOP, MERGE_STOP].some((why) => by.startsWith(why))) return EXIT.failed;
      return signals.first === "SIGINT" ? EXIT.interrupted : EXIT.terminated;
    }
    case "failed": {
      const reasons = [...run.failed].map((visit) => "reason" in visit.state && visit.state.reason);
      const timedOut = reasons.some((reason) => reason === "timeout" || reason === "idle");
      return timedOut ? EXIT.timedOut : EXIT.failed;
    }
    default:
      return waitsForPerson(run) ? EXIT.waiting : EXIT.error;
  }
}

function readRequests({ journal }: Project, runId: string, signals: Signals): void {
  // Without a driver nobody could take them up; `drive` asks again.
  if (signals.driver === undefined) return;
  for (const request of journal.requestsAfter(runId, signals.lastRequest)) {
    signals.lastRequest = request.id;
    signals.driver.stop(request.mode, request.by);
  }
  signals.driver.lookForAnswers();
}

/** The signals that a runner answers. SIGHUP is none of them: a closed terminal ends nothing. */
class Signals {
  driver: Driver | undefined;
  first: "SIGINT" | "SIGTERM" | undefined;
  lastRequest = 0;
  onRequest: () => void = () => undefined;
  readonly #handlers: readonly (readonly [NodeJS.Signals, () => void])[] = [
    ["SIGINT", () => this.#end("SIGINT")],
    ["SIGTERM", () => this.#end("SIGTERM")],
    ["SIGHUP", () => undefined],
    ["SIGUSR2", () => this.onRequest()],
  ];

  constructor() {
    for (const [signal, handler] of this.#handlers) process.on(signal, handler);
  }

  close(): void {
    for (const [signal, handler] of this.#handlers) process.off(signal, handler);
  }

  /** Tells a driver what was asked for before it was there, and what will be. */
  attend(driver: Driver): void {
    this.driver = driver;
    if (this.first !== undefined) driver.stop("now", this.first);
    this.onRequest();
  }

  /** The first one stops the run in order; a second one ends its processes at once. */
  #end(signal: "SIGINT" | "SIGTERM"): void {
    if (this.first !== undefined) {
      this.driver?.hurry();
      return;
    }
    this.first = signal;
    this.driver?.stop("now", signal);
  }
}
