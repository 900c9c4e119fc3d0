/**
 * The only loop: new and resumed runs go through it alike.
 *
 * Owns: waiting, and the processes in this owner's hands.
 * Does not: change the run. Effects report facts; the engine makes events of them (E2).
 * Invariants:
 * - E1 One await per turn.
 * - E5 Whatever the journal says is running is in our hands before the first wait: started by us, or
 *   adopted on the evidence that it left.
 */
import { BUDGET_STOP, MERGE_STOP, type Turn } from "../core/advance.ts";
import type { Answer, AttemptRef, StopMode } from "../core/event.ts";
import type { Ending, Environment, Fact } from "../core/fact.ts";
import { attemptOf, type Cancel, waitsForPerson } from "../core/next-actions.ts";
import { attemptText } from "../core/place.ts";
import { findVisit, type RunState, stepOf, type Visit } from "../core/run.ts";
import { addSpent, usedUp } from "../core/spending.ts";
import type { Answered, Journal } from "../journal/journal.ts";
import { adoptProcess, lookAt } from "../runner/adopt.ts";
import { startProcess } from "../runner/start.ts";
import type { Launch, ProcessEnding, StepProcess } from "../runner/step-process.ts";
import { attemptMarker, runMarker, sweep } from "../runner/sweep.ts";
import { assert } from "../util/assert.ts";
import { ExpressionError } from "../util/expression.ts";
import { failpoint } from "../util/failpoint.ts";
import { type Redact, redactJson } from "../util/redact.ts";
import { TemplateError } from "../util/template.ts";
import type { AgentSteps, FollowedAgent } from "./agent-steps.ts";
import type { Engine } from "./engine.ts";
import { collectEvidence } from "./evidence.ts";
import { ANSWER_LOOK_MS, Gates } from "./gates.ts";
import { attemptIdOf, LaunchError, type LaunchSite, limitsOf, prepareLaunch } from "./launch.ts";
import { Mailbox } from "./mailbox.ts";
import { askProbe } from "./probe.ts";
import { attemptDirOf, type RunDir } from "./state-dir.ts";
import { StepFiles } from "./step-files.ts";
import type { WorkspaceKeeper } from "./workspace-keeper.ts";

export interface DriverOptions {
  readonly engine: Engine;
  readonly dir: RunDir;
  readonly env: Environment;
  readonly redact: Redact;
  /** For plans with steps that talk to agents. */
  readonly agents: AgentSteps | undefined;
  /** For plans whose files are kept. */
  readonly keeper: WorkspaceKeeper | undefined;
  /** The clock that the engine uses. */
  readonly now: () => number;
  readonly people: People;
}

/** How the people whom a run asks are reached by this owner. */
export interface People {
  readonly journal: Journal;
  /** Who answers here: `user@host`. */
  readonly by: string;
  readonly autoApprove: boolean;
  /** Whether to wait for them when nothing else can move; asked whenever that is the case. */
  readonly stay: () => boolean;
}

/** Drives one run until it ends, stops, or cannot be written any more. */
export class Driver {
  readonly #options: DriverOptions;
  readonly #mailbox = new Mailbox();
  readonly #hands = new Map<string, StepProcess>();
  readonly #agents = new Map<string, FollowedAgent>();
  readonly #cancelled = new Map<string, Cancel["when"]>();
  readonly #adopted = new Set<string>();
  readonly #probed = new Set<string>();
  readonly #gates: Gates;
  #afterTurn: (() => void)[] = [];
  readonly #files: StepFiles | undefined;
  #restoring: string | undefined;

