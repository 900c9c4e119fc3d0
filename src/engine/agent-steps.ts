/**
 * Steps that talk to agents, for the driver: one object that is only made, and whose modules are only
 * loaded, when a plan has such steps.
 *
 * Owns: the life of an agent's attempt between the driver and the adapters.
 * Does not: hold processes or change the run; it prepares, follows and judges.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { AttemptRef, Place, Spent } from "../core/event.ts";
import type { ConversationOffer, Ending } from "../core/fact.ts";
import { stepOf, type Visit } from "../core/run.ts";
import type { AgentReport } from "../runner/agents/report.ts";
import type { Launch, ProcessEnding } from "../runner/step-process.ts";
import { assert } from "../util/assert.ts";
import { answerOf } from "./agent-answer.ts";
import {
  conversationOffer,
  prepareAgent,
  repairTranscript,
  type ServedStep,
  servedStep,
  transcriptOf,
  turnsLeft,
} from "./agent-call.ts";
import type { AgentLimits } from "./agent-limits.ts";
import { takeRelay } from "./agent-relay.ts";
import { judgeAgent, spentOf } from "./agent-verdict.ts";
import { AgentWatch } from "./agent-watch.ts";
import { type LaunchSite, workDirOf } from "./launch.ts";
import { RESPONSE_FILE } from "./printed.ts";
import { attemptDirOf } from "./state-dir.ts";

/** An attempt whose stream is being followed. */
export interface FollowedAgent {
  /** What it has used so far. */
  spent(): Spent;
  /** Has it ended as soon as its running tools have. */
  stopAfterTurn(): void;
  /** Stops following its stream. */
  close(): Promise<void>;
  /** The verdict on its stream; outputs and checks are still to be looked at when it is good. */
  end(ending: ProcessEnding): Promise<Ending>;
}

/** Whom an attempt tells what. */
export interface AgentListener {
  readonly onSession: (session: string) => void;
  readonly onUse: () => void;
  readonly onLimit: () => void;
  /** Its stream cannot be read on: nobody can say any more how it goes. */
  readonly onError: (error: unknown) => void;
}

/** All agents of one run. */
export class AgentSteps {
  readonly #site: () => LaunchSite;

  constructor(site: () => LaunchSite) {
    this.#site = site;
  }

