/**
 * Runs a run in this process: takes the lease, wires engine, files and screen. New and resumed runs
 * come here alike, from the command line (`execute`) and from programs (`own`, `driveOwned`).
 *
 * Owns: the wiring, and the words at the end.
 * Does not: parse arguments (commands/) or decide anything about the run.
 * Invariants:
 * - P6 The lease is taken before anything is read that a decision depends on.
 * - G1 Signal handlers stand before the lease names this process, so that no wish can kill it.
 */
import { access } from "node:fs/promises";
import type { Owner, Recorded, StopMode } from "../core/event.ts";
import type { Fact, UpdateRequested } from "../core/fact.ts";
import { waitsForPerson } from "../core/next-actions.ts";
import { stepPath } from "../core/place.ts";
import { attemptOf, placeOf, type Run } from "../core/run.ts";
import { planUpdate, touchesProcess } from "../core/update.ts";
import { GateExecutor } from "../engine/executors/gates.ts";
import { NO_FILES } from "../engine/executors/no-files.ts";
import { ProbeExecutor } from "../engine/executors/probes.ts";
import { ProcessExecutor } from "../engine/executors/processes.ts";
import { type LaunchSite, workspaceOf } from "../engine/launch.ts";
import { Loop } from "../engine/loop.ts";
import { Mailbox } from "../engine/mailbox.ts";
import { attemptDirOf, type RunDir, runDirOf } from "../engine/state-dir.ts";
import { recordUpdate } from "../engine/update.ts";
import type { ForeignFiles } from "../engine/workspace-place.ts";
import type { Budget, Recover } from "../plan/plan.ts";
import { mayLiveElsewhere } from "../runner/process/adopt.ts";
import { systemClock } from "../util/clock.ts";
import { failpoint } from "../util/failpoint.ts";
import { lineReaders } from "./agent-lines.ts";
import { refuseBeside, workerOf } from "./beside.ts";
import { hideSecretsOf, type KnownRun, loadRun, reloadOwned, reloadRun } from "./known-run.ts";
import { refuseOpened } from "./opened-step.ts";
import { isOwnerAlive, isOwnerElsewhere, ownerText, thisOwner, thisPerson } from "./owner.ts";
import { lateCostOf } from "./prices.ts";
import { type Project, removedState, shortIdOf } from "./project.ts";
import {
  after,
  command,
  type Next,
  Refusal,
  RunError,
  RunOwned,
  setDrivenRun,
  when,
} from "./refusal.ts";
import { type GivenVariables, newlyRemembered, runEnvironment } from "./run-environment.ts";
import { RunFiles } from "./run-files.ts";
import { agentsOf, filesExecutorOf, filesOf, settleOutputs } from "./run-parts.ts";
import { type Display, NO_DISPLAY, type QuestionPrompt, type Screen } from "./screen.ts";
import { listen } from "./signals.ts";
import { Wishes } from "./wishes.ts";

export interface ExecuteOptions {
  readonly display: Display;
  /** What the person asked for beside going on; asked when the run is ours and nothing of it runs. */
  readonly wishes?: (known: KnownRun) => Promise<readonly Fact[]>;
  /** Nothing is started; the run is stopped in this name once the wishes are granted. */
  readonly stopBy?: string;
  /** Nothing is started; what runs is ended in this way. */
  readonly stop?: { readonly mode: StopMode; readonly by: string };
  /** The edit that the person adopted, seeing the run as it was when it was loaded. */
  readonly update?: UpdateRequested;
  /** What the person added to the budget. */
  readonly added?: Budget;
  /** How many turns more agents get that have used up theirs. */
  readonly turns?: number;
  /** What the person wants done with conversations that were cut off. */
  readonly recover?: Recover;
  /** The same for single visits, by their place (`fix@2`). */
  readonly choices?: Readonly<Record<string, Recover>>;
  /** Work that goes on starts from the files that are there: the person wants them. */
  readonly files?: "keep";
  /** What the person wants done with changes by others in the run's own workspace. */
  readonly foreign?: ForeignFiles;
  /** The person vouches that an owner elsewhere, and what it started there, is dead. */
  readonly takeOver?: boolean;
  /** The run may work beside others in one directory. */
  readonly beside?: boolean;
  /** The person wants the run to go on in a copy of its project. */
  readonly asCopy?: boolean;
  /** Waits for people's answers when nothing else can move, instead of ending. */
  readonly stay?: boolean;
  /** Every question is answered with the choice that approves. */
  readonly autoApprove?: boolean;
  /** Variables that the person gave new values. */
  readonly variables?: GivenVariables;
  /** Said once the lease is ours. */
  readonly greet?: (known: KnownRun) => readonly string[];
}