  constructor(options: DriverOptions) {
    this.#options = options;
    const { keeper, dir, engine, people, redact, now } = options;
    this.#gates = new Gates({
      ...people,
      redact,
      now,
      run: () => engine.run,
      post: (fact) => this.#mailbox.post(fact),
    });
    if (keeper === undefined) return;
    const record = (fact: Fact): Promise<void> => this.#recorded(fact);
    this.#files = new StepFiles({ keeper, dir, run: () => engine.run, record });
  }

  /** Asks the run to stop; a second, stronger wish ends the processes at once. */
  stop(mode: StopMode, by: string): void {
    this.#mailbox.post({ type: "stop-requested", mode, by });
  }

  /** Takes up answers that others have given. */
  lookForAnswers(): void {
    this.#gates.look();
  }

  /** Answers a question of the run from this process; says whether it was the first answer. */
  answer(at: AttemptRef, reply: Pick<Answer, "choice" | "text">): Answered {
    return this.#gates.give(at, reply);
  }

  /** Asks again whether to wait for people. */
  nudge(): void {
    this.#mailbox.nudge();
  }

  /** Ends the loop with an error that something beside it met; running steps are left alone. */
  fail(error: unknown): void {
    this.#mailbox.fail(asError(error));
  }

  /** Ends every process now, without its grace period. */
  hurry(): void {
    for (const hand of this.#hands.values()) hand.stop("at-once");
  }

  /** Runs until nothing is left to do for this owner. */
  async run(wishes: readonly Fact[]): Promise<RunState> {
    const { engine, keeper, now } = this.#options;
    const found = [...engine.run.running].map(attemptOf);
    const placed = keeper?.placed;
    const place: readonly Fact[] =
      placed === undefined || placed.kind === "here" ? [] : [{ type: "placed", workspace: placed }];
    let turn = engine.open([...place, ...wishes]);
    for (const at of found) this.#adopt(at);
    this.#gates.look();
    for (;;) {
      this.#perform(turn);
      engine.show();
      const { state } = engine.run;
      if (state.status !== "running" && state.status !== "stopping") {
        // A server that a step left running on purpose lives until here.
        await sweep(runMarker(engine.run.id));
        return state;
      }
      if (!turn.more && this.#isLeftToPeople()) return state;
      const facts = turn.more ? [] : await this.#mailbox.take(this.#waitMs(turn, now()));
      if (facts.length === 0) this.#gates.look();
      const waiting = facts.length === 0 ? [] : this.#afterTurn.splice(0);
      turn = engine.turn(facts);
      for (const resolve of waiting) resolve();
      this.#files?.admit();
    }
  }

  /** True when only people can move the run, and it is not for this owner to wait for them. */
  #isLeftToPeople(): boolean {
    const { engine, people } = this.#options;
    if (!waitsForPerson(engine.run)) return false;
    this.#gates.look();
    return this.#mailbox.isEmpty && !people.stay();
  }

  /** How long nothing has to be looked at; undefined when only facts count. */
  #waitMs({ wakeAt }: Turn, now: number): number | undefined {
    const timeMs = wakeAt === undefined ? undefined : wakeAt - now;
    if (this.#options.engine.run.asked.size === 0) return timeMs;
    return Math.min(timeMs ?? ANSWER_LOOK_MS, ANSWER_LOOK_MS);
  }

  #perform(turn: Turn): void {
    if (turn.events.some(({ type }) => type === "step.asked")) this.#gates.look();
    for (const at of turn.expired) this.#gates.expire(at);
    if (turn.restore !== undefined) this.#restore(turn.restore);
    for (const at of turn.launches) this.#launch(at);
    for (const at of turn.probes) this.#probe(at);
    for (const { at, when } of turn.cancels) {
      const key = attemptText(at);
      if (this.#cancelled.get(key) === when) continue;
      this.#cancelled.set(key, when);
      this.#cancel(key, when);
    }
  }

  /** What is no agent has no turns: it is left to its end. */
  #cancel(key: string, when: Cancel["when"]): void {
    if (when === "now") this.#hands.get(key)?.stop("gently");
    else this.#agents.get(key)?.stopAfterTurn();
  }

  #launch(at: AttemptRef): void {
    const visit = this.#visit(at);
    const { agents, keeper } = this.#options;
    if (agents?.serves(visit) !== true && keeper === undefined) {
      this.#start(at, () => prepareLaunch(this.#site(), visit, at));
      return;
    }
    this.#prepare(at, visit).catch((error: unknown) => this.#mailbox.fail(asError(error)));
  }

  /** What has to be awaited before an attempt gets its process. */
  async #prepare(at: AttemptRef, visit: Visit): Promise<void> {
    const { agents } = this.#options;
    if (visit.held !== undefined && this.#files !== undefined) {
      this.#report(at, await this.#files.mergeHeld(at, visit));
      return;
    }
    await this.#files?.begin(at, visit);
    const prepare =
      agents?.serves(visit) === true
        ? await agents.prepare(visit, at)
        : () => prepareLaunch(this.#site(), visit, at);
    this.#start(at, prepare);
    const when = this.#cancelled.get(attemptText(at));
    if (when !== undefined) this.#cancel(attemptText(at), when);
  }

  /** Posts a fact; resolves when the events that it brings about are on the disk. */
  #recorded(fact: Fact): Promise<void> {
    return new Promise((resolve) => {
      this.#afterTurn.push(resolve);
      this.#mailbox.post(fact);
    });
  }

  /** Puts the files back for a person, once. */
  #restore(commit: string): void {
    const { keeper, engine } = this.#options;
    const { restoring } = engine.run;
    if (this.#restoring === commit || restoring === undefined) return;
    if (keeper === undefined) {
      // Nothing may start before the files are back, so waiting would be for ever.
      const why = "its files are to be put back first, and that needs git: install it, then resume";
      this.#mailbox.fail(new Error(why));
      return;
    }
    this.#restoring = commit;
    keeper.rewind(restoring).then(
      (aside) => {
        this.#restoring = undefined;
        this.#mailbox.post({ type: "restored", commit, aside });
      },
      (error: unknown) => this.#mailbox.fail(asError(error)),
    );
  }

  #start(at: AttemptRef, prepare: () => Launch): void {
    try {
      const launch = prepare();
      failpoint("engine.launch");
      const limits = limitsOf(stepOf(this.#visit(at)));
      this.#hold(at, launch.dir, startProcess(launch, limits));
    } catch (error) {
      const ending = notStarted(error);
      // What is not about this step (a full disk) is no fact: the run stops loudly.
      if (ending === undefined) throw error;
      const message = this.#options.redact(ending.message);
      this.#mailbox.post({ type: "attempt-ended", at, ending: { ...ending, message } });
    }
  }

  /** Asks whether a step that must not happen twice has happened; each owner asks once. */
  #probe(at: AttemptRef): void {
    const key = attemptText(at);
    if (this.#probed.has(key)) return;
    this.#probed.add(key);
    askProbe(this.#site(), this.#visit(at), at, this.#options.redact).then(
      (fact) => this.#mailbox.post(fact),
      (error: unknown) => this.#mailbox.fail(asError(error)),
    );
  }

  #adopt(at: AttemptRef): void {
    const visit = this.#visit(at);
    const dir = attemptDirOf(this.#options.dir, at);
    const found = lookAt(dir);
    if (found !== "dead") {
      this.#mailbox.post({ type: "adopted", at, found: found === "alive" ? "alive" : "ended" });
    }
    this.#adopted.add(attemptText(at));
    this.#hold(at, dir, adoptProcess(dir, this.#marker(at), limitsOf(stepOf(visit))));
  }

  #hold(at: AttemptRef, dir: string, process: StepProcess): void {
    const key = attemptText(at);
    this.#hands.set(key, process);
    const { agents, redact } = this.#options;
    const visit = this.#visit(at);
    const agent =
      agents?.serves(visit) === true
        ? agents.follow(visit, at, {
            onSession: (session) => this.#mailbox.post({ type: "session-known", at, session }),
            onUse: () => this.#watchFunds(),
            onLimit: () => process.stop("gently"),
            onError: (error) => this.fail(error),
          })
        : undefined;
    if (agent !== undefined) this.#agents.set(key, agent);
    this.#options.keeper?.enter();
    const saving = this.#saveNowAndThen(at);
    const report = async (ending: ProcessEnding): Promise<void> => {
      clearInterval(saving);
      const said = withLeft(await this.#evidence(at, dir, ending, agent), ending, redact);
      // A server that its step may leave running does not outlive an attempt that failed after all.
      const mayStay = stepOf(visit).leavesRunning === true;
      if (mayStay && !endedWell(said)) await sweep(this.#marker(at));
      const whose = this.#adopted.has(key) ? "adopted" : "ours";
      const ended = (await this.#files?.end(at, visit, said, whose)) ?? said;
      this.#hands.delete(key);
      this.#agents.delete(key);
      failpoint("engine.ended");
      this.#report(at, ended);
    };
    process.ended.then(report).catch((error: unknown) => this.#mailbox.fail(asError(error)));
  }

  #report(at: AttemptRef, ending: Ending): void {
    this.#mailbox.post({ type: "attempt-ended", at, ending });
    if (ending.how === "conflicted") this.stop("after-step", `${MERGE_STOP}: ${ending.message}`);
  }

  /** What a long step has done so far is not lost with it. */
  #saveNowAndThen(at: AttemptRef): NodeJS.Timeout | undefined {
    const { keeper, engine } = this.#options;
    const everyMs = engine.plan.workspace?.snapshotEveryMs;
    if (keeper === undefined || everyMs === undefined) return undefined;
    return setInterval(() => {
      keeper.during(at).then(
        (snapshot) => {
          if (snapshot !== undefined) this.#mailbox.post({ type: "saved", at, snapshot });
        },
        (error: unknown) => this.#mailbox.fail(asError(error)),
      );
    }, everyMs);
  }

  /** A budget counts what agents are using now, not only what ended attempts have used. */
  #watchFunds(): void {
    const { run } = this.#options.engine;
    if (run.state.status !== "running" || Object.keys(run.funds).length === 0) return;
    let { spent } = run;
    for (const agent of this.#agents.values()) spent = addSpent(spent, agent.spent());
    const { timeMs: _, ...funds } = run.funds;
    const why = usedUp(funds, { spent, workedMs: 0 });
    if (why !== undefined) this.stop("after-turn", `${BUDGET_STOP}: ${why}`);
  }

  async #evidence(
    at: AttemptRef,
    dir: string,
    ending: ProcessEnding,
    agent: FollowedAgent | undefined,
  ): Promise<Ending> {
    const { redact } = this.#options;
    const visit = this.#visit(at);
    if (agent === undefined) return collectEvidence(this.#site(), visit, dir, ending, redact);
    const said = redactJson(redact, await agent.end(ending));
    if (said.how !== "exited" || said.problem !== undefined) return said;
    const check = "checkExit" in ending ? { checkExit: ending.checkExit } : {};
    const good = { how: "exited", exit: 0, ...check } as const;
    // What the agent itself said stays beside what its files and its check say.
    return { ...said, ...(await collectEvidence(this.#site(), visit, dir, good, redact)) };
  }

  /** What all processes of an attempt carry. */
  #marker(at: AttemptRef): string {
    return attemptMarker(attemptIdOf(this.#options.engine.run.id, at));
  }

  #visit(at: AttemptRef): Visit {
    const visit = findVisit(this.#options.engine.run, at);
    assert(visit !== undefined, `no visit ${attemptText(at)}`);
    return visit;
  }

  #site(): LaunchSite {
    const { engine, dir, env } = this.#options;
    return { plan: engine.plan, run: engine.run, dir, env };
  }
}

/** The ending of a step that could not be started for reasons of its own. */
function notStarted(error: unknown): Extract<Ending, { how: "not-started" }> | undefined {
  if (error instanceof ExpressionError || error instanceof TemplateError) {
    return { how: "not-started", reason: "expression", message: error.message };
  }
  if (error instanceof LaunchError) {
    return { how: "not-started", reason: "spawn", message: error.message };
  }
  return undefined;
}

/** Names in the ending of an attempt what its process had left running. */
function withLeft(said: Ending, ending: ProcessEnding, redact: Redact): Ending {
  if (ending.how !== "exited" || ending.left === undefined) return said;
  return { ...said, left: redactJson(redact, ending.left) };
}

function endedWell(said: Ending): boolean {
  if (said.how !== "exited" || said.exit !== 0 || said.problem !== undefined) return false;
  return said.told?.outcome !== "fail" && said.told?.outcome !== "retry";
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
