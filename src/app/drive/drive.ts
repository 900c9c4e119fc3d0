/**
 * Drives a run in this process: connects the loop, its executors, the files and a display. New and
 * resumed runs come here alike, from the command line (`execute`) and from programs (`driveOwned`).
 *
 * Owns: these connections, and the order of a rewind or an update that meets running steps.
 * Does not: decide anything about the run.
 * Invariants:
 * - drive/G1 Signal handlers are installed before the lease names this process, so that no request
 *   can kill it.
 */
import { access } from "node:fs/promises";
import type { Recorded } from "../../core/event.ts";
import type { Fact, FactOf } from "../../core/fact.ts";
import { planUpdate, touchesProcess } from "../../core/graph/update.ts";
import { waitsForPerson } from "../../core/next-actions.ts";
import type { Run } from "../../core/run.ts";
import { NO_FILES } from "../../engine/executors/executor.ts";
import { GateExecutor } from "../../engine/executors/gates.ts";
import { ProbeExecutor } from "../../engine/executors/probes.ts";
import { ProcessExecutor } from "../../engine/executors/processes.ts";
import { type LaunchInput, workspaceOf } from "../../engine/launch.ts";
import { Loop, Mailbox } from "../../engine/loop.ts";
import { recordUpdate } from "../../engine/record.ts";
import type { ForeignFiles } from "../../engine/run-workspace.ts";
import { runDirOf } from "../../engine/state-dir.ts";
import { type LastingRequest, pendingAmong } from "../../journal/inbox.ts";
import type { Budget, Recover } from "../../plan/plan.ts";
import { telemetrySettings } from "../../telemetry/settings.ts";
import { type Clock, systemClock } from "../../util/clock.ts";
import { defined } from "../../util/defined.ts";
import { failpoint } from "../../util/failpoint.ts";
import { hideSecretsOf, type LoadedRun, loadRun, reloadRun } from "../loaded-run.ts";
import { lateCostOf } from "../prices.ts";
import { type Project, removedState } from "../project/project.ts";
import { RunError, setDrivenRun } from "../refusal.ts";
import { keepCodeOfFirstStep, keepHeapSmall } from "../this-process.ts";
import { checkOutputsOnResume, openAgents, openFiles, openRunFiles } from "./loop-parts.ts";
import { thisPerson } from "./owner.ts";
import { type DrivenRun, factOf, listen, OwnerRequests } from "./owner-requests.ts";
import { type OwnedRun, type OwnOptions, own, replacedError } from "./ownership.ts";
import { newlyRemembered, runEnvironment } from "./run-environment.ts";
import { completeRunFiles } from "./run-files.ts";
import {
  type Display,
  NO_DISPLAY,
  type QuestionPrompt,
  type Screen,
  type ScreenControls,
  type ScreenOptions,
  screenOf,
} from "./screen.ts";

export interface ExecuteOptions extends OwnOptions {
  readonly display: Display;
  /** What the person asks for besides continuing; called once the run is owned and no step runs. */
  readonly requested?: (known: LoadedRun) => Promise<readonly Fact[]>;
  /** What the person added to the budget. */
  readonly added?: Budget;
  /** How many more turns an agent gets that has used up its turns. */
  readonly turns?: number;
  /** What the person wants done with interrupted conversations. */
  readonly recover?: Recover;
  /** The same for single visits, by their step path (`fix@2`). */
  readonly choices?: Readonly<Record<string, Recover>>;
  /** The person wants interrupted work to continue with the files as they are. */
  readonly files?: "keep";
  /** What the person wants done with changes by others in the run's own workspace. */
  readonly foreign?: ForeignFiles;
  /** No step takes the result of an earlier run. */
  readonly cache?: "off";
  /** Waits for people's answers when nothing else can move, instead of ending. */
  readonly stay?: boolean;
  /** The gates answer every question with the choice that approves. */
  readonly autoApprove?: boolean;
  /** Variables that the person gave new values. */
  readonly variables?: Readonly<Record<string, string>>;
  /** Of a fleet run: the file with the deadline of its steps. */
  readonly leash?: string;
  /** Leaves the run when nothing can happen for longer than this. */
  readonly waitMaxMs?: number;
  /** The clock of the run; without it, that of this machine. */
  readonly clock?: Clock;
  /** This process only drives this run, so it may change the settings of its heap. */
  readonly isWholeProgram?: boolean;
  /** Lines for the person, once this process owns the run. */
  readonly openingLines?: (known: LoadedRun) => Promise<readonly string[]>;
}