/** The run after this process has driven it. */
export interface Executed {
  readonly known: KnownRun;
  /** The signal or the request that ended this process's part, if one did. */
  readonly endedBy: string | undefined;
}

/** Drives the run until this process has nothing more to do for it. */
export async function execute(
  project: Project,
  known: KnownRun,
  options: ExecuteOptions,
): Promise<Executed> {
  const wishes = new Wishes(project.journal, known.id);
  const deaf = listen(wishes);
  const owned = own(project, known, options);
  setDrivenRun(known.shortId);
  const run = await driveOwned(project, owned, wishes, options);
  setDrivenRun(undefined);
  // Not in a `finally`: after a failure the lease of a dead process is evidence enough, and a second
  // error of the same disk would hide the first.
  project.journal.release(known.id, owned.epoch);
  deaf();
  if (wishes.first === undefined && waitsForPerson(run)) {
    // Who answered while we let go of the run has been told that we go on.
    const now = loadRun(project, known.id);
    const { display, stay = false, autoApprove = false } = options;
    const rest = { display, stay, autoApprove, beside: true };
    if (now.answers.size > 0 && now.liveness !== "owned") return execute(project, now, rest);
  }
  // All events of a long run are not read again only to say how it ended.
  const isSamePlan = options.update === undefined;
  const after = isSamePlan ? reloadRun(project, { ...known, run }) : loadRun(project, known.id);
  return { known: after, endedBy: wishes.first };
}

/** A run in this process's hands. */
export interface OwnedRun {
  readonly known: KnownRun;
  readonly owner: Owner;
  readonly epoch: number;
}

/** Takes the lease of a run and reads what others wrote until then. Throws when somebody has it. */
export function own(
  project: Project,
  known: KnownRun,
  options: ExecuteOptions,
  owner = thisOwner(),
): OwnedRun {
  const { id: runId, shortId } = known;
  const { journal } = project;
  const { takeOver: forced } = options;
  // A run that is loaded again is another value: the one before is taken over.
  const seenSeq = known.run.seq;
  const acquired = journal.acquire(runId, owner, (other) => forced !== true && isOwnerAlive(other));
  if (!acquired.ok) throw ownedError(shortIdOf(journal, runId), acquired.owner);
  const { epoch } = acquired;
  try {
    const loaded = reloadOwned(project, known, { epoch, asCopy: options.asCopy === true });
    if (options.update !== undefined && loaded.run.seq !== seenSeq) {
      const message = `run ${shortId} has gone on since its update was shown`;
      throw new Refusal("run-changed", message, command("resume", shortId, "--update"));
    }
    if (forced !== true) refuseUnseenSteps(loaded);
    refuseOpened(loaded);
    const starts = options.stop === undefined && options.stopBy === undefined;
    if (starts && options.beside !== true) {
      refuseBeside(project, workerOf(loaded), ["resume", shortId]);
    }
    return { known: loaded, owner, epoch };
  } catch (error) {
    journal.release(runId, epoch);
    throw error;
  }
}

/** A step that outlived its owner where nobody here can see it would run a second time. */
function refuseUnseenSteps({ run, dir, shortId }: KnownRun): void {
  const unseen = [...run.running].find((visit) =>
    mayLiveElsewhere(attemptDirOf(dir, attemptOf(visit))),
  );
  if (unseen === undefined) return;
  const step = stepPath(placeOf(unseen));
  const message =
    `step ${step} of run ${shortId} was started in another container or on another machine, ` +
    "and may still run there";
  throw new Refusal("steps-alive", message, takeOver(shortId));
}

/** Drives a run that is ours to its end, or to the end of our part. The lease stays ours. */
export async function driveOwned(
  project: Project,
  owned: OwnedRun,
  wishes: Wishes,
  options: ExecuteOptions,
): Promise<Run> {
  // Node starts the threads of its file operations now, while the system still grants them: without
  // them it would abort in the middle of a run that has used up its processes.
  await access(project.dir.root);
  return driveAll(project, owned, wishes, options).catch((error: unknown) => {
    const { known } = owned;
    const cause = removedState(project.dir, known.shortId, known.run.created?.file) ?? error;
    throw new RunError(known.shortId, cause);
  });
}

