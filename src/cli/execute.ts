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
import type { Fact } from "../core/fact.ts";
import type { Run } from "../core/run.ts";
import { Driver } from "../engine/drive.ts";
import { Engine } from "../engine/engine.ts";
import { runDirOf } from "../engine/state-dir.ts";
import { systemClock } from "../util/clock.ts";
import { redactor } from "../util/redact.ts";
import { whyLines } from "../view/why.ts";
import { CliError } from "./cli-error.ts";
import { EXIT, type ExitCode } from "./exit-code.ts";
import { isOwnerAlive, ownerText, thisOwner } from "./owner.ts";
import { print, printError } from "./print.ts";
import { type KnownRun, loadRun, type Project, shortIdOf, whyInputOf } from "./project.ts";
import { RunFiles } from "./run-files.ts";
import { openScreen, type ScreenKind } from "./screen.ts";

export interface ExecuteOptions {
  readonly screen: ScreenKind;
  /** What the person asked for beside going on. */
  readonly wish?: Wish;
  /** The person vouches that an owner on another machine is dead. */
  readonly takeOver?: boolean;
  /** Said once the lease is ours. */
  readonly greet?: (known: KnownRun) => readonly string[];
}

export type Wish = Extract<Fact, { type: "retry-requested" | "rewind-requested" }>;

/** Drives the run until this process has nothing more to do for it; gives the exit status. */
export async function execute(
  project: Project,
  runId: string,
  options: ExecuteOptions,
): Promise<ExitCode> {
  const signals = new Signals();
  const epoch = acquire(project, runId, options.takeOver === true);
  signals.onRequest = () => readRequests(project, runId, signals);
  signals.lastRequest = project.journal.requestsAfter(runId, 0).at(-1)?.id ?? 0;
  const run = await driveAll(project, loadRun(project, runId), epoch, signals, options);
  // Not in a `finally`: after a failure the lease of a dead process is evidence enough, and a second
  // error of the same disk would hide the first.
  project.journal.release(runId, epoch);
  signals.close();
  return exitCodeOf(run, signals);
}

function acquire({ journal }: Project, runId: string, takeOver: boolean): number {
  const acquired = journal.acquire(runId, thisOwner(), (owner) => !takeOver && isOwnerAlive(owner));
  if (acquired.ok) return acquired.epoch;
  const shortId = shortIdOf(journal, runId);
  const message = `run ${shortId} is owned by ${ownerText(acquired.owner)}`;
  throw new CliError(EXIT.owned, message, `perdure attach ${shortId}`);
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
  if (wish === undefined || known.run.running.size === 0) {
    return drive(project, known, epoch, signals, options, wish === undefined ? [] : [wish]);
  }
  const stop: Fact = { type: "stop-requested", mode: "now", by: "a rewind" };
  await drive(project, known, epoch, signals, { ...options, screen: "quiet" }, [stop]);
  return drive(project, loadRun(project, known.id), epoch, signals, options, [wish]);
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
  const redact = redactor(process.env);
  const { planText } = journal.load(known.id);
  const files = RunFiles.open(dir, known.id, planText, known.events);
  const now = (): number => clock.now();
  const screen = openScreen({ kind: options.screen, shortId: known.shortId, dir, redact, now });
  const engine = new Engine({
    journal,
    runId: known.id,
    plan: known.plan,
    events: known.events,
    owner: thisOwner(),
    epoch,
    clock,
    env: process.env,
    watch: (events, run) => {
      files.record(events, run);
      screen.update(events, run);
    },
  });
  const driver = new Driver({ engine, dir, env: process.env, redact, now });
  signals.driver = driver;
  for (const line of options.greet?.(known) ?? []) screen.say(line);
  try {
    await driver.run(wishes);
    files.close(engine.run);
    return engine.run;
  } finally {
    signals.driver = undefined;
    await screen.close();
  }
}

/** Tells how the run stands after this owner, in the words of `why`. */
export function sayGoodbye(project: Project, runId: string, screen: ScreenKind): void {
  if (screen === "json") return;
  const lines = whyLines(whyInputOf(loadRun(project, runId), Date.now()));
  const say = screen === "quiet" ? printError : print;
  for (const line of lines) say(line);
}

function exitCodeOf(run: Run, signals: Signals): ExitCode {
  switch (run.state.status) {
    case "completed":
      return EXIT.done;
    case "stopped":
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
  for (const request of journal.requestsAfter(runId, signals.lastRequest)) {
    signals.lastRequest = request.id;
    signals.driver?.stop(request.mode, request.by);
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