/** A run after this process has driven it. */
export interface Executed {
  readonly known: LoadedRun;
  /** The signal or the request that ended the drive, if one did. */
  readonly endedBy: string | undefined;
  /** The person left the run to a process in the background; its steps are still running. */
  readonly isDetached: boolean;
}

/** Ends the loop without ending the steps: the next owner finds them. */
class Detached extends Error {
  readonly run: Run;

  constructor(run: Run) {
    super("the run was left to a process in the background");
    this.run = run;
  }
}

/** Drives the run until this process has nothing more to do for it. */
export async function execute(
  project: Project,
  known: LoadedRun,
  options: ExecuteOptions,
): Promise<Executed> {
  const requests = await OwnerRequests.open(project.journal.inbox, known.id);
  const stopListening = listen(requests);
  const owned = await own(project, known, options);
  setDrivenRun(known.shortId);
  const whole = { ...options, isWholeProgram: true };
  const { run, isDetached } = await drivenToEnd(project, owned, requests, whole);
  setDrivenRun(undefined);
  // Not in a `finally`: after a failure the lease of a dead process is evidence enough, and a second
  // error of the same disk would hide the first.
  await project.journal.leases.release(known.id, owned.epoch);
  stopListening();
  if (requests.first === undefined && !isDetached && waitsForPerson(run)) {
    // A person who answered just before we gave up the lease was told that this process continues.
    const now = await loadRun(project, known.id);
    const { display, stay = false, autoApprove = false } = options;
    const rest = { display, stay, autoApprove, beside: true };
    if (now.answers.size > 0 && now.liveness !== "owned") return execute(project, now, rest);
  }
  // The end of a long run needs only the new events.
  const isSamePlan = options.update === undefined;
  const after = isSamePlan
    ? await reloadRun(project, { ...known, run })
    : await loadRun(project, known.id);
  return { known: after, endedBy: requests.first, isDetached };
}

async function drivenToEnd(
  project: Project,
  owned: OwnedRun,
  requests: OwnerRequests,
  options: ExecuteOptions,
): Promise<{ readonly run: Run; readonly isDetached: boolean }> {
  try {
    return { run: await driveOwned(project, owned, requests, options), isDetached: false };
  } catch (error) {
    if (error instanceof Detached) return { run: error.run, isDetached: true };
    throw error;
  }
}

/** Drives an owned run until it ends or this process has nothing more to do. Keeps the lease. */
export async function driveOwned(
  project: Project,
  owned: OwnedRun,
  requests: OwnerRequests,
  options: ExecuteOptions,
): Promise<Run> {
  // Node starts the threads of its file operations now, while the system still grants them: without
  // them it would abort in the middle of a run that has used up its processes.
  await access(project.dir.root);
  return driveAll(project, owned, requests, options).catch(async (error: unknown) => {
    if (error instanceof Detached) throw error;
    const { known } = owned;
    const removed = removedState(project, known.shortId, known.run.created?.file);
    const cause = removed ?? (await replacedError(project, owned)) ?? error;
    throw new RunError(known.shortId, cause);
  });
}

/**
 * Updates the run to the plan of an edit. If a step that the update touches still runs, a drive of
 * its own stops all steps first.
 */
async function takeUpdate(
  project: Project,
  owned: OwnedRun,
  requests: OwnerRequests,
  options: ExecuteOptions,
  update: FactOf<"update-requested">,
): Promise<OwnedRun> {
  const { known, owner, epoch } = owned;
  let latest = known;
  const input = { before: known.run.created?.input ?? null, after: update.input };
  if (touchesProcess(known.run, planUpdate(known.plan, update.plan, input, known.run))) {
    const stop: Fact = { type: "stop-requested", mode: "now", by: "an update" };
    await drive(project, owned, requests, { ...options, display: NO_DISPLAY }, [stop]);
    latest = await loadRun(project, known.id);
    // A stop request came meanwhile: the person no longer wants the update.
    if (requests.first !== undefined) return { ...owned, known: latest };
  }
  const { run, plan, dir } = latest;
  // Missing receipts describe the steps of the earlier plan, so write them before the update.
  completeRunFiles(latest);
  const { log } = project.journal;
  const places = { workspaceOf: workspaceOf(dir) };
  await recordUpdate({ log, run, plan, owner, epoch, now: Date.now(), ...places }, update);
  failpoint("update.recorded");
  return { ...owned, known: await loadRun(project, known.id) };
}

