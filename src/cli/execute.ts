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
import { BUDGET_STOP } from "../core/advance.ts";
import type { Owner } from "../core/event.ts";
import type { Fact } from "../core/fact.ts";
import type { Run } from "../core/run.ts";
import type { AgentSteps } from "../engine/agent-steps.ts";
import { Driver } from "../engine/drive.ts";
import { Engine } from "../engine/engine.ts";
import { findItems } from "../engine/item-source.ts";
import type { LaunchSite } from "../engine/launch.ts";
import { runDirOf } from "../engine/state-dir.ts";
import { mayBeAhead } from "../journal/events-file.ts";
import type { Budget, Plan, Recover } from "../plan/plan.ts";
import { systemClock } from "../util/clock.ts";
import { redactor } from "../util/redact.ts";
import { whyLines } from "../view/why.ts";
import { lineReaders } from "./agent-lines.ts";
import { CliError, RunError } from "./cli-error.ts";
import { EXIT, type ExitCode } from "./exit-code.ts";
import { openScreen } from "./open-screen.ts";
import { isOwnerAlive, ownerText, thisOwner } from "./owner.ts";
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
import type { ScreenKind } from "./screen.ts";

export interface ExecuteOptions {
  readonly screen: ScreenKind;
  /** What the person asked for beside going on. */
  readonly wish?: Wish;
  /** What the person added to the budget. */
  readonly added?: Budget;
  /** What the person wants done with conversations that were cut off. */
  readonly recover?: Recover;
  /** The person vouches that an owner on another machine is dead. */
  readonly takeOver?: boolean;
  /** Said once the lease is ours. */
  readonly greet?: (known: KnownRun) => readonly string[];
}

export type Wish = Extract<Fact, { type: "retry-requested" | "rewind-requested" }>;

/** Drives the run until this process has nothing more to do for it; gives the exit status. */
export async function execute(
  project: Project,
  known: KnownRun,
  options: ExecuteOptions,
): Promise<ExitCode> {
  const { id: runId } = known;
  const signals = new Signals();
  // Before the lease names us: who finds our name in it may ask at once.
  signals.lastRequest = project.journal.requestsAfter(runId, 0).at(-1)?.id ?? 0;
  const epoch = acquire(project, runId, options.takeOver === true);
  signals.onRequest = () => readRequests(project, runId, signals);
  const run = await driveAll(project, reloadRun(project, known), epoch, signals, options).catch(
    (error: unknown) => {
      throw new RunError(shortIdOf(project.journal, runId), error);
    },
  );
  // Not in a `finally`: after a failure the lease of a dead process is evidence enough, and a second
  // error of the same disk would hide the first.
  project.journal.release(runId, epoch);
  signals.close();
  return exitCodeOf(run, signals);
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

/** A rewind meets no live process: what still runs is ended first, by an owner of its own. */
async function driveAll(
  project: Project,
  known: KnownRun,
  epoch: number,
  signals: Signals,
  options: ExecuteOptions,
): Promise<Run> {
  const { wish } = options;
  const funds: readonly Fact[] =
    options.added === undefined ? [] : [{ type: "funds-added", added: options.added }];
  const wishes = [...funds, ...(wish === undefined ? [] : [wish])];
  if (wish === undefined || known.run.running.size === 0) {
    return drive(project, known, epoch, signals, options, wishes);
  }
  const stop: Fact = { type: "stop-requested", mode: "now", by: "a rewind" };
  await drive(project, known, epoch, signals, { ...options, screen: "quiet" }, [stop]);
  return drive(project, loadRun(project, known.id), epoch, signals, options, wishes);
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
    opened ??= RunFiles.open(dir, known.run, known.planText, known.events);
    return opened;
  };
  // Otherwise the first step does not wait for them: it takes long to read what a long run left.
  if (mayBeAhead(dir.events, known.run.seq)) files();
  const now = (): number => clock.now();
  const screen = await openScreen({
    kind: options.screen,
    runId: known.id,
    shortId: known.shortId,
    past: known.events,
    readers: await lineReaders(known.plan),
    dir,
    redact,
    now,
  });
  const agents = await agentsOf(known.plan, () => ({
    plan: known.plan,
    run: engine.run,
    dir,
    env,
  }));
  const engine: Engine = new Engine({
    journal,
    runId: known.id,
    plan: known.plan,
    run: known.run,
    owner: thisOwner(),
    epoch,
    ...(options.recover === undefined ? {} : { recover: options.recover }),
    clock,
    around: {
      env,
      offer: (place, session) => agents?.offer(place, session),
      items: (place) => findItems({ plan: known.plan, run: engine.run, dir, env }, place),
    },
    watch: (events, run) => {
      files().record(events, run);
      screen.update(events, run);
    },
  });
  const driver = new Driver({ engine, dir, env, redact, agents, now });
  signals.driver = driver;
  if (signals.first !== undefined) driver.stop("now", signals.first);
  signals.onRequest();
  for (const line of options.greet?.(known) ?? []) screen.say(line);
  try {
    await driver.run(wishes);
    files().close(engine.run);
    return engine.run;
  } finally {
    signals.driver = undefined;
    await screen.close();
  }
}

/** What talks to agents; loaded only for plans that have some. */
async function agentsOf(plan: Plan, site: () => LaunchSite): Promise<AgentSteps | undefined> {
  const served = Object.values(plan.agents).some(({ adapter }) => adapter !== "command");
  if (!served) return undefined;
  const { AgentSteps } = await import("../engine/agent-steps.ts");
  return new AgentSteps(site);
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
    case "stopped":
      if (run.state.by.startsWith(BUDGET_STOP)) return EXIT.failed;
      return signals.first === "SIGINT" ? EXIT.interrupted : EXIT.terminated;
    case "failed": {
      const reasons = [...run.failed].map((visit) => "reason" in visit.state && visit.state.reason);
      const timedOut = reasons.some((reason) => reason === "timeout" || reason === "idle");
      return timedOut ? EXIT.timedOut : EXIT.failed;
    }
    default:
      return EXIT.error;
  }
}

function readRequests({ journal }: Project, runId: string, signals: Signals): void {
  // Without a driver nobody could take them up; `drive` asks again.
  if (signals.driver === undefined) return;
  for (const request of journal.requestsAfter(runId, signals.lastRequest)) {
    signals.lastRequest = request.id;
    signals.driver.stop(request.mode, request.by);
  }
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