  /** Whether an adapter serves this visit's step. */
  serves(visit: Visit): boolean {
    return servedStep(this.#site().plan, visit) !== undefined;
  }

  offer(place: Place, session: string | undefined): ConversationOffer | undefined {
    return conversationOffer(this.#site(), place, session);
  }

  /** Whether the stream of an attempt without an exit status holds its good end. */
  async hasAnswered(visit: Visit, at: AttemptRef): Promise<boolean> {
    const report = await this.#watch(visit, at, NOBODY).end(undefined);
    const lost = { how: "lost", started: true, message: "" } as const;
    return judgeAgent(lost, report, this.#limits(visit)).how === "exited";
  }

  /** What to start; reads what the attempt said that this one continues. */
  async prepare(visit: Visit, at: AttemptRef): Promise<() => Launch> {
    const before = await this.#reportBefore(visit, at);
    return () => {
      repairTranscript(this.#site(), visit, at);
      return prepareAgent(this.#site(), visit, at, before);
    };
  }

  follow(visit: Visit, at: AttemptRef, listener: AgentListener): FollowedAgent {
    const served = this.#served(visit);
    const watch = this.#watch(visit, at, listener);
    return {
      spent: () => this.#spent(visit, served, watch.report),
      stopAfterTurn: () => watch.stopAfterTurn(),
      close: () => watch.close(),
      end: async (ending) => {
        const report = await watch.end(ending.how === "exited" ? ending.exit : undefined);
        const spent = this.#spent(visit, served, report);
        return { ...(await this.#verdict(visit, at, ending, report)), spent };
      },
    };
  }

  async #verdict(
    visit: Visit,
    at: AttemptRef,
    ending: ProcessEnding,
    report: AgentReport,
  ): Promise<Ending> {
    const { says } = visit.talk?.conversation ?? {};
    const dir = attemptDirOf(this.#site().dir, at);
    const text = report.result?.text ?? report.text;
    if (text !== "") writeFileSync(join(dir, RESPONSE_FILE), text, { mode: 0o600 });
    const judged = judgeAgent(fromProcess(ending), report, this.#limits(visit));
    const answered = judged.how === "exited" && report.result !== undefined;
    if (says === "relay" && answered) {
      const taken = takeRelay(workDirOf(this.#site(), visit), at, dir, text);
      return "problem" in taken
        ? { how: "asked", ask: { kind: "relay", why: taken.problem } }
        : { how: "relayed", checkpoint: taken };
    }
    if (judged.how !== "exited" || judged.problem !== undefined) return judged;
    if (judged.fromStream === true && stepOf(visit).check?.kind === "command") {
      // Its process died before the check ran; nothing unchecked counts as done (N1).
      return { how: "lost", started: true, message: "it had answered, but its check had not run" };
    }
    const answer = await answerOf(report, this.#served(visit).settings.outputSchema);
    return answer.ok
      ? { ...judged, answer: answer.value }
      : { how: "asked", ask: { kind: "correct", why: answer.problem } };
  }

  async #reportBefore(visit: Visit, at: AttemptRef): Promise<AgentReport | undefined> {
    if (visit.talk?.conversation?.kind !== "continue" || at.attempt < 2) return undefined;
    return this.#watch(visit, { ...at, attempt: at.attempt - 1 }, NOBODY).end(undefined);
  }

  #watch(visit: Visit, at: AttemptRef, listener: AgentListener): AgentWatch {
    const { adapter } = this.#served(visit);
    const dir = attemptDirOf(this.#site().dir, at);
    const complete = (report: AgentReport): AgentReport => this.#completed(visit, at, report);
    return new AgentWatch({ adapter, dir, limits: this.#limits(visit), complete, ...listener });
  }

  /**
   * A report with what the transcript tells, for agents whose streams tell it late. Both sides of a
   * subtraction must come from there: after a kill in a tool, Codex's own totals miss an answer.
   */
  #completed(visit: Visit, at: AttemptRef, report: AgentReport): AgentReport {
    const { adapter } = this.#served(visit);
    const session = report.session ?? visit.talk?.session;
    if (adapter.ledger === undefined || session === undefined) return report;
    const transcript = transcriptOf(this.#site(), visit, at, session);
    const ledger = transcript === undefined ? undefined : adapter.ledger(transcript);
    if (ledger === undefined) return report;
    const { usage, context, window } = ledger;
    const known = window === undefined ? {} : { window };
    return { ...report, usage: { ...usage, counting: "total" }, context, ...known };
  }

  #limits(visit: Visit): AgentLimits {
    const { adapter, settings } = this.#served(visit);
    const { relay, model } = settings;
    const turns = adapter.takes?.maxTurns === false ? turnsLeft(settings, visit) : undefined;
    const relaying = visit.talk?.ask?.kind === "relay";
    return {
      ...(turns === undefined ? {} : { turns }),
      ...(relay === undefined || relaying ? {} : { relay }),
      ...(model === undefined ? {} : { model }),
    };
  }

  #spent(visit: Visit, { settings }: ServedStep, report: AgentReport): Spent {
    const session = report.session ?? visit.talk?.session;
    const { conversations } = this.#site().run;
    const before = session === undefined ? undefined : conversations.get(session);
    return spentOf(report, before, settings.model);
  }

  #served(visit: Visit): ServedStep {
    const served = servedStep(this.#site().plan, visit);
    assert(served !== undefined, "only a step with an adapter talks to an agent");
    return served;
  }
}

/** Nobody listens to an attempt that is over. */
const NOBODY: AgentListener = {
  onSession: ignore,
  onUse: ignore,
  onLimit: ignore,
  // Whoever asked for its report gets the error with it.
  onError: ignore,
};

function ignore(): void {
  // What it told was told to another owner.
}

/** The ending of a process before anybody has looked at its files. */
function fromProcess(ending: ProcessEnding): Ending {
  if (ending.how === "not-started") return { ...ending, reason: "spawn" };
  return ending.how === "exited"
    ? { how: "exited", exit: ending.exit, outputs: {}, context: {} }
    : ending;
}