/** The refusal to drive a run that another process drives; elsewhere, only a person can tell. */
export function ownedError(shortId: string, owner: Owner): RunOwned {
  const message = `run ${shortId} is owned by ${ownerText(owner)}`;
  const next = isOwnerElsewhere(owner) ? takeOver(shortId) : ownedNext(shortId, owner);
  return new RunOwned(owner, message, next);
}

function ownedNext(shortId: string, { opens }: Owner): Next {
  if (opens === undefined) return command("attach", shortId);
  return after("end the agent's program there", "resume", shortId);
}

/** What a person can do about something that cannot be seen from here. */
function takeOver(shortId: string): Next {
  return when("if you know that it is dead", "resume", shortId, "--take-over");
}

/**
 * Takes the run over to the plan of an edit. An update meets no live process of a step that it
 * touches, so then everything is ended first, by an owner of its own.
 */
async function takeUpdate(
  project: Project,
  owned: OwnedRun,
  given: Wishes,
  options: ExecuteOptions,
  update: UpdateRequested,
): Promise<OwnedRun> {
  const { known, owner, epoch } = owned;
  let settled = known;
  const input = { before: known.run.created?.input ?? null, after: update.input };
  if (touchesProcess(known.run, planUpdate(known.plan, update.plan, input, known.run))) {
    const stop: Fact = { type: "stop-requested", mode: "now", by: "an update" };
    await drive(project, owned, given, { ...options, display: NO_DISPLAY }, [stop]);
    settled = loadRun(project, known.id);
    // The person has changed their mind.
    if (given.first !== undefined) return { ...owned, known: settled };
  }
  const { run, plan, dir, events } = settled;
  // Receipts that are still owed are about steps as they were.
  RunFiles.open(dir, run, settled, events).close(run);
  const { journal } = project;
  const places = { workspaceOf: workspaceOf(dir) };
  recordUpdate({ journal, run, plan, owner, epoch, now: Date.now(), ...places }, update);
  failpoint("update.recorded");
  return { ...owned, known: loadRun(project, known.id) };
}

/** A rewind meets no live process: what still runs is ended first, by an owner of its own. */
async function driveAll(
  project: Project,
  owned: OwnedRun,
  given: Wishes,
  options: ExecuteOptions,
): Promise<Run> {
  const { wishes, stopBy, update } = options;
  if (options.stop !== undefined) {
    return drive(project, owned, given, options, [{ type: "stop-requested", ...options.stop }]);
  }
  const late = await lateCostOf(update?.plan ?? owned.known.plan, owned.known);
  const funds: readonly Fact[] = [
    ...(options.added === undefined
      ? []
      : [{ type: "funds-added", added: options.added } as const]),
    ...(late === undefined ? [] : [{ type: "funds-added", added: {}, lateCostUsd: late } as const]),
  ];
  if (update !== undefined) {
    const updated = await takeUpdate(project, owned, given, options, update);
    const { run } = updated.known;
    const declined = given.first !== undefined && run.state.status === "stopped";
    return declined ? run : drive(project, updated, given, options, funds);
  }
  if (wishes === undefined) return drive(project, owned, given, options, funds);
  let still = owned;
  if (owned.known.run.running.size > 0) {
    const stop: Fact = { type: "stop-requested", mode: "now", by: "a rewind" };
    await drive(project, owned, given, { ...options, display: NO_DISPLAY }, [stop]);
    still = { ...owned, known: loadRun(project, owned.known.id) };
  }
  const asked = [...funds, ...(await wishes(still.known))];
  if (stopBy === undefined) return drive(project, still, given, options, asked);
  // Before anything can start; what is under way, the files included, comes to its end.
  const stop: Fact = { type: "stop-requested", mode: "after-step", by: stopBy };
  return drive(project, still, given, options, [...asked, stop]);
}

