/**
 * The processes executor: starts the processes of attempts, adopts those of an earlier owner, ends
 * them, and reports their endings with the evidence.
 *
 * Owns: the processes of running attempts, and the streams of their agents.
 * Does not: know when an attempt may start, or its files (core/operations.ts, files.ts).
 */
import type { OperationOf } from "../../core/action.ts";
import { endsWell } from "../../core/attempt/attempt-end.ts";
import { afterDenial } from "../../core/conversation/permission.ts";
import type { AttemptRef } from "../../core/event.ts";
import type { Ending } from "../../core/fact.ts";
import { findVisit, type Run, type RunState, stepOf, type Visit } from "../../core/run.ts";
import { attemptText } from "../../core/step-path.ts";
import { checksOf } from "../../plan/plan.ts";
import { adoptProcess, lookAt } from "../../runner/process/adopt.ts";
import { hasEndedRound, isUnchecked, readCause } from "../../runner/process/attempt-folder.ts";
import { leashMarker } from "../../runner/process/leash.ts";
import { startChecksAgain, startProcess } from "../../runner/process/start.ts";
import type { Launch, ProcessEnding, StepProcess } from "../../runner/process/step-process.ts";
import { attemptMarker, runMarker, sweep } from "../../runner/process/sweep.ts";
import { longTimer } from "../../runner/process/waiting.ts";
import { assert } from "../../util/assert.ts";
import { ExpressionError } from "../../util/expression.ts";
import { failpoint } from "../../util/failpoint.ts";
import { TemplateError } from "../../util/template.ts";
import type { AgentSteps, FollowedAgent } from "../agent/agent-steps.ts";
import { collectEvidence, withExposures } from "../evidence/evidence.ts";
import { withPrinted } from "../evidence/printed.ts";
import { prepareStage, takeStageStatus } from "../evidence/stage-status.ts";
import {
  attemptIdOf,
  LaunchError,
  type LaunchInput,
  limitsOf,
  prepareChecks,
  prepareLaunch,
} from "../launch.ts";
import { attemptDirOf } from "../state-dir.ts";
import { findItems, findMaterial } from "../visit-input.ts";
import type { Executor, FactWriter, ProcessOperation } from "./executor.ts";

interface ProcessOptions extends Omit<LaunchInput, "run"> {
  readonly run: () => Run;
  /** For plans with agent steps. */
  readonly agents: AgentSteps | undefined;
}

interface Held {
  process: StepProcess;
  readonly agent: FollowedAgent | undefined;
  /** Ends the wait for an agent that may still finish its call. */
  disarm?: () => void;
}

/** The processes executor of one run, for one owner. */
export class ProcessExecutor implements Executor<ProcessOperation["type"]> {
  readonly #options: ProcessOptions;
  readonly #processes = new Map<string, Held>();
  /** Stops that were requested before the process of the attempt was started. */
  readonly #early = new Map<string, "now" | "after-turn">();
  #closed = false;

  constructor(options: ProcessOptions) {
    this.#options = options;
  }

  begin(operation: ProcessOperation, writer: FactWriter): void {
    switch (operation.type) {
      case "launch":
        return this.#launch(operation.at, writer);
      case "adopt":
        return this.#adopt(operation.at, writer);
      case "cancel":
        return this.#stop(operation.at, operation.when);
      case "look-up":
        return this.#lookUp(operation, writer);
    }
  }

  #launch(at: AttemptRef, writer: FactWriter): void {
    const visit = this.#visit(at);
    const { agents } = this.#options;
    if (agents?.serves(visit) !== true) {
      this.#start(at, writer, () => prepareLaunch(this.#site(), visit, at));
      return;
    }
    agents
      .prepare(visit, at)
      .then((prepare) => {
        if (!this.#closed) this.#start(at, writer, prepare);
      })
      .catch((error: unknown) => writer.fail(error));
  }