/** The facts of the requests that the run has not handled, for the first turn of this owner. */
async function pendingFacts(project: Project, known: LoadedRun): Promise<readonly Fact[]> {
  const requests = pendingAmong(await project.journal.inbox.after(known.id, 0), known.run);
  if (requests.length === 0) return [];
  const facts: Fact[] = [];
  for (const request of requests) facts.push(await factOf(project, async () => known, request));
  return facts;
}

/**
 * Applies what the person asked for and drives the run. Before a rewind, a drive of its own stops
 * the steps that still run.
 */
async function driveAll(
  project: Project,
  owned: OwnedRun,
  requests: OwnerRequests,
  options: ExecuteOptions,
): Promise<Run> {
  const { requested, stopBy, update } = options;
  if (options.stop !== undefined) {
    return drive(project, owned, requests, options, [{ type: "stop-requested", ...options.stop }]);
  }
  const late = await lateCostOf(update?.plan ?? owned.known.plan, owned.known);
  const funds: readonly Fact[] = [
    ...(options.added === undefined
      ? []
      : [{ type: "funds-added", added: options.added } as const]),
    ...(late === undefined ? [] : [{ type: "funds-added", added: {}, lateCostUsd: late } as const]),
  ];
  if (update !== undefined) {
    const updated = await takeUpdate(project, owned, requests, options, update);
    const { run } = updated.known;
    const declined = requests.first !== undefined && run.state.status === "stopped";
    if (declined) return run;
    const facts = [...funds, ...(await pendingFacts(project, updated.known))];
    return drive(project, updated, requests, options, facts);
  }
  let still = owned;
  if (requested !== undefined && owned.known.run.running.size > 0) {
    const stop: Fact = { type: "stop-requested", mode: "now", by: "a rewind" };
    await drive(project, owned, requests, { ...options, display: NO_DISPLAY }, [stop]);
    still = { ...owned, known: await loadRun(project, owned.known.id) };
  }
  const pending = await pendingFacts(project, still.known);
  const asked = [...funds, ...pending, ...((await requested?.(still.known)) ?? [])];
  if (stopBy === undefined) return drive(project, still, requests, options, asked);
  // The stop comes before any step starts; operations under way, such as a restore, still complete.
  const stop: Fact = { type: "stop-requested", mode: "after-step", by: stopBy };
  return drive(project, still, requests, options, [...asked, stop]);
}

async function drive(
  project: Project,
  { known, owner, epoch }: OwnedRun,
  requests: OwnerRequests,
  options: ExecuteOptions,
  asked: readonly Fact[],
): Promise<Run> {
  const { log, inbox } = project.journal;
  const { plan } = known;
  const dir = runDirOf(project.dir, known.id);
  const clock = options.clock ?? systemClock();
  const { variables = {}, turns, recover, choices, files, cache, waitMaxMs } = options;
  const env = runEnvironment(known.run, variables);
  const runFiles = await openRunFiles(project, known);
  const now = (): number => clock.now();
  const mailbox = new Mailbox();
  const currentRun = (): Run => loop.run;
  const autoApprove = options.autoApprove === true;
  const gates = new GateExecutor({ inbox, now, run: currentRun, by: thisPerson(), autoApprove });
  const prompt = promptOf(options, gates, mailbox);
  const past = known.events.slice(0, known.events.length - unshownUpdate(known).length);
  const shown = { ...(await screenOf(project, known)), past, now, mailbox, currentRun };
  const screen = await openScreen(options, shown, prompt);
  const traceVariables: LaunchInput["traceVariables"] = (at) => telemetry?.variables(at) ?? {};
  const launch = { plan, dir, env, traceVariables, ...defined({ leash: options.leash }) };
  const site = (): LaunchInput => ({ ...launch, run: loop.run });
  const agents = await openAgents(known, site);
  const { kept, results } = await openFiles(project, known, options.foreign, site, screen);
  for (const line of await checkOutputsOnResume(known, asked)) screen.say(line);
  const processes = new ProcessExecutor({ ...launch, run: currentRun, agents });
  const probes = new ProbeExecutor({ site });
  const settings = telemetrySettings(process.env);
  const telemetry = settings && (await import("./telemetry.ts")).openTelemetry(known, settings);
  const notify = plan.notify && (await import("../notify.ts")).watchNotices(known);
  const loop: Loop = new Loop({
    ...{ log, plan, epoch, clock, owner, env, runId: known.id, run: known.run },
    ...defined({ turns, recover, choices, files, cache, waitMaxMs }),
    ...defined({ remembers: newlyRemembered(known, variables) }),
    workspaceOf: workspaceOf(dir),
    keepsFiles: kept !== undefined && plan.workspace?.snapshots === true,
    ...(kept === undefined || kept.placed.kind === "here" ? {} : { placed: kept.placed }),
    queue: mailbox,
    executors: { processes, gates, probes, files: kept ?? NO_FILES, results },
    watch: (events, run) => {
      if (options.isWholeProgram === true) prepareForLongRun();
      hideSecretsOf(plan, run);
      runFiles.record(events, run);
      prompt?.update(run);
      screen.update(events, run);
      telemetry?.record(events);
      notify?.(events);
    },
    stay: () => options.stay === true || prompt?.isOpen === true,
  });
  try {
    await requests.connect(drivenRunOf(project, { known, epoch }, mailbox, processes));
    for (const line of (await options.openingLines?.(known)) ?? []) screen.say(line);
    if (past.length < known.events.length) screen.update(unshownUpdate(known), known.run);
    await loop.drive(asked);
    runFiles.close(loop.run);
    return loop.run;
  } finally {
    await requests.disconnect();
    prompt?.close();
    await screen.close();
    const notExported = await telemetry?.close();
    if (notExported !== undefined) options.display.warn?.(notExported);
  }
}