async function drive(
  project: Project,
  { known, owner, epoch }: OwnedRun,
  given: Wishes,
  options: ExecuteOptions,
  wishes: readonly Fact[],
): Promise<Run> {
  const { journal } = project;
  const dir = runDirOf(project.dir, known.id);
  const clock = systemClock();
  const { variables = {} } = options;
  const env = runEnvironment(known.run, variables);
  const remembers = newlyRemembered(known, variables);
  const files = await filesOf(project, known);
  const now = (): number => clock.now();
  const untold = untoldUpdate(known);
  const mailbox = new Mailbox();
  const currentRun = (): Run => loop.run;
  const gates = new GateExecutor({
    ...{ journal, now, run: currentRun },
    by: thisPerson(),
    autoApprove: options.autoApprove === true,
  });
  const prompt = promptOf(options, gates, mailbox);
  const screen = await screenFor(options, known, { dir, now, prompt, mailbox });
  prompt?.show(screen);
  const { plan } = known;
  const site = (): LaunchSite => ({ plan, run: loop.run, dir, env });
  const agents = await agentsOf(plan, site);
  const kept = await filesExecutorOf(project, known, options.foreign, (line) => screen.say(line));
  for (const line of await settleOutputs(known, wishes)) screen.say(line);
  const processes = new ProcessExecutor({ plan, run: currentRun, dir, env, agents });
  const probes = new ProbeExecutor({ site });
  const loop: Loop = new Loop({
    ...{ journal, plan, epoch, clock, owner, env, runId: known.id, run: known.run },
    ...recoveryIn(options),
    ...(remembers === undefined ? {} : { remembers }),
    workspaceOf: workspaceOf(dir),
    keepsFiles: kept !== undefined && plan.workspace?.snapshots === true,
    ...(kept === undefined || kept.placed.kind === "here" ? {} : { placed: kept.placed }),
    inlet: mailbox,
    executors: { processes, gates, probes, files: kept ?? NO_FILES },
    watch: (events, run) => {
      hideSecretsOf(plan, run);
      files.record(events, run);
      prompt?.update(run);
      screen.update(events, run);
    },
    stay: () => options.stay === true || prompt?.isOpen === true,
  });
  given.attend({
    stop: (mode, by) => mailbox.post({ type: "stop-requested", mode, by }),
    message: ({ scope, step, message }) =>
      mailbox.post({ type: "message-left", scope, step, message }),
    killNow: () => processes.killNow(),
    lookForAnswers: () => gates.look(mailbox),
  });
  for (const line of options.greet?.(known) ?? []) screen.say(line);
  if (untold.length > 0) screen.update(untold, known.run);
  try {
    await loop.drive(wishes);
    files.close(loop.run);
    return loop.run;
  } finally {
    given.leave();
    prompt?.close();
    await screen.close();
  }
}

/** The screen of a run, which has seen everything but what it is about to be shown. */
async function screenFor(
  { display }: ExecuteOptions,
  known: KnownRun,
  around: {
    readonly dir: RunDir;
    readonly now: () => number;
    readonly prompt: QuestionPrompt | undefined;
    readonly mailbox: Mailbox;
  },
): Promise<Screen> {
  const { dir, now, prompt, mailbox } = around;
  const { events, id: runId, shortId, plan } = known;
  const untold = untoldUpdate(known).length;
  return display.openScreen({
    ...{ runId, shortId, dir, now },
    past: untold === 0 ? events : events.slice(0, -untold),
    readers: await lineReaders(plan),
    onError: (error) => mailbox.fail(error),
    footer: prompt && ((width) => prompt.footer(width)),
  });
}

/** Asks the questions of the run, where somebody could answer them. */
function promptOf(
  { display, autoApprove }: ExecuteOptions,
  gates: GateExecutor,
  mailbox: Mailbox,
): QuestionPrompt | undefined {
  if (autoApprove === true) return undefined;
  return display.openPrompt?.({
    answer: (at, reply) => gates.give(mailbox, at, reply),
    onGone: () => mailbox.wake(),
  });
}

/** What the person wants done with work that was cut off. */
function recoveryIn({
  recover,
  choices,
  files,
  turns,
}: ExecuteOptions): Pick<ExecuteOptions, "recover" | "choices" | "files" | "turns"> {
  return {
    ...(turns === undefined ? {} : { turns }),
    ...(recover === undefined ? {} : { recover }),
    ...(choices === undefined ? {} : { choices }),
    ...(files === undefined ? {} : { files }),
  };
}

/** An update that was recorded last: there was no screen yet to tell it. */
function untoldUpdate({ events }: KnownRun): readonly Recorded[] {
  return events.slice(-1).filter(({ event }) => event.type === "run.updated");
}