  /** Continues an attempt that an earlier owner started. */
  #adopt(at: AttemptRef, writer: FactWriter): void {
    const dir = attemptDirOf(this.#options.dir, at);
    const found = lookAt(dir);
    if (found !== "dead") {
      writer.post({ type: "adopted", at, found: found === "alive" ? "alive" : "ended" });
    }
    const limits = limitsOf(this.#visit(at));
    this.#hold(at, dir, writer, adoptProcess(dir, this.#marker(at), limits));
  }

  /**
   * Only agents have turns; other steps run to completion. An agent that must stop now may finish
   * its current call and tool within the grace period, so that the paid answer arrives.
   */
  #stop(at: AttemptRef, when: "now" | "after-turn"): void {
    const held = this.#processes.get(attemptText(at));
    if (held === undefined) {
      this.#early.set(attemptText(at), when);
      return;
    }
    const { process, agent } = held;
    if (agent === undefined) {
      if (when === "now") process.stop("gently");
      return;
    }
    if (when === "now" && held.disarm === undefined) {
      const { graceMs } = limitsOf(this.#visit(at));
      held.disarm = longTimer(graceMs, () => process.stop("gently"));
    }
    agent.stopAfterTurn();
  }

  /** Ends every process now, without its grace period. */
  killNow(): void {
    for (const { process } of this.#processes.values()) process.stop("at-once");
  }

  async close(status: RunState["status"]): Promise<void> {
    this.#closed = true;
    for (const { process, agent, disarm } of this.#processes.values()) {
      disarm?.();
      process.release();
      await agent?.close();
    }
    this.#processes.clear();
    // A process that a step left running on purpose lives until the run ends or stops.
    const over = ["completed", "failed", "stopped"].includes(status);
    const { leash, run } = this.#options;
    if (over) await sweep(leash === undefined ? runMarker(run().id) : leashMarker(leash));
  }

  /** Reads the facts that the start of a visit needs. */
  #lookUp(operation: OperationOf<"look-up">, writer: FactWriter): void {
    const { place, what, session } = operation;
    if (what === "items") {
      const items = findItems(this.#site(), place);
      writer.post({ type: "looked-up", place, ...(items && { items }) });
      return;
    }
    if (what === "material") {
      const material = findMaterial(this.#site(), place);
      writer.post({ type: "looked-up", place, material });
      return;
    }
    const offer = this.#options.agents?.offer(place, session);
    writer.post({ type: "looked-up", place, ...(offer && { offer }) });
  }

  #start(at: AttemptRef, writer: FactWriter, prepare: () => Launch): void {
    try {
      const launch = prepare();
      prepareStage(this.#site(), this.#visit(at), at);
      failpoint("engine.launch");
      const limits = limitsOf(this.#visit(at));
      this.#hold(at, launch.dir, writer, startProcess(launch, limits));
    } catch (error) {
      const ending = notStarted(error);
      // An error that is not about this step (a full disk) is no fact: it ends the loop.
      if (ending === undefined) throw error;
      writer.post({ type: "process-ended", at, ending });
    }
  }

  #hold(at: AttemptRef, dir: string, writer: FactWriter, process: StepProcess): void {
    const key = attemptText(at);
    const { agents, run } = this.#options;
    const visit = this.#visit(at);
    const agent =
      agents?.serves(visit) === true
        ? agents.follow(visit, at, {
            onSession: (session) => writer.post({ type: "session-known", at, session }),
            onUse: () => {
              // Only a budget needs the current usage of agents.
              if (Object.keys(run().funds).length === 0) return;
              const spent = this.#processes.get(key)?.agent?.spent();
              if (spent !== undefined) writer.post({ type: "spending", at, spent });
            },
            onLimit: () => process.stop("gently"),
            onError: (error) => writer.fail(error),
          })
        : undefined;
    this.#processes.set(key, { process, agent });
    const early = this.#early.get(key);
    this.#early.delete(key);
    if (early !== undefined) this.#stop(at, early);
    const report = async (ended: ProcessEnding): Promise<void> => {
      const worker = agent === undefined ? "command" : "agent";
      const evidence = await this.#evidence(at, dir, ended, agent);
      const printed = withPrinted(this.#options.plan, visit, { dir, worker }, evidence);
      const ending = await withExposures(this.#site(), withLeft(printed, ended));
      // A server that a step may leave running does not outlive a failed attempt.
      const mayStay = stepOf(visit).leavesRunning === true;
      if (mayStay && !endsWell(visit, ending)) await this.#sweep(visit, at, ending);
      if (this.#closed) return;
      this.#processes.get(key)?.disarm?.();
      this.#processes.delete(key);
      failpoint("engine.ended");
      writer.post({ type: "process-ended", at, ending });
    };
    process.ended
      .then((ended) => this.#checked(at, dir, ended))
      .then(report)
      .catch((error: unknown) => {
        if (!this.#closed) writer.fail(error);
      });
  }

  /** The ending of an attempt; checks that were killed after the work run again, alone. */
  async #checked(at: AttemptRef, dir: string, ended: ProcessEnding): Promise<ProcessEnding> {
    let ending = ended;
    while (ending.how === "lost" && (await this.#lacksOnlyChecks(at, dir))) {
      const held = this.#processes.get(attemptText(at));
      const again = this.#closed ? undefined : this.#startChecks(at);
      if (held === undefined || again === undefined) return ending;
      held.process = again;
      ending = await again.ended;
    }
    return ending;
  }

  /** True when the work of an attempt is done, and only the commands that check it are missing. */
  async #lacksOnlyChecks(at: AttemptRef, dir: string): Promise<boolean> {
    const visit = this.#visit(at);
    const { agents } = this.#options;
    const hasCommands = checksOf(stepOf(visit)).some(({ kind }) => kind === "command");
    const isHandover = visit.conversation?.conversation?.says === "relay";
    if (!hasCommands || isHandover || visit.submitted !== undefined) return false;
    // The processes that it was to leave running are gone.
    if (stepOf(visit).leavesRunning === true) return false;
    if (readCause(dir) !== undefined || hasEndedRound(dir)) return false;
    return isUnchecked(dir) || (agents?.serves(visit) === true && agents.hasAnswered(visit, at));
  }

  #startChecks(at: AttemptRef): StepProcess | undefined {
    const visit = this.#visit(at);
    try {
      return startChecksAgain(prepareChecks(this.#site(), visit, at), limitsOf(visit));
    } catch (error) {
      if (notStarted(error) === undefined) throw error;
      return undefined;
    }
  }

  async #evidence(
    at: AttemptRef,
    dir: string,
    ending: ProcessEnding,
    agent: FollowedAgent | undefined,
  ): Promise<Ending> {
    const visit = this.#visit(at);
    takeStageStatus(this.#site(), visit, dir);
    if (agent === undefined) return collectEvidence(this.#site(), visit, dir, ending);
    const said = await agent.end(ending);
    if (visit.submitted !== undefined) return said;
    const { plan } = this.#options;
    if (said.how !== "exited" || said.problem !== undefined) return afterDenial(plan, visit, said);
    const check = "checkExit" in ending ? { checkExit: ending.checkExit } : {};
    const good = { how: "exited", exit: 0, ...check } as const;
    // The agent's own verdict is kept together with the evidence of files and checks.
    const evidence = await collectEvidence(this.#site(), visit, dir, good, said.answer);
    return afterDenial(plan, visit, { ...said, ...evidence });
  }

  /** Ends processes that an attempt left running, and those of work that a judge rejects. */
  async #sweep({ submitted }: Visit, at: AttemptRef, ending: Ending): Promise<void> {
    await sweep(this.#marker(at));
    const rejected = ending.how === "exited" && ending.problem?.reason === "check";
    if (submitted === undefined || !rejected) return;
    await sweep(this.#marker({ ...at, attempt: submitted.attempt }));
  }

  /** The marker of all processes of an attempt. */
  #marker(at: AttemptRef): string {
    return attemptMarker(attemptIdOf(this.#options.run().id, at));
  }

  #visit(at: AttemptRef): Visit {
    const visit = findVisit(this.#options.run(), at);
    assert(visit !== undefined, `no visit ${attemptText(at)}`);
    return visit;
  }

  #site(): LaunchInput {
    const { agents: _, run, ...site } = this.#options;
    return { ...site, run: run() };
  }
}

/** Adds the processes that an attempt left running to its ending. */
function withLeft(ending: Ending, ended: ProcessEnding): Ending {
  if (ended.how !== "exited" || ended.left === undefined) return ending;
  return { ...ending, left: ended.left };
}

/** The ending of a step that cannot start because of its own mistake. */
function notStarted(error: unknown): Extract<Ending, { how: "not-started" }> | undefined {
  if (error instanceof ExpressionError || error instanceof TemplateError) {
    return { how: "not-started", reason: "expression", message: error.message };
  }
  if (error instanceof LaunchError) {
    return { how: "not-started", reason: "spawn", message: error.message };
  }
  return undefined;
}