/** What the person at the screen can do with a key. */
function controlsOf(mailbox: Mailbox, currentRun: () => Run): ScreenControls {
  const by = `${thisPerson()} (key s)`;
  return {
    role: "owner",
    stopAfterStep: () => mailbox.post({ type: "stop-requested", mode: "after-step", by }),
    // A run that is stopping ends here, with its steps.
    detach: () => {
      if (currentRun().state.status === "running") mailbox.fail(new Detached(currentRun()));
    },
  };
}

/** Passes requests of others to the loop as facts, or to its processes as signals. */
function drivenRunOf(
  project: Project,
  { known: { id }, epoch }: Pick<OwnedRun, "known" | "epoch">,
  mailbox: Mailbox,
  processes: ProcessExecutor,
): DrivenRun {
  return {
    renewLease: () => project.journal.leases.renew(id, epoch),
    take: async (request: LastingRequest) => {
      mailbox.post(await factOf(project, () => loadRun(project, id), request));
    },
    stop: (mode, by) => mailbox.post({ type: "stop-requested", mode, by }),
    killNow: () => processes.killNow(),
    lookForAnswers: () => mailbox.wake(),
    fail: (error) => mailbox.fail(error),
  };
}

/** Opens the screen of a run, with the prompt for its questions. */
async function openScreen(
  { display }: ExecuteOptions,
  {
    mailbox,
    currentRun,
    ...shown
  }: ScreenOptions & { readonly mailbox: Mailbox; readonly currentRun: () => Run },
  prompt: QuestionPrompt | undefined,
): Promise<Screen> {
  const screen = await display.openScreen({
    ...shown,
    controls: controlsOf(mailbox, currentRun),
    onError: (error) => mailbox.fail(error),
    footer: prompt && ((width) => prompt.footer(width)),
  });
  prompt?.show(screen);
  return screen;
}

/** The prompt for the questions of the run, if a person could answer them here. */
function promptOf(
  { display, autoApprove }: ExecuteOptions,
  gates: GateExecutor,
  mailbox: Mailbox,
): QuestionPrompt | undefined {
  if (autoApprove === true) return undefined;
  return display.openPrompt?.({
    answer: (at, reply, from) => gates.give(mailbox, at, { ...reply, from }),
    onGone: () => mailbox.wake(),
    onError: (error) => mailbox.fail(error),
  });
}

/** Prepares this process for a long run; before the first step it would only delay the start. */
function prepareForLongRun(): void {
  keepCodeOfFirstStep();
  keepHeapSmall();
}

/** The update that `takeUpdate` recorded last, before there was a screen to show it. */
function unshownUpdate({ events }: LoadedRun): readonly Recorded[] {
  return events.slice(-1).filter(({ event }) => event.type === "run.updated");
}
